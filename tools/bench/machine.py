"""What the figures were measured on: the machine, the programs, the commit."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path


def described(root: Path) -> dict[str, object]:
    """One flat object; a fact that cannot be had is the empty text."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "commit": _answer(("git", "rev-parse", "HEAD"), root),
        "uncommitted_files": len(_answer(("git", "status", "--porcelain"), root).splitlines()),
        "cpu": _field("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count() or 0,
        "memory_mb": _memory_mb(),
        "kernel": platform.release(),
        "system": _field("/etc/os-release", "PRETTY_NAME").strip('"'),
        "python": platform.python_version(),
        "slurm": _answer(("slurmctld", "-V"), root).removeprefix("slurm-wlm ").strip(),
        "load_1m": os.getloadavg()[0],
    }


def _answer(argv: tuple[str, ...], cwd: Path) -> str:
    path = os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin"
    try:
        answer = subprocess.run(
            argv,
            cwd=cwd,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PATH": path},
        )
    except OSError:
        return ""
    return answer.stdout.rstrip() if answer.returncode == 0 else ""


def _field(path: str, name: str) -> str:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return ""
    for line in lines:
        key, found, value = line.partition(":" if ":" in line else "=")
        if found and key.strip() == name:
            return value.strip()
    return ""


def _memory_mb() -> int:
    words = _field("/proc/meminfo", "MemTotal").split()
    return int(words[0]) * 1024 // 1_000_000 if words else 0
