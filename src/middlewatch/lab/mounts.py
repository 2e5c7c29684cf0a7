"""What was mounted inside a folder must be gone before the folder is taken away.

Removing a folder with something mounted in it removes what is mounted. So nothing that the lab made
is removed before the kernel's own table says that nothing is mounted there any more.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from middlewatch.lab.errors import LabError

TABLE = Path("/proc/self/mountinfo")


def mounted_below(folder: Path) -> tuple[Path, ...]:
    """Everything mounted in the folder, the innermost first."""
    inside = f"{folder.resolve()}/"
    found = [
        place
        for line in TABLE.read_text().splitlines()
        # Blanks, tabs, line ends and backslashes are written as three octal digits.
        if (place := line.split()[4].encode().decode("unicode_escape")).startswith(inside)
    ]
    return tuple(Path(place) for place in sorted(found, key=len, reverse=True))


def unmount_below(folder: Path) -> None:
    """Unmount all of it; raises LabError where something stays."""
    for place in mounted_below(folder):
        # Detached even while something of a dying process still uses it.
        subprocess.run(["umount", "--lazy", str(place)], capture_output=True, check=False)
    left = mounted_below(folder)
    if left:
        raise LabError(f"still mounted, so nothing is removed: {', '.join(map(str, left))}")


def mount(*words: str) -> None:
    """Run mount(8) with these words. Raises LabError with what it says."""
    answer = subprocess.run(["mount", *words], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise LabError(f"mount {' '.join(words)}: {answer.stderr.strip()}")
