"""Whether slurmrestd hides the jobs of others, by what it tells of slurm.conf and of our level."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from middlewatch.adapters.slurm.restreach import RestReach, admin_level, private_jobs
from middlewatch.model.answer import Known, Unknown
from middlewatch.ports.errors import Unreachable
from tests.unit.adapters_slurm.scripted import RELEASES, HandClock, recording

HIDES = {"PrivateData": "jobs,usage", "SlurmUser": "slurm"}
SHOWS = {"PrivateData": "", "SlurmUser": "slurm"}
UNTOLD: dict[str, str] = {}


class Accounting:
    """Tells a level, or does not answer where it is None."""

    def __init__(self, level: str | None = "None") -> None:
        self.level = level
        self.asked: list[str] = []
        self.clock = HandClock()

    def __call__(self, path: str) -> Mapping[str, Any]:
        self.asked.append(path)
        if self.level is None:
            raise Unreachable("slurmdbd does not answer")
        return {"users": [{"name": "mw", "administrator_level": [self.level]}]}

    def reach(self, user: str = "mw") -> RestReach:
        return RestReach(user, self, self.clock)


@pytest.mark.parametrize("release", RELEASES)
def test_the_level_is_read_as_each_release_tells_it(release: str) -> None:
    def body(name: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = json.loads(recording(release, f"rest_user_{name}.json"))
        return found

    assert admin_level(body("operator"), "backup") == "Operator"
    assert admin_level(body("root"), "root") == "Administrator"
    assert admin_level(body("owner"), "games") == "None"
    assert admin_level(body("unknown"), "lp") == "None"
    assert admin_level(body("operator"), "games") == "None"


@pytest.mark.parametrize("body", [{}, {"users": None}, {"users": [None, {"name": "mw"}]}])
def test_a_body_of_another_shape_grants_nothing(body: Mapping[str, Any]) -> None:
    assert admin_level(body, "mw") == "None"


def test_private_data_is_read_as_a_list_of_words() -> None:
    assert private_jobs({"PrivateData": "accounts,jobs"})
    assert not private_jobs({"PrivateData": "jobsx,none"})
    assert not private_jobs({})


def test_nothing_is_hidden_where_private_data_does_not_say_so() -> None:
    accounting = Accounting(None)
    assert accounting.reach().hidden(SHOWS) == ""
    assert accounting.asked == []


@pytest.mark.parametrize("conf", [HIDES, UNTOLD])
@pytest.mark.parametrize("level", ["Operator", "Administrator"])
def test_nothing_is_hidden_from_an_operator(conf: dict[str, str], level: str) -> None:
    assert Accounting(level).reach().hidden(conf) == ""


@pytest.mark.parametrize(("user", "conf"), [("root", HIDES), ("root", UNTOLD), ("slurm", HIDES)])
def test_root_and_slurm_user_need_no_level(user: str, conf: dict[str, str]) -> None:
    accounting = Accounting(None)
    assert accounting.reach(user).hidden(conf) == ""
    assert accounting.asked == []


@pytest.mark.parametrize("conf", [HIDES, UNTOLD])
@pytest.mark.parametrize("level", ["None", None])
def test_jobs_may_be_hidden_from_everybody_else(conf: dict[str, str], level: str | None) -> None:
    why = Accounting(level).reach().hidden(conf)
    assert "PrivateData" in why
    assert "adminlevel=Operator" in why
    assert ("if it is set" in why) is (conf is UNTOLD)
    assert ("slurmdbd does not answer" in why) is (level is None)


def test_the_level_is_asked_for_each_minute_and_kept_while_nobody_tells_it() -> None:
    accounting = Accounting("Operator")
    reach = accounting.reach()
    for _ in range(5):
        assert reach.hidden(HIDES) == ""
    assert accounting.asked == ["user/mw"]
    accounting.clock.sleep(61)
    accounting.level = None
    assert reach.hidden(HIDES) == ""
    assert reach.hidden(HIDES) == ""
    assert len(accounting.asked) == 2
    accounting.clock.sleep(61)
    accounting.level = "None"
    assert reach.hidden(HIDES)


def test_accounting_that_does_not_answer_is_left_alone_for_a_while() -> None:
    accounting = Accounting(None)
    reach = accounting.reach()
    assert isinstance(reach.privileged(HIDES), Unknown)
    assert isinstance(reach.privileged(HIDES), Unknown)
    assert len(accounting.asked) == 1
    accounting.clock.sleep(11)
    accounting.level = "Operator"
    answer = reach.privileged(HIDES)
    assert isinstance(answer, Known)
    assert answer.value


def test_where_something_is_missing_the_level_is_asked_for_at_once() -> None:
    accounting = Accounting("Operator")
    reach = accounting.reach()
    assert reach.hidden(HIDES) == ""
    accounting.level = "None"
    assert reach.hidden_now(HIDES)
    assert reach.hidden(HIDES)
    accounting.level = None
    assert "slurmdbd" in reach.hidden_now(HIDES)
    assert reach.hidden_now(SHOWS) == ""
