"""The daemons and commands of another release think that they are on a machine of their own.

A lab of another release has a root directory: that release's programs, read-only, the machine's
users, and the lab's folder at the same path as outside, so that scripts, logs and checkpoints have
one name on both sides. munged, the database and the ports are shared with the machine. The kernel
lets root change its root directory and lets anybody do so in a user namespace of his own, in which
he stays who he is; so one small script, `bin/.enter`, serves both.

Only the programs, /proc, /sys and the lab's folder are mounted. All else in it is the lab's own, so
that nothing of the machine is lost should somebody remove a running lab's folder by hand.
"""

from __future__ import annotations

import os
import shlex
import shutil
import stat
from pathlib import Path

from middlewatch.lab.config import Layout
from middlewatch.lab.errors import LabError
from middlewatch.lab.mounts import mount, unmount_below
from middlewatch.lab.releases import Tree

CLIENTS: tuple[str, ...] = (
    "sacct",
    "sacctmgr",
    "salloc",
    "sattach",
    "sbatch",
    "sbcast",
    "scancel",
    "scontrol",
    "sdiag",
    "sinfo",
    "sprio",
    "squeue",
    "sreport",
    "srun",
    "sshare",
    "sstat",
    "strigger",
)
"""Slurm's commands, each with a stand-in in `clients/` that runs it in there."""

_DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9)}
_THE_MACHINES = ("passwd", "group", "hosts", "hostname", "resolv.conf", "nsswitch.conf")

# The root directory as it is seen from inside has no programs: then one is in there already.
_ENTER = """#!/bin/sh
# Runs a command of this lab's release: PROGRAM ARGUMENT...
root={root}
[ -d "$root/usr/bin" ] || exec "$@"
[ -d "$root$PWD" ] || cd /
if [ "$(/usr/bin/id -u)" = 0 ]; then
    exec /usr/bin/unshare --root="$root" --wd="$PWD" -- "$@"
fi
exec /usr/bin/unshare --user --map-current-user --root="$root" --wd="$PWD" -- "$@"
"""


def root_of(layout: Layout) -> Path:
    """The lab's root directory for its release."""
    return layout.folder / "root"


def enter_script(layout: Layout) -> Path:
    """The program that runs its arguments in there; from inside it just runs them."""
    return layout.bin / ".enter"


def clients(layout: Layout) -> Path:
    """The folder of Slurm's commands of that release, to stand first in PATH."""
    return layout.folder / "clients"


def furnish(layout: Layout, tree: Tree) -> None:
    """Make the lab's root directory and the programs that enter it. Raises LabError."""
    root = root_of(layout)
    for name in ("usr", "dev", "proc", "sys", "run", "root", "var/lib", "var/log", "home"):
        (root / name).mkdir(parents=True)
    for name in ("tmp", "var/tmp", "dev/shm"):
        (root / name).mkdir()
        (root / name).chmod(0o1777)
    (root / "var" / "run").symlink_to("../run")
    for name in ("bin", "sbin", "lib", "lib64"):
        if (tree.folder / "usr" / name).exists():
            (root / name).symlink_to(f"usr/{name}")
    shutil.copytree(tree.folder / "etc", root / "etc", symlinks=True)
    for name in _THE_MACHINES:
        inside = root / "etc" / name
        inside.unlink(missing_ok=True)
        if (Path("/etc") / name).exists():
            inside.write_bytes((Path("/etc") / name).read_bytes())
    _devices(root / "dev")
    mount("--bind", "--make-private", "-o", "ro", str(tree.folder / "usr"), str(root / "usr"))
    mount("-t", "proc", "proc", str(root / "proc"))
    mount("--bind", "--make-private", "/sys", str(root / "sys"))
    inside = root / layout.folder.resolve().relative_to("/")
    inside.mkdir(parents=True, exist_ok=True)
    mount("--bind", "--make-private", str(layout.folder), str(inside))
    _programs(layout)


def _devices(folder: Path) -> None:
    for name, numbers in _DEVICES.items():
        os.mknod(folder / name, stat.S_IFCHR | 0o666, os.makedev(*numbers))
        (folder / name).chmod(0o666)
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        (folder / name).symlink_to(f"/proc/self/fd{target}")
    try:
        (folder / "null").read_bytes()
    except OSError as error:
        raise LabError(
            f"{folder}: devices cannot be used there ({error}); choose a lab folder on a file "
            "system that is not mounted with nodev"
        ) from error


def _programs(layout: Layout) -> None:
    enter = enter_script(layout)
    enter.write_text(_ENTER.format(root=shlex.quote(str(root_of(layout)))))
    enter.chmod(0o755)
    folder = clients(layout)
    folder.mkdir()
    for name in CLIENTS:
        inside = root_of(layout) / "usr" / "bin" / name
        if inside.exists():
            stand_in = folder / name
            stand_in.write_text(f'#!/bin/sh\nexec {shlex.quote(str(enter))} /usr/bin/{name} "$@"\n')
            stand_in.chmod(0o755)


def strip(layout: Layout) -> None:
    """Unmount everything in the lab's folder; nothing to do in a lab without one."""
    if root_of(layout).exists():
        unmount_below(layout.folder)
