"""Are lines still as their program wrote them, and do they say what detection reads?

On their way lines are cut, wrapped into JSON, joined, or have their control characters spelt out.
A person still reads them; patterns do not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from middlewatch.model.pattern import Pattern, PatternKind
from middlewatch.ports.scanner import RawHit
from middlewatch.wiring.ingestion.sample import Expected, Finding, Level, Sample

LONG = 64 << 10
CUTS = frozenset(1 << power for power in range(10, 21))
LEAST_CUT = 512
FEW = 20
"""Lines under which nothing is concluded from what is not among them."""
_WRAPPED = re.compile(rb'\s*\{.*"(?:log|message|msg|MESSAGE|_msg|line)"\s*:\s*"', re.DOTALL)
_CRI = re.compile(rb"\d{4}-\d\d-\d\dT\S+ (?:stdout|stderr) [FP] ")
_SYSLOG = re.compile(
    rb"(?:<\d{1,3}>)?(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\S+) "
    rb"[\w.-]+ [\w./-]{1,48}(?:\[\d+\])?: "
)
_SPELT = re.compile(rb"#033\[|\\u001b\[|\\x1b\[|\\033\[|\^\[\[")
_OF_PROGRESS = frozenset(
    {PatternKind.PROGRESS, PatternKind.METRIC, PatternKind.EVALUATION, PatternKind.TOTAL}
)


def texts(sample: Sample, expected: Expected) -> Iterator[Finding]:
    """What happened to the lines on their way."""
    lines = [line.text for line in sample.lines]
    store = expected.source != "files"
    yield from _lengths(lines, expected)
    yield from _wrapped(lines)
    if store:
        joined = sum(b"\n" in line.strip(b"\r\n") for line in lines)
        if joined:
            yield Finding(
                "lines",
                Level.WARN,
                f"{joined} of {len(lines)} entries hold several lines",
                "turn the collector's joining of lines off (multiline, tracebacks): each line is "
                "read by itself, with its own time",
            )
    spelt = sum(_SPELT.search(line) is not None for line in lines)
    if spelt:
        yield Finding(
            "colours",
            Level.WARN,
            f"in {spelt} of {len(lines)} lines colours are spelt out as text, such as '#033['",
            "let the collector send control characters as they are (rsyslog: "
            "$EscapeControlCharactersOnReceive off); patterns see through real ones only",
        )
    coloured = sum(b"\x1b[" in line for line in lines)
    repainted = sum(b"\r" in line.rstrip(b"\r\n") for line in lines)
    if coloured or repainted:
        yield Finding(
            "colours",
            Level.INFO,
            f"{coloured} lines with colours, {repainted} with repainted bars (CR): both are read",
        )
    broken = sum("\ufffd".encode() in line for line in lines)
    if broken:
        yield Finding(
            "encoding",
            Level.INFO,
            f"{broken} of {len(lines)} lines have the replacement character: bytes that were no "
            "UTF-8 were lost on the way",
        )
    if sum(b"\0" in line for line in lines):
        yield Finding(
            "encoding",
            Level.INFO,
            "there are NUL bytes, as a file that was truncated while it was written has",
        )


def _lengths(lines: Sequence[bytes], expected: Expected) -> Iterator[Finding]:
    lengths = Counter(len(line) for line in lines)
    longest = max(lengths, default=0)
    cut = lengths[longest]
    # A bar of one width is as long as its neighbours; what was cut ends in the midst of things.
    distinct = len({line for line in lines if len(line) == longest})
    if longest >= LEAST_CUT and (
        (longest in CUTS and cut > 1) or (distinct > 2 and longest >= 1000 and longest % 100 == 0)
    ):
        yield Finding(
            "length",
            Level.WARN,
            f"{cut} lines are exactly {longest} bytes long and none is longer: they were cut",
            "let the collector and the store take lines of 256 KB (Vector: max_line_bytes; "
            "VictoriaLogs: -insert.maxLineSizeBytes; Loki: max_line_size); Docker cuts at 16 KB",
        )
    elif longest > LONG:
        many = sum(count for length, count in lengths.items() if length > LONG)
        most = "Loki refuses more than 256 KB" if expected.source == "loki" else "most is 1 MB"
        yield Finding(
            "length",
            Level.INFO,
            f"{many} lines are longer than {LONG >> 10} KB, the longest has {longest} bytes; {most}",
        )
    else:
        yield Finding("length", Level.OK, f"the longest line has {longest} bytes; none was cut")


def _wrapped(lines: Sequence[bytes]) -> Iterator[Finding]:
    kinds = (
        (
            _WRAPPED,
            "are JSON with the line inside",
            "let the collector send the line itself (stage docker, or json with output; Vector: codec text)",
        ),
        (
            _CRI,
            "still have the container runtime's head (time, stdout, F)",
            "let the collector take it off (Alloy, Promtail: stage cri)",
        ),
        (
            _SYSLOG,
            "have a syslog head (time, host, program) before the line",
            "ship the job's file itself, or let the collector take the head off",
        ),
    )
    for shape, what, mend in kinds:
        many = sum(shape.match(line) is not None for line in lines)
        if many > len(lines) / 2:
            yield Finding("lines", Level.WARN, f"{many} of {len(lines)} lines {what}", mend)
            return


def patterns(
    sample: Sample, hits: Sequence[RawHit], known: Mapping[str, Pattern]
) -> Iterator[Finding]:
    """Which patterns spoke, progress above all."""
    found = Counter(hit.pattern_id for hit in hits if hit.pattern_id in known)
    total = len(sample.lines)
    progress = {i: n for i, n in found.items() if known[i].kind is PatternKind.PROGRESS}
    near = {i: n for i, n in found.items() if known[i].kind in _OF_PROGRESS}
    if progress:
        yield Finding("progress", Level.OK, f"progress lines are seen: {_counted(progress)}")
    else:
        few = total < FEW
        beside = f", though numbers are seen ({_counted(near)})" if near else ""
        yield Finding(
            "progress",
            Level.INFO if few else Level.WARN,
            f"no progress line in {total} lines{beside}"
            + (": too few to conclude anything" if few else ": a hang is told by silence alone"),
            "let jobs print the line of docs/progress-line.md, or give the pattern of theirs: in "
            "the job's comment, or the site's in watcher.patterns (docs/patterns.md)",
        )
    saves = {
        i: n
        for i, n in found.items()
        if known[i].kind in {PatternKind.CHECKPOINT_SAVED, PatternKind.CHECKPOINT_SAVING}
    }
    if saves:
        yield Finding("checkpoints", Level.OK, f"saves are seen: {_counted(saves)}")
    other = {i: n for i, n in found.items() if i not in progress and i not in saves}
    yield Finding(
        "patterns",
        Level.OK if found else Level.INFO,
        f"{len(found)} patterns match in {total} lines" + (f": {_counted(other)}" if other else ""),
    )


def _counted(found: Mapping[str, int]) -> str:
    most = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    more = f" and {len(most) - 5} more" if len(most) > 5 else ""
    return ", ".join(f"{name} ({number})" for name, number in most[:5]) + more
