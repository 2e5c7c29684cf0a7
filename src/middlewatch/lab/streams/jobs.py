"""One simulated job: the lines that it prints and when, with at most one fault in it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum
from math import exp, sin

from middlewatch.lab.streams.pauses import another
from middlewatch.lab.streams.profiles import Pace, Profile


class What(StrEnum):
    """What a line of a simulated job says."""

    OUTPUT = "output"
    """Anything else than the rest."""
    STARTING = "starting"
    COMPILING = "compiling"
    STEP = "step"
    SAVING = "saving"
    SAVED = "saved"
    EVALUATION = "evaluation"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Printed:
    """One line. ``at_s`` counts from the job's start; what the line does not tell is None."""

    at_s: float
    what: What
    step: int | None = None
    own_s: float | None = None
    throughput: float | None = None
    batch: int | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """What is to go wrong. ``slow`` is the share by which steps take longer from ``at_step`` on;
    ``hang`` names the phase in which everything stops, at ``at_step`` or when it comes next:
    start, load, compile, first_step, training, evaluation, checkpoint or shutdown."""

    slow: float = 0.0
    at_step: int = 0
    hang: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """``ends_s``: when the process ends; None where it hangs. ``fault_s`` and ``fault_step``: the
    moment and the last good step before the fault."""

    profile: Profile
    seed: str
    lines: tuple[Printed, ...]
    steps: int
    ends_s: float | None
    fault: Fault | None = None
    fault_s: float | None = None
    fault_step: int | None = None


class _Stuck(Exception):
    """Everything stops here."""


def job(profile: Profile, seed: str, fault: Fault | None = None) -> Job:
    """The job of that profile and that seed: the same every time."""
    running = _Running(profile, random.Random(f"job/{profile.name}/{seed}"), fault or Fault())
    ends: float | None = None
    try:
        running.run()
        ends = running.now + 1.0
    except _Stuck:
        running.fault_s = running.lines[-1].at_s if running.lines else 0.0
        running.fault_step = running.step
    return Job(
        profile=profile,
        seed=seed,
        lines=tuple(running.lines),
        steps=running.step,
        ends_s=ends,
        fault=fault,
        fault_s=running.fault_s,
        fault_step=running.fault_step,
    )


class _Running:
    def __init__(self, profile: Profile, chance: random.Random, fault: Fault) -> None:
        self.profile, self.chance, self.fault = profile, chance, fault
        self.now = 0.0
        self.step = 0
        self.lines: list[Printed] = []
        self.fault_s: float | None = None
        self.fault_step: int | None = None
        self._noise = 0.0
        self._batch = 64
        self._saves = 0
        self._saving_until = -1.0
        self._recompile_at = frozenset(
            chance.randrange(100, max(101, profile.steps)) for _ in range(profile.recompiles)
        )
        self._group: list[float] = []
        self._swing = chance.uniform(150, 900)

    def run(self) -> None:
        self._start()
        took, steps, tokens = 0.0, 0, 0.0
        while self.step < self.profile.steps:
            self._stops_in("training" if self.step else "first_step")
            seconds, work = self._one_step()
            self.now += seconds
            self.step += 1
            took, steps, tokens = took + seconds, steps + 1, tokens + work
            if self.fault.slow and self.step == self.fault.at_step:
                self.fault_s, self.fault_step = self.now, self.step
            if steps >= self.profile.per_line:
                self._step_line(took, steps, tokens)
                took, steps, tokens = 0.0, 0, 0.0
            self._pauses()
        if self.profile.pauses.says_end:
            self._line(What.FINISHED)
        self._stops_in("shutdown")
        self.now += self.profile.pauses.exit_s

    # -- phases -------------------------------------------------------------------------------

    def _start(self) -> None:
        pauses = self.profile.pauses
        self._stops_in("start")
        self.now += pauses.launch_s
        for _ in range(self.chance.randrange(3, 12)):
            self._line(What.OUTPUT)
            self.now += self.chance.uniform(0.2, 10)
        self._line(What.STARTING)
        self._stops_in("load")
        self.now += pauses.load_s
        self._line(What.OUTPUT)
        if pauses.compile_s or self.fault.hang == "compile":
            if pauses.says_compile or self.fault.hang == "compile":
                self._line(What.COMPILING)
            self._stops_in("compile")
            self.now += pauses.compile_s

    def _stops_in(self, phase: str) -> None:
        if self.fault.hang == phase and self.step >= self.fault.at_step:
            raise _Stuck

    def _pauses(self) -> None:
        profile = self.profile
        if profile.eval_every and self.step % profile.eval_every == 0:
            self._evaluate()
        if profile.save_every and self.step % profile.save_every == 0:
            self._save()
        if self.step in self._recompile_at:
            self.now += self.chance.uniform(20, 90)

    def _evaluate(self) -> None:
        pauses = self.profile.pauses
        length = another(self.chance, pauses.evaluation_s)
        if self.profile.silent_pauses:
            self.now += min(length, 150)
            return
        for _ in range(pauses.evaluation_lines):
            self._line(What.EVALUATION)
            self._stops_in("evaluation")
            self.now += length / pauses.evaluation_lines

    def _save(self) -> None:
        length = another(self.chance, self.profile.pauses.save_s)
        if not self._saves:
            length *= self.profile.pauses.first_save
        self._saves += 1
        self._line(What.SAVING)
        self._stops_in("checkpoint")
        if self.profile.beside:
            self._saving_until = self.now + length
            return
        self.now += length
        self._line(What.SAVED)

    # -- steps --------------------------------------------------------------------------------

    def _one_step(self) -> tuple[float, float]:
        """Seconds and tokens of the next step."""
        profile, chance = self.profile, self.chance
        rest = (1 - profile.alike**2) ** 0.5
        self._noise = profile.alike * self._noise + rest * profile.noise * chance.gauss(0, 1)
        factor = exp(self._noise)
        if profile.pace is Pace.WANDERING:
            factor *= 1 + 0.012 * sin(self.step / self._swing * 6.283)
        work = 1.0
        if profile.lengths:
            work = self._length()
            factor *= 0.1 + 0.85 * work + 0.05 * work * work
        elif profile.pace in {Pace.RAMP, Pace.RAMP_THROUGHPUT}:
            work = self._ramp()
            factor *= 0.1 + 0.9 * work
        warm = max(0.0, 1 - self.step / profile.warm_steps) if profile.warm_steps else 0.0
        factor *= 1 + profile.warm_slower * warm
        if chance.random() < profile.spikes:
            factor *= chance.uniform(1.3, 6)
        if self.now < self._saving_until:
            factor *= 1 + profile.beside_slows
        elif self._saving_until > 0:
            self._saving_until = -1.0
            self._line(What.SAVED)
        if self.fault.slow and self.step >= self.fault.at_step:
            factor *= 1 + self.fault.slow
        return profile.step_s * factor, work

    def _length(self) -> float:
        if self.profile.pace is not Pace.SORTED:
            return exp(self.chance.gauss(0, self.profile.lengths))
        if not self._group:
            drawn = [exp(self.chance.gauss(0, self.profile.lengths)) for _ in range(50)]
            self._group = sorted(drawn)
        return self._group.pop()

    def _ramp(self) -> float:
        stage = min(8, 1 + self.step // max(60, self.profile.steps // 12))
        self._batch = 64 * stage
        return float(stage)

    def _step_line(self, took: float, steps: int, tokens: float) -> None:
        pace, tells = self.profile.pace, self.profile.tells_time
        told = tokens / took * 4096 if pace in {Pace.LENGTHS, Pace.RAMP_THROUGHPUT} else None
        self._line(
            What.STEP,
            step=self.step,
            own_s=round(took / steps, 4) if tells else None,
            throughput=None if told is None else float(f"{told:.5g}"),
            batch=self._batch if pace is Pace.RAMP else None,
        )

    def _line(
        self,
        what: What,
        step: int | None = None,
        own_s: float | None = None,
        throughput: float | None = None,
        batch: int | None = None,
    ) -> None:
        self.lines.append(Printed(round(self.now, 3), what, step, own_s, throughput, batch))
