"""Who sits where, gathered from the lines of a log that say so.

A live system asks the scheduler; whoever has only a file has only its banners, prefixes and tables.
Hosts are believed where a program, a launcher or the kernel puts its own host's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from middlewatch.attribution.places import Places
from middlewatch.detection.names import hosts as expanded
from middlewatch.detection.names import numbers
from middlewatch.wiring.analysis.dealt import dealt
from middlewatch.wiring.analysis.seats import Seats, seats_in

_HOST = r"[A-Za-z][A-Za-z0-9.-]{0,62}[A-Za-z0-9]|[A-Za-z]"
_NUMBERED = r"[A-Za-z][A-Za-z-]*[0-9][A-Za-z0-9.-]*"
_BANNERS = (
    re.compile(rf"\bon (?:\d+ )?nodes?:? ((?:(?:{_HOST})(?:[ ,]+|$|(?= ?[=(\[])))+)".encode()),
    re.compile(rb"(?:SLURM_(?:JOB_|STEP_)?NODELIST|[Nn]ode ?[Ll]ist|NODELIST|HOSTS|hosts)\s*[=:]\s*\[?['\"]?([\w.,\[\]-]+)"),
    re.compile(rf"\b(?:job|JOB)\b[^\n]*?(?:\bon|[|:,]) ((?:{_NUMBERED}|[a-z]+-[a-z0-9]+)(?:[ ,]+(?:{_NUMBERED}|[a-z]+-[a-z0-9]+))+)(?= ?\r?$| ?[=|(#,])".encode(), re.MULTILINE),
)  # fmt: skip
_MOST = 4096

_PAIRED = (
    # NCCL's prefix: host, process, thread, local device
    re.compile(rf"^(?:\d+: ?)?(?P<node>{_HOST}):\d+:\d+ \[(?P<device>\d+)\] ".encode(), re.MULTILINE),
    # torchrun's table
    re.compile(
        rf"^\W*host\s+: (?P<node>{_HOST})\s*\r?\n\W*rank\s+: (?P<rank>\d+) \(local_rank: (?P<local>\d+)\)".encode(),
        re.MULTILINE,
    ),
    re.compile(rf"\b[Rr]ank\W{{0,2}}(?P<rank>\d+)\W{{1,3}}(?:on )?(?:node|host(?:name)?)\W{{1,3}}(?P<node>{_HOST})\b".encode()),
    re.compile(rf"\b(?:node|host(?:name)?)\W{{1,3}}(?P<node>{_HOST})\W{{1,3}}[Rr]ank\W{{1,3}}(?P<rank>\d+)\b".encode()),
    re.compile(rf"^\d{{4}}-\d\d-\d\d[ T][\d:.,]+\s+(?P<node>{_HOST}):(?P<rank>\d+)\s".encode(), re.MULTILINE),
    re.compile(rf"\(rank (?P<rank>\d+) @ (?P<node>{_HOST})\)".encode()),
    # a name of the process behind syslog's host, then its rank
    re.compile(rf"^\w{{3}} [ \d]\d [\d:.]+ (?P<node>{_HOST}) [\w./-]+\[\d+\]: [<\[(](?:rank ?)?(?P<rank>\d+)[>\])](?:[^\n]*\bcuda:(?P<local>\d+))?".encode(), re.MULTILINE),
    re.compile(rf"(?:^|[\s(])(?P<node>{_NUMBERED})[ :,]{{1,2}}(?:global[_ ])?rank[=: ](?P<rank>\d+)\b(?! ?[-.,]\d)".encode(), re.MULTILINE),
    # Ray Train's table of its workers
    re.compile(rb"ip=(?P<node>[\d.]+), pid=\d+\) world_rank=(?P<rank>\d+), local_rank=(?P<local>\d+)"),
)  # fmt: skip
_RANGES = (
    re.compile(rf"\b(?P<node>{_HOST})[ =:,(]{{1,3}}ranks?[ =:]{{1,2}}(?P<low>\d+)(?:\.\.|-| to )(?P<high>\d+)\b".encode()),
    re.compile(rf"\branks?[ =:]{{1,2}}(?P<low>\d+)(?:\.\.|-| to )(?P<high>\d+)[ ,:)]{{1,2}}(?:on |@ ?|host=|node=|on host )(?P<node>{_HOST})\b".encode()),
)  # fmt: skip
"""A host and the ranks on it, from the first to the last."""
_JOB_MAP = re.compile(rf"Data for node: (?P<node>{_HOST})|\bProcess rank: (?P<rank>\d+)\b".encode())
_WORLD_INFO = re.compile(rb"WORLD INFO DICT: \{([^}\n]*)\}")
_WORLD_ENTRY = re.compile(rf"'(?P<node>{_HOST})': \[(?P<locals>[\d, ]*)\]".encode())
_PROCESS = re.compile(rb"ip=([\d.]+), pid=(\d+)\) world_rank=(\d+)")
_POD_TABLE = re.compile(
    rf"^(?P<alias>[a-z0-9][\w.-]*) +\d+/\d+ +\w+ +\d+ [^\n]*? \d{{1,3}}(?:\.\d{{1,3}}){{3}} +(?P<node>{_HOST}) ".encode(),
    re.MULTILINE,
)
_ROLES = ("master", "chief", "launcher", "head", "worker", "node", "replica")
_OF_ROLE = re.compile(rf"-({'|'.join(_ROLES)})-(\d+)$")
_INDEXED = re.compile(r"-(\d+)-[a-z0-9]{5}$")
_TASKS = re.compile(rb"srun: error: (?P<hosts>[\w.,\[\]-]+): tasks? (?P<ranks>[\d,-]+):")
_ALONE = (
    re.compile(rf"^\+ hostname(?: -\w)?\r?\n(?P<node>{_HOST})\r?$".encode(), re.MULTILINE),
    # the kernel's, the epilog's or a monitor's own prefix, with or without a date before it
    re.compile(
        rf"^(?:\w{{3}} [ \d]\d [\d:.]+ |[\dT:.+-]{{19,35}} )?(?P<node>{_HOST}) kernel: ".encode(),
        re.MULTILINE,
    ),
    re.compile(
        rf"^\[(?P<node>{_HOST})(?: (?:kernel|epilog|prolog|dmesg|journal|syslog)\]|\] (?:kernel|epilog|prolog|dmesg|journal|syslog):)".encode(),
        re.MULTILINE,
    ),
    re.compile(rf"\bON (?P<node>{_HOST}) (?:CANCELLED|FAILED)\b".encode()),
    re.compile(rf"^\[(?P<node>{_HOST}):\d+\] ".encode(), re.MULTILINE),
    re.compile(rf"^\W*host\s+: (?P<node>{_HOST})\s*$".encode(), re.MULTILINE),
)  # fmt: skip
_SAID = re.compile(rf"\b(?:host|node|hostname|nodename)[ =:]{{1,2}}(?P<node>{_HOST})\b".encode())
_ADDRESSED = re.compile(
    rf"\b(?P<node>{_HOST})[ =(/]{{1,2}}(?P<alias>\d{{1,3}}(?:\.\d{{1,3}}){{3}})\b".encode()
)
_ASSIGNED = re.compile(
    rf"Successfully assigned (?:[\w.-]+/)?(?P<alias>[\w.-]+) to (?P<node>{_HOST})\b".encode()
)
_MASTER = re.compile(rf"\b(?:master_addr|MASTER_ADDR)\W{{1,2}}(?P<node>{_HOST})\b".encode())
_LOCAL = re.compile(rb"\brank\W{1,4}(\d+)\W{1,3}\(?local_?rank\W{1,3}(\d+)")
_WORLD = re.compile(
    rb"(?i)\b(?:world[ _]size|nranks|dist_world_size|num_processes|worker_count|global world size)\W{1,3}(\d+)"
    rb"|MEMBER: \d+/(\d+)|Starting with (\d+) processes|global_world_sizes=\[(\d+)"
)
_PER_NODE = re.compile(
    rb"(?i)(?:\b|PET_)(?:nproc[_-]per[_-]node|num_local_procs|local[_ ]world[_ ]size|gpus[_-]per[_-]node|ntasks[_-]per[_-]node)\W{1,3}(\d+)"
)
_LAUNCHER = re.compile(
    rb"torch[./]distributed[./](?:run|elastic|launch)|torchrun|deepspeed[./]launcher|accelerate launch"
)
_DEVICE = re.compile(r"[A-Za-z]+[-_]?(\d{1,2})")
_NO_HOST = frozenset({"localhost", "rank", "file", "line", "none", "node", "host", "the", "error"})


def places_in(data: bytes, more: Iterable[str] = (), order: Sequence[str] = ()) -> Places:
    """What a log says of places. ``more`` are hosts named by evidence, ``order`` the nodes as a
    scheduler lists them."""
    listed = list(order) or _listed(data)
    seen = _Seen(dict.fromkeys(listed))
    for pattern in _PAIRED:
        for match in pattern.finditer(data):
            seen.pair(match.groupdict())
    for pattern in _RANGES:
        for match in pattern.finditer(data):
            seen.range(match.groupdict())
    seen.dealt(dealt(data))
    seen.job_map(data)
    seen.world_info(data)
    seen.tasks(data)
    for pattern in _ALONE:
        seen.names.update(dict.fromkeys(_hosts_of(pattern, data)))
    seen.names.update(dict.fromkeys(n for n in _hosts_of(_MASTER, data) if _like_a_host(n)))
    seen.names.update(dict.fromkeys(n for n in _hosts_of(_SAID, data) if _like_a_host(n)))
    seen.names.update(dict.fromkeys(more))
    for pattern in (_ADDRESSED, _ASSIGNED, _POD_TABLE):
        for match in pattern.finditer(data):
            seen.alias(match.groupdict())
    if not order:
        listed = seen.pods_in_order() or listed
    if b"/job:jax_worker/" in data:
        seen.pods_as_tasks()
        seen.one_each = True
    for ip, pid, rank in _PROCESS.findall(data):
        seen.processes.setdefault(f"{ip.decode()}/{pid.decode()}", int(rank[:7]))
    for match in _LOCAL.finditer(data):
        seen.locals.setdefault(int(match.group(1)[:7]), int(match.group(2)[:7]))
    world = _most(_WORLD, data)
    if world is None and seen.tables and len(seen.pairs) == max(seen.pairs) + 1:
        world = len(seen.pairs)
    seen.drop_devices()
    seats = seats_in(data, seen.known(), world)
    seen.seated(seats)
    return seen.places(listed, world, _most(_PER_NODE, data), seats)


@dataclass(slots=True)
class _Seen:
    """What has been gathered so far."""

    names: dict[str, None]
    pairs: dict[int, str] = field(default_factory=dict)
    locals: dict[int, int] = field(default_factory=dict)
    devices: set[int] = field(default_factory=set)
    launchers: bool = False
    aliases: dict[str, str] = field(default_factory=dict)
    processes: dict[str, int] = field(default_factory=dict)
    one_each: bool = False
    """Programs in JAX run one process on each node, for all of its devices."""
    tables: bool = False
    """A launcher's table of all ranks was seen."""

    def range(self, groups: Mapping[str, bytes]) -> None:
        """A line that names a host, and the first and the last rank on it."""
        node = _name(groups["node"])
        if node is None or not _like_a_host(node) or max(map(len, groups.values())) > 63:
            return
        low, high = int(groups["low"][:7]), int(groups["high"][:7])
        if low <= high < low + 64:
            self.names[node] = None
            self.tables = True
            for rank in range(low, high + 1):
                self.pairs.setdefault(rank, node)
                self.locals.setdefault(rank, rank - low)

    def dealt(self, hosts: Sequence[tuple[str, int]]) -> None:
        """A list of all hosts with the ranks of each."""
        rank = 0
        for node, count in hosts:
            self.names[node] = None
            self.tables = True
            for local in range(count):
                self.pairs.setdefault(rank, node)
                self.locals.setdefault(rank, local)
                rank += 1

    def job_map(self, data: bytes) -> None:
        """mpirun's map of the job: hosts, and the processes on each."""
        node: str | None = None
        first = 0
        for match in _JOB_MAP.finditer(data):
            if match.group("node"):
                node, first = _name(match.group("node")), -1
            elif node is not None and len(match.group("rank")) < 8:
                rank = int(match.group("rank"))
                first = rank if first < 0 else first
                self.names[node] = None
                self.tables = True
                self.pairs.setdefault(rank, node)
                self.locals.setdefault(rank, rank - first)

    def world_info(self, data: bytes) -> None:
        """DeepSpeed's launcher: hosts in the order of their ranks, and the devices of each."""
        match = _WORLD_INFO.search(data)
        rank = 0
        for entry in _WORLD_ENTRY.finditer(match.group(1)) if match else ():
            node = _name(entry.group("node"))
            if node is None:
                return
            self.names[node] = None
            self.tables = True
            for local in numbers(entry.group("locals").decode("latin-1").replace(" ", "")):
                self.pairs.setdefault(rank, node)
                self.locals.setdefault(rank, local)
                rank += 1

    def pods_in_order(self) -> list[str]:
        """The nodes in the order of the pods' roles and numbers, where all pods have one."""
        found: list[tuple[int, int, str]] = []
        for alias, node in self.aliases.items():
            role = _OF_ROLE.search(alias)
            if role is not None and len(role.group(2)) < 7:
                found.append((_ROLES.index(role.group(1)), int(role.group(2)), node))
        return list(dict.fromkeys(node for _, _, node in sorted(found)))

    def pods_as_tasks(self) -> None:
        """Processes are numbered as the pods of their job are."""
        for alias, node in self.aliases.items():
            index = _INDEXED.search(alias)
            if index is not None and len(index.group(1)) < 7:
                self.pairs.setdefault(int(index.group(1)), node)

    def pair(self, groups: Mapping[str, bytes | None]) -> None:
        """A line that names a host, and a rank or a device on it."""
        node = _name(groups.get("node"))
        if node is None or not _like_a_host(node):
            return
        self.names[node] = None
        rank, local, device = groups.get("rank"), groups.get("local"), groups.get("device")
        if device:
            self.devices.add(int(device))
        if rank and len(rank) < 8:
            self.pairs.setdefault(int(rank), node)
            if local:
                self.locals.setdefault(int(rank), int(local))

    def alias(self, groups: Mapping[str, bytes]) -> None:
        """A node and another name of it: an address, a pod."""
        node = _name(groups["node"])
        if node is None or not _like_a_host(node) or len(self.aliases) >= _MOST:
            return
        if b"." in groups["alias"] and node not in self.names and "-" not in node:
            return  # any word may stand before an address
        self.names[node] = None
        self.aliases.setdefault(groups["alias"].decode("latin-1"), node)

    def tasks(self, data: bytes) -> None:
        """srun's reports: hosts with their tasks, which are ranks if there are several on one."""
        told: list[tuple[tuple[str, ...], tuple[int, ...]]] = []
        for match in _TASKS.finditer(data):
            hosts = expanded(match.group("hosts").decode("latin-1"))
            self.names.update(dict.fromkeys(hosts))
            told.append((hosts, numbers(match.group("ranks").decode("latin-1"))))
        if _one_task_each(told) and _LAUNCHER.search(data) is not None:
            self.launchers = True
            return
        for hosts, ranks in told:
            if len(hosts) == 1:
                for rank in ranks:
                    self.pairs.setdefault(rank, hosts[0])

    def drop_devices(self) -> None:
        """Names that count with the ranks on every node are devices and no hosts."""
        named = {rank: m for rank, n in self.pairs.items() if (m := _DEVICE.fullmatch(n))}
        if len(named) < 4:
            return
        per = len({m.group() for m in named.values()})
        if per < len(named) and all(int(m.group(1)) == rank % per for rank, m in named.items()):
            for rank, match in named.items():
                self.names.pop(match.group(), None)
                del self.pairs[rank]
                self.locals.setdefault(rank, int(match.group(1)))

    def known(self) -> dict[str, str]:
        """Every name of a host so far, and the host that it means."""
        return {**{name: self.aliases.get(name, name) for name in self.names}, **self.aliases}

    def seated(self, seats: Seats) -> None:
        """What the log's own forms tell, where nothing else has told it."""
        for rank, node in seats.pairs.items():
            self.pairs.setdefault(rank, node)
        for rank, local in seats.locals.items():
            self.locals.setdefault(rank, local)
        self.names.update(dict.fromkeys(seats.pairs.values()))
        self.tables = self.tables or (bool(seats.pairs) and len(seats.pairs) > max(seats.pairs))

    def places(
        self, listed: Sequence[str], world: int | None, per_node: int | None, seats: Seats
    ) -> Places:
        """All of it, and what follows from it. A table may have addresses where another line tells
        whose they are."""
        self.pairs = {rank: self.aliases.get(node, node) for rank, node in self.pairs.items()}
        listed = list(dict.fromkeys(self.aliases.get(node, node) for node in listed))
        names = _joined(dict.fromkeys(self.aliases.get(node, node) for node in self.names))
        if world is None and self.tables and len(self.pairs) == max(self.pairs) + 1:
            world = len(self.pairs)
        nodes = tuple(n for n in listed if n in names) or tuple(sorted(names))
        ordered = bool(listed) or len(nodes) == 1 or _sorted_fits(nodes, self.pairs, world)
        per_node = (
            _by_offsets(listed, self.pairs, self.locals)
            or per_node
            or _rounded(self.devices)
            or (1 if self.one_each and len(listed) > 1 else None)
        )
        fits = _fitting(nodes, self.pairs)
        if len(fits) == 1 and len(set(self.pairs.values())) > 1 and not (per_node and world):
            per_node, ordered = fits[0], True
        if not listed and not ordered:
            nodes = tuple(names)
        return Places(
            nodes=nodes[:_MOST],
            ordered=ordered,
            pairs=tuple(self.pairs.items())[:_MOST],
            locals=tuple(self.locals.items())[:_MOST],
            world=world,
            per_node=per_node,
            launchers=self.launchers,
            aliases=tuple(self.aliases.items()),
            processes=tuple(self.processes.items())[:_MOST],
            pids=tuple(seats.processes.items())[:_MOST],
            buses=tuple(seats.buses.items())[:_MOST],
            heads=seats.heads,
            absent=seats.absent,
        )


def _hosts_of(pattern: re.Pattern[bytes], data: bytes) -> Iterator[str]:
    for match in pattern.finditer(data):
        node = _name(match.group("node"))
        if node is not None:
            yield node


def _listed(data: bytes) -> list[str]:
    for pattern in _BANNERS:
        last = None
        for match in pattern.finditer(data):
            last = match
        if last is not None:
            text = last.group(1).decode("latin-1")
            names = [n for part in text.split() for n in expanded(part)]
            kept = [n for n in names if n.lower() not in _NO_HOST]
            if kept:
                return list(dict.fromkeys(kept))[:_MOST]
    return []


def _name(raw: bytes | None) -> str | None:
    if not raw:
        return None
    name = raw.decode("latin-1")
    return None if name.lower() in _NO_HOST else name


def _like_a_host(name: str) -> bool:
    """Names of nodes are numbered or have parts; a word that follows "node" has neither."""
    return any(c.isdigit() or c in "-." for c in name)


def _most(pattern: re.Pattern[bytes], data: bytes) -> int | None:
    found = [
        int(group)
        for match in pattern.finditer(data)
        for group in match.groups()
        if group and len(group) < 7
    ]
    return max(found, default=None) or None


def _joined(seen: Iterable[str]) -> dict[str, None]:
    """Hosts without the long forms of those that are there in short."""
    names = dict.fromkeys(seen)
    short = {name for name in names if "." not in name}
    return dict.fromkeys(n for n in names if "." not in n or n.partition(".")[0] not in short)


def _one_task_each(tasks: Sequence[tuple[tuple[str, ...], tuple[int, ...]]]) -> bool:
    by_node: dict[str, set[int]] = {}
    for named, ranks in tasks:
        for node in named:
            by_node.setdefault(node, set()).update(ranks)
    return bool(by_node) and all(len(ranks) == 1 for ranks in by_node.values())


def _rounded(devices: set[int]) -> int | None:
    """GPUs come in powers of two: of those that speak, one or two may be missing."""
    if len(devices) < 2:
        return None
    return 1 << max(devices).bit_length()


def _by_offsets(
    listed: Sequence[str], pairs: dict[int, str], locals_: dict[int, int]
) -> int | None:
    """Ranks on one node, from lines that give a rank, its local rank and its host."""
    found = set()
    for rank, node in pairs.items():
        local = locals_.get(rank)
        if local is None or node not in listed:
            continue
        index = listed.index(node)
        if index and (rank - local) % index == 0:
            found.add((rank - local) // index)
    return next(iter(found)) if len(found) == 1 else None


def _fitting(nodes: Sequence[str], pairs: dict[int, str]) -> list[int]:
    """The numbers of ranks on one node with which the order of the nodes explains every pair."""
    return [
        per
        for per in (1, 2, 4, 8, 16)
        if all(
            rank // per < len(nodes) and nodes[rank // per] == node for rank, node in pairs.items()
        )
    ]


def _sorted_fits(nodes: Sequence[str], pairs: dict[int, str], world: int | None) -> bool:
    """Whether the hosts in the order of their names explain every pair that is told."""
    if not pairs or not world or len(set(pairs.values())) < 2 or world % len(nodes):
        return False
    per = world // len(nodes)
    return all(rank // per < len(nodes) and nodes[rank // per] == n for rank, n in pairs.items())
