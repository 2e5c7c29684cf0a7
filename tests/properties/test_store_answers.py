"""Whatever a server that calls itself VictoriaLogs answers, a read never raises."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from hypothesis import example, given
from hypothesis import strategies as st

from middlewatch.adapters.logstores import StoreLogs, VictoriaLogs
from middlewatch.ports.scanner import Block, CannotRead
from middlewatch.ports.web import Body

BEGAN = 1_764_475_200


@dataclass
class Canned:
    """A web port that gives one answer to everything."""

    data: bytes
    questions: int = 0
    timeout_s: float = 1.0
    where: str = "a server"

    def ask(self, path: str, form: Mapping[str, str], limit: int) -> Body:
        return Body(self.data[:limit], len(self.data) > limit)

    def close(self) -> None: ...


class Still:
    def now(self) -> datetime:
        return datetime.fromtimestamp(BEGAN + 60, UTC)

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None: ...

    def token(self, size: int = 32) -> str:
        raise AssertionError("nobody here needs a secret")


def row(time: str, text: str = "step 1", **more: str) -> bytes:
    return json.dumps({"_time": time, "_msg": text, **more}).encode() + b"\n"


times = st.one_of(
    st.text(max_size=30),
    st.datetimes().map(lambda at: at.strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")),
)
answers = st.one_of(
    st.binary(max_size=200),
    st.lists(st.builds(row, times, st.text(max_size=20)), max_size=8).map(b"".join),
)


@given(answers)
@example(row("9999-12-31T23:59:59Z") * 600)
@example(row("1969-12-31T23:59:59Z"))
@example(row("2026-11-30T10:00:00Z", lines="9" * 30))
def test_no_answer_makes_a_read_raise(data: bytes) -> None:
    source = StoreLogs(VictoriaLogs(Canned(data)), Still())
    cursor = None
    for _ in range(3):
        block = source.read(source.path("7", BEGAN), 0, cursor, 1 << 16)
        assert isinstance(block, Block | CannotRead)
        cursor = block.cursor if isinstance(block, Block) else cursor
