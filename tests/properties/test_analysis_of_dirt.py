"""Whatever a file holds, its analysis comes to an end and names only lines that are there."""

from __future__ import annotations

from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from middlewatch.wiring.analysis import Analyst, Facts
from middlewatch.wiring.analysis.facts import BadFacts, read_facts

PIECES = (
    b"Traceback (most recent call last):\n",
    b"[rank3]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n",
    b"[rank1]:[E P.cpp:616] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 1 ms\n",
    b" [2026-03-01 10:00:00] iteration       10/   50000 | elapsed time per iteration (ms): 1.0 |\n",
    b"srun: error: n[01-99],m2: tasks 0-7,9-: Killed\n",
    b"slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-03-01T10:00:00 DUE TO TIME LIMIT ***\n",
    b"==== restart 1 of job 7 on nodes n1 n2 ====\n",
    b"  host      : n1\n  rank      : 3 (local_rank: 99999999999999)\n",
    b"[hang-dump] rank 0 host n1 pid 1\n    wait (threading.py:302)\n",
    b"9999-99-99 99:99:99 x\n",
    b"\r\r\x00\xff\xfe\n",
    b"x" * 20_000,
    b"\n",
)
STATES = ("FAILED", "RUNNING", "CANCELLED by 7", "PREEMPTED->PENDING", "exited", "COMPLETED", "??")


@cache
def analyst() -> Analyst:
    return Analyst.ready()


@settings(max_examples=40, deadline=None)
@given(
    pieces=st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=80)), max_size=20),
    state=st.none() | st.sampled_from(STATES),
)
def test_any_bytes_are_analysed(pieces: list[bytes], state: str | None) -> None:
    data = b"".join(pieces)
    facts = Facts() if state is None else read_facts({"state": state, "restart_count": 1})
    said = analyst().analyse(data, facts).as_json()
    lines = data.count(b"\n") + 1
    ranges = [*(said["first_cause"] or {"lines": []})["lines"], *said["cascade_lines"]]
    assert all(1 <= low <= high <= lines for low, high in ranges)
    assert all(0 <= alarm["line"] <= lines for alarm in said["alarms"])
    assert (said["class"] == "none") == (said["first_cause"] is None)


@settings(max_examples=40, deadline=None)
@given(text=st.text(max_size=200), code=st.one_of(st.none(), st.integers(), st.text(max_size=8)))
def test_facts_in_any_words_are_read_or_refused_with_a_reason(text: str, code: object) -> None:
    given_facts = {"state": text, "exit_code": code, "nodes": text, "hosts": [text]}
    try:
        facts = read_facts(given_facts)
    except BadFacts:
        facts = read_facts({**given_facts, "exit_code": None})
    assert not (facts.running and facts.ended)
