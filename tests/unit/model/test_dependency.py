"""What a job declares to wait for: understood whole, or refused with the way to mend it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from middlewatch.model.dependency import MOST_PARENTS, Condition, Dependency
from middlewatch.model.optin import JobMode, OptIn, read_comment


def read(depends_on: Any, **more: Any) -> OptIn:
    member = {"environment": "prod", "mode": "action", "dependsOn": depends_on, **more}
    return read_comment(json.dumps({"middlewatch": member}))


def test_a_bare_number_waits_for_completion() -> None:
    assert read(["123"]).depends_on == (Dependency("123", Condition.AFTEROK),)
    assert read([123]).depends_on == (Dependency("123", Condition.AFTEROK),)


@pytest.mark.parametrize("condition", list(Condition))
def test_a_condition_is_written_as_slurm_writes_it(condition: Condition) -> None:
    found = read([f"{condition.value}:123_4"])
    assert found.depends_on == (Dependency("123_4", condition),)
    assert found.problems == found.depends_on_wrong == ()
    assert found.depends_on[0].text == f"{condition.value}:123_4"


def test_the_same_twice_is_once_and_the_order_stays() -> None:
    found = read(["7", "afterany:3", "afterok:7"])
    assert [one.text for one in found.depends_on] == ["afterok:7", "afterany:3"]


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ("123", "must be a list"),
        ({"123": "afterok"}, "must be a list"),
        ([], "is empty"),
        (True, "must be a list"),
        ([True], "is no job"),
        ([1.5], "is no job"),
        ([None], "is no job"),
        ([["123"]], "is no job"),
        (["after:123"], '"after" is no condition'),
        (["afterok:123:124"], '"afterok:123" is no condition'),
        (["singleton"], "is no job number"),
        (["afterok:"], "is no job number"),
        (["0123"], "is no job number"),
        (["-1"], "is no job number"),
        (["123+1"], "is no job number"),
        (["123_[1-3]"], "is no job number"),
        (["١٢"], "is no job number"),
        ([str(n + 1) for n in range(MOST_PARENTS + 1)], f"at most {MOST_PARENTS}"),
    ],
)
def test_what_cannot_be_understood_is_told_and_never_left_out(given_: Any, said: str) -> None:
    found = read(given_)
    assert found.mode is JobMode.ACTION, "the job is watched all the same"
    assert any(said in problem for problem in found.depends_on_wrong), found.depends_on_wrong
    assert set(found.depends_on_wrong) <= set(found.problems)
    assert found.suggestion is not None


def test_one_wrong_entry_leaves_the_others_readable_and_the_declaration_wrong() -> None:
    found = read(["123", "nope"])
    assert [one.text for one in found.depends_on] == ["afterok:123"]
    assert found.depends_on_wrong
    assert '"dependsOn":["afterok:123"]' in (found.suggestion or "")


@pytest.mark.parametrize("name", ["dependson", "depends_on", "dependOn", "dependency", "afterok"])
def test_a_key_that_is_nearly_right_is_not_passed_over(name: str) -> None:
    member = {"environment": "prod", "mode": "action", name: ["123"]}
    found = read_comment(json.dumps({"middlewatch": member}))
    assert found.depends_on == ()
    assert "dependsOn" in found.depends_on_wrong[0]


def test_a_comment_that_is_no_json_and_speaks_of_dependencies_lets_nothing_go() -> None:
    found = read_comment("{middlewatch:{environment:prod,mode:action,dependsOn:[123]}}")
    assert found.depends_on == ()
    assert found.depends_on_wrong
    assert read_comment("{middlewatch:{mode:action}}").depends_on_wrong == ()


def test_what_either_of_our_keys_declares_is_waited_for() -> None:
    one = {"environment": "prod", "mode": "action", "dependsOn": ["1"]}
    two = {"environment": "prod", "mode": "action", "dependsOn": ["2", "x"]}
    found = read_comment(json.dumps({"middlewatch": one, "nvidia-recovery": two}))
    assert [d.job_id for d in found.depends_on] == ["1", "2"]
    assert found.depends_on_wrong


def test_a_job_that_declares_nothing_waits_for_nothing() -> None:
    found = read_comment('{"middlewatch":{"mode":"action"}}')
    assert found.depends_on == ()
    assert found.depends_on_wrong == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=12,
)


@given(JSON.filter(lambda value: value is not None))
def test_any_value_is_understood_whole_or_told(value: Any) -> None:
    found = read(value)
    if not found.depends_on_wrong:
        assert isinstance(value, list)
        assert len({str(v).strip() for v in value}) >= len(found.depends_on) > 0
