"""From an empty folder to idle nodes, in the order in which the daemons need each other.

munged and the database come first and independently, then slurmdbd, the cluster and its users
in accounting, slurmctld, and all slurmds at once. Whatever fails or interrupts this, nothing
is left running.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from middlewatch.lab import (
    commandlog,
    config,
    daemons,
    database,
    freeports,
    jobs,
    packages,
    releases,
    rooted,
)
from middlewatch.lab.cluster import MARKER, Cluster, Record
from middlewatch.lab.config import Layout, Ports
from middlewatch.lab.errors import LabError, NoLab, NotReady, tail
from middlewatch.lab.patience import wait_for
from middlewatch.lab.processes import alive
from middlewatch.lab.spec import LabSpec


def up(
    spec: LabSpec | None = None,
    say: Callable[[str], None] = lambda _line: None,
) -> Cluster:
    """Start a lab and return when all its nodes are idle; about six seconds.

    Installs what is missing. Raises LabError (or CannotInstall) with a message that says what
    to do; then, and when interrupted, everything that was started is stopped and the folder is
    taken away, except the logs' last words, which are in the message.
    """
    spec = spec or LabSpec()
    if spec.release:
        releases.named(spec.release)
    packages.install(say)
    if spec.jwt:
        packages.install(say, packages.REST)  # slurmctld's plugin for tokens comes with it
    spec, tree = _of_release(spec, say)
    for user in (*spec.job_users, spec.operator, "slurm", "mysql"):
        try:
            pwd.getpwnam(user)
        except KeyError:
            raise LabError(f"no user {user!r} on this machine; choose others in the spec") from None
    folder = spec.path
    _claim_folder(folder)
    cluster = Cluster(folder)
    # A person's umask of 077 would lock Slurm's user and the jobs' users out.
    umask = os.umask(0o022)
    try:
        with _terminated_like_interrupted():
            _start(cluster, spec, tree, say)
    except BaseException:
        say("taking down what had been started")
        cluster.down(remove=True)
        raise
    finally:
        os.umask(umask)
    return cluster


def _of_release(spec: LabSpec, say: Callable[[str], None]) -> tuple[LabSpec, releases.Tree | None]:
    """The spec as it is to be run, and the files of its release unless they are the machine's."""
    if not spec.release:
        return spec, None
    release = releases.named(spec.release)
    if releases.is_the_machines(release, _version(())):
        return spec, None
    tree = releases.tree(release, say)
    return replace(spec, prefix=(str(rooted.enter_script(Layout(spec.path))),)), tree


def _claim_folder(folder: Path) -> None:
    marker = folder / MARKER
    if marker.exists():
        old = Cluster(folder)
        try:
            lives = any(alive(item) for item in old.record().daemons.values())
        except NoLab:
            lives = False
        if lives:
            raise LabError(
                f"a lab is running in {folder}; take it down first "
                "(`middlewatch lab down`) or choose another name"
            )
        old.down(remove=True)
    elif folder.exists() and any(folder.iterdir()):
        raise LabError(f"{folder} is not empty and is not a lab's folder; choose another")
    folder.mkdir(parents=True, exist_ok=True)
    # Slurm's own user and the jobs' users must be able to enter.
    folder.chmod(0o755)
    marker.touch()
    for parent in folder.parents:
        if not parent.stat().st_mode & 0o001:
            shutil.rmtree(folder)
            raise LabError(
                f"{parent} cannot be entered by other users, so Slurm's user and the jobs' users "
                f"could not reach {folder}; choose a folder below /var/tmp"
            )


def _start(
    cluster: Cluster, spec: LabSpec, tree: releases.Tree | None, say: Callable[[str], None]
) -> None:
    layout = cluster.layout
    host = socket.gethostname().split(".")[0]
    version = tree.version if tree is not None else _version(spec.prefix)
    chosen = freeports.claim(cluster.folder, 3 + spec.nodes)
    ports = Ports(chosen[0], chosen[1], chosen[2], chosen[3:])
    password = _random(16).hex()
    say(f"Slurm {version}, {spec.nodes} nodes, in {cluster.folder}")
    record = Record(spec, ports, host, version)
    _write_files(layout, record, password)
    if tree is not None:
        rooted.furnish(layout, tree)
    cluster.write(record)
    database.create(layout)
    cluster.start_daemon("munged", wait=False)
    cluster.start_daemon("mariadbd")
    database.prepare(layout, password, daemons.environment(cluster.folder, layout))
    say("munged and mariadbd run")
    cluster.start_daemon("munged")
    cluster.start_daemon("slurmdbd")
    for words in _accounting(spec):
        cluster.run(["sacctmgr", "-i", *words])
    say("slurmdbd runs, users are known to accounting")
    cluster.start_daemon("slurmctld")
    say("slurmctld runs")
    for node in spec.node_names:
        cluster.start_node(node, wait=False)
    _await_nodes(cluster, spec)
    say(f"{spec.nodes} nodes are idle")


def _accounting(spec: LabSpec) -> Iterator[list[str]]:
    account = f"account={spec.account}"
    yield ["add", "cluster", spec.cluster]
    yield ["add", "account", spec.account, "Description=lab", "Organization=lab"]
    yield ["add", "user", ",".join((*spec.job_users, "root", "slurm")), account]
    yield ["add", "user", spec.operator, account, "adminlevel=Operator"]


def _await_nodes(cluster: Cluster, spec: LabSpec) -> None:
    waiting: list[str] = []

    def all_idle() -> bool:
        nonlocal waiting
        lines = cluster.run(["sinfo", "-h", "-N", "-o", "%N %T"]).stdout.splitlines()
        states = dict(line.split() for line in lines)
        waiting = [name for name in spec.node_names if states.get(name) != "idle"]
        return not waiting

    if not wait_for(all_idle, timeout_s=40.0 + spec.nodes):
        first = waiting[0]
        raise NotReady(
            f"not idle after {40 + spec.nodes} s: {', '.join(waiting)}\n"
            f"{tail(cluster.layout.log / f'slurmd.{first}.log')}\n"
            f"{tail(cluster.layout.log / 'slurmctld.log')}"
        )


def _version(prefix: tuple[str, ...]) -> str:
    argv = (*prefix, daemons.absolute("slurmctld"), "-V")
    answer = subprocess.run(argv, capture_output=True, text=True, check=False)
    words = answer.stdout.split()
    if answer.returncode != 0 or not words:
        raise LabError(f"{' '.join(argv)} failed: {answer.stderr.strip()}")
    return words[-1]


def _write_files(layout: Layout, record: Record, password: str) -> None:
    spec, ports = record.spec, record.ports
    slurm = ("slurm", "slurm")
    for folder, mode, owner in (
        (layout.slurm_conf.parent, 0o755, None),
        (layout.log, 0o755, slurm),
        (layout.run, 0o1777, None),
        (layout.state, 0o755, slurm),
        (layout.spool, 0o755, None),
        (layout.munge, 0o700, None),
        (layout.munge_socket.parent, 0o755, None),
        (layout.home, 0o755, None),
        (layout.jobs, 0o755, None),
        (layout.bin, 0o755, None),
    ):
        _folder(folder, mode, owner)
    for node in spec.node_names:
        _folder(layout.spool / node, 0o755, None)
    for user in {*spec.job_users, spec.operator}:
        entry = pwd.getpwnam(user)
        _folder(layout.home / user, 0o755, (user, entry.pw_gid))
    key = layout.munge / "key"
    key.touch(mode=0o600)
    key.write_bytes(_random(128))
    if spec.jwt:
        layout.jwt_key.touch(mode=0o600)
        layout.jwt_key.write_bytes(_random(32))
        shutil.chown(layout.jwt_key, *slurm)
    layout.slurm_conf.write_text(config.slurm_conf(spec, layout, ports, record.host))
    layout.cgroup_conf.write_text(config.cgroup_conf(record.version))
    layout.slurmdbd_conf.touch(mode=0o600)
    layout.slurmdbd_conf.write_text(config.slurmdbd_conf(spec, layout, ports, password))
    shutil.chown(layout.slurmdbd_conf, *slurm)
    commandlog.install(layout, spec.prefix)
    jobs.install(layout)


def _folder(path: Path, mode: int, owner: tuple[str, str | int] | None) -> None:
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(mode)
    if owner is not None:
        shutil.chown(path, *owner)


def _random(count: int) -> bytes:
    with Path("/dev/urandom").open("rb") as source:
        return source.read(count)


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Make SIGTERM and SIGHUP raise, so that such an `up` cleans up as an interrupted one does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(signum: int, _frame: object) -> None:
        raise SystemExit(128 + signum)

    before = {
        signum: signal.signal(signum, interrupt) for signum in (signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
