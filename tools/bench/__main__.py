"""`python -m tools.bench`: measure, and write ``build/bench.json`` and ``build/bench-raw.jsonl``.

A run of some groups leaves the figures and raw values of the others as they were; each raw line and
each run's own line name the commit, so that a mixture can be told from one run. Exit status 0 if every
group was measured, whatever the figures; 1 if one could not be.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType

from tools.bench import (
    advice,
    detect,
    idle,
    kind,
    listing,
    live,
    logstore,
    machine,
    recovery,
    signals,
    start,
    storm,
    year,
)
from tools.bench.figures import Measured, Number, flat, kept_lines, merged, remarks
from tools.bench.site import Site

ROOT = Path(__file__).resolve().parent.parent.parent
GROUPS: Mapping[str, Callable[[Site], list[Measured]]] = {
    "advice": advice.measure,
    "detect": detect.measure,
    "start": start.measure,
    "live": live.measure,
    "idle": idle.measure,
    "listing": listing.measure,
    "logstore": logstore.measure,
    "signals": signals.measure,
    "recovery": recovery.measure,
    "storm": storm.measure,
    "requests": kind.measure_idle,
    "kind": kind.measure,
    "year": year.measure,
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench", description=__doc__)
    parser.add_argument(
        "--only",
        default=os.environ.get("ONLY", ""),
        help=f"groups with commas between them: {', '.join(GROUPS)}",
    )
    parser.add_argument("--out", type=Path, default=ROOT / "build")
    given = parser.parse_args(arguments)
    chosen = [name for name in given.only.split(",") if name] or list(GROUPS)
    unknown = [name for name in chosen if name not in GROUPS]
    if unknown:
        parser.error(f"no group {', '.join(unknown)}: there are {', '.join(GROUPS)}")
    signal.signal(signal.SIGTERM, _interrupted)
    signal.signal(signal.SIGHUP, _interrupted)
    return _run(chosen, given.out, whole=len(chosen) == len(GROUPS))


def _run(chosen: list[str], out: Path, *, whole: bool) -> int:
    out.mkdir(parents=True, exist_ok=True)
    here = machine.described(ROOT)
    if whole:
        # One run, one commit: nothing older stays beside it.
        for name in ("bench.json", "bench-raw.jsonl"):
            (out / name).unlink(missing_ok=True)
    failed: list[str] = []
    made: dict[str, Number] = {}
    site = Site(_say)
    try:
        for name in chosen:
            _say(f"{name}:")
            began = time.monotonic()
            try:
                parts = GROUPS[name](site)
            except Exception as error:  # noqa: BLE001 - one group's failure leaves the others
                _say(f"  NOT MEASURED: {error}")
                failed.append(name)
                continue
            figures = flat(parts)
            made.update(figures)
            _write(out, name, figures, parts, here)
            for figure, value in figures.items():
                if not figure.endswith("_n"):
                    _say(f"  {figure:<34} {value:>10}   n={figures[figure + '_n']}")
            _say(f"  took {time.monotonic() - began:.0f} s")
    finally:
        site.close()
    for remark in remarks(made):
        _say(f"NOTE {remark}")
    _say(f"written to {out / 'bench.json'}")
    return 1 if failed else 0


def _write(
    out: Path,
    group: str,
    figures: Mapping[str, Number],
    parts: list[Measured],
    here: Mapping[str, object],
) -> None:
    """After each group, so that an interrupted run leaves what it had measured."""
    path, raw = out / "bench.json", out / "bench-raw.jsonl"
    try:
        before = json.loads(path.read_text())
    except (OSError, ValueError):
        before = {}
    _replace(path, json.dumps(merged(before, figures), indent=2) + "\n")
    old = raw.read_text().splitlines() if raw.exists() else []
    lines = kept_lines(old, frozenset({group}))
    lines.append(json.dumps({"group": group, "name": "run", **here, "figures": figures}))
    lines += [json.dumps({**r, "commit": here["commit"]}) for part in parts for r in part.raw]
    _replace(raw, "\n".join(lines) + "\n")


def _replace(path: Path, text: str) -> None:
    new = path.with_suffix(path.suffix + ".new")
    new.write_text(text)
    new.replace(path)


def _say(line: str) -> None:
    print(line, flush=True)


def _interrupted(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(130)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
