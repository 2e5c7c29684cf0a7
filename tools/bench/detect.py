"""How fast a log is read, compared with the fastest thing that people search logs with.

Ours is the whole path (`tools.bench.detect_path`), ripgrep only counts the lines that one of the
same patterns matches: ``rg -j1 -a -c --no-config -f PATTERNS FILE``. Both on the same core, in turns,
the file in memory; what each needs to start and to compile its patterns is left out on both sides.
The number of lines that each finds must be the same.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from middlewatch.adapters.scan.catalogue import read_catalogue
from middlewatch.adapters.scan.syntax import tree, written
from tools.bench import detect_logs
from tools.bench.figures import Measured, median
from tools.bench.site import Site

ROOT = Path(__file__).resolve().parents[2]
SIZE = 512_000_000
ROUNDS = 5
SLOW_MB = {"re2": 96, "re": 1}
"""The first megabytes are enough for engines that need minutes for the whole."""


def measure(site: Site) -> list[Measured]:
    found = Measured("detect")
    program = ripgrep(site)
    core = max(os.sched_getaffinity(0))
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="detect-", dir=build) as folder:
        patterns = Path(folder) / "patterns"
        patterns.write_bytes(pattern_file())
        for kind in (detect_logs.CHATTY, detect_logs.QUIET):
            path = Path(folder) / f"{kind.name}.log"
            lines = detect_logs.write(path, kind, SIZE)
            site.say(f"  {kind.name}: {path.stat().st_size / 1e6:.0f} MB, {lines} lines")
            _compare(site, found, Bench(program, patterns, path, core), kind.name)
            path.unlink()
    for name, end in (("chatty", ""), ("quiet", "_quiet")):
        ours, theirs = found.values(f"{name}_mb_s"), found.values(f"{name}_ripgrep_mb_s")
        pairs = [one / two for one, two in zip(ours, theirs, strict=True)]
        found.figure(f"detect_vs_ripgrep{end}", median(pairs), len(pairs))
        found.figure(f"detect_mb_s{end}", median(ours), len(ours))
        found.figure(f"ripgrep_mb_s{end}", median(theirs), len(theirs))
    for engine, end in (("re2", "re2"), ("re", "python_re")):
        slow = median(found.values(f"chatty_{engine}_mb_s"))
        found.figure(f"detect_vs_{end}", median(found.values("chatty_mb_s")) / slow, 1)
    differ = found.values("lines_differ")
    found.figure("detect_lines_differ", max(differ), len(differ))
    return [found]


@dataclass(frozen=True, slots=True)
class Bench:
    """One file, and how to search it."""

    program: str
    patterns: Path
    path: Path
    core: int

    def ours(self, engine: str, most: int = 1 << 60) -> dict[str, float]:
        argv = (sys.executable, "-m", "tools.bench.detect_path", engine, str(self.path))
        more = ("--core", str(self.core), "--most", str(most))
        answer = subprocess.run(
            (*argv, *more), cwd=ROOT, capture_output=True, text=True, check=False
        )
        if answer.returncode != 0:
            raise RuntimeError(f"the path itself failed: {answer.stderr[-500:]}")
        found: dict[str, float] = json.loads(answer.stdout)
        return found

    def ripgrep(self, path: Path) -> tuple[float, int]:
        """Seconds, and the number of lines that matched."""
        argv = ("rg", "-j1", "-a", "-c", "--no-config", "-f", str(self.patterns), str(path))
        began = time.perf_counter()
        answer = subprocess.run(
            ("taskset", "-c", str(self.core), self.program, *argv[1:]),
            capture_output=True,
            text=True,
            check=False,
        )
        took = time.perf_counter() - began
        if answer.returncode not in {0, 1}:
            raise RuntimeError(f"ripgrep failed: {answer.stderr[-500:]}")
        return took, int(answer.stdout or 0)


def _compare(site: Site, found: Measured, bench: Bench, kind: str) -> None:
    size = bench.path.stat().st_size
    nothing = bench.path.with_name("nothing.log")
    nothing.write_bytes(b"\n")
    bench.path.read_bytes()  # into memory
    for _ in range(ROUNDS):
        ours = bench.ours("auto")
        start, _none = bench.ripgrep(nothing)
        took, lines = bench.ripgrep(bench.path)
        found.value(f"{kind}_mb_s", size / 1e6 / ours["seconds"], **ours)
        found.value(f"{kind}_ripgrep_mb_s", size / 1e6 / (took - start), start_s=start, took_s=took)
        found.value("lines_differ", abs(lines - ours["lines"]), kind=kind, ripgrep_lines=lines)
        site.say(
            f"  {kind}: {size / 1e6 / ours['seconds']:.0f} MB/s, "
            f"ripgrep {size / 1e6 / (took - start):.0f} MB/s, {lines} lines"
        )
    if kind == detect_logs.CHATTY.name:
        for engine, megabytes in SLOW_MB.items():
            slow = bench.ours(engine, megabytes * 1_000_000)
            found.value(f"{kind}_{engine}_mb_s", slow["bytes"] / 1e6 / slow["seconds"], **slow)


def pattern_file() -> bytes:
    """Our catalogue as ripgrep reads it: bytes instead of characters, as we do, every class written
    out, and no names, which may not occur twice in one file."""
    patterns = read_catalogue().patterns
    return "".join(f"(?-u:{written(tree(pattern.regex))})\n" for pattern in patterns).encode()


def ripgrep(site: Site) -> str:
    """The program, installed from Debian where it is missing and we are root."""
    found = shutil.which("rg")
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        site.say("  installing ripgrep")
        subprocess.run(
            ("apt-get", "install", "-y", "-qq", "--no-install-recommends", "ripgrep"),
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            capture_output=True,
            check=False,
        )
        found = shutil.which("rg")
    if found is None:
        raise RuntimeError("ripgrep is missing: apt-get install ripgrep")
    return found
