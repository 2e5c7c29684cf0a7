"""Any text that looks like a log goes through scanner and fold, and what is kept can be stored."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from middlewatch.adapters.logs import RecordCodec
from middlewatch.adapters.scan import Re2Scanner, read_catalogue
from middlewatch.detection.batch import Batch, Hit
from middlewatch.detection.observe import observe
from middlewatch.detection.state import DetectionState, fresh
from middlewatch.model.signal import Signal
from tests.unit.detection import given as g

CATALOGUE = read_catalogue()
SCANNER = Re2Scanner(CATALOGUE)
PATTERNS = CATALOGUE.by_id()
LINES = [line for pattern in CATALOGUE.patterns for line in pattern.examples]
STATES = RecordCodec(DetectionState)
SIGNALS = RecordCodec(Signal)


@st.composite
def lines(draw: st.DrawFn) -> str:
    """A line that a pattern knows, with its digits replaced and something put into it."""
    line = draw(st.sampled_from(LINES))
    digit = draw(st.sampled_from(["", "0", "9", "99999999999999999999", "-", "1e999", "nan"]))
    if digit:
        place = draw(st.integers(0, 9))
        line = line.replace(str(place), digit)
    cut = draw(st.integers(0, len(line)))
    return line[:cut] + draw(st.sampled_from(["", "\r", "\0", "\x1b[31m", "é"])) + line[cut:]


@given(st.lists(lines(), max_size=20), st.floats(0, 5000))
def test_what_is_kept_of_any_log_can_be_stored_and_read_back(text: list[str], pause: float) -> None:
    state = fresh(g.attempt().id, resume_above=10)
    offset = 0
    for number, line in enumerate(text):
        raw = line.encode() + b"\n"
        found = SCANNER.scan(raw, offset)
        hits = tuple(
            Hit(PATTERNS[one.pattern_id], "f#0", one.offset, one.line, one.groups, "/f")
            for one in found
        )
        offset += len(raw)
        now = g.at(number * pause)
        seen = observe(state, Batch(g.attempt(), hits, now), now)
        for signal in seen.signals:
            assert SIGNALS.decode(SIGNALS.encode(signal)) == signal
        state = STATES.decode(STATES.encode(seen.state))
        assert state == seen.state
