from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from middlewatch.wiring.ingestion.sample import SECOND, Expected, Known, Level, Seen
from tests.unit.wiring_ingestion.samples import (
    GOOD,
    NOW_NS,
    SLURM,
    STREAM,
    findings,
    lines,
    remedies,
    wrong,
)


def relabelled(**names: str) -> dict[str, str]:
    """The good labels under other names; an empty name leaves one out."""
    return {names.get(k, k): v for k, v in GOOD.items() if names.get(k, k)}


def test_a_set_up_that_fits_has_no_findings() -> None:
    found = findings(lines())
    assert wrong(found) == []
    assert {"job label", "node label", "file label", "order", "progress"} <= {
        one.check for one in found if one.level is Level.OK
    }


def test_no_lines_at_all_is_a_failure_and_says_where_to_look() -> None:
    found = findings([])
    assert [(one.check, one.level) for one in found] == [("reach", Level.FAIL)]
    assert "tenant" in found[0].mend


@pytest.mark.parametrize("name", ["slurm_job_id", "jobid", "x"])
def test_a_job_label_of_another_name_is_found_by_its_values(name: str) -> None:
    labels = relabelled(job_id=name) | {"pid": "31337"}
    found = findings(lines(labels=labels), stream=frozenset(labels))
    assert remedies(found) == {"logs.job_label": name}


def test_without_slurm_a_number_is_a_job_id_only_where_its_name_says_so() -> None:
    nothing = Known(why_not="squeue is not here")
    labels = relabelled(job_id="pid")
    found = findings(lines(labels=labels), known=nothing, stream=frozenset(labels))
    assert "logs.job_label" not in remedies(found)
    labels = relabelled(job_id="slurm_job_id") | {"pid": "31337"}
    found = findings(lines(labels=labels), known=nothing, stream=frozenset(labels))
    assert remedies(found)["logs.job_label"] == "slurm_job_id"


def test_node_and_file_labels_of_other_names_are_found_by_their_values() -> None:
    labels = relabelled(node="host", filename="path")
    labels["host"] = "n1.cluster.example"
    found = findings(lines(labels=labels), stream=frozenset(labels))
    assert remedies(found) == {"logs.node_label": "host", "logs.file_label": "path"}


def test_a_name_that_cannot_be_set_is_not_proposed() -> None:
    labels = relabelled(job_id="slurm-job id")
    found = findings(lines(labels=labels), stream=frozenset(labels))
    assert "logs.job_label" not in remedies(found)
    assert any(one.check == "job label" and one.level is Level.FAIL for one in found)


def test_a_job_id_inside_a_longer_value_is_named() -> None:
    found = findings(lines(labels=GOOD | {"job_id": "slurm-4711.out"}))
    job = next(one for one in wrong(found) if one.check == "job label")
    assert "4711" in job.mend


def test_an_arrays_own_id_is_told_from_its_tasks() -> None:
    found = findings(lines(labels=GOOD | {"job_id": "4712"}))
    job = next(one for one in wrong(found) if one.check == "job label")
    assert "%A_%a" in job.mend


def test_ids_that_slurm_does_not_know_are_a_warning() -> None:
    found = findings(lines(labels=GOOD | {"job_id": "99999"}))
    job = next(one for one in wrong(found) if one.check == "job label")
    assert job.level is Level.WARN
    assert "another cluster" in job.mend


def test_a_job_label_that_is_only_a_field_is_asked_as_one() -> None:
    found = findings(lines(), stream=frozenset({"node", "filename"}))
    assert remedies(found) == {"logs.job_label_in_stream": False}


def test_loki_gets_a_matcher_that_all_lines_share_with_it() -> None:
    labels = GOOD | {"cluster": "prod"}
    found = findings(
        lines(labels=labels), expected=Expected("loki"), stream=frozenset({"cluster", "node"})
    )
    assert remedies(found) == {
        "logs.job_label_in_stream": False,
        "logs.match": 'cluster="prod"',
    }


def test_lines_of_other_programs_in_the_same_store_are_no_fault() -> None:
    other = [replace(line, labels={"unit": "sshd"}) for line in lines(30)]
    assert wrong(findings([*lines(), *other])) == []


def test_a_jobs_file_without_the_job_label_is_one() -> None:
    bare = [replace(line, labels=relabelled(job_id="")) for line in lines(5)]
    found = wrong(findings([*lines(), *bare]))
    assert [one.check for one in found] == ["job label"]
    assert "slurm-4711.out" in found[0].text


def test_a_missing_node_is_named() -> None:
    found = wrong(findings(lines(labels=relabelled(node=""))))
    assert [one.check for one in found] == ["node label"]


def test_a_node_that_slurm_does_not_know_is_named() -> None:
    mixed = [*lines(), *lines(labels=GOOD | {"node": "login9"})]
    mixed.sort(key=lambda line: line.at)
    found = wrong(findings(mixed))
    assert [one.check for one in found] == ["node label"]
    assert "login9" in found[0].text


def test_lines_that_are_stamped_late_are_named() -> None:
    found = wrong(findings(lines(late_s=95.0)))
    assert [one.check for one in found] == ["times"]
    assert "+95" in found[0].text


def test_a_zone_is_not_taken_for_lateness() -> None:
    assert wrong(findings(lines(late_s=-2 * 3600.0))) == []


def test_out_of_order_lines_are_named() -> None:
    seen = lines()
    swapped = [
        replace(line, text=seen[len(seen) - 1 - i].text) if i % 4 == 0 else line
        for i, line in enumerate(seen)
    ]
    assert "order" in {one.check for one in wrong(findings(swapped))}


def test_one_time_for_a_whole_batch_is_named() -> None:
    seen = [replace(line, at=NOW_NS - SECOND) for line in lines(30)]
    assert any("one and the same time" in one.text for one in wrong(findings(seen)))


def test_lines_from_the_future_are_named() -> None:
    seen = [replace(line, text=b"no stamp", at=NOW_NS + 900 * SECOND) for line in lines(1)]
    assert any("future" in one.text for one in wrong(findings(seen)))


def test_a_slow_way_into_the_store_asks_for_a_longer_delay() -> None:
    came = [replace(line, arrived=line.at + 20 * SECOND) for line in lines(10)]
    found = findings([*lines(5), *came], watched_s=30.0)
    assert remedies(found) == {"logs.delay": 31.0}


def test_a_line_that_comes_behind_a_later_one_is_named() -> None:
    old = replace(lines(1)[0], text=b"x", at=NOW_NS - 30 * SECOND, arrived=NOW_NS - 28 * SECOND)
    found = wrong(findings([*lines(), old], watched_s=5.0))
    assert [one.check for one in found] == ["order"]


@pytest.mark.parametrize(
    ("wrapped", "check"),
    [
        (b'{"log":"%s\\n","stream":"stdout"}', "lines"),
        (b"2026-03-01T11:59:00.1Z stdout F %s", "lines"),
        (b"Mar  1 11:59:00 n1 slurmstepd[77]: %s", "lines"),
        (b"first\n%s", "lines"),
        (b"#033[32m%s", "colours"),
    ],
)
def test_what_was_done_to_lines_on_their_way_is_named(wrapped: bytes, check: str) -> None:
    seen = [replace(line, text=wrapped % line.text) for line in lines()]
    assert check in {one.check for one in wrong(findings(seen))}


def test_lines_that_were_cut_are_named() -> None:
    seen = [replace(line, text=line.text.ljust(16384, b"x")) for line in lines(5)]
    assert "length" in {one.check for one in wrong(findings([*lines(), *seen]))}


def test_colours_repainted_bars_and_long_lines_are_no_fault() -> None:
    seen = lines()
    seen[3] = replace(seen[3], text=b"\x1b[32mok\x1b[0m\r 50%|##")
    seen[4] = replace(seen[4], text=b"y" * 100_001)
    assert wrong(findings(seen)) == []


def test_no_progress_lines_are_a_finding_and_few_lines_are_none() -> None:
    mute = [replace(line, text=b"hello") for line in lines()]
    assert "progress" in {one.check for one in wrong(findings(mute))}
    assert wrong(findings(mute[:5])) == []


def test_a_file_whose_output_is_kept_back_is_named() -> None:
    found = findings(
        lines(), expected=Expected("files"), stream=frozenset(), written=NOW_NS + 300 * SECOND
    )
    assert [one.check for one in wrong(found)] == ["times"]
    assert "PYTHONUNBUFFERED" in wrong(found)[0].mend


LABELS = st.dictionaries(st.text(max_size=12), st.text(max_size=30), max_size=6)


@given(
    st.lists(
        st.builds(
            Seen,
            text=st.binary(max_size=200),
            at=st.integers(0, 2**63 - 1),
            labels=LABELS | st.just(GOOD),
            arrived=st.just(0) | st.integers(1, 2**63 - 1),
        ),
        max_size=30,
    ),
    st.sampled_from(["files", "victorialogs", "loki"]),
    st.booleans(),
)
def test_no_sample_however_hostile_breaks_the_judgement(
    seen: list[Seen], source: str, watched: bool
) -> None:
    found = findings(
        seen,
        expected=Expected(source),
        known=SLURM if watched else Known(),
        stream=STREAM,
        watched_s=5.0 if watched else 0.0,
    )
    assert found
    for one in found:
        assert len(one.text) < 3000
        for remedy in one.remedies:
            assert isinstance(remedy.value, str | float | bool)


def test_store_that_goes_while_it_is_watched_is_told() -> None:
    (found,) = wrong(findings(lines(5), watched_s=4.0, gone="no answer from Loki"))
    assert (found.check, found.level) == ("delay", Level.WARN)
    assert "no answer from Loki" in found.text
