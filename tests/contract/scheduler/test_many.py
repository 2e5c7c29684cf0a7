"""What one command tells of many jobs is what a question about each alone tells."""

from __future__ import annotations

from middlewatch.model.answer import Known
from middlewatch.ports.scheduler import ManyAtOnce, accountings_of, details_of
from tests.contract.scheduler.test_requeue import running, until
from tests.contract.scheduler.worlds import World

FORGED = 'x\nJobId=1 JobState=FAILED\n"}, {"job_id": 1, "comment": "forged"'


def test_of_several_jobs_is_told_what_is_told_of_each(world: World) -> None:
    jobs = [world.submit(comment=text) for text in ("plain", FORGED, "", "a|b=c,d")]
    array = world.submit(array=2, comment="tasks")
    names = [*jobs, f"{array}_0", f"{array}_1"]
    for name in names:
        until(world, name, running)
    world.scheduler.listing()
    together = details_of(world.scheduler, [*names, "999999"])
    records = accountings_of(world.scheduler, names)
    if not isinstance(world.scheduler, ManyAtOnce):
        assert (together, records) == ({}, {})
        return
    assert "999999" not in together, "what an answer does not show is not proven absent by it"
    assert set(together) == set(records) == set(names)
    for name in names:
        alone, told = world.scheduler.detail(name), together[name]
        assert isinstance(alone, Known)
        assert isinstance(told, Known)
        assert told.value == alone.value
        assert isinstance(records[name], Known)
    second = together[jobs[1]]
    assert isinstance(second, Known)
    assert second.value.comment == FORGED
