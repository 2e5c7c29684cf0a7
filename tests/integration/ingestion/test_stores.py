"""What is told of a store whose collector does it otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from middlewatch.ports.errors import Refused, Unreachable
from middlewatch.wiring.ingestion import Asked, checked
from middlewatch.wiring.ingestion.proposing import proposed, settings_part
from middlewatch.wiring.ingestion.sample import Level, Report
from middlewatch.wiring.loading import load
from middlewatch.wiring.settings import Settings
from tests.integration.ingestion.shipping import Ship, slurm, stamped

RIGHT = {"job_id": "4711", "node": "n1", "filename": "/scratch/a/slurm-4711.out"}
OTHERWISE = {"slurm_job": "4711", "host": "n1.example", "path": "/scratch/a/slurm-4711.out"}
AT_ONCE = Asked(watch_s=0.0)


def steps(
    ship: Ship, labels: dict[str, str], *, late_s: float = 0.0, first: int = 0, ago_s: float = 60.0
) -> None:
    """Thirty lines a second apart."""
    made = []
    for number in range(30):
        at = ship.at(ago_s - number)
        own = at - int(late_s * 10**9)
        made.append((at, stamped(own, f"step {first + number}/1000 loss 2.5")))
    ship.push(labels, *made)


def look(ship: Ship, settings: Settings | None = None, asked: Asked = AT_ONCE) -> Report:
    return checked(settings or ship.settings(), asked, slurm("4711"), ship.clock)


def wrong(report: Report) -> set[str]:
    return {f.check for f in report.findings if f.level in {Level.WARN, Level.FAIL}}


def test_a_store_that_fits_is_fine(ship: Ship) -> None:
    steps(ship, RIGHT)
    report = look(ship)
    assert report.fine, report
    assert {"progress", "job label"} <= {f.check for f in report.findings if f.level is Level.OK}


def test_labels_of_other_names_are_found_and_the_settings_that_are_written_mend_it(
    ship: Ship, tmp_path: Path
) -> None:
    steps(ship, OTHERWISE)
    report = look(ship)
    assert wrong(report) == {"job label", "node label", "file label"}
    written = tmp_path / "found.toml"
    written.write_text(settings_part(proposed(ship.settings(), report.remedies)))
    mended = load({}, config=written).settings
    assert mended.logs.job_label == "slurm_job"
    assert look(ship, mended).fine


def test_a_job_among_many_lines_of_others_is_found_by_its_label(ship: Ship) -> None:
    steps(ship, RIGHT)
    ship.push({"unit": "sshd"}, *((ship.at(20 - n / 100), f"session {n}") for n in range(300)))
    assert look(ship, asked=Asked(watch_s=0.0, lines=100)).fine


def test_a_job_whose_file_got_no_label_is_told_beside_those_that_have_one(ship: Ship) -> None:
    steps(ship, RIGHT)
    ship.push({"unit": "cron", "filename": "/var/log/cron.1"}, (ship.at(20), "a day is over"))
    assert look(ship).fine
    steps(ship, {"node": "n2", "filename": "/scratch/a/slurm-4712.out"})
    report = look(ship)
    assert wrong(report) == {"job label"}
    assert any("slurm-4712.out" in f.text for f in report.findings if f.level is Level.WARN)


def test_a_missing_node_is_told(ship: Ship) -> None:
    steps(ship, {k: v for k, v in RIGHT.items() if k != "node"})
    assert wrong(look(ship)) == {"node label"}


def test_lines_that_are_stamped_when_they_are_shipped_are_told(ship: Ship) -> None:
    steps(ship, RIGHT, late_s=300.0)
    assert wrong(look(ship)) == {"times"}


def test_lines_out_of_their_order_are_told(ship: Ship) -> None:
    times = [ship.at(60 - n) for n in range(30)]
    own = [*times[10:20], *times[:10], *times[20:]]
    ship.push(
        RIGHT,
        *((at, stamped(mine, "step 1/9 loss 2")) for at, mine in zip(times, own, strict=True)),
    )
    assert "order" in wrong(look(ship))


def test_lines_that_come_late_while_it_watches_ask_for_a_longer_delay(ship: Ship) -> None:
    steps(ship, RIGHT)
    late = iter([True])

    def meanwhile() -> None:
        if next(late, False):
            at = ship.at(45.5)
            ship.push(RIGHT, (at, stamped(at, "step 15/1000 loss 2.4")))

    ship.clock.meanwhile = meanwhile
    report = look(ship, asked=Asked(watch_s=3.0))
    assert wrong(report) == {"delay", "order"}
    (delay,) = report.remedies
    assert (delay.key, float(delay.value) > 45) == ("delay", True)


def test_a_job_id_that_is_a_field_of_the_line_is_told(ship: Ship) -> None:
    if ship.kind == "loki":
        with_field = {k: v for k, v in RIGHT.items() if k != "job_id"}
        steps(ship, with_field)
        assert "job label" in wrong(look(ship))
        return
    at = ship.at(30)
    ship.push(
        {"node": "n1", "filename": RIGHT["filename"]},
        (at, stamped(at, "step 1/9 loss 2")),
        fields={"job_id": "4711"},
    )
    report = look(ship)
    assert {(r.key, r.value) for r in report.remedies} == {("job_label_in_stream", False)}
    assert look(ship, proposed(ship.settings(), report.remedies)).fine


def test_one_job_that_has_no_lines_is_told(ship: Ship) -> None:
    steps(ship, RIGHT)
    assert look(ship, asked=Asked(job="4711", watch_s=0.0)).fine
    assert "job label" in wrong(look(ship, asked=Asked(job="4799", watch_s=0.0)))


def test_an_empty_store_is_told(ship: Ship) -> None:
    assert wrong(look(ship)) == {"reach"}


def test_a_name_that_is_a_query_is_only_a_name(ship: Ship) -> None:
    steps(ship, RIGHT)
    settings = ship.settings(job_label="job_id", match='node="n1"')
    report = look(ship, settings, Asked(job='x" or "', watch_s=0.0))
    assert "job label" in wrong(report)


def test_a_server_that_is_away_or_lets_nobody_in_is_told_apart(loki: object) -> None:
    away = Ship("loki", "http://localhost:9")
    with pytest.raises(Unreachable):
        look(away)
    given = Ship("loki", loki.url)  # type: ignore[attr-defined]
    loki.trouble.answers.append((401, {}, b"no"))  # type: ignore[attr-defined]
    with pytest.raises(Refused):
        look(given)
