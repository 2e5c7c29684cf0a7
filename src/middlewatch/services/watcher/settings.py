"""How much the watcher does in one tick, and how often it asks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WatcherSettings:
    """Bytes and seconds. ``bytes_per_tick`` bounds what is read in one tick over all jobs,
    ``block`` what is read of one file in a turn; a backlog is caught up in later ticks. A line that
    matches a pattern counts as ``bytes_per_hit``, for that is what it costs; where a turn brought
    more than ``hits_per_turn`` of them, or took longer than ``seconds_per_turn``, the next one
    reads less, and an attempt's first turn reads
    ``first_block``, because nobody knows yet what its file is full of. Reading and searching end
    after ``seconds_per_tick``; whoever had to wait comes first in the next tick. When everybody has
    had a turn, those who are still behind get further ones until ``catch_up_s``, so that a backlog
    does not make the others wait.

    Signals wait no longer than ``write_after_s`` of work for those that are written with them. Of
    states in which only the place in a log is new, ``states_per_tick`` are written in one tick.

    ``comment_every_s``: how often the comment of a watched job is read again while it lives;
    ``others_per_tick``: how many jobs that are not opted in are asked again in one tick, each at
    most every ``others_every_s``; ``again_per_tick`` how many that are. ``details_per_tick``
    bounds all such questions together, ``unhurried_per_tick`` those about jobs that wait or ended
    long ago, of which a cluster can have thousands. A scheduler that answers quickly is asked about
    more jobs that are new, ``quick_per_tick`` at most, until its answers took ``details_s``. One that
    can be asked about many with one command is asked about ``ahead_per_tick`` at most; accounting about
    ``records_per_tick``, or one by one about ``accounting_per_tick``.

    Between two listings lie ``listing_shortest_s`` (0: none is left out) while something is live, and up
    to ``listing_longest_s`` while nothing is.

    ``late_lines_s``: how long files are read on after an end. ``stale_file_s``: how long after an
    attempt's start a file that was last written before it is taken for somebody else's.
    """

    block: int = 1 << 20
    bytes_per_tick: int = 64 << 20
    first_block: int = 1 << 18
    bytes_per_hit: int = 3200
    hits_per_turn: int = 2500
    seconds_per_tick: float = 2.0
    catch_up_s: float = 0.75
    seconds_per_turn: float = 0.25
    write_after_s: float = 0.1
    states_per_tick: int = 256
    seen_every_s: float = 30.0
    comment_every_s: float = 15.0
    others_every_s: float = 60.0
    others_per_tick: int = 4
    details_per_tick: int = 8
    quick_per_tick: int = 64
    details_s: float = 0.2
    unhurried_per_tick: int = 2
    ahead_per_tick: int = 1000
    again_per_tick: int = 4
    listing_shortest_s: float = 0.0
    listing_longest_s: float = 0.0
    accounting_per_tick: int = 8
    records_per_tick: int = 500
    accounting_gives_up_s: float = 600.0
    late_lines_s: float = 30.0
    append_proof_s: float = 5.0
    clock_skew_s: float = 2.0
    stale_file_s: float = 60.0
