"""Where the state may lie: on a disk of this machine, in files that are ours alone.

SQLite's write-ahead log shares memory between processes and trusts file locks. Network and
user-space file systems promise neither, and a home directory on a cluster is nearly always on
one. So the mount table is asked first, and the state goes to a local place where the wanted one
would not do, with a sentence that says so.
"""

from __future__ import annotations

import os
import pwd
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from middlewatch.ports.errors import Refused

NETWORK = frozenset(
    {
        "nfs", "nfs4", "lustre", "gpfs", "beegfs", "cifs", "smb3", "smbfs", "ncpfs", "afs", "coda",
        "ceph", "glusterfs", "9p", "panfs", "wekafs", "pvfs2", "orangefs", "ocfs2", "gfs2",
        "acfs", "vboxsf", "prl_fs", "virtiofs", "fuse",
    }
)  # fmt: skip
LOCAL_FUSE = frozenset({"fuse.fuse-overlayfs"})
"""A container's own root, on a local disk. (A block device under FUSE is ``fuseblk``: local.)"""
LOCAL_ROOT = Path("/var/tmp")  # noqa: S108 - made 0700 and checked to be ours
_ESCAPE = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    point: str
    kind: str


def parse_mountinfo(text: str) -> tuple[Mount, ...]:
    """The mounts in the kernel's ``/proc/<pid>/mountinfo`` (proc(5)), in its order.

    Blanks in mount points are written there as octal escapes. Lines of another shape are skipped.
    """
    found: list[Mount] = []
    for line in text.splitlines():
        before, dash, after = line.partition(" - ")
        left, right = before.split(" "), after.split(" ")
        if not dash or len(left) < 6 or not right[0]:
            continue
        found.append(Mount(_unescaped(left[4]), right[0]))
    return tuple(found)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match.group(1), 8)), text)


def mount_of(path: str, mounts: Sequence[Mount]) -> Mount | None:
    """The mount that an absolute path without links lies on: the deepest one, and of several on
    one point the last, which covers the others."""
    best: Mount | None = None
    for mount in mounts:
        point = mount.point.rstrip("/")
        inside = path == point or path.startswith(point + "/")
        if inside and (best is None or len(point) >= len(best.point.rstrip("/"))):
            best = mount
    return best


def is_network(kind: str) -> bool:
    """Whether a file system of this kind may lie on another machine or in user space."""
    return kind in NETWORK or (kind.startswith("fuse.") and kind not in LOCAL_FUSE)


def network_mount(path: Path, mountinfo: str | None = None) -> Mount | None:
    """The network mount that ``path`` (which need not exist yet) lies on; None for a local one."""
    text = _mountinfo() if mountinfo is None else mountinfo
    mount = mount_of(os.path.realpath(path), parse_mountinfo(text))
    return mount if mount is not None and is_network(mount.kind) else None


def _mountinfo() -> str:
    try:
        return Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        # No Linux, no mount table: nothing to warn of.
        return ""


def state_directory(
    preferred: str | Path,
    *,
    mountinfo: str | None = None,
    local_root: str | Path = LOCAL_ROOT,
    user: str | None = None,
) -> tuple[Path, str | None]:
    """The directory to keep state in, made with rights for its owner only, and a notice where it
    is not the preferred one.

    Raises `Refused` where no local place is found or the place belongs to somebody else.
    """
    wanted = Path(preferred).expanduser()
    mount = network_mount(wanted, mountinfo)
    if mount is None:
        return private_directory(wanted), None
    instead = Path(local_root) / f"middlewatch-{user or _user()}"
    also = network_mount(instead, mountinfo)
    if also is not None:
        raise Refused(
            f"{wanted} lies on {mount.kind} and {instead} on {also.kind}: the state needs a local "
            "disk; name a directory on one"
        )
    made = private_directory(instead, strict=True)
    return made, (
        f"{wanted} lies on {mount.kind} (mounted at {mount.point}), where a database is not safe: "
        f"the state is kept in {made} on this machine instead"
    )


def private_directory(path: Path, *, strict: bool = False) -> Path:
    """``path`` as a directory, made with mode 0700 where it is missing.

    An existing one must be ours or root's and not writable by others. With ``strict``, for a name that anybody could
    have taken before us, it must be ours, no link, and is given mode 0700.
    """
    try:
        if not os.path.lexists(path):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
            path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat() if strict else path.stat()
    except OSError as error:
        raise Refused(
            f"{path} cannot be made: {error}; name a directory that you may write to"
        ) from error
    if not stat.S_ISDIR(found.st_mode):
        raise Refused(f"{path} is not a directory; remove it or name another place")
    if strict:
        if found.st_uid != os.geteuid():
            raise Refused(f"{path} belongs to user {found.st_uid}, not to us; remove it")
        path.chmod(0o700)
    elif found.st_uid not in {0, os.geteuid()}:
        raise Refused(
            f"{path} belongs to user {found.st_uid}, who could exchange everything in it; "
            "run as that user, or name another place"
        )
    elif found.st_mode & 0o022:
        raise Refused(f"others may write to {path}; `chmod 700 {path}`, or name another place")
    return path


def private_file(path: Path) -> None:
    """An empty file with mode 0600 where there is none; an existing one of ours is closed to
    others. SQLite gives the files beside it the same rights.

    An existing file is not opened: closing it would drop every lock that this process holds on it.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode):
            raise Refused(
                f"{path} is not a plain file; name another place for the database"
            ) from None
        if found.st_mode & 0o077 and found.st_uid == os.geteuid():
            path.chmod(0o600)
        return
    # The name itself must survive a power cut as well.
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
