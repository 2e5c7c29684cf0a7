"""Has a series become slower for good? A change-point test that outliers cannot fool.

Step times are noisy in many ways: lengths vary, a garbage collection or a save doubles one step,
neighbouring steps are alike. A drop that lasts has to be told from all of that, a large one soon,
a small one at all. The test is Page's cumulative sum of log-likelihood ratios (E. S. Page,
"Continuous inspection schemes", Biometrika 41, 1954), run for three sizes of the change at once,
which comes close to the generalised likelihood ratio without its window (G. Lorden, "Procedures
for reacting to a change in distribution", Annals of Mathematical Statistics 42, 1971, where the
smallest delay that any test can have is given, too).

Three things make it robust. Level and spread of the baseline are medians (level: of the medians of
blocks; spread: the greatest of the median absolute deviation, the upper decile and what the blocks
show, which is greater where neighbours are alike). What one line can add to a sum is capped, and
an alarm takes several lines in a row, how many depends on how often single lines of this job are
as slow as that. And lines under suspicion stay out of the baseline until they are cleared: a slow
creep is measured against what was before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, exp, log, sqrt
from statistics import median

from middlewatch.detection.series import BLOCK, BLOCKS, HELD, RECENT, Baseline, Held
from middlewatch.detection.spread import around_neighbours, drift_of, spread_of

SIZES = (0.045, 0.12, 0.30)
"""Changes that are looked for, in logarithms: 4.6, 13 and 35 % more time."""
LASTS = (25, 10, 4)
"""Iterations for which a change of each size must have lasted."""
ENOUGH = 11.0
"""Evidence that raises an alarm: at least e^11 lines between two false ones of each sum, were the
noise just as the test takes it to be."""
SMALLEST = 0.035
"""A smaller excess is nobody's business."""
FLOOR = 0.004
"""No job is as even as its last lines may look."""
EARLY = 300
"""Iterations within which a job still warms up: more is asked of a change."""
EARLY_MORE = 0.05
HABIT_ITERATIONS = 40
LONG_LINES = 50
BLOCKS_TO_DRIFT = 8
"""Blocks that show them."""
BACK_ITERATIONS = 10
CHANCE = 0.004
"""How often in ten thousand iterations single slow lines may come in a row by chance."""
MEAN_LINES = 5
CHANCE_OF_MEANS = 0.03
"""The same where each line is the mean of at least five iterations: fewer lines are left to wait
for, and a line that one slow step spoils is rare and never far off."""
WORSE = 0.08
"""A slow job is told of again when it has become slower by this and by half as much again."""
RISING_LINES = 3
"""The first of them may hold steps of before the change."""
ERRORS = 4.0
"""A change must be this many times what the level itself may be wrong by."""
_MOST = 3 * ENOUGH


@dataclass(frozen=True, slots=True)
class Change:
    """The job became slower by ``excess`` (logarithm), beginning with ``first``; ``lines`` lines
    and ``iterations`` iterations later it is certain."""

    excess: float
    first: Held
    lines: int
    iterations: int
    again: bool = False


@dataclass(frozen=True, slots=True)
class Back:
    """The job has its usual speed again, after a drop by ``excess``."""

    excess: float


def drop_of(excess: float) -> float:
    """The loss of speed in per cent of the usual one, from an excess in logarithms."""
    return 100.0 * (1.0 - exp(-excess))


def slower_of(excess: float) -> float:
    """How much longer an iteration takes, in per cent."""
    return 100.0 * (exp(min(excess, 50.0)) - 1.0)


def lines_to_learn(per_line: float) -> int:
    """How many lines make a baseline: fewer where each is the mean of many iterations."""
    return max(8, min(24, ceil(100 / per_line)))


class Watch:
    """The series while a round's lines are added to it; `record` gives the frozen one again."""

    __slots__ = (
        "_back", "_blocks", "_drift", "_error", "_habits", "_held", "_iterations", "_joined", "_level", "_needs",
        "_per_line", "_recent", "_runs", "_scale", "_slow", "_streaks", "_sums",
    )  # fmt: skip

    def __init__(self, known: Baseline) -> None:
        self._per_line = known.per_line
        self._joined = known.joined
        self._iterations = known.iterations
        self._recent = list(known.recent)
        self._blocks = list(known.blocks)
        self._level = known.level
        self._scale = known.scale
        self._error = known.error
        self._drift = known.drift
        self._needs = list(known.needs)
        self._sums = list(known.sums) or [0.0] * len(SIZES)
        self._runs = list(known.runs) or [0] * len(SIZES)
        self._streaks = list(known.streaks) or [0] * len(SIZES)
        self._habits = list(known.habits) or [0] * len(SIZES)
        self._held = list(known.held)
        self._slow = known.slow
        self._back = known.back

    def record(self) -> Baseline:
        """The record after all lines so far."""
        return Baseline(
            per_line=round(self._per_line, 3),
            joined=self._joined,
            iterations=self._iterations,
            recent=tuple(self._recent[-RECENT:]),
            blocks=tuple(self._blocks[-BLOCKS:]),
            level=self._level,
            scale=self._scale,
            error=self._error,
            drift=self._drift,
            needs=tuple(self._needs),
            sums=tuple(round(one, 6) for one in self._sums),
            runs=tuple(self._runs),
            streaks=tuple(self._streaks),
            habits=tuple(self._habits),
            held=tuple(self._held),
            slow=self._slow,
            back=round(self._back, 6),
        )

    @property
    def level(self) -> float:
        """The usual cost; 0 while it is not known."""
        return self._level or 0.0

    @property
    def rises(self) -> bool:
        """Whether the lines of the change that was found go on growing."""
        costs = [one.cost for one in self._held]
        third = len(costs) // 3
        if third < RISING_LINES:
            return False
        grown = median(costs[-third:]) - median(costs[:third])
        return grown > max(self._slow / 6, 3 * self._scale * sqrt(2 / third))

    def add(self, line: Held, taken: int) -> Change | Back | None:
        """One more line, which covers ``taken`` iterations; what is certain now."""
        if self._joined:
            self._per_line += 0.1 * (taken - self._per_line)
        else:
            self._per_line = float(taken)
        level = self._level
        if level is None:
            self._join(line.cost, taken)
            return None
        if self._slow:
            return self._while_slow(level, line)
        if not self._held and line.cost - level <= SIZES[0] / 2:
            if self._streaks[0]:
                self._end_streaks()
            self._join(line.cost, taken)
            return None
        return self._watched(level, line, taken)

    def forget_places(self) -> None:
        """Offsets count in another file now: the lines under suspicion cannot be named any more."""
        self._held = []
        self._quiet()

    # -- under suspicion ----------------------------------------------------------------------

    def _watched(self, level: float, line: Held, taken: int) -> Change | None:
        above = line.cost - level
        self._held.append(line)
        spread = self._scale * self._scale
        found: Change | None = None
        for i, need in enumerate(self._needs):
            size = max(SIZES[i], ERRORS * self._error)
            gain = size / spread * (above - self._drift - size / 2)
            total = self._sums[i] + self._capped(gain, size, need)
            total = min(_MOST, total) if total > 0 else 0.0
            self._sums[i] = total
            self._runs[i] = min(self._runs[i] + 1, HELD) if total else 0
            if gain > 0:
                self._streaks[i] += 1
            elif self._streaks[i]:
                self._habits[i] = max(self._habits[i], self._streaks[i])
                self._streaks[i] = 0
            if found is None and total >= ENOUGH and self._runs[i] >= need:
                found = self._confirmed(level, self._held[-self._runs[i] :], taken, LASTS[i])
        if found is not None:
            self._slow = found.excess
            self._held = self._held[-found.lines :]
            self._back = 0.0
            self._quiet()
        elif not any(self._sums):
            cleared, self._held = self._held, []
            for one in cleared:
                self._join(one.cost, taken)
        elif len(self._held) > HELD:
            self._join(self._held.pop(0).cost, taken)
        return found

    def _capped(self, gain: float, size: float, need: int) -> float:
        """What one line may add or take: an outlier counts as a line two spreads from the middle."""
        cap = max(ENOUGH / need, 2 * size / self._scale)
        return max(-cap, min(cap, gain))

    def _confirmed(self, level: float, lines: list[Held], taken: int, lasts: int) -> Change | None:
        """The change that the lines under suspicion show, if it is large and long enough."""
        excess = median([one.cost for one in lines]) - level
        # Where it began: the last zero of the sum for a change of just this size.
        total, first = 0.0, 0
        for i, one in enumerate(lines):
            total += max(-excess, min(excess, one.cost - level - excess / 2))
            if total <= 0:
                total, first = 0.0, i + 1
        if first >= len(lines):
            return None
        since = lines[first:]
        excess = median([one.cost for one in since]) - level
        young = max(0.0, 1.0 - self._iterations / EARLY)
        iterations = since[-1].step - since[0].step + taken
        smallest = max(SMALLEST, (ERRORS - 1) * self._error) + EARLY_MORE * young
        if excess < smallest or iterations < lasts:
            return None
        return Change(excess, since[0], len(since), iterations)

    def _end_streaks(self) -> None:
        for i, streak in enumerate(self._streaks):
            self._habits[i] = max(self._habits[i], streak)
            self._streaks[i] = 0

    def _quiet(self) -> None:
        self._sums = [0.0] * len(SIZES)
        self._runs = [0] * len(SIZES)
        self._streaks = [0] * len(SIZES)

    # -- while it is slow ---------------------------------------------------------------------

    def _while_slow(self, level: float, line: Held) -> Change | Back | None:
        """Is it over, or has it become much worse? The baseline stays what it was."""
        slow = self._slow
        need = max(3, ceil(BACK_ITERATIONS / self._per_line))
        gain = slow / self._scale**2 * (level + slow / 2 - line.cost)
        back = self._back + self._capped(gain, slow, need)
        self._back = back = min(_MOST, back) if back > 0 else 0.0
        self._runs[0] = min(self._runs[0] + 1, HELD) if back else 0
        self._held = [*self._held, line][-HELD:]
        if back >= ENOUGH and self._runs[0] >= need:
            self._slow, self._back, self._held = 0.0, 0.0, []
            self._quiet()
            return Back(slow)
        last = self._held[-max(need, 4) :]
        if len(self._held) < 2 * need:
            return None
        worse = median([one.cost for one in last]) - level
        unsure = 4 * self._scale / sqrt(len(last))
        if worse < slow + max(WORSE, slow / 2, unsure):
            return None
        self._slow, self._back, self._held = worse, 0.0, last
        return Change(worse, last[0], len(last), last[-1].step - last[0].step, again=True)

    # -- the baseline -------------------------------------------------------------------------

    def _join(self, cost: float, taken: int) -> None:
        """The baseline with one more cost; level and spread are worked out anew now and then."""
        self._joined = joined = self._joined + 1
        self._iterations += taken
        recent = self._recent
        recent.append(round(cost, 5))
        if joined % BLOCK == 0:
            self._blocks.append(round(median(recent[-BLOCK:]), 5))
            if len(recent) > 4 * RECENT:
                del recent[:-RECENT]
                del self._blocks[:-BLOCKS]
        young = joined <= RECENT
        if joined % (BLOCK if young else RECENT) and not (young and self._level is None):
            return
        if joined >= lines_to_learn(self._per_line):
            self._learn()

    def _learn(self) -> None:
        blocks = self._blocks[-BLOCKS:]
        recent = self._recent[-RECENT:]
        ordered = sorted(recent)
        count = len(ordered)
        self._level = level = median(blocks) if len(blocks) >= 4 else median(ordered)
        counted = BLOCK * len(blocks) if len(blocks) >= 4 else count
        if self._per_line >= MEAN_LINES and len(blocks) >= BLOCKS_TO_DRIFT:
            # What neighbouring means have in common are slow ups and downs, and no noise.
            scale, self._drift = around_neighbours(recent), drift_of(blocks[self._warming() :])
            wrong = sqrt(scale * scale / counted + self._drift * self._drift / len(blocks))
        else:
            scale, self._drift = spread_of(ordered, blocks), 0.0
            wrong = scale / sqrt(counted)
        young = 1.0 + 4.0 / self._joined
        self._scale = round(max(FLOOR, scale * young), 6)
        self._error = round(1.5 * max(self._scale / sqrt(counted), wrong * young), 6)
        self._needs = [self._need(i, ordered, level) for i in range(len(SIZES))]

    def _warming(self) -> int:
        """How many of the blocks hold the job's first iterations, which are slower."""
        if self._joined >= BLOCK * BLOCKS:
            return 0
        return min(len(self._blocks) // 4, ceil(EARLY / self._per_line / BLOCK))

    def _need(self, i: int, ordered: list[float], level: float) -> int:
        """How many lines in a row an alarm takes: so many that single slow lines, as frequent as
        in this job, do not come in such a row by chance, and more than have come and gone before.
        """
        as_slow = sum(one - level - self._drift > SIZES[i] / 2 for one in ordered)
        share = (as_slow + 1) / (len(ordered) + 2)
        lines = max(20.0, 10_000 / self._per_line)
        chance = CHANCE if self._per_line < MEAN_LINES else CHANCE_OF_MEANS
        by_chance = ceil(log(chance / lines) / log(share)) if share < 1 else HELD
        if self._per_line >= LONG_LINES and i:
            # A mean of so many iterations is no chance hit: its neighbours need not bear it out.
            by_chance = min(by_chance, 3)
        habit = self._habits[i]
        before = min(habit + 2, ceil(HABIT_ITERATIONS / self._per_line)) if habit > 1 else 0
        return max(2, min(40, max(ceil(LASTS[i] / self._per_line), by_chance, before)))
