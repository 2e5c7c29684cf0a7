"""The configuration that is written for syslog-ng, run by the real program, into a real VictoriaLogs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.lab.packages import COLLECTOR, available, install, program
from middlewatch.lab.patience import wait_for
from middlewatch.lab.victorialogs import VictoriaLogsServer
from middlewatch.ports.scanner import Block, Cursor
from middlewatch.wiring.ingestion.collecting import Collector, collector_configuration, outputs
from middlewatch.wiring.logsource import store_logs
from middlewatch.wiring.settings import LogsSettings, LogsSource
from tests.contract.logsource.conftest import require_victorialogs

SHOWN_S = 120.0
LINES = 3000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[VictoriaLogsServer]:
    require_victorialogs()
    made = VictoriaLogsServer(tmp_path / "victorialogs")
    made.start()
    yield made
    made.stop()


@pytest.fixture
def collector(tmp_path: Path, server: VictoriaLogsServer) -> Iterator[Path]:
    """A syslog-ng that ships what lies in the folder that is given."""
    state = available(COLLECTOR)
    if not state.ok:
        pytest.skip(state.reason)
    install(bundle=COLLECTOR)
    folder = tmp_path / "scratch"
    (folder / "alice").mkdir(parents=True)
    path = tmp_path / "syslog-ng.conf"
    path.write_text(
        collector_configuration(
            Collector.SYSLOG_NG, settings(server), outputs(f"{folder}/%u/slurm-%j.out")
        )
    )
    own = [f"--{name}={tmp_path / name}" for name in ("persist-file", "pidfile", "control")]
    running = subprocess.Popen(
        [program("syslog-ng") or "syslog-ng", "-F", "--no-caps", f"--cfgfile={path}", *own],
        stdin=subprocess.DEVNULL,
    )
    try:
        yield folder
    finally:
        running.terminate()
        running.wait(60)


def settings(server: VictoriaLogsServer) -> LogsSettings:
    return LogsSettings(source=LogsSource.VICTORIALOGS, url=server.url, timeout_s=60.0)


def test_every_line_of_a_job_comes_through_in_its_order_and_through_an_outage(
    server: VictoriaLogsServer, collector: Path, request: pytest.FixtureRequest
) -> None:
    logs = store_logs(settings(server), SystemClock())
    request.addfinalizer(logs.close)
    job, other = collector / "alice" / "slurm-4711.out", collector / "alice" / "slurm-12.out"
    since = SystemClock().now().timestamp() - 60
    cursor: Cursor | None = None
    found: list[bytes] = []

    def has(number: int) -> bool:
        nonlocal cursor
        block = logs.read(logs.path("4711", since), 0, cursor, 1 << 20)
        if isinstance(block, Block):
            cursor = block.cursor
            found.extend(block.data.splitlines())
        return len(found) >= number

    wanted = [b"step %d/9000 | loss 2.31" % number for number in range(LINES)]
    wanted += [b'{"step": 1}', b"<13>Oct 11 22:14:15 host su: quoted", b"  indented\twith a tab"]
    (collector / "alice" / "notes.out").write_text("no job's output\n")
    other.write_text("another job's line\n")
    job.write_bytes(b"".join(line + b"\n" for line in wanted))
    assert wait_for(lambda: has(len(wanted)), SHOWN_S), len(found)
    assert found == wanted

    server.stop()
    with job.open("ab") as file:
        file.write(b"written while the store was away\n" * 3)
    has(len(wanted))
    server.start()
    assert wait_for(lambda: has(len(wanted) + 3), SHOWN_S), len(found)
    assert found == [*wanted, *[b"written while the store was away"] * 3]
