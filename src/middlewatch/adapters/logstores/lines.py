"""What every log store can be asked, whatever its language: a page of lines, and their number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from middlewatch.adapters.logstores.place import Place


class Writer(NamedTuple):
    """Who wrote a line, as its labels say: a node and a file there. Within one of them lines come
    mostly in their order; between two of them no order can be expected."""

    node: str
    file: str


class Line(NamedTuple):
    """One entry of a store. ``at`` is its time in nanoseconds since the epoch; ``text`` its bytes
    as they were written, as far as the store has kept them."""

    at: int
    writer: Writer
    text: bytes


@dataclass(frozen=True, slots=True)
class Page:
    """``lines`` in the order of their times; ``full``: it was cut, more may lie behind the last."""

    lines: Sequence[Line]
    full: bool


@dataclass(frozen=True, slots=True)
class Pages:
    """``lines`` of each job that has any, in the order of their times; ``full``: the answer was cut,
    and it is not known of whom there is more."""

    lines: Mapping[str, list[Line]]
    full: bool


class LineStore(Protocol):
    """One server. All questions raise `Unreachable` (away, overloaded), `Refused` (not let in) or
    `Unreadable` (an answer that is none), with a sentence for the site's administrator."""

    @property
    def name(self) -> str:
        """The scheme of its places: ``victorialogs`` or ``loki``."""

    @property
    def most(self) -> int:
        """How many lines one page can have at most."""

    def close(self) -> None:
        """Close what connections there are."""

    def page(self, place: Place, since: int, limit: int, writer: Writer | None = None) -> Page:
        """The oldest ``limit`` lines of a place from ``since`` on, of one writer or of all."""

    def counts(self, place: Place, since: int) -> Mapping[Writer, int]:
        """How many lines of each writer there are in a place from ``since`` on."""

    def pages(self, jobs: Sequence[str], since: int, limit: int) -> Pages:
        """The lines of several jobs (ids of letters, digits and ``_`` alone) from ``since`` on, at
        most about ``limit`` of them together."""

    def counts_of(
        self, jobs: Sequence[str], since: int, until: int
    ) -> Mapping[str, Mapping[Writer, int]] | None:
        """How many lines of each writer of several jobs there are in [``since``, ``until``), both of
        them whole seconds; None where there are more writers than the server would tell."""

    def others(
        self, job: str, nodes: Sequence[str] | None, since: int, until: int, enough: int
    ) -> int:
        """How many lines there are in [``since``, ``until``) that are not the job's, ``enough`` of
        them at most; of these nodes (labels as writers have them), or of all."""
