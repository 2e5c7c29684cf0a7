"""Who sits where, learnt from how a log itself writes it.

Programs tell rank, host, device and process in forms that nobody can list: ``n1/gpu3 | init |
global rank 07, pid 51``, ``node=n1 rank=7``, ``[r7]``. But whatever the form is, many lines share
it, and its slots behave: one takes the numbers of the ranks, another the hosts, and no rank comes
with two hosts. So lines are grouped by what is left of them without their numbers and hosts, and a
group whose slots behave is believed, the larger one before the smaller.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from middlewatch.attribution.places import LARGEST_NODE

_RANK = re.compile(
    r"(?i)(?<![\w-])(?<!local )(?<!node )(?<!group )(?<![tpdce]p )"
    r"(?:global[ _-]?|(?:\w{1,24}_)?world[ _-]?)?rank[\"']?\]?[=: #\[(]{0,3}(?P<rank>\d{1,6})(?!\d|[.-]\d|, ?\d)"
)
_OF_MPI = re.compile(r"^\[\d+,(?P<rank>\d{1,6})\]<std")
_OF_A_FILE = re.compile(
    r"(?:zero_pp|zero_dp|(?<![a-z])dp)_rank_(?P<zero>\d{1,6})_mp_rank_\d+"
    r"|[/_.-]rank[_-]?(?P<part>\d{1,6})(?=[._])|/__(?P<shard>\d{1,6})_0\.distcp"
)
"""Files of one rank: DeepSpeed's, distributed checkpoints', and those named by it."""
_LOCAL = re.compile(
    r"(?i)(?:\blocal(?:[ _-]?rank)?[=: ]{1,2}|\bgpu[=: ]?|\bcuda:|\bCUDA_VISIBLE_DEVICES=)(\d{1,2})(?![\d,.])"
)
_PID = re.compile(r"(?i)\bpid[=: ]{1,2}(\d{2,8})\b|rank\d+\[(\d{2,8})\]")
_BUS = re.compile(r"\bbusId ([0-9a-f]{4,12})\b")
_TOKEN = re.compile(r"[A-Za-z0-9][\w.-]*")
_SHAPE = re.compile(r"[A-Za-z][A-Za-z-]*[A-Za-z-]?\d[\w.-]*|[a-z]+-[a-z0-9.-]+")
_NO_HOST = re.compile(
    r"(?i)(?:cuda|rank|rk?|local|worker|proc|process|step|epoch|iter|thread|task|layer|block|stage|bucket|it|device|dev|info|e|w|i)[-_]?\d+|(?i:gpu)[-_]?\d"
)
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+")
_HEAD = re.compile(r"(?<=[\[(<{|r])(\d{1,6})(?= ?[\])>}|])|^ {0,3}(\d{1,6})(?=: ?\D|> | ?\|)")
_LEVEL = re.compile(r"[A-Z]{4,8}")
_T = TypeVar("_T")
_MOST_LINES = 20_000
_USUAL = 200
"""Bytes of a usual line."""
_FEWEST = 4
_LONGEST = 400


@dataclass(frozen=True, slots=True)
class Seats:
    """``pairs`` rank and host, ``locals`` rank and its number on the host, ``processes`` rank of
    ``host/pid``, ``buses`` rank of ``host/bus`` (PCI, two hexadecimal digits), ``heads`` how lines
    begin that tell their writer's rank, ``absent`` the one rank that did not say what all others
    said, or not as often; None where there is none, or not one only."""

    pairs: dict[int, str] = field(default_factory=dict)
    locals: dict[int, int] = field(default_factory=dict)
    processes: dict[str, int] = field(default_factory=dict)
    buses: dict[str, int] = field(default_factory=dict)
    heads: tuple[str, ...] = ()
    absent: int | None = None


@dataclass(slots=True)
class _Form:
    """Lines that differ in numbers and hosts only."""

    hosts: dict[int, set[str]] = field(default_factory=dict)
    locals: dict[int, set[int]] = field(default_factory=dict)
    pids: dict[int, set[str]] = field(default_factory=dict)
    buses: dict[int, set[str]] = field(default_factory=dict)


def seats_in(data: bytes, hosts: Mapping[str, str], world: int | None) -> Seats:
    """What the forms of the lines of ``data`` tell. ``hosts`` are the names that are known already
    (a pod's, an address) and the hosts that they mean; ``world`` the number of ranks, if known."""
    forms: dict[str, _Form] = {}
    whole: dict[str, Counter[int]] = {}
    known = {name.lower(): host for name, host in hosts.items()}
    for line in _lines(data, b"ank", b"ANK", b"]<std", b".distcp"):
        _take(line, known, forms, whole)
    seats = Seats(
        heads=_heads(_lines(data), world),
        absent=_absent(whole.values(), world, counted=_all_read(data)),
    )
    for form in sorted(forms.values(), key=lambda one: -len(one.hosts)):
        _believe(form, seats)
    return seats


def _lines(data: bytes, *words: bytes) -> Iterator[str]:
    """Lines with one of the words, the first and the last ones of a long log."""
    half = _MOST_LINES * _USUAL
    parts = (data,) if len(data) <= 2 * half else (data[:half], data[len(data) - half :])
    for part in parts:
        for line in part.splitlines()[:_MOST_LINES]:
            if not words or any(word in line for word in words):
                yield line[:_LONGEST].decode("latin-1")


def _all_read(data: bytes) -> bool:
    return len(data) <= 2 * _MOST_LINES * _USUAL and data.count(b"\n") < _MOST_LINES


def _take(
    line: str, known: dict[str, str], forms: dict[str, _Form], whole: dict[str, Counter[int]]
) -> None:
    found = [*_OF_MPI.finditer(line), *_RANK.finditer(line)]
    ranks = {int(m.group("rank")) for m in found}
    if not ranks:
        found = list(_OF_A_FILE.finditer(line))
        ranks = {int(next(g for g in m.groups() if g)) for m in found}
    if len(ranks) != 1:
        return
    rank = ranks.pop()
    named = _hosts_in(line, known)
    masked = line
    end = found[-1].end()
    for name in named:
        end = max(end, line.index(name) + len(name))
    begin = line[:end]
    for name in sorted(named, key=len, reverse=True):
        masked, begin = masked.replace(name, "\x01"), begin.replace(name, "\x01")
    key = _NUMBERS.sub("#", masked)[:160]
    if len(whole) < _MOST_LINES or key in whole:
        whole.setdefault(key, Counter())[rank] += 1
    rest = _NUMBERS.sub("#", begin)
    if len(forms) >= _MOST_LINES and rest not in forms:
        return
    form = forms.setdefault(rest, _Form())
    if named:
        form.hosts.setdefault(rank, set()).update(named.values())
    for into, pattern in ((form.locals, _LOCAL), (form.pids, _PID), (form.buses, _BUS)):
        told = {next(g for g in m.groups() if g) for m in pattern.finditer(line)}
        if len(told) == 1:
            value = told.pop()
            if into is form.locals:
                form.locals.setdefault(rank, set()).add(int(value))
            elif into is form.pids:
                form.pids.setdefault(rank, set()).add(value)
            else:
                form.buses.setdefault(rank, set()).add(f"{int(value, 16) >> 12 & 0xFF:02x}")


def _hosts_in(line: str, known: dict[str, str]) -> dict[str, str]:
    """The names of one host in a line, and the host: known ones, or what stands at the line's head
    like one. Empty where there is none, or several hosts are named."""
    tokens = list(_TOKEN.finditer(line))[:60]
    names = {name for t in tokens if (name := t.group().rstrip(".-")).lower() in known}
    if names:
        told = {name: known[name.lower()] for name in names}
        return told if len(set(told.values())) == 1 else {}
    if tokens and tokens[0].group().isdigit():
        tokens = tokens[1:]  # the number of srun --label
    first = tokens[0].group().rstrip(".-") if tokens and tokens[0].start() <= 8 else ""
    like = _SHAPE.fullmatch(first) is not None and _NO_HOST.fullmatch(first) is None
    return {first: first} if like else {}


def _believe(form: _Form, seats: Seats) -> None:
    """Take over what a form tells, where its slots behave and no larger form contradicts it."""
    hosts = _single(form.hosts)
    if hosts is not None and _fits_hosts(hosts) and _agrees(hosts, seats.pairs):
        seats.pairs.update(hosts)
    locals_ = _single(form.locals)
    if (
        locals_ is not None
        and _fits_locals(locals_, seats.pairs)
        and _agrees(locals_, seats.locals)
    ):
        seats.locals.update(locals_)
    for told, into in ((form.pids, seats.processes), (form.buses, seats.buses)):
        values = _single(told)
        if values is None or len(values) < _FEWEST:
            continue
        placed = {f"{seats.pairs.get(rank, '')}/{value}": rank for rank, value in values.items()}
        if len(placed) == len(values):
            into.update({k: v for k, v in placed.items() if k not in into})


def _single(told: dict[int, set[_T]]) -> dict[int, _T] | None:
    """Rank and the one thing that comes with it; None where a rank comes with two."""
    if not told or any(len(values) != 1 for values in told.values()):
        return None
    return {rank: next(iter(values)) for rank, values in told.items()}


def _agrees(told: dict[int, _T], believed: dict[int, _T]) -> bool:
    return all(believed.get(rank, value) == value for rank, value in told.items())


def _fits_hosts(hosts: dict[int, str]) -> bool:
    names = list(hosts.values())
    several = len(set(names)) > 1 and len(hosts) >= _FEWEST
    return several and all(names.count(name) <= LARGEST_NODE for name in set(names))


def _fits_locals(locals_: dict[int, int], pairs: dict[int, str]) -> bool:
    """Numbers on a node begin with 0, and no two ranks of one node share one."""
    if len(locals_) < _FEWEST or len(set(locals_.values())) < 2 or min(locals_.values()) != 0:
        return False
    if max(locals_.values()) >= LARGEST_NODE or not pairs:
        return False
    placed = [(pairs[rank], local) for rank, local in locals_.items() if rank in pairs]
    return len(placed) == len(set(placed)) and bool(placed)


def _absent(told: Iterable[Counter[int]], world: int | None, *, counted: bool) -> int | None:
    """The one rank that never said what all the others did, or, where every line was read, said it
    once less often than each of them."""
    if not world or world < _FEWEST:
        return None
    missing: set[int] = set()
    for ranks in told:
        if not world - 1 <= len(ranks) <= world or max(ranks) >= world:
            continue
        times = ranks[0 if ranks[0] >= ranks[1] else 1]
        fewer = [rank for rank in range(world) if ranks[rank] != times]
        if len(ranks) == world - 1:
            missing.add(next(rank for rank in range(world) if rank not in ranks))
        elif counted and len(fewer) == 1 and ranks[fewer[0]] == times - 1:
            missing.add(fewer[0])
    return missing.pop() if len(missing) == 1 else None


def _heads(lines: Iterable[str], world: int | None) -> tuple[str, ...]:
    """Patterns of the beginnings of lines in which a number takes the ranks' values."""
    if not world or world < _FEWEST:
        return ()
    seen: dict[tuple[str, str], set[int]] = {}
    for line in lines:
        head = line[:64]
        for match in _HEAD.finditer(head):
            slot = match.lastindex or 1
            before = _LEVEL.sub("\x02", _NUMBERS.sub("#", head[: match.start(slot)]))
            key = before, line[match.end() : match.end() + 1]
            if key in seen or len(seen) < _MOST_LINES:
                seen.setdefault(key, set()).add(int(match.group(slot)))
    return tuple(
        re.escape(before).replace(r"\#", r"\d+").replace("#", r"\d+").replace("\x02", "[A-Z]{4,8}")
        + r"(?P<rank>\d{1,6})"
        + re.escape(after)
        for (before, after), values in seen.items()
        if max(values) < world and len(values) >= _FEWEST and 2 * len(values) >= world
    )[:8]
