"""What `up` costs while nothing happens: memory of all its processes, and processor time."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from tools.bench.figures import Measured, median
from tools.bench.site import Running, Site

SETTLE_S = 60.0
SAMPLES = 10
PAUSE_S = 1.0
_TICK = os.sysconf("SC_CLK_TCK")


def measure(site: Site) -> list[Measured]:
    found = Measured("idle")
    with site.up() as running:
        running.up.start()
        time.sleep(SETTLE_S)
        before, since = processor_s(running), time.monotonic()
        for _ in range(SAMPLES):
            time.sleep(PAUSE_S)
            pss, rss = memory_mb(running)
            found.value("idle_rss_mb", pss)
            found.value("idle_resident_mb", rss)
        spent, lasted = processor_s(running) - before, time.monotonic() - since
        found.value("idle_cpu_percent", 100 * spent / lasted, seconds=lasted)
        site.say(f"  {len(running.pids())} processes")
    for name in ("idle_rss_mb", "idle_resident_mb"):
        found.figure(name, median(found.values(name)), SAMPLES)
    found.figure("idle_cpu_percent", found.values("idle_cpu_percent")[0], 1)
    return [found]


def memory_mb(running: Running) -> tuple[float, float]:
    """Sums over all processes of `up` and its watchdog: proportional and plain resident set, MB."""
    pss = rss = 0
    for pid in running.pids():
        try:
            text = Path("/proc", str(pid), "smaps_rollup").read_text()
        except OSError:
            continue  # a Slurm command that has just ended
        pss += _kb(text, "Pss")
        rss += _kb(text, "Rss")
    return pss * 1024 / 1e6, rss * 1024 / 1e6


def _kb(text: str, name: str) -> int:
    match = re.search(rf"^{name}:\s+(\d+) kB$", text, re.MULTILINE)
    return int(match.group(1)) if match else 0


def processor_s(running: Running) -> float:
    """Processor time so far of `up` and its watchdog, and of the commands that they have run."""
    total = 0
    for pid in running.pids():
        try:
            fields = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(int(fields[place]) for place in (11, 12, 13, 14))
    return total / _TICK
