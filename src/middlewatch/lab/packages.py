"""A lab needs Slurm's programs, and installing them must not leave anything running.

Debian starts and enables the services of a package when it is installed. A laptop or a
build machine on which somebody tries the demo must not wake up with a Slurm controller and
a database server of the system, so the installation is done under a ``policy-rc.d`` that
forbids every start, what the packages enabled is disabled again, and what nevertheless
started is stopped.

Packages that were there before are never touched: they may belong to a real cluster.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from middlewatch.lab.errors import LabError
from middlewatch.lab.processes import processes_named, stop

PACKAGES: tuple[str, ...] = (
    "slurmctld",
    "slurmd",
    "slurmdbd",
    "slurm-client",
    "munge",
    "mariadb-server",
)
"""Debian packages that a lab is made of."""

PROGRAMS: tuple[str, ...] = (
    "slurmctld",
    "slurmd",
    "slurmdbd",
    "scontrol",
    "sbatch",
    "srun",
    "squeue",
    "sacct",
    "sacctmgr",
    "munged",
    "mariadbd",
    "mariadb-install-db",
)
"""Programs whose presence proves that nothing needs to be installed."""

_SERVICES: dict[str, tuple[str, ...]] = {
    "slurmctld": ("slurmctld",),
    "slurmd": ("slurmd",),
    "slurmdbd": ("slurmdbd",),
    "munge": ("munge",),
    "mariadb-server": ("mariadb",),
    "prometheus": ("prometheus",),
    "victoria-metrics": ("victoria-metrics",),
    "openssh-server": ("ssh",),
    "slurmrestd": ("slurmrestd",),
    "syslog-ng-core": ("syslog-ng",),
}


@dataclass(frozen=True, slots=True)
class Bundle:
    """Packages that are installed together. The ``programs`` prove that nothing needs to be
    installed; ``daemons`` are the names of the processes that their services would start.
    ``what`` needs root where ``root_why`` says why, and ``instead`` is what remains without."""

    what: str
    packages: tuple[str, ...]
    programs: tuple[str, ...]
    daemons: tuple[str, ...]
    root_why: str
    instead: str


SLURM = Bundle(
    what="a real Slurm",
    packages=PACKAGES,
    programs=PROGRAMS,
    daemons=("slurmctld", "slurmd", "slurmdbd", "munged", "mariadbd"),
    root_why="slurmd starts jobs as other users",
    instead="install Slurm (slurmctld, slurmd, slurmdbd, clients), munge and MariaDB, or use the "
    "simulated Slurm",
)
METRICS = Bundle(
    what="a real Prometheus and VictoriaMetrics",
    packages=("prometheus", "victoria-metrics"),
    programs=("prometheus", "promtool", "victoria-metrics"),
    daemons=("prometheus", "victoria-metric"),  # the kernel keeps fifteen characters
    root_why="",
    instead="install prometheus and victoria-metrics",
)
SSH = Bundle(
    what="a real sshd",
    packages=("openssh-server", "openssh-client"),
    programs=("sshd", "ssh", "ssh-keygen"),
    daemons=("sshd",),
    root_why="sshd becomes the user that logs in",
    instead="install openssh-server",
)
REST = Bundle(
    what="a real slurmrestd",
    packages=("slurmrestd", "slurm-wlm-jwt-plugin"),
    programs=("slurmrestd",),
    daemons=("slurmrestd",),
    root_why="it belongs to a lab's Slurm, which needs root",
    instead="install slurmrestd and slurm-wlm-jwt-plugin",
)
COLLECTOR = Bundle(
    what="a real syslog-ng",
    packages=("syslog-ng-core", "syslog-ng-mod-http"),
    programs=("syslog-ng",),
    daemons=("syslog-ng",),
    root_why="",
    instead="install syslog-ng-core and syslog-ng-mod-http",
)
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
POLICY = Path("/usr/sbin/policy-rc.d")
FORBID = "#!/bin/sh\n# written for the time of one installation by middlewatch lab\nexit 101\n"


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether a real Slurm can be started here; ``reason`` says why not, and how to mend it."""

    ok: bool
    reason: str


class CannotInstall(LabError):
    """The packages could not be installed; the message ends with apt's own words."""


def program(name: str) -> str | None:
    """Absolute path of an installed program; daemons lie in sbin, which users' PATHs lack."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":" + _SYSTEM_PATH)


def missing_programs(bundle: Bundle = SLURM) -> tuple[str, ...]:
    """The programs of a bundle that this machine does not have."""
    return tuple(name for name in bundle.programs if program(name) is None)


def available(bundle: Bundle = SLURM) -> Availability:
    """Say whether it can run here, now or after ``install()``. Changes nothing."""
    if os.name != "posix" or not Path("/proc/self/stat").exists():
        return Availability(False, f"{bundle.what} needs Linux")
    root = os.geteuid() == 0
    if bundle.root_why and not root:
        return Availability(
            False,
            f"{bundle.what} needs root: {bundle.root_why} "
            "(run as root, or use the simulated Slurm)",
        )
    missing = missing_programs(bundle)
    if not missing:
        return Availability(True, "all programs are installed")
    if not Path("/etc/debian_version").exists() or program("apt-get") is None or not root:
        return Availability(
            False,
            f"missing programs: {', '.join(missing)}; they are installed by themselves for root on "
            f"Debian only: {bundle.instead}",
        )
    return Availability(True, f"to be installed from Debian: {', '.join(missing)}")


def install(
    say: Callable[[str], None] = lambda _line: None, bundle: Bundle = SLURM
) -> tuple[str, ...]:
    """Install what is missing and return the names of the packages installed now.

    Nothing is done, and nothing but the file system asked, when all programs are there.
    Raises ``CannotInstall`` with apt's message.
    """
    state = available(bundle)
    if not state.ok:
        raise CannotInstall(state.reason)
    if not missing_programs(bundle):
        return ()
    wanted = tuple(name for name in bundle.packages if not _installed(name))
    before = {process.pid for process in processes_named(bundle.daemons)}
    say(f"installing from Debian: {' '.join(wanted)}")
    with no_service_starts():
        if not _apt_install(wanted):
            say("refreshing the package lists")
            _apt("update", "-q")
            failure = _apt_install_failure(wanted)
            if failure:
                raise CannotInstall(failure)
    _disable(wanted)
    for process in processes_named(bundle.daemons):
        if process.pid not in before:
            stop(process, grace_s=5.0)
    still = missing_programs(bundle)
    if still:
        raise CannotInstall(f"installed {' '.join(wanted)}, but still missing: {', '.join(still)}")
    return wanted


def _installed(package: str) -> bool:
    answer = subprocess.run(
        ["dpkg-query", "-W", "-f", "${db:Status-Status}", package],
        capture_output=True,
        text=True,
        check=False,
    )
    return answer.stdout.strip() == "installed"


def _apt(*args: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "DEBIAN_FRONTEND": "noninteractive",
        "DEBIAN_PRIORITY": "critical",
        "NEEDRESTART_SUSPEND": "1",
        "PATH": _SYSTEM_PATH,
    }
    return subprocess.run(
        ["apt-get", "-o", "DPkg::Lock::Timeout=120", *args],
        capture_output=True,
        text=True,
        env=environment,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def _apt_install(packages: tuple[str, ...]) -> bool:
    return not _apt_install_failure(packages)


def _apt_install_failure(packages: tuple[str, ...]) -> str:
    answer = _apt(
        "install", "-y", "-q", "--no-install-recommends", "-o", "Dpkg::Use-Pty=0", *packages
    )
    if answer.returncode == 0:
        return ""
    last = "\n".join((answer.stdout + answer.stderr).strip().splitlines()[-15:])
    return f"apt-get install {' '.join(packages)} failed (exit {answer.returncode}):\n{last}"


@contextlib.contextmanager
def no_service_starts(policy: Path = POLICY) -> Iterator[None]:
    """Forbid service starts while packages are configured; put back what was there before."""
    previous = policy.read_bytes() if policy.exists() else None
    if previous == FORBID.encode():
        previous = None  # left by an installation of ours that was killed
    mode = policy.stat().st_mode & 0o7777 if previous is not None else 0o755
    policy.write_text(FORBID)
    policy.chmod(0o755)
    try:
        yield
    finally:
        if previous is None:
            policy.unlink(missing_ok=True)
        else:
            policy.write_bytes(previous)
            policy.chmod(mode)


def _disable(packages: tuple[str, ...]) -> None:
    """Undo what the packages enabled for the next boot, with systemd or without."""
    for package in packages:
        for service in _SERVICES.get(package, ()):
            for command in (
                ["systemctl", "disable", f"{service}.service"],
                ["update-rc.d", service, "disable"],
            ):
                path = program(command[0])
                if path is not None:
                    subprocess.run([path, *command[1:]], capture_output=True, check=False)
