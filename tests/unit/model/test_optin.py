"""What a comment allows, however badly it was quoted."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from middlewatch.model.optin import JobMode, OptIn, directive, read_comment


@pytest.mark.parametrize("key", ["nvidia-recovery", "middlewatch"])
@pytest.mark.parametrize("mode", list(JobMode))
def test_both_keys_opt_in(key: str, mode: JobMode) -> None:
    read = read_comment(json.dumps({key: {"environment": "prod", "mode": mode.value}}))
    assert read.mode is mode
    assert read.environment == "prod"
    assert read.problems == ()
    assert read.suggestion is None


def test_a_comment_of_others_says_nothing_to_us() -> None:
    assert read_comment('{"APS":{"auto_resume_mode":"requeue"}}') == OptIn()
    assert read_comment("account 17, project x") == OptIn()
    assert read_comment("") == OptIn()


def test_our_member_may_stand_beside_others() -> None:
    comment = '{"APS":{},"middlewatch":{"environment":"prod","mode":"action"}}'
    assert read_comment(comment).mode is JobMode.ACTION


def test_an_unknown_mode_counts_as_observe_and_says_so() -> None:
    read = read_comment('{"middlewatch":{"environment":"prod","mode":"kill"}}')
    assert read.mode is JobMode.OBSERVE
    assert "kill" in read.problems[0]
    assert read.suggestion == (
        '#SBATCH --comment=\'{"middlewatch":{"environment":"prod","mode":"observe"}}\''
    )


def test_stripped_quotes_are_recognised_and_the_right_line_is_given() -> None:
    read = read_comment("{nvidia-recovery:{environment:prod,mode:action}}")
    assert read.mode is JobMode.OBSERVE
    assert "quotes" in read.problems[0]
    assert read.suggestion == directive("prod", "action")


@pytest.mark.parametrize(
    "comment",
    [
        '{"middlewatch":',
        '{"middlewatch":[]}',
        '{"middlewatch":{"mode":7}}',
        '{"middlewatch":{"environment":{},"mode":"action"}}',
        '["middlewatch"]',
        "middlewatch please",
    ],
)
def test_whatever_cannot_be_understood_never_permits_action_silently(comment: str) -> None:
    read = read_comment(comment)
    assert read.problems
    assert read.suggestion is not None


def test_a_workflow_can_be_named() -> None:
    read = read_comment('{"middlewatch":{"mode":"action","workflow":"llm-70b"}}')
    assert read.workflow == "llm-70b"
    for wrong in ('""', "7", '"a\\u0007b"', f'"{"x" * 257}"'):
        read = read_comment('{"middlewatch":{"mode":"action","workflow":' + wrong + "}}")
        assert read.workflow is None
        assert read.problems
        assert read.mode is JobMode.ACTION


def test_the_right_line_keeps_what_can_be_read_of_a_broken_one() -> None:
    read = read_comment('{"middlewatch":{"environment":"prod-2","mode":"action"')
    assert read.mode is JobMode.OBSERVE
    assert read.suggestion == directive("prod-2", "action", "middlewatch")


def test_another_environment_is_not_ours() -> None:
    read = read_comment('{"middlewatch":{"environment":"staging","mode":"action"}}')
    assert read.effective("prod") is JobMode.OFF
    assert read.effective("staging") is JobMode.ACTION


def test_no_opt_in_means_off() -> None:
    assert OptIn().effective("prod") is JobMode.OFF


def test_deeply_nested_json_is_an_answer_not_a_crash() -> None:
    assert read_comment('{"middlewatch":' + "[" * 50_000).mode is JobMode.OBSERVE


@given(st.text(max_size=300))
def test_no_text_makes_the_reader_fail(comment: str) -> None:
    for text in (comment, "middlewatch" + comment, '{"middlewatch":' + comment):
        read = read_comment(text)
        assert read.mode in (None, *JobMode)


@given(st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=4))
def test_action_needs_the_very_word(member: dict[str, str]) -> None:
    read = read_comment(json.dumps({"middlewatch": member}))
    assert (read.mode is JobMode.ACTION) == (member.get("mode") == "action")


def test_a_comment_for_another_environment_is_told_to_its_user_here() -> None:
    found = read_comment('{"middlewatch":{"environment":"test","mode":"action"}}', "prod")
    assert found.problems_in("test") == ()
    assert found.problems_in("prod") == ("it is meant for environment test; this one is prod",)


def test_a_comment_that_opts_out_or_says_nothing_needs_no_environment() -> None:
    out = read_comment('{"middlewatch":{"environment":"test","mode":"off"}}', "prod")
    assert out.problems_in("prod") == ()
    assert read_comment("accounting group 7", "prod").problems_in("prod") == ()


@pytest.mark.parametrize("named", ['["prod"]', '""', "5", "{}", "false"])
def test_an_environment_that_is_no_name_permits_no_action(named: str) -> None:
    read = read_comment(f'{{"middlewatch":{{"environment":{named},"mode":"action"}}}}', "prod")
    assert read.effective("prod") is JobMode.OBSERVE
    assert "must be a name" in read.problems[0]
    assert read.suggestion == directive("prod", "action", "middlewatch")


def test_an_environment_that_is_no_name_leaves_an_opting_out_an_opting_out() -> None:
    assert read_comment('{"middlewatch":{"environment":5,"mode":"off"}}').mode is JobMode.OFF


@pytest.mark.parametrize(
    ("one", "other", "counts"),
    [
        ("action", "action", JobMode.ACTION),
        ("action", "observe", JobMode.OBSERVE),
        ("observe", "action", JobMode.OBSERVE),
        ("action", "off", JobMode.OFF),
    ],
)
def test_of_both_keys_in_one_comment_the_lower_mode_counts(
    one: str, other: str, counts: JobMode
) -> None:
    members = (
        f'"middlewatch":{{"environment":"prod","mode":"{one}"}},'
        f'"nvidia-recovery":{{"environment":"prod","mode":"{other}"}}'
    )
    read = read_comment("{" + members + "}", "prod")
    assert read.effective("prod") is counts
    assert bool(read.problems) is (one != other)


def _with_progress(pattern: object) -> OptIn:
    own = {"environment": "prod", "mode": "action", "progress": pattern}
    return read_comment(json.dumps({"middlewatch": own}))


def test_owner_may_say_how_the_programs_progress_looks() -> None:
    read = _with_progress(r"did (?P<step>\d+)")
    assert (read.progress, read.problems) == (r"did (?P<step>\d+)", ())


@pytest.mark.parametrize(
    "pattern",
    [17, "", ["(?P<step>1)"], r"did \d+", "(?P<step>1)" + "x" * 200, "(?P<step>1)\x07"],
)
def test_progress_pattern_that_cannot_be_one_is_told_and_changes_nothing_else(
    pattern: object,
) -> None:
    read = _with_progress(pattern)
    assert read.progress == ""
    assert "progress" in read.problems[0]
    assert read.mode is JobMode.ACTION


def test_directory_of_checkpoints_is_taken_from_the_comment() -> None:
    comment = '{"middlewatch":{"environment":"prod","mode":"action","checkpoints":"/scratch/run7"}}'
    read = read_comment(comment)
    assert (read.checkpoints, read.problems) == ("/scratch/run7", ())


@pytest.mark.parametrize("given", ["run7", 7, ["/a"], "/a\nb", "/" + "x" * 2000, None, {"a": 1}])
def test_directory_that_is_none_is_told_and_the_job_watched_without_it(given: object) -> None:
    member = {"environment": "prod", "mode": "action", "checkpoints": given}
    read = read_comment(json.dumps({"middlewatch": member}))
    assert read.checkpoints == ""
    assert read.mode is JobMode.ACTION
    assert any("checkpoints must be the absolute path" in problem for problem in read.problems)
