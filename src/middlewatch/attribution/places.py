"""Which rank runs on which node, as far as anybody has said.

A log names places in many ways: one line ties a rank to a host, another lists the hosts in the
order in which ranks were dealt out, a third only says how many ranks there are. What single lines
tie together is known; what follows from the order of the hosts is believed where no line
contradicts it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_PROCESS = (
    re.compile(r"Worker IP address: (?P<ip>[\d.]+)\b.{0,80}?\bWorker PID: (?P<pid>\d+)"),
    re.compile(r"ray::.{1,200}?\((?:\w+=\S+, )?pid=(?P<pid>\d+), ip=(?P<ip>[\d.]+)"),
    re.compile(r"^\([A-Za-z][\w:.()]* pid=(?P<pid>\d+)(?:, ip=(?P<ip>[\d.]+))?"),
)
"""How Ray names a process: the one that a line is about goes before the one that wrote it."""
_ADDRESS = re.compile(r"(?:\bip=|\bIP: |\bIP address: )(\d{1,3}(?:\.\d{1,3}){3})\b")

_BEGINS = re.compile(
    r"[\[(<]?(?:pod/|node=|host=)?(?:(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} [ \d]\d [\d:.]+ |[\dT:.,+Z-]{8,40} )?"
    r"[\[(<]?(?:pod/|node=|host=)?([A-Za-z][\w.-]*)"
)
_KERNEL_PID = re.compile(r"\b[Xx]id\b.{0,80}?\bpid='?(\d+)")
_KERNEL_BUS = re.compile(r"\bPCI:[0-9a-fA-F]{4,8}:([0-9a-fA-F]{2}):")

LARGEST_NODE = 16
"""GPUs of the largest usual node: more ranks than this sit on several."""


@dataclass(frozen=True, slots=True)
class Places:
    """``nodes`` in the order of their ranks where ``ordered``; ``pairs`` rank and node from single
    lines; ``locals`` rank and local rank; ``world`` all ranks, ``per_node`` those of one node."""

    nodes: tuple[str, ...] = ()
    ordered: bool = False
    pairs: tuple[tuple[int, str], ...] = ()
    locals: tuple[tuple[int, int], ...] = ()
    world: int | None = None
    per_node: int | None = None
    aliases: tuple[tuple[str, str], ...] = ()
    """Other names of nodes: their addresses, and the pods that run on them."""
    processes: tuple[tuple[str, int], ...] = ()
    """Ray's processes, ``address/pid``, and their ranks."""
    launchers: bool = False
    """A scheduler's tasks are launchers, one on each node: their numbers are no ranks."""

    pids: tuple[tuple[str, int], ...] = ()
    """``host/pid`` and the rank of that process; the host is empty where nobody tells it."""
    buses: tuple[tuple[str, int], ...] = ()
    """``host/bus``, the PCI bus in two hexadecimal digits, and the rank that works with its GPU."""
    heads: tuple[str, ...] = ()
    """Patterns of how lines begin that tell the rank of their writer (group ``rank``)."""
    absent: int | None = None
    """The one rank that did not say what all the others said, or once less often."""

    def per(self) -> int | None:
        """Ranks on one node, told or reckoned."""
        if self.world and self.nodes and self.ordered and self.world % len(self.nodes) == 0:
            even = self.world // len(self.nodes)
            if even <= LARGEST_NODE:
                return even
        if self.world and self.alone():
            return self.world
        return self.per_node

    def alone(self) -> bool:
        """Whether there is but one node: one is named, and all ranks fit on it."""
        if len(self.nodes) != 1:
            return False
        most = max((rank for rank, _ in self.pairs), default=0)
        return max(most + 1, self.world or 0) <= LARGEST_NODE

    def node_of(self, rank: int) -> str | None:
        """The node of a rank, or None where that is not known."""
        told = {node for other, node in self.pairs if other == rank}
        if told:
            return next(iter(told)) if len(told) == 1 else None
        per = self.per()
        if self.alone():
            return self.nodes[0] if rank < LARGEST_NODE else None
        if not self.dealt_in_order() or not per:
            return self._neighbour(rank, per)
        index = rank // per
        return self.nodes[index] if index < len(self.nodes) else None

    def _neighbour(self, rank: int, per: int | None) -> str | None:
        """The node of another rank that can only sit on the same one."""
        if not per:
            return None
        near = {node for other, node in self.pairs if other // per == rank // per}
        return next(iter(near)) if len(near) == 1 else None

    def dealt_in_order(self) -> bool:
        """Whether ranks follow the order of the nodes: said so, and contradicted by no line."""
        per = self.per()
        if not per or not self.ordered or not self.nodes:
            return False
        return all(
            rank // per < len(self.nodes) and self.nodes[rank // per] == node
            for rank, node in self.pairs
        )

    def local_of(self, rank: int) -> int | None:
        """The local rank of a rank, or None."""
        told = {local for other, local in self.locals if other == rank}
        if told:
            return next(iter(told)) if len(told) == 1 else None
        if self.alone() and all(local == other for other, local in self.locals):
            return rank if rank < LARGEST_NODE else None
        per = self.per()
        return rank % per if per else self._in_block(rank)

    def _in_block(self, rank: int) -> int | None:
        """The local rank where all ranks are placed, and those of each node follow each other."""
        if not self.world or len(self.pairs) != self.world:
            return None
        node = self.node_of(rank)
        here = sorted(other for other, where in self.pairs if where == node)
        together = bool(here) and here[-1] - here[0] + 1 == len(here) <= LARGEST_NODE
        return rank - here[0] if together and rank in here else None

    def node_told(self, text: str) -> str | None:
        """The node whose other name stands in a text; None where none does, or several."""
        found = {
            node
            for alias, node in self.aliases
            if re.search(rf"(?<![\w.-]){re.escape(alias)}(?![\w-]|\.\w)", text)
        }
        return next(iter(found)) if len(found) == 1 else None

    def rank_at_head(self, text: str) -> int | None:
        """The rank of a line's writer, as the log's own heads tell it."""
        for head in self.heads:
            match = re.match(head, text)
            if match is not None and (self.world is None or int(match.group("rank")) < self.world):
                return int(match.group("rank"))
        return None

    def node_at_head(self, text: str) -> str | None:
        """The node of the job that a line begins with, behind times and brackets."""
        match = _BEGINS.match(text[:120])
        name = "" if match is None else match.group(1).rstrip(".-")
        return name if name in self.nodes else dict(self.aliases).get(name)

    def rank_in_kernel(self, text: str, node: str | None) -> int | None:
        """The rank whose process, or whose GPU, a kernel's line on ``node`` names."""
        for pattern, told in ((_KERNEL_PID, self.pids), (_KERNEL_BUS, self.buses)):
            match = pattern.search(text[:2000])
            if match is None or not told:
                continue
            place = match.group(1).lower()
            found = {
                rank
                for key, rank in told
                if key in {f"{node or ''}/{place}", f"/{place}"}
                and (node is None or self.node_of(rank) in {None, node})
            }
            if len(found) == 1:
                return found.pop()
        return None

    def rank_of_process(self, text: str) -> int | None:
        """The rank of the process that a line of Ray's is about, or that it comes from:
        ``(Name pid=7, ip=10.0.0.9) ``."""
        if not self.processes:
            return None
        match = next((m for one in _PROCESS if (m := one.search(text[:2000])) is not None), None)
        if match is None:
            return None
        pid, ip = match.group("pid"), match.group("ip")
        found = {
            rank
            for process, rank in self.processes
            if process == f"{ip}/{pid}" or (ip is None and process.endswith(f"/{pid}"))
        }
        return next(iter(found)) if len(found) == 1 else None

    def address_told(self, text: str) -> str | None:
        """The node that Ray names by its address, which is its only name where nobody tells
        another; None where a line names none, or several."""
        told = {dict(self.aliases).get(ip, ip) for ip in _ADDRESS.findall(text[:2000])}
        return told.pop() if len(told) == 1 else None

    def rank_at(self, node: str, local: int) -> int | None:
        """The rank with that local rank on that node, or None."""
        found = {
            rank
            for rank, where in self.pairs
            if where == node and dict(self.locals).get(rank) == local
        }
        if len(found) == 1:
            return next(iter(found))
        if self.alone() and self.nodes[0] == node:
            return local
        per = self.per()
        if not per or local >= per:
            return None
        if self.dealt_in_order() and node in self.nodes:
            return self.nodes.index(node) * per + local
        bases = {rank - rank % per for rank, where in self.pairs if where == node}
        return next(iter(bases)) + local if len(bases) == 1 else None
