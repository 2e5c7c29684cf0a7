"""How each daemon of a lab is started, and how one knows that it serves.

A daemon that was started is not a daemon that answers: each has a question that only a working
one can answer, asked with a real command. Every daemon runs in the foreground in a session of
its own, so that its process number is known from the first moment.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from middlewatch.lab.config import Layout, Ports
from middlewatch.lab.errors import LabError, NotReady, tail
from middlewatch.lab.packages import program
from middlewatch.lab.patience import wait_for
from middlewatch.lab.processes import Process, alive, spawn
from middlewatch.lab.spec import LabSpec

MARK = "MIDDLEWATCH_LAB_DAEMON"
"""Environment variable by which a lab's own daemons are found again; its value is the folder."""

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Daemon:
    """One daemon: command line, log, and the question that tells whether it serves."""

    name: str
    argv: tuple[str, ...]
    log: Path
    serves: Callable[[], bool]
    timeout_s: float


def slurmd_name(node: str) -> str:
    """The daemon name of a node's slurmd."""
    return f"slurmd@{node}"


def environment(folder: Path, layout: Layout) -> dict[str, str]:
    """What a daemon sees of the world: nothing of the person who started it."""
    return {
        "PATH": SYSTEM_PATH,
        "LANG": "C.UTF-8",
        "SLURM_CONF": str(layout.slurm_conf),
        MARK: str(folder),
    }


def absolute(name: str) -> str:
    """Path of a program that is known to be installed."""
    path = program(name)
    if path is None:
        raise LabError(f"{name} is not installed; `middlewatch lab up` as root installs it")
    return path


def daemon(name: str, spec: LabSpec, layout: Layout, ports: Ports) -> Daemon:
    """The daemon of that name: munged, mariadbd, slurmdbd, slurmctld or slurmd@NODE."""
    env = environment(layout.folder, layout)
    prefix = spec.prefix

    def answers(*argv: str) -> bool:
        return succeeds((*prefix, *argv), env)

    if name == "munged":
        return Daemon(
            name,
            (
                absolute("munged"),
                "--foreground",
                "--force",
                "--num-threads=2",
                f"--key-file={layout.munge}/key",
                f"--socket={layout.munge_socket}",
                f"--pid-file={layout.munge}/pid",
                f"--log-file={layout.munge}/log",
                f"--seed-file={layout.munge}/seed",
            ),
            layout.log / "munged.log",
            lambda: succeeds((absolute("munge"), "-n", "-S", str(layout.munge_socket)), env),
            10.0,
        )
    if name == "mariadbd":
        return Daemon(
            name,
            (
                absolute("mariadbd"),
                "--no-defaults",
                "--user=mysql",
                f"--datadir={layout.database}",
                f"--tmpdir={layout.database_temporary}",
                f"--socket={layout.database_socket}",
                f"--port={ports.mariadbd}",
                "--bind-address=127.0.0.1",
                f"--pid-file={layout.database}/pid",
                "--innodb-buffer-pool-size=32M",
                "--innodb-log-file-size=8M",
                "--innodb-flush-log-at-trx-commit=2",
                "--innodb-lock-wait-timeout=900",
                "--performance-schema=OFF",
                "--skip-log-bin",
                "--skip-name-resolve",
            ),
            layout.log / "mariadbd.log",
            lambda: succeeds(database_client(layout, "select 1"), env),
            30.0,
        )
    if name == "slurmdbd":
        return Daemon(
            name,
            (*prefix, absolute("slurmdbd"), "-D"),
            layout.log / "slurmdbd.log",
            lambda: answers(absolute("sacctmgr"), "-n", "-P", "show", "cluster"),
            30.0,
        )
    if name == "slurmctld":
        return Daemon(
            name,
            (*prefix, absolute("slurmctld"), "-D"),
            layout.log / "slurmctld.log",
            # `ping` succeeds already while the state is being recovered; a listing does not.
            lambda: answers(absolute("scontrol"), "ping") and answers(absolute("sinfo"), "-h"),
            30.0,
        )
    if name.startswith("slurmd@"):
        node = name.removeprefix("slurmd@")
        if node not in spec.node_names:
            raise LabError(f"no node {node!r}; this lab has {', '.join(spec.node_names)}")
        return Daemon(
            name,
            (*prefix, absolute("slurmd"), "-D", "-N", node),
            layout.log / f"slurmd.{node}.log",
            lambda: node_state(node, prefix, env) in READY_STATES,
            40.0,
        )
    raise LabError(
        f"no daemon {name!r}; there are munged, mariadbd, slurmdbd, slurmctld and slurmd@NODE"
    )


READY_STATES = frozenset(
    {"idle", "mixed", "allocated", "completing", "drained", "draining", "reserved", "planned"}
)
"""States (``sinfo %T``) of a node whose slurmd has registered and answers."""


def node_state(node: str, prefix: tuple[str, ...], env: Mapping[str, str]) -> str:
    """``sinfo``'s long state of a node, marks such as ``*`` included; empty when unknown."""
    answer = run_quietly((*prefix, absolute("sinfo"), "-h", "-n", node, "-o", "%T"), env)
    return answer.stdout.split()[0] if answer.stdout.split() else ""


def start(which: Daemon, env: Mapping[str, str]) -> Process:
    """Start a daemon and return at once; see ``await_service``."""
    try:
        return spawn(which.argv, env, which.log.with_suffix(".out"))
    except OSError as error:
        raise NotReady(f"{which.name} could not be started: {error}") from error


def await_service(which: Daemon, running: Process) -> None:
    """Return when the daemon serves. Raises NotReady with its last words."""
    ended = False

    def answered() -> bool:
        nonlocal ended
        ended = not alive(running)
        return ended or which.serves()

    if wait_for(answered, which.timeout_s) and not ended:
        return
    what = "ended" if ended else f"does not answer after {which.timeout_s:.0f} s"
    raise NotReady(f"{which.name} {what}\n{tail(which.log)}\n{tail(which.log.with_suffix('.out'))}")


def database_client(layout: Layout, statement: str) -> tuple[str, ...]:
    """Command that runs SQL as the database's own root, over its socket."""
    client = program("mariadb") or absolute("mysql")
    return (
        client,
        "--no-defaults",
        "-u",
        "root",
        "-S",
        str(layout.database_socket),
        "-e",
        statement,
    )


def succeeds(argv: tuple[str, ...], env: Mapping[str, str]) -> bool:
    """Whether the command ended with 0 within five seconds."""
    return run_quietly(argv, env).returncode == 0


def run_quietly(argv: tuple[str, ...], env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command that may fail; a time-out of five seconds counts as exit 124."""
    try:
        return subprocess.run(
            argv,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=5.0,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(argv, 124, "", "timed out")
