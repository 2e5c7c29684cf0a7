"""Which listings of slurmrestd's are complete, and for whom: played by a server of our own."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from middlewatch.adapters.slurm.rest import RestScheduler, RestTarget
from middlewatch.model.answer import Known, Unknown
from middlewatch.model.identity import ClusterId
from middlewatch.model.scheduler import ActsFor, JobScope, Snapshot
from tests.unit.adapters_slurm.scripted import HandClock, recording

META = {"meta": {"slurm": {"cluster": "lab", "release": "26.05.5"}}, "errors": []}


def job(number: int, user: str, uid: int) -> dict[str, Any]:
    return {
        "job_id": number,
        "user_name": user,
        "user_id": uid,
        "cluster": "lab",
        "job_state": ["RUNNING"],
        "state_reason": "None",
        "priority": {"set": True, "infinite": False, "number": 5},
        "restart_cnt": 0,
        "submit_time": {"set": True, "infinite": False, "number": 1796000000},
        "start_time": {"set": True, "infinite": False, "number": 1796000001},
        "eligible_time": {"set": True, "infinite": False, "number": 1796000000},
        "end_time": {"set": False, "infinite": False, "number": 0},
        "partition": "train",
        "nodes": "n1",
        "node_count": {"set": True, "infinite": False, "number": 1},
        "array_job_id": {"set": True, "infinite": False, "number": 0},
        "array_task_id": {"set": False, "infinite": False, "number": 0},
        "het_job_id": {"set": True, "infinite": False, "number": 0},
        "dependency": "",
    }


class Daemon:
    """A slurmrestd that shows the user `daemon` (of this machine) what its level lets it see."""

    def __init__(self) -> None:
        self.private: list[str] | None = ["jobs"]
        """What PrivateData says; None where this release does not tell it."""
        self.level: str | None = "Operator"
        self.jobs = [job(7, "daemon", 1), job(8, "root", 0)]
        self.clock = HandClock()
        self.port = 0

    def scheduler(
        self,
        token: Path,
        *,
        user: str = "daemon",
        scope: JobScope = JobScope.AUTO,
        lists_all_shown: bool = False,
    ) -> RestScheduler:
        return RestScheduler(
            ClusterId("slurm", "t"),
            RestTarget(f"http://127.0.0.1:{self.port}", user, str(token), "lab"),
            self.clock,
            query_deadline_s=60.0,
            scope=scope,
            lists_all_shown=lists_all_shown,
        )

    def answer(self, path: str) -> dict[str, Any]:
        if path == "/openapi/v3":
            told = ["/slurm/v0.0.45/conf"] if self.private is not None else []
            return {"paths": {key: {} for key in ["/slurm/v0.0.45/jobs/", *told]}}
        if path.endswith("/conf"):
            conf = {"ClusterName": "lab", "PrivateData": self.private, "SlurmUser": "slurm"}
            return {**META, "slurm_conf": conf, "slurm_conf_meta": {"SLURM_VERSION": "26.05.5"}}
        if path.startswith("/slurmdb/"):
            if self.level == "not there":
                body: dict[str, Any] = json.loads(recording("22.05.8", "rest_user_unknown.json"))
                return body
            if self.level is None:
                return {**META, "errors": ["Unable to connect to database"]}
            name = path.rpartition("/")[2]
            return {**META, "users": [{"name": name, "administrator_level": [self.level]}]}
        hides = self.private is None or "jobs" in self.private
        shown = [one for one in self.jobs if not hides or self.level != "None" or one["user_id"]]
        wanted = path.rpartition("/job/")[2] if "/job/" in path else ""
        return {**META, "jobs": [o for o in shown if wanted in ("", str(o["job_id"]))]}


@pytest.fixture
def slurm() -> Iterator[Daemon]:
    daemon = Daemon()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(daemon.answer(self.path)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    daemon.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield daemon
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("t")
    return path


def listed(port: RestScheduler) -> Snapshot:
    answer = port.listing()
    assert isinstance(answer, Known), answer
    return answer.value


def ids(snapshot: Snapshot) -> list[str]:
    return [view.job_id for view in snapshot.jobs]


def acts(port: RestScheduler) -> ActsFor:
    answer = port.acts_for()
    assert isinstance(answer, Known), answer
    return answer.value


def test_an_operators_listing_is_complete_for_everybody(slurm: Daemon, token: Path) -> None:
    port = slurm.scheduler(token)
    assert (ids(listed(port)), listed(port).only_uid) == (["7", "8"], None)
    assert acts(port).everybody
    slurm.private = None
    port = slurm.scheduler(token)
    assert listed(port).only_uid is None


@pytest.mark.parametrize("all_shown", [False, True])
def test_what_is_hidden_from_an_ordinary_user_is_nobodys_absence(
    slurm: Daemon, token: Path, all_shown: bool
) -> None:
    slurm.level = "None"
    port = slurm.scheduler(token, lists_all_shown=all_shown)
    assert (ids(listed(port)), listed(port).only_uid) == (["7"], 1)
    assert acts(port) == ActsFor(1, "daemon", everybody=False)


def test_where_nothing_is_hidden_an_ordinary_user_may_look_at_all(
    slurm: Daemon, token: Path
) -> None:
    slurm.level, slurm.private = "None", []
    watching = listed(slurm.scheduler(token, lists_all_shown=True))
    assert (ids(watching), watching.only_uid) == (["7", "8"], None)
    acting = listed(slurm.scheduler(token))
    assert (ids(acting), acting.only_uid) == (["7"], 1)


def test_an_operator_may_be_told_to_see_to_own_jobs_alone(slurm: Daemon, token: Path) -> None:
    port = slurm.scheduler(token, scope=JobScope.OWN)
    assert (ids(listed(port)), listed(port).only_uid) == (["7"], 1)
    assert not acts(port).everybody


def test_where_the_whole_cluster_is_meant_a_listing_of_some_is_none(
    slurm: Daemon, token: Path
) -> None:
    slurm.level = "None"
    port = slurm.scheduler(token, scope=JobScope.ALL)
    answer = port.listing()
    assert isinstance(answer, Unknown)
    assert "PrivateData" in answer.why
    assert acts(port).everybody


def test_where_nobody_tells_what_is_hidden_it_counts_as_hidden(slurm: Daemon, token: Path) -> None:
    slurm.level, slurm.private = None, None
    port = slurm.scheduler(token)
    assert (ids(listed(port)), listed(port).only_uid) == (["7", "8"], 1)
    assert "if it is set" in port.hidden()
    # Slurm itself refuses what it may not do.
    assert acts(port).everybody


def test_a_user_that_accounting_does_not_know_is_an_ordinary_one(
    slurm: Daemon, token: Path
) -> None:
    slurm.level = "not there"
    assert acts(slurm.scheduler(token)) == ActsFor(1, "daemon", everybody=False)


def test_a_user_whose_number_is_not_known_sees_to_nobodys_absence(
    slurm: Daemon, token: Path
) -> None:
    slurm.level = None
    port = slurm.scheduler(token, user="not-of-this-machine")
    assert listed(port).only_uid == -2


def test_what_a_lost_level_hides_is_not_gone(slurm: Daemon, token: Path) -> None:
    port = slurm.scheduler(token)
    assert listed(port).only_uid is None
    slurm.level = "None"
    assert isinstance(port.listing(), Unknown)
    assert (ids(listed(port)), listed(port).only_uid) == (["7"], 1)
    for _ in range(2):
        assert isinstance(port.look(["8"]), Unknown)
    assert isinstance(port.look(["7"]), Known)


def test_a_job_that_a_lost_level_hides_from_a_look_is_not_gone(slurm: Daemon, token: Path) -> None:
    port = slurm.scheduler(token)
    assert listed(port).only_uid is None
    slurm.level = "None"
    for _ in range(2):
        assert isinstance(port.look(["8"]), Unknown)


def test_a_user_who_never_saw_others_knows_what_is_gone(slurm: Daemon, token: Path) -> None:
    slurm.level = "None"
    port = slurm.scheduler(token)
    assert ids(listed(port)) == ["7"]
    slurm.jobs = []
    looked = port.look(["7"])
    assert isinstance(looked, Known)
    assert (looked.value.jobs, looked.value.only_uid) == ((), 1)


def test_what_is_gone_is_gone_for_an_operator(slurm: Daemon, token: Path) -> None:
    port = slurm.scheduler(token)
    assert ids(listed(port)) == ["7", "8"]
    slurm.jobs.pop()
    assert (ids(listed(port)), listed(port).only_uid) == (["7"], None)
