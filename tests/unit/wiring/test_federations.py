"""What the doctor says of a cluster that hands jobs to others."""

from __future__ import annotations

from typing import Any, cast

import pytest

from middlewatch.adapters.slurm.words import checked_job_id
from middlewatch.ports.errors import Refused
from middlewatch.wiring.doctor_federation import examined_federation
from tests.unit.reconciliation.worlds import FACTS

ONE = """Federation: science
Self:       lab:127.0.0.1:18000 ID:1 FedState:ACTIVE Features:
Sibling:    east:10.0.0.2:6817 ID:2 FedState:ACTIVE Features: PersistConnSend/Recv:Yes/Yes Synced:Yes
"""


class Done:
    def __init__(self, stdout: str, exit_code: int = 0) -> None:
        self.stdout, self.exit_code = stdout, exit_code


class Here:
    facts = FACTS

    def __init__(self, done: Done) -> None:
        self._done = done

    def ask(self, argv: tuple[str, ...]) -> Done:
        assert argv == ("scontrol", "show", "federation")
        return self._done


def told(done: Done) -> list[str]:
    return [f"{f.text} {f.mend}" for f in examined_federation(cast(Any, Here(done)))]


def test_a_cluster_in_a_federation_is_told_what_is_not_seen_and_what_helps() -> None:
    (text,) = told(Done(ONE))
    assert "federation science" in text
    assert "neither watched nor restarted" in text
    assert "--clusters=lab" in text


@pytest.mark.parametrize("done", [Done("\n"), Done("", 1), Done("No federation configured\n")])
def test_a_cluster_of_its_own_is_not_troubled(done: Done) -> None:
    assert told(done) == []


@pytest.mark.parametrize("text", ["7;east", "7@east", "east:7", "-M", "--clusters=east", "7 8"])
def test_a_job_of_another_cluster_reaches_no_command_line(text: str) -> None:
    with pytest.raises(Refused, match="is not a job number such as 1234 or 1234_5"):
        checked_job_id(text)
