"""Recoveries over the API and in `/metrics`."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from middlewatch.model.change import Change
from middlewatch.model.milestone import Milestone, MilestoneKind, MilestoneSource
from middlewatch.model.recovery import Mark, Moment, Part, PartName, Recovery, RecoveryState
from middlewatch.ports.store import RecoveryFilter
from middlewatch.services.gateway.access import Scope
from middlewatch.services.gateway.metrics import Metrics
from middlewatch.services.gateway.recovered import BUCKETS, PARTS
from middlewatch.services.gateway.service import Context
from tests.contract.api.conftest import Api
from tests.contract.api.samples import ADVICE, ATTEMPT, CLUSTER, NOW, SEQUENCE, attempt

PATH = "/middlewatch/v1/recoveries"
SUCCESSOR = attempt("12345", 1, minute=59, by=None)


def recovery(number: int = 0, **given: object) -> Recovery:
    fields: dict[str, object] = {
        "id": SEQUENCE.id if number == 0 else f"sequence-{number}",
        "cluster": CLUSTER,
        "job_id": "12345" if number == 0 else str(20000 + number),
        "attempt_id": ATTEMPT.id,
        "attempt_index": 0,
        "state": RecoveryState.VERIFIED,
        "why": "attempt 1 came to step 38, past step 37",
        "began_at": NOW,
        "settled": True,
        "attempts": (1,),
        "lost_step": 37,
        "loaded_step": 30,
        "resumed_step": 38,
        "moments": (
            Moment(Mark.FAULT, 0, NOW, NOW, MilestoneSource.LOG, 37),
            Moment(Mark.RESUMED, 1, NOW + timedelta(seconds=9), None, MilestoneSource.LOG, 38, 0.5),
        ),
        "parts": (Part(PartName.DETECT, 0.4), Part(PartName.RECOMPUTE, 6.0)),
        "unsplit_s": 2.6,
        "unsplit": (PartName.HOLD, PartName.RELEASE),
        "total_s": 9.0,
        "clock_off_s": 0.5,
        **given,
    }
    return Recovery(**fields)  # type: ignore[arg-type]


def put(api: Api, *recoveries: Recovery) -> None:
    api.store.apply(Change(recoveries=recoveries))


def test_recovery_is_told_with_all_its_parts_and_the_unknown_ones_as_unknown(api: Api) -> None:
    put(api, recovery())
    (told,) = api.get(PATH)["recoveries"]
    assert told["state"] == "verified"
    assert told["owner"] == {"scheduler": "slurm", "environment": "customer-slurm"}
    assert [part["name"] for part in told["parts"]] == [name.value for name in PartName]
    known = {part["name"]: part["seconds"] for part in told["parts"] if "seconds" in part}
    assert known == {"detect": 0.4, "recompute": 6.0}
    assert (told["undividedSeconds"], told["undivided"]) == (2.6, ["hold", "release"])
    assert (told["totalSeconds"], told["largest"]) == (9.0, "recompute")
    assert (told["lostStep"], told["loadedStep"], told["resumedStep"]) == ("37", "30", "38")
    assert "checkpointStep" not in told
    fault, resumed = told["moments"]
    assert (fault["mark"], fault["source"], fault["step"]) == ("fault", "log", "37")
    assert "learnedAt" not in resumed
    assert (resumed["attemptIndex"], resumed["offSeconds"]) == (1, 0.5)


def test_recoveries_are_filtered_and_paged_newest_first(api: Api) -> None:
    put(api, *(recovery(n) for n in (1, 2, 3)))
    put(api, recovery(4, state=RecoveryState.NOT_RECOVERED))
    first = api.get(PATH, limit=3)
    rest = api.get(PATH, limit=3, page=first["nextPageToken"])
    jobs = [one["jobId"] for one in (*first["recoveries"], *rest["recoveries"])]
    assert jobs == ["20004", "20003", "20002", "20001"]
    assert rest["nextPageToken"] == ""
    assert "other filters" in api.refused(PATH, state="verified", page=first["nextPageToken"])
    assert api.get(PATH, state="restarted_not_recovered")["count"] == 1
    assert api.get(PATH, jobId="20002")["count"] == 1
    assert "it can be under_way, verified" in api.refused(PATH, state="fine")


def test_explanation_of_either_attempt_tells_the_recovery(api: Api) -> None:
    other = attempt("12345", 1, minute=-90, by=None)
    api.store.apply(
        Change(
            attempts=(ATTEMPT, SUCCESSOR, other),
            advice=(ADVICE,),
            sequences=(SEQUENCE,),
            recoveries=(recovery(), replace(recovery(9), job_id="12345", attempts=(2,))),
            milestones=(
                Milestone(
                    SEQUENCE.id,
                    "r",
                    NOW,
                    NOW,
                    MilestoneKind.RESUMED,
                    step=38,
                    source=MilestoneSource.LOG,
                    past_step=37,
                ),
            ),
        )
    )

    def explained(name: str) -> list[str]:
        told = api.get(f"/middlewatch/v1/attempts/{name}/explanation")
        return [one["id"] for one in told["recoveries"]]

    assert explained(ATTEMPT.id) == [SEQUENCE.id, "sequence-9"]
    assert explained(SUCCESSOR.id) == [SEQUENCE.id]
    assert explained(other.id) == []
    (milestone,) = api.get(f"/middlewatch/v1/attempts/{ATTEMPT.id}/explanation")["milestones"]
    assert (milestone["source"], milestone["pastStep"]) == ("log", "37")


# -- /metrics ---------------------------------------------------------------------------------


def scraped(text: str) -> dict[tuple[str, str, str], float]:
    """Samples of recoveries: by name, state or part, and bucket."""
    return {
        (s.name, s.labels.get("state") or s.labels.get("part") or "", s.labels.get("le", "")): (
            s.value
        )
        for family in text_string_to_metric_families(text)
        for s in family.samples
        if s.name.startswith("middlewatch_recover")
    }


def asked(api: Api) -> dict[tuple[str, str, str], float]:
    token = {"Authorization": f"Bearer {api.tokens[Scope.READ]}"}
    return scraped(api.client.get("/metrics", headers=token).text)


def test_histograms_hold_the_verified_ones_by_part(api: Api) -> None:
    put(api, recovery(1), recovery(2, total_s=100.0), recovery(3, state=RecoveryState.GIVEN_UP))
    found = asked(api)
    seconds = "middlewatch_recovery_seconds"
    assert found[f"{seconds}_count", "total", ""] == 2
    assert found[f"{seconds}_sum", "total", ""] == 109.0
    assert found[f"{seconds}_bucket", "total", "10.0"] == 1
    assert found[f"{seconds}_bucket", "total", "+Inf"] == 2
    assert found[f"{seconds}_bucket", "detect", "0.5"] == 2
    assert found[f"{seconds}_bucket", "detect", "0.25"] == 0
    assert found[f"{seconds}_count", "queue", ""] == 0
    assert found[f"{seconds}_sum", "undivided", ""] == 5.2
    assert found["middlewatch_recoveries_total", "verified", ""] == 2
    assert found["middlewatch_recoveries_total", "given_up", ""] == 1
    assert found["middlewatch_recoveries_total", "unverified", ""] == 0


def test_open_recoveries_are_a_gauge_and_counted_when_they_settle(api: Api) -> None:
    going = recovery(1, state=RecoveryState.UNDER_WAY, settled=False)
    put(api, going)
    found = asked(api)
    assert found["middlewatch_recoveries_open", "under_way", ""] == 1
    assert found["middlewatch_recoveries_total", "verified", ""] == 0
    put(api, replace(recovery(1), version=1), recovery(2))
    found = asked(api)
    assert found["middlewatch_recoveries_open", "under_way", ""] == 0
    assert found["middlewatch_recoveries_total", "verified", ""] == 2


def test_another_process_over_the_same_store_tells_the_same_numbers(api: Api) -> None:
    put(api, recovery(1), recovery(2))
    before = asked(api)
    put(api, recovery(3))
    context = Context(store=api.store, clock=api.clock, cluster=CLUSTER)
    anew = scraped(Metrics(context).text().decode())
    assert anew == asked(api)
    assert anew["middlewatch_recoveries_total", "verified", ""] == 3
    assert before["middlewatch_recoveries_total", "verified", ""] == 2
    assert len(api.store.recoveries(RecoveryFilter(), 0, 9)) == 3


def test_series_are_bounded_by_words_of_ours(api: Api) -> None:
    put(api, *(recovery(n, failure_class=f"class-{n}") for n in range(1, 30)))
    count = (len(BUCKETS) + 1 + 2) * len(PARTS) + 4 + 4
    assert len({key for key in asked(api) if "created" not in key[0]}) == count


def test_page_of_metrics_names_each_of_them(api: Api) -> None:
    text = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text()
    for name in (
        "middlewatch_recovery_seconds",
        "middlewatch_recoveries_total",
        "middlewatch_recoveries_open",
    ):
        assert f"`{name}`" in text
