"""One log file in, the story out: the live system's own code, driven by a file and a clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from middlewatch.adapters.scan.catalogue import Catalogue, read_catalogue, read_loops
from middlewatch.attribution import Places
from middlewatch.model.pattern import Pattern, PatternKind
from middlewatch.model.policy import Policy
from middlewatch.ports.scanner import Scanner
from middlewatch.remediation import History, PastAttempt
from middlewatch.wiring.analysis.account import Account, account_of
from middlewatch.wiring.analysis.attempts import Found, attempt_starts
from middlewatch.wiring.analysis.drive import Drive, attempt_of, drive
from middlewatch.wiring.analysis.facts import Facts
from middlewatch.wiring.analysis.places import places_in
from middlewatch.wiring.analysis.reading import BadInput, facts_from, read_log, times_from
from middlewatch.wiring.analysis.timeline import Timeline, starts_of, timeline_of

__all__ = [
    "Account",
    "Analyst",
    "BadInput",
    "Facts",
    "analyse_files",
    "facts_from",
    "read_log",
    "starts_of",
    "times_from",
]

_EARLIER = 8
"""Attempts before the last one that are looked at, for what repeats."""


@dataclass(frozen=True, slots=True)
class Analyst:
    """The patterns, compiled once, and the policy. Good for any number of logs."""

    catalogue: Catalogue
    scanner: Scanner
    loops: Catalogue
    loop_scanner: Scanner
    policy: Policy = Policy()

    @classmethod
    def ready(cls, extra: Path | None = None, policy: Policy | None = None) -> Analyst:
        """With our patterns, and those of the folder ``extra``."""
        from middlewatch.adapters.scan.engine import scanner_for

        catalogue = read_catalogue(extra)
        loops = read_loops()
        return cls(catalogue, scanner_for(catalogue), loops, scanner_for(loops), policy or Policy())

    @property
    def patterns(self) -> dict[str, Pattern]:
        """All patterns by id."""
        return {**self.catalogue.by_id(), **self.loops.by_id()}

    def analyse(
        self, data: bytes, facts: Facts | None = None, times: tuple[float, ...] | None = None
    ) -> Account:
        """The account of the last attempt in ``data``."""
        facts = facts or Facts()
        timeline = timeline_of(data, facts, times)
        lines = _lines(data, timeline)
        found, named = self._everything(data, timeline)
        hosts = (*named, *(name for name, _ in facts.told))
        places = places_in(data, hosts, facts.nodes)
        whole = range(1, len(lines) + 1)
        one = self._one(data, timeline, whole, facts=facts, places=places, earlier=(), last=True)
        begun = {timeline.line_of(offset) for offset in one.boundaries}
        starts = attempt_starts(lines, found, begun)[-_EARLIER:]
        drives: list[Drive] = [one]
        if len(starts) > 1:
            drives = []
            places = places_in(data[timeline.starts[starts[-1] - 1] :], hosts, facts.nodes)
            for start, end in pairwise((*starts, len(lines) + 1)):
                last = end == len(lines) + 1
                drives.append(
                    self._one(
                        data,
                        timeline,
                        range(start, end),
                        facts=facts,
                        places=places,
                        earlier=drives,
                        last=last,
                    )
                )
        return account_of(
            drives[-1],
            timeline,
            lines,
            facts=facts,
            places=places,
            earlier=drives[:-1],
            first_line=starts[-1],
        )

    def _one(
        self,
        data: bytes,
        timeline: Timeline,
        lines: range,
        *,
        facts: Facts,
        places: Places,
        earlier: Sequence[Drive],
        last: bool,
    ) -> Drive:
        began = timeline.moment(lines.start) if len(lines) else timeline.base
        index = len(earlier)
        if last and facts.restart_count is not None:
            index = max(index, facts.restart_count)
        attempt = attempt_of(facts, places.nodes, began, index)
        per = places.per()
        if per:
            attempt = replace(attempt, gpus_per_node=per)
        if len(places.nodes) == 1 and not places.alone():
            # There are more ranks than this one node can hold: others are not named.
            attempt = replace(attempt, node_count=2)
        return drive(
            data,
            timeline,
            lines,
            attempt,
            facts if last else Facts(),
            scanner=self.scanner,
            loops=self.loop_scanner,
            patterns=self.patterns,
            policy=self.policy,
            history=_history(earlier),
            last=last,
        )

    def _everything(self, data: bytes, timeline: Timeline) -> tuple[list[Found], list[str]]:
        """All hits of the whole file, for what only the whole can tell; and the hosts they name."""
        patterns = self.patterns
        found: list[Found] = []
        hosts: dict[str, None] = {}
        hits = list(self.scanner.scan(data, 0))
        if all(patterns[raw.pattern_id].kind is not PatternKind.PROGRESS for raw in hits):
            hits.extend(self.loop_scanner.scan(data, 0))
            hits.sort(key=lambda raw: raw.offset)
        for raw in hits:
            pattern = patterns[raw.pattern_id]
            step = None
            for name, value in raw.groups:
                if name == "step" and value.replace(",", "").isdigit() and len(value) < 16:
                    step = int(value.replace(",", ""))
                if name == "node":
                    hosts[value] = None
            found.append(Found(timeline.line_of(raw.offset), pattern, step))
        return found, list(hosts)


def _lines(data: bytes, timeline: Timeline) -> list[bytes]:
    ends = (*timeline.starts[1:], len(data))
    return [data[a:b].rstrip(b"\r\n") for a, b in zip(timeline.starts, ends, strict=False)]


def _history(earlier: Sequence[Drive]) -> History:
    return History(
        tuple(
            PastAttempt(
                attempt_id=one.attempt.id,
                attempt_index=number,
                failure_class="" if one.issue is None else one.issue.failure_class,
                last_step=one.progress.last_step,
                checkpoint_step=one.progress.checkpoint_step,
                loaded_step=one.progress.loaded_step,
            )
            for number, one in enumerate(earlier)
        )
    )


def analyse_files(
    log: Path, facts: Path | None = None, times: Path | None = None, analyst: Analyst | None = None
) -> Account:
    """Analyse a log with what lies beside it. Raises `BadInput`."""
    data = read_log(log)
    told = Facts() if facts is None else facts_from(facts)
    seconds = None if times is None else times_from(times, len(starts_of(data)))
    return (analyst or Analyst.ready()).analyse(data, told, seconds)
