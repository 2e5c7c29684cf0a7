"""A site may run any release of Slurm, and a machine has the packages of one.

Debian's other suites have the others. Each is unpacked once by debootstrap, which checks the
signatures of what it fetches, from the address that apt on this machine uses for Debian; what a
lab needs of it is kept outside the checkout. Whether a tree is whole is said by its name alone: it
is built beside that name and moved there in one step, under a lock, so that a build that was
killed is never taken for a finished one and two builds do not disturb each other.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from middlewatch.lab import packages
from middlewatch.lab.errors import LabError
from middlewatch.lab.mounts import unmount_below

BUILD_LIMIT_S = 1800

PACKAGES: tuple[str, ...] = (
    "slurmctld",
    "slurmd",
    "slurmdbd",
    "slurm-client",
    "slurmrestd",
    "slurm-wlm-jwt-plugin",
    "munge",
    "procps",
    "perl",  # the recorder of commands, where a job calls srun through it
    "python3",  # the trainer
)
"""What is unpacked; munged and the database are the machine's own."""

NEWEST = "newest"


@dataclass(frozen=True, slots=True)
class Release:
    """One release of Slurm that a lab can run: Debian's ``suite`` has it. ``slurm`` is what its
    version begins with; empty where that is whatever the suite serves today."""

    name: str
    suite: str
    slurm: str


RELEASES: Mapping[str, Release] = {
    item.name: item
    for item in (
        Release("22.05", "bookworm", "22.05"),
        Release("24.11", "trixie", "24.11"),
        Release(NEWEST, "testing", ""),
    )
}
"""Releases by the name that `LabSpec.release` and ``--release`` take."""

BUNDLE = packages.Bundle(
    what="another release of Slurm",
    packages=("debootstrap", "debian-archive-keyring"),
    programs=("debootstrap", "unshare", "mount"),
    daemons=(),
    root_why="its files are mounted where its daemons find them",
    instead="install debootstrap, or use the release that this machine has",
)


@dataclass(frozen=True, slots=True)
class Tree:
    """Files of one release: ``folder`` has its ``usr`` and its ``etc``; ``version`` is Slurm's."""

    folder: Path
    version: str


class CannotBuild(LabError):
    """The files could not be fetched or unpacked; the message ends with debootstrap's words."""


def named(name: str) -> Release:
    """The release of that name. Raises LabError with the names that there are."""
    try:
        return RELEASES[name]
    except KeyError:
        known = ", ".join(RELEASES)
        raise LabError(f"no release {name!r}; a lab runs {known}, or the machine's own") from None


def is_the_machines(release: Release, version: str) -> bool:
    """Whether the machine's own Slurm, of that version, is already of this release."""
    return bool(release.slurm) and version.startswith(f"{release.slurm}.")


def available() -> packages.Availability:
    """Say whether a release other than the machine's can run here. Changes nothing."""
    state = packages.available(BUNDLE)
    if not state.ok:
        return state
    unshare = packages.program("unshare")
    if unshare is not None and not _runs([unshare, "--mount", "true"]):
        return packages.Availability(
            False,
            f"{BUNDLE.what} needs the right to mount (CAP_SYS_ADMIN), which root has not here",
        )
    return state


def tree(release: Release, say: Callable[[str], None] = lambda _line: None) -> Tree:
    """Its files, from the cache or fetched now (a minute or two). Raises `CannotBuild`."""
    state = available()
    if not state.ok:
        raise CannotBuild(state.reason)
    packages.install(say, BUNDLE)
    wanted = " ".join((release.suite, platform.machine(), *PACKAGES))
    digest = hashlib.sha256(wanted.encode()).hexdigest()[:12]
    cache = _cache()
    cache.mkdir(parents=True, exist_ok=True)
    whole = cache / f"{release.suite}-{digest}"
    with (cache / f"{whole.name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if not whole.exists():
            _clear(cache, f"{whole.name}.building-")
            say(f"fetching Slurm of Debian's {release.suite}: a minute or two, once")
            with tempfile.TemporaryDirectory(prefix=f"{whole.name}.building-", dir=cache) as made:
                _build(release, Path(made)).replace(whole)
    return Tree(whole, str(json.loads((whole / "release.json").read_text())["version"]))


def _cache() -> Path:
    given = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(given) if given.startswith("/") else Path.home() / ".cache"
    return root / "middlewatch" / "slurm"


def _clear(cache: Path, beginning: str) -> None:
    """Take away what builds that were killed have left, their mounts first."""
    for left in cache.glob(f"{beginning}*"):
        unmount_below(left)
        shutil.rmtree(left)


def _build(release: Release, made: Path) -> Path:
    """Unpack into ``made`` and return the folder in it that is to be kept."""
    made.chmod(0o755)
    root = made / "root"
    argv = [
        packages.program("debootstrap") or "debootstrap",
        "--variant=minbase",
        f"--include={','.join(PACKAGES)}",
        release.suite,
        str(root),
        *_address(),
    ]
    try:
        answer = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LANG": "C.UTF-8"},
            umask=0o022,
            timeout=BUILD_LIMIT_S,
        )
        if answer.returncode != 0:
            log = root / "debootstrap" / "debootstrap.log"
            said = answer.stdout + answer.stderr + (log.read_text() if log.exists() else "")
            last = "\n".join(said.strip().splitlines()[-15:])
            raise CannotBuild(f"{' '.join(argv)} failed (exit {answer.returncode}):\n{last}")
        version = _version(root)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotBuild(f"{' '.join(argv)}: {error}") from error
    finally:
        with contextlib.suppress(LabError):
            unmount_below(root)
    if release.slurm and not version.startswith(f"{release.slurm}."):
        raise CannotBuild(f"Debian's {release.suite} has Slurm {version}, not {release.slurm}")
    kept = made / "kept"
    kept.mkdir(mode=0o755)
    for part in ("usr", "etc"):
        (root / part).rename(kept / part)
    (kept / "release.json").write_text(json.dumps({"suite": release.suite, "version": version}))
    return kept


def _version(root: Path) -> str:
    answer = subprocess.run(
        ["/usr/sbin/chroot", str(root), "/usr/sbin/slurmctld", "-V"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    words = answer.stdout.split()
    if answer.returncode != 0 or not words:
        raise CannotBuild(f"the unpacked slurmctld does not run: {answer.stderr.strip()}")
    return words[-1]


def _address() -> tuple[str, ...]:
    """Where apt on this machine gets Debian's main archive; where it says nothing, debootstrap
    knows."""
    apt = packages.program("apt-get")
    if apt is None:
        return ()
    answer = subprocess.run(
        [
            apt,
            "indextargets",
            "--format",
            "$(ORIGIN) $(COMPONENT) $(REPO_URI)",
            "Created-By: Packages",
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    for line in answer.stdout.splitlines():
        words = line.split()
        if len(words) == 3 and words[:2] == ["Debian", "main"]:
            address = words[2].rstrip("/")
            if address.startswith(("http://", "https://")) and "security" not in address:
                return (address,)
    return ()


def _runs(argv: list[str]) -> bool:
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0
