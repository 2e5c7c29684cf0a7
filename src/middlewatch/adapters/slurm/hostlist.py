"""Node expressions such as ``rack[01-02]-gpu[1-8]``, expanded by Slurm itself and remembered.

Slurm's own command is asked, because its notation grows with its releases; but only for text
that can be one, since it answers nonsense for nonsense, with exit code 0.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict

from middlewatch.adapters.slurm.command import Commands
from middlewatch.adapters.slurm.words import NODE_NAME, NOTHING
from middlewatch.ports.errors import Unreachable, Unreadable

_PART = r"[A-Za-z0-9._-]*(?:\[[0-9,-]+\][A-Za-z0-9._-]*)*"
_EXPRESSION = re.compile(rf"{_PART}(?:[,\s]+{_PART})*")
_LONGEST_ARGUMENT = 100_000


class HostLists:
    """Expands node expressions. May be shared by threads; remembers the last ``size``."""

    def __init__(self, commands: Commands, deadline_s: float, size: int = 4096) -> None:
        self._commands = commands
        self._deadline_s = deadline_s
        self._size = size
        self._known: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        self._lock = threading.Lock()

    def expand(self, expression: str) -> tuple[str, ...]:
        """Single node names in order, each once.

        Raises `Unreadable` for what is no node expression, `Unreachable` where Slurm's command
        did not answer.
        """
        text = expression.strip()
        if text in NOTHING:
            return ()
        if "[" not in text:
            return _names(re.split(r"[,\s]+", text), text)
        with self._lock:
            if text in self._known:
                self._known.move_to_end(text)
                return self._known[text]
        nodes = self._ask(text)
        with self._lock:
            self._known[text] = nodes
            while len(self._known) > self._size:
                self._known.popitem(last=False)
        return nodes

    def _ask(self, text: str) -> tuple[str, ...]:
        if len(text) > _LONGEST_ARGUMENT or text[0] == "-" or not _EXPRESSION.fullmatch(text):
            raise Unreadable(f"{text[:120]!r} is no node expression")
        done = self._commands.run(("scontrol", "show", "hostnames", text), self._deadline_s)
        if done.exit_code is None:
            raise Unreachable(f"node expression {text[:120]!r}: {done.said}")
        if done.exit_code != 0:
            raise Unreadable(f"Slurm does not expand {text[:120]!r}: {done.said}")
        return _names(done.stdout.split("\n")[:-1], text)


def _names(parts: list[str], text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part for part in parts if part))
    for name in names:
        if NODE_NAME.fullmatch(name) is None:
            raise Unreadable(f"{name[:80]!r} in {text[:120]!r} is no node's name")
    return names
