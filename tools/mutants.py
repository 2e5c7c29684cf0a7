"""Would anybody notice? Bugs planted in the reconciler one by one, and the suites that must catch each.

`python -m tools.mutants`, or `make mutants`, copies the sources, plants one bug, and runs the tests of
reconciliation and controller and then simulated recoveries on the copy, until something fails. A bug
that nothing notices is a hole in the suites. `--only simulated` asks the simulation alone, `--list`
prints the bugs. Results are in build/mutants.json.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SEEDS = 400
RULES = (
    "tests/unit/reconciliation",
    "tests/unit/model",
    "--ignore=tests/unit/reconciliation/test_watchdog_properties.py",
)
SERVICE = ("tests/integration/controller",)
"""The quick ones first: most bugs need no more."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One bug: in ``file`` (under src/middlewatch) the text ``was``, which stands there once,
    becomes ``becomes``."""

    name: str
    file: str
    was: str
    becomes: str


MUTANTS = (
    Mutant(
        "act on a look of any age",
        "services/controller/controller.py",
        "return not -LOOK_MAX_AGE <= self.clock.now() - look.as_of <= LOOK_MAX_AGE",
        "return False",
    ),
    Mutant(
        "take a report about an old generation",
        "model/advice.py",
        "if status.observed_generation != advice.generation:",
        "if False:",
    ),
    Mutant(
        "take any later attempt for the successor",
        "reconciliation/situation.py",
        "return Place.SUCCESSOR if view.restarts == k + 1 else Place.BEYOND",
        "return Place.SUCCESSOR",
    ),
    Mutant(
        "let the successor go without its exclusions",
        "reconciliation/letting_go.py",
        "exclusions=wanted,",
        "exclusions=None,",
    ),
    Mutant(
        "repeat a command that has no answer",
        "reconciliation/in_flight.py",
        "if now < settled_at(record, situation):",
        "if False:",
    ),
    Mutant(
        "start the successor in the second of the kill",
        "reconciliation/letting_go.py",
        "PENDING_SETTLE_S = 1.1",
        "PENDING_SETTLE_S = 0.0",
    ),
    Mutant(
        "replace the user's exclusions by ours",
        "reconciliation/exclusions.py",
        "return tuple(sorted(set(detail.excluded_nodes) | set(required(situation, detail))))",
        "return tuple(sorted(set(required(situation, detail))))",
    ),
    Mutant(
        "leave what our requeue revived",
        "reconciliation/letting_go.py",
        "    if judged.revived:\n        return _undo(",
        "    if False:\n        return _undo(",
    ),
    Mutant(
        "release an operator's hold",
        "reconciliation/letting_go.py",
        "if not ours or JobFlag.SPECIAL_EXIT not in view.flags or operator is True:",
        "if False:",
    ),
    Mutant(
        "requeue an attempt however it ended",
        "reconciliation/restart.py",
        "if view.state not in FAILURES and view.state.value not in situation.advice.may_restart_after:",
        "if False:",
    ),
    Mutant(
        "give an outcome while a hold of ours stands",
        "reconciliation/plan.py",
        "    if hold_stands(situation, view, now):\n        letting_go",
        "    if False:\n        letting_go",
    ),
    Mutant(
        "hold without a line in the journal",
        "services/controller/controller.py",
        "        for entry in entries:\n            self._journal.append(entry)\n        intent",
        "        intent",
    ),
    Mutant(
        "requeue although a dependent has taken over",
        "reconciliation/restart.py",
        "for dependent in may_take_over(situation):",
        "for dependent in ():",
    ),
    Mutant(
        "let the successor go although another job has followed",
        "reconciliation/letting_go.py",
        "    if isinstance(taken, str):\n        return _undo(",
        "    if False:\n        return _undo(",
    ),
    Mutant(
        "call a restart done that hit another job",
        "reconciliation/lineage.py",
        "if any(looked <= record.submitted_at < over for record in _between(situation, view)):",
        "if False:",
    ),
    Mutant(
        "give a job up that a requeue is still on its way to",
        "reconciliation/plan.py",
        "if isinstance(step, Report) and late is not None:",
        "if False:",
    ),
    Mutant(
        "trust the answer of a sender that stood still",
        "reconciliation/lineage.py",
        "return followed_by_another(situation, view) if _stood_still(situation) else None",
        "return None",
    ),
    Mutant(
        "act at once after taking the lead from one that may not know it",
        "services/controller/lead.py",
        "if lease.taken_over_at is None:",
        "if True:",
    ),
    Mutant(
        "begin a command that may outlive the lease",
        "services/controller/lead.py",
        "return ends < term.lease.expires_at and self._clock.monotonic() + longest_s < term.until",
        "return True",
    ),
    Mutant(
        "forget at a renewal that the lead was taken over",
        "adapters/sql/small.py",
        "taken_over_us = None if row is None else row.taken_over_us",
        "taken_over_us = None",
    ),
    Mutant(
        "take another host's exclusions for the user's own",
        "services/controller/record.py",
        "ours=tuple(sorted(set(action.exclusions or ()) - set(user_exclusions))),",
        "ours=(),",
    ),
    Mutant(
        "leave another host's hold out of our own journal",
        "reconciliation/inherited.py",
        "if unknown_hold and hold_stands(situation, view, now):",
        "if False:",
    ),
    Mutant(
        "let go after a node failure while the old processes live",
        "reconciliation/lineage.py",
        "return record is not None and record.state is JobState.NODE_FAIL and not record.requeued",
        "return False",
    ),
)


@dataclass(frozen=True, slots=True)
class Caught:
    """What noticed one bug: a suite's name, or nothing; and its last words."""

    mutant: str
    by: str
    words: str
    seconds: float


def planted(mutant: Mutant, where: Path) -> None:
    """Plant the bug in the copy of the sources in ``where``. Raises ValueError for a bug whose
    place is not there once."""
    path = where / "src" / "middlewatch" / mutant.file
    text = path.read_text()
    if text.count(mutant.was) != 1:
        raise ValueError(
            f"{mutant.name}: {mutant.file} has its place {text.count(mutant.was)} times"
        )
    path.write_text(text.replace(mutant.was, mutant.becomes))


def copied(where: Path) -> None:
    for name in ("src", "tools", "tests", "docs"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, where / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", where)


def suites(only: str, seeds: int) -> list[tuple[str, list[str]]]:
    python = [sys.executable, "-B", "-m"]
    tests = [*python, "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    simulated = [*python, "tools.faults", "--simulated", "--simulated-count", str(seeds)]
    every = [
        ("rules", [*tests, *RULES]),
        ("controller", [*tests, *SERVICE]),
        ("simulated", [*simulated, "--out", "build/faults.json"]),
    ]
    return [suite for suite in every if not only or suite[0] == only]


def tried(mutant: Mutant | None, only: str, seeds: int) -> Caught:
    """Plant it and run the suites until one fails. Without a bug all of them have to pass: what
    fails anyway catches nothing."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="middlewatch-mutant-") as folder:
        where = Path(folder)
        copied(where)
        if mutant is not None:
            planted(mutant, where)
        name_of = "nothing" if mutant is None else mutant.name
        environ = os.environ | {"PYTHONPATH": f"{where / 'src'}{os.pathsep}{where}"}
        for name, argv in suites(only, seeds):
            done = subprocess.run(
                argv, cwd=where, env=environ, capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                return Caught(name_of, name, _words(done.stdout), time.monotonic() - began)
    return Caught(name_of, "", "", time.monotonic() - began)


def _words(text: str) -> str:
    """What the failing suite said first: a test's name, or a rule that was broken."""
    lines = [line.strip() for line in text.splitlines()]
    told = [line for line in lines if line.startswith(("FAILED", "ERROR", "simulated:"))]
    return (told or lines[-1:] or [""])[0][:200]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("--list", action="store_true", help="print the bugs and plant none")
    parser.add_argument("--only", choices=("rules", "controller", "simulated"), default="")
    parser.add_argument("--match", default="", help="only bugs whose name has this in it")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="simulated recoveries for each")
    parser.add_argument("--out", type=Path, default=Path("build/mutants.json"))
    given = parser.parse_args(arguments)
    chosen = [mutant for mutant in MUTANTS if given.match in mutant.name]
    if given.list:
        sys.stdout.writelines(f"{mutant.name}  ({mutant.file})\n" for mutant in chosen)
        return 0
    sound = tried(None, given.only, given.seeds)
    if sound.by:
        sys.stdout.write(f"the suites fail without any bug ({sound.by}): {sound.words}\n")
        return 1
    found = []
    for mutant in chosen:
        caught = tried(mutant, given.only, given.seeds)
        found.append(caught)
        told = f"caught by {caught.by}: {caught.words}" if caught.by else "NOT CAUGHT"
        sys.stdout.write(f"{mutant.name}: {told} ({caught.seconds:.0f} s)\n")
        sys.stdout.flush()
    missed = sum(not one.by for one in found)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    result = {"planted": len(found), "missed": missed, "mutants": [asdict(one) for one in found]}
    given.out.write_text(json.dumps(result, indent=2) + "\n")
    sys.stdout.write(f"{len(found)} bugs planted, {missed} not caught\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
