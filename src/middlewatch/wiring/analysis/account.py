"""What is told of one log: the answer to every question that a label answers, and what stays open.

Lines are numbered from 1 and given as ranges. Of the many lines of one failure those that the
patterns name are told, joined over what lies between them (frames of a stack, blank lines), so that
a reader sees pieces and not splinters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from middlewatch.attribution import Places, culprit_of
from middlewatch.attribution.classes import KILLED_UNKNOWN, class_of
from middlewatch.attribution.culprit import Culprit
from middlewatch.attribution.kind import STANDING_STILL, CaseKind, kind_of
from middlewatch.attribution.stacks import PROCESS, STACK
from middlewatch.model.attempt import EndedBy
from middlewatch.model.issue import Issue, IssueState, VerdictBasis
from middlewatch.model.signal import SILENT, Phase, Progress, Signal, SignalKind, SourceKind
from middlewatch.remediation.advisable import Circumstances, Opinion, advisable
from middlewatch.wiring.analysis.drive import Drive
from middlewatch.wiring.analysis.facts import Facts
from middlewatch.wiring.analysis.lastwords import last_words
from middlewatch.wiring.analysis.slowest import slowest
from middlewatch.wiring.analysis.timeline import Timeline

_BY_SIGNAL = 128
"""From this exit code on a shell says that a signal ended the program."""
GAP = 14
"""Lines between two consequences that are told with them."""
ABOVE = 200
"""How far above its last line a traceback's first one is looked for."""
FIRST_RANGES = 3

_TOLD = frozenset(
    {
        SignalKind.FAILURE_LINE,
        SignalKind.WATCHDOG_LINE,
        SignalKind.CASCADE_LINE,
        SignalKind.LAUNCHER_END,
        SignalKind.HINT,
    }
)

BEFORE = timedelta(seconds=60)
_NO_NUMBER = re.compile(rb"(?i)[a-z_/\]'\"]+['\"]?\s*[=:| ]\s*['\"]?-?(?:nan|inf)\b")

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Account:
    """Everything that is told of the last attempt of one log."""

    kind: CaseKind
    failure_class: str
    domain: str
    first_ranges: tuple[Range, ...]
    culprit: Culprit
    cascade: tuple[Range, ...]
    onset_line: int | None
    last_step: int | None
    checkpoint_step: int | None
    nodes: tuple[str, ...]
    opinion: Opinion
    unseen: tuple[str, ...]
    drive: Drive
    timeline: Timeline
    first_line: int
    attempts: int
    lines: tuple[bytes, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Exactly the keys that are documented."""
        first = None
        if self.failure_class != "none":
            first = {
                "lines": [list(r) for r in self.first_ranges],
                "rank": self.culprit.rank,
                "local_rank": self.culprit.local_rank,
                "node": self.culprit.node,
            }
        return {
            "kind": self.kind.value,
            "class": self.failure_class,
            "domain": self.domain,
            "first_cause": first,
            "cascade_lines": [list(r) for r in self.cascade],
            "onset_line": self.onset_line,
            "last_progress_step": self.last_step,
            "last_checkpoint_step": self.checkpoint_step,
            "implicated_nodes": list(self.nodes),
            "restart": {"advisable": self.opinion.advisable.value, "why": self.opinion.why},
            "alarms": [
                {
                    "line": alarm.line,
                    "at_s": self.seconds(alarm.at),
                    "kind": alarm.kind.value,
                    "class": alarm.failure_class,
                    "would_act": alarm.would_act,
                }
                for alarm in self.drive.alarms
            ],
            "unseen": list(self.unseen),
        }

    def seconds(self, moment: Any) -> float:
        """A moment on the clock of the lines' times."""
        return round(float((moment - self.timeline.base).total_seconds()), 3)


def account_of(
    drive: Drive,
    timeline: Timeline,
    lines: Sequence[bytes],
    *,
    facts: Facts,
    places: Places,
    earlier: Sequence[Drive],
    first_line: int,
) -> Account:
    """Tell what one drive came to. ``earlier`` are the drives of the attempts before it."""
    issue = drive.issue
    own = drive.own
    if issue is not None and _went_on(drive, issue, own):
        issue, own = None, ()
    kind = kind_of(issue, own, drive.attempt)
    told = issue is not None and issue.state is IssueState.OPEN
    told = told and kind not in {CaseKind.HEALTHY, CaseKind.COMPLETED}
    failure_class, domain = "none", "none"
    ranges: tuple[Range, ...] = ()
    cascade: tuple[Range, ...] = ()
    onset: int | None = None
    culprit = Culprit()
    nodes: tuple[str, ...] = ()
    if told and issue is not None:
        failure_class = issue.failure_class
        domain = drive.verdict.domain.value if drive.verdict is not None else "unknown"
        culprit = culprit_of(issue, own, places, facts.failed_nodes)
        cause = next((s for s in own if s.key == issue.first_cause), None)
        ranges, cascade = _ranges(cause, own, timeline, lines, first_line)
        if _left_of_itself(cause, failure_class, facts) and ranges:
            said = last_words(lines, timeline, ranges[0][0], first_line, places)
            if said is not None:
                cascade = _joined(
                    [n for low, high in (*ranges, *cascade) for n in (low, high)], set()
                )
                ranges = ((said.first, said.last),)
                culprit = said.culprit if said.culprit.rank is not None else culprit
        onset = _onset(cause, ranges, own, timeline, lines)
        if failure_class == "slow_node" and culprit.rank is None and onset is not None:
            culprit, more = _slowest(culprit, lines, onset, places)
            cascade = _joined(sorted({*more, *(n for r in cascade for n in r)}), set())
        nodes = _nodes(drive, culprit, failure_class, places)
    progress = drive.progress
    checkpoint = progress.checkpoint_step
    if checkpoint is None:
        checkpoint = progress.loaded_step
    if checkpoint is None:
        before = (d.progress.checkpoint_step for d in reversed(earlier))
        checkpoint = next((step for step in before if step is not None), None)
    evidence = None if issue is None else next((s for s in own if s.key == issue.first_cause), None)
    around = Circumstances(
        nodes=nodes,
        evidence="" if evidence is None else evidence.excerpt,
        repeated=_repeated(drive, earlier, facts),
        finished=_finished(progress),
        stepped=progress.last_step is not None,
        saved=progress.checkpoint_step is not None
        and progress.checkpoint_step != progress.loaded_step,
        requeued=facts.requeued or _requeued(drive),
    )
    named = "" if failure_class == "none" else failure_class
    return Account(
        kind=kind,
        failure_class=failure_class,
        domain=domain,
        first_ranges=ranges,
        culprit=culprit,
        cascade=cascade,
        onset_line=onset,
        # Before the first step it stands where it was loaded from.
        last_step=progress.loaded_step if progress.last_step is None else progress.last_step,
        checkpoint_step=checkpoint,
        nodes=nodes,
        opinion=advisable(named, drive.attempt, around),
        unseen=_unseen(drive, timeline, facts, culprit=culprit, named=named, places=places),
        drive=drive,
        timeline=timeline,
        first_line=first_line,
        attempts=len(earlier) + 1,
        lines=tuple(lines),
    )


def _left_of_itself(cause: Signal | None, failure_class: str, facts: Facts) -> bool:
    """Whether all that is known is that the program left, with a code of its own."""
    if cause is None or failure_class != KILLED_UNKNOWN or facts.exit_signal:
        return False
    alone = cause.kind is SignalKind.SCHEDULER_END or cause.kind is SignalKind.LAUNCHER_END
    return alone and facts.exit_code is not None and 0 < facts.exit_code < _BY_SIGNAL


def _slowest(
    culprit: Culprit, lines: Sequence[bytes], since: int, places: Places
) -> tuple[Culprit, tuple[int, ...]]:
    """Whom the others wait for, as far as the log tells of each of them, and where it does."""
    odd = slowest(lines, since)
    if odd is None:
        return culprit, ()
    rank = odd.rank
    where = culprit.node or (places.nodes[0] if places.alone() else None)
    if rank is None and odd.device is not None and where is not None:
        rank = places.rank_at(where, odd.device)
    if rank is None:
        return culprit, odd.lines
    return Culprit(rank, places.local_of(rank), places.node_of(rank) or where), odd.lines


def _went_on(drive: Drive, issue: Issue, own: Sequence[Signal]) -> bool:
    """Whether a running job printed a failure, nothing confirmed it, and it has stepped since."""
    stepped = drive.progress.last_step_at
    cause = next((s for s in own if s.key == issue.first_cause), None)
    alarmed = any(alarm.failure_class == issue.failure_class for alarm in drive.alarms)
    if drive.attempt.end is not None or alarmed or cause is None or stepped is None:
        return False
    return stepped > cause.happened_at and cause.kind in {
        SignalKind.FAILURE_LINE,
        SignalKind.CASCADE_LINE,
    }


# -- lines ------------------------------------------------------------------------------------


def line_of(signal: Signal, timeline: Timeline) -> int | None:
    """The line that a signal was found in; None where it was found in none."""
    if signal.source.kind is SourceKind.LOG and signal.source.position.isdigit():
        return timeline.line_of(int(signal.source.position))
    return None


def _ranges(
    cause: Signal | None,
    own: Sequence[Signal],
    timeline: Timeline,
    lines: Sequence[bytes],
    first_line: int,
) -> tuple[tuple[Range, ...], tuple[Range, ...]]:
    """The ranges of the first cause, and those of all that followed from it."""
    first: list[Range] = []
    taken: set[int] = set()
    at = None if cause is None else line_of(cause, timeline)
    if cause is not None and at is None and cause.kind in {SignalKind.SLOW, SignalKind.NUMERIC}:
        at = timeline.last_line_at(cause.happened_at) or None
    if cause is not None and at is None:
        cause, at = _spoken(cause, own, timeline)
    if cause is not None and at is not None:
        first.append((_top(at, lines, first_line), at))
        if cause.pattern_id.startswith(STACK):
            first[-1] = at, max((at, *_frames(at, own, timeline)))
    for low, high in first:
        taken.update(range(low, high + 1))
    rest = sorted(
        {
            line
            for s in own
            if s.kind in _TOLD
            and (line := line_of(s, timeline)) is not None
            and line not in taken
            and not _long_before(s, cause)
        }
        | _numbers_behind(cause, at, lines)
    )
    return tuple(first[:FIRST_RANGES]), _joined(rest, taken)


def _long_before(signal: Signal, cause: Signal | None) -> bool:
    """Whether a line is a consequence of something before the cause, behind which it went on."""
    if cause is None or signal.kind not in {SignalKind.CASCADE_LINE, SignalKind.HINT}:
        return False
    stepped = cause.step is not None and (signal.step is None or signal.step < cause.step)
    return stepped and cause.happened_at - signal.happened_at > BEFORE


def _numbers_behind(cause: Signal | None, at: int | None, lines: Sequence[bytes]) -> set[int]:
    """The lines behind a divergence whose numbers are none."""
    if cause is None or at is None or cause.kind is not SignalKind.NUMERIC:
        return set()
    return {n for n in range(at + 1, len(lines) + 1) if _NO_NUMBER.search(lines[n - 1])}


def _frames(at: int, own: Sequence[Signal], timeline: Timeline) -> list[int]:
    """The lines of the stack whose first line is ``at``."""
    found: list[int] = []
    for signal in own:
        line = line_of(signal, timeline)
        if line is None or line <= at or not signal.pattern_id.startswith(STACK):
            continue
        if signal.pattern_id.startswith(PROCESS):
            break
        found.append(line)
    return found


def _spoken(cause: Signal, own: Sequence[Signal], timeline: Timeline) -> tuple[Signal, int | None]:
    """The line that says what the scheduler says: its own, or else its launcher's first."""
    if cause.kind is not SignalKind.SCHEDULER_END:
        return cause, None
    alike = [s for s in own if s.kind in _TOLD and class_of(s) == class_of(cause)]
    if not any(s.failure_class for s in alike):
        alike = [s for s in own if s.kind is SignalKind.LAUNCHER_END] or [
            s for s in own if s.kind is SignalKind.CASCADE_LINE and "CANCELLED AT" in s.excerpt
        ]
        alike = alike or [s for s in own if s.kind in _TOLD]
    found = [(line, s) for s in alike if (line := line_of(s, timeline)) is not None]
    if not found:
        return cause, None
    line, signal = min(found, key=lambda pair: pair[0])
    return signal, line


def _joined(numbers: Sequence[int], between: set[int]) -> tuple[Range, ...]:
    found: list[Range] = []
    for number in numbers:
        if found and number - found[-1][1] <= GAP:
            gap = range(found[-1][1] + 1, number)
            if not any(line in between for line in gap):
                found[-1] = found[-1][0], number
                continue
        found.append((number, number))
    return tuple(found)


def _top(line: int, lines: Sequence[bytes], first_line: int) -> int:
    """Where the traceback begins whose last line is ``line``; ``line`` itself if it ends none."""
    text = lines[line - 1]
    prefix = text[: len(text) - len(text.lstrip(b"[]0123456789:rank "))]
    for number in range(line - 1, max(first_line, line - ABOVE) - 1, -1):
        above = lines[number - 1]
        if prefix.strip() and not above.startswith(prefix.rstrip()):
            continue
        rest = above[len(prefix.rstrip()) :] if prefix.strip() else above
        if b"Traceback (most recent call last)" in rest:
            return number
        if rest.strip() and not rest.startswith((b"  ", b"\t", b" ")) and prefix.strip() == b"":
            return line
        if (
            rest.strip()
            and prefix.strip()
            and not rest.lstrip(b":").startswith((b"  ", b" ", b"\t"))
        ):
            return line
    return line


def _onset(
    cause: Signal | None,
    ranges: Sequence[Range],
    own: Sequence[Signal],
    timeline: Timeline,
    lines: Sequence[bytes],
) -> int | None:
    if cause is None:
        return None
    still = next((s for s in own if s.kind in SILENT), None)
    if cause.kind in SILENT and cause.value is not None:
        began = cause.learned_at - timedelta(seconds=cause.value)
        return timeline.last_line_at(began) or None
    first = ranges[0][0] if ranges else timeline.last_line_at(cause.happened_at) or None
    if still is not None and still.value is not None and cause.kind is SignalKind.WATCHDOG_LINE:
        began = still.learned_at - timedelta(seconds=still.value)
        return min(timeline.last_line_at(began) or len(lines), first or len(lines))
    return first


# -- the rest ---------------------------------------------------------------------------------


_NAMED = frozenset({VerdictBasis.LINE_NAMES_NODE, VerdictBasis.SCHEDULER_FACT})
_INNOCENT = frozenset(
    {
        "user_exception",
        "config_error",
        "data_error",
        "cuda_device_assert",
        "gpu_oom",
        "storage_full",
        "checkpoint_corrupt",
        "shm_exhausted",
        "env_import_error",
        "port_in_use",
        "collective_mismatch",
        "slow_input",
        "time_limit",
        "preemption",
        "user_cancel",
    }
)
"""Classes for which the node where it happened is only a place."""


_OF_SEVERAL = frozenset({"gpu_memory_fault", "dns_failure"})
"""Classes for which a node is suspicious because the others could do what it could not."""


def _nodes(drive: Drive, culprit: Culprit, failure_class: str, places: Places) -> tuple[str, ...]:
    if failure_class in _INNOCENT or (failure_class in _OF_SEVERAL and places.alone()):
        return ()
    verdict = drive.verdict
    told = verdict is not None and verdict.basis in _NAMED
    believed = verdict.nodes if verdict is not None and told else ()
    named = (*believed, *((culprit.node,) if culprit.node else ()))
    if not named and failure_class in STANDING_STILL and places.alone():
        named = places.nodes
    return tuple(sorted(dict.fromkeys(named)))


_ONCE = frozenset({"ib_link_error", "gpu_memory_fault", "native_crash"})
"""Classes of which one case that healed by itself makes the next one suspicious: a link or a card
does not get better. A file server that was away for a moment says nothing about the next time."""


def _repeated(drive: Drive, earlier: Sequence[Drive], facts: Facts) -> bool:
    """Whether it failed in the same way before without having come further in between."""
    issue = drive.issue
    if issue is None:
        return False
    if issue.failure_class in _ONCE and any(
        other.failure_class == issue.failure_class and other.state is IssueState.RECOVERED
        for other in drive.issues
    ):
        return True
    if not earlier:
        # Several restarts that never came to a first step: each of them ended here.
        return (facts.restart_count or 0) > 1 and drive.progress.last_step is None
    before = next((one for one in reversed(earlier) if one.issue is not None), earlier[-1])
    same = before.issue is not None and before.issue.failure_class == issue.failure_class
    return same and before.progress.last_step == drive.progress.last_step


def _finished(progress: Progress) -> bool:
    """Whether all steps were done: so said, or counted."""
    step, total = progress.last_step, progress.total_steps
    counted = step is not None and total is not None and step >= total
    return step is not None and (counted or progress.phase is Phase.SHUTDOWN)


_PUT_BACK = re.compile(r"DUE TO JOB REQUEUE|(?i:\brequeu(?:ed|e?ing)\b.{0,20}\bjob\b)")


def _requeued(drive: Drive) -> bool:
    end = drive.attempt.end
    if end is not None and end.by is EndedBy.REQUEUE:
        return True
    return any(_PUT_BACK.search(signal.excerpt) is not None for signal in drive.own)


def _unseen(
    drive: Drive,
    timeline: Timeline,
    facts: Facts,
    *,
    culprit: Culprit,
    named: str,
    places: Places,
) -> tuple[str, ...]:
    """What would be needed to say more."""
    found: list[str] = []
    if timeline.clock == "none":
        found.append("when lines were written: the log has no time stamps and no times were given")
    if not facts.given:
        found.append("the scheduler's word: state, exit code and nodes (--facts)")
    if drive.progress.last_step is None:
        found.append("progress: no line that counts steps was recognised")
    if not named:
        return tuple(found)
    if named in {"silent_hang", "slow_node", "slow_input", "slow_fabric"}:
        found.append("metrics of the GPUs and nodes, and a stack dump of all ranks")
    if named.startswith("collective_") or named == "watchdog_stuck":
        found.append("a flight-recorder dump, and the kernel logs of the nodes")
    if named in {"killed_unknown", "host_oom"}:
        found.append("the kernel's log of the node, for who was killed and why")
    if named == "peer_connection_lost":
        found.append("the output of the peer that went away")
    if culprit.rank is None and culprit.node is None and named not in {
        "time_limit", "preemption", "user_cancel", "silent_hang", "slow_input"
    }:  # fmt: skip
        found.append("which rank and node it was: no line names them")
    elif culprit.node is None and culprit.rank is not None and len(places.nodes) != 1:
        found.append(f"on which node rank {culprit.rank} ran")
    return tuple(found)
