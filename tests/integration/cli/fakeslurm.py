"""Executables that answer as an idle Slurm 24.11 would, for processes that must find one on PATH.

What they print was recorded (tests/data/slurm). They know no job and refuse every change.
"""

from __future__ import annotations

from pathlib import Path

from middlewatch.adapters.slurm.listing import SEPARATOR, TITLES

CONFIG = Path(__file__).parents[2] / "data" / "slurm" / "24.11.5" / "scontrol_show_config.txt"

SCONTROL = f"""#!/bin/sh
echo "$0 $*" >> "${{0%/*}}/calls"
case "$*" in
  "show config") date -u '+Configuration data as of %Y-%m-%dT%H:%M:%S'; tail -n +2 {CONFIG} ;;
  "show job"*) echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1 ;;
  *) echo "refused" >&2; exit 1 ;;
esac
"""
HEADER = SEPARATOR.join((*TITLES, ""))
SQUEUE = f"""#!/bin/sh
echo "$0 $1" >> "${{0%/*}}/calls"
case "$*" in
  *"-j "*) echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1 ;;
esac
echo '{HEADER}'
"""
OTHER = """#!/bin/sh
echo "$0 $*" >> "${0%/*}/calls"
"""


def install(folder: Path) -> Path:
    """Put the commands into ``folder``; what was called stands in ``calls`` there afterwards."""
    folder.mkdir(parents=True)
    (folder / "calls").touch()
    for name, text in (
        ("scontrol", SCONTROL),
        ("squeue", SQUEUE),
        *((name, OTHER) for name in ("sacct", "sacctmgr", "sinfo", "scancel")),
    ):
        path = folder / name
        path.write_text(text)
        path.chmod(0o755)
    return folder
