"""demo and lab: a Slurm of its own to try things with; nothing else on the machine is touched."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from middlewatch.cli import asking, show
from middlewatch.cli.failure import Exit, Failure
from middlewatch.cli.session import Session, with_session

NAME_HELP = "Which lab; several may run side by side."


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def demo(arguments: tuple[str, ...]) -> int:
    """Run one recovery from end to end and tell it as it happens; writes build/demo.json.

    As root on Debian with a real Slurm of its own, elsewhere with the simulated one.
    """
    try:
        story = importlib.import_module("middlewatch.wiring.demo")
    except ModuleNotFoundError as error:
        raise Failure(
            Exit.FAILED,
            f"the demo is not part of this installation ({error})",
            "`mw lab up` starts a Slurm to try things with",
        ) from error
    answer = story.run(list(arguments))
    return answer if isinstance(answer, int) else Exit.OK


@click.group()
def lab() -> None:
    """Start a real Slurm with accounting on this machine, and break it. Needs root and Debian."""


def _folder(name: str) -> Path:
    from middlewatch.lab.spec import LabSpec

    try:
        return LabSpec(name=name).path
    except ValueError as error:
        raise click.UsageError(str(error)) from error


@contextmanager
def _lab_errors() -> Iterator[None]:
    from middlewatch.lab.errors import LabError, NoLab

    try:
        yield
    except NoLab as error:
        raise Failure(Exit.NOT_FOUND, str(error)) from error
    except LabError as error:
        raise Failure(Exit.FAILED, str(error)) from error


@contextmanager
def _telling() -> Iterator[Callable[[str], None]]:
    """A place to tell what is going on: a moving line on a terminal, lines elsewhere."""
    if not sys.stderr.isatty():
        yield show.note
        return
    from rich.console import Console

    from middlewatch.wiring.plain import plain

    console = Console(stderr=True, highlight=False, markup=False)
    with console.status("starting") as status:

        def tell(line: str) -> None:
            console.print(plain(line))
            status.update(plain(line))

        yield tell


@lab.command("up")
@with_session()
@click.option("--name", default="default", show_default=True, help=NAME_HELP)
@click.option("--nodes", type=click.IntRange(1, 200), default=4, show_default=True)
@click.option("--release", default="", help="Slurm's release: 22.05, 24.11 or newest (Debian's).")
def lab_up(session: Session, name: str, nodes: int, release: str) -> None:
    """Start a lab; returns when all its nodes are idle.

    Without --release it runs the Slurm of this machine; another one is fetched from Debian once.
    """
    from middlewatch.lab import rooted, start
    from middlewatch.lab.spec import LabSpec

    _folder(name)
    with _lab_errors(), _telling() as tell:
        cluster = start.up(LabSpec(name=name, nodes=nodes, release=release), say=tell)
    environment = cluster.env()
    if session.as_json:
        show.as_json({"lab": _facts(cluster)})
        return
    show.say(f"Slurm {cluster.version} with {', '.join(cluster.nodes)} in {cluster.folder}")
    clients = rooted.clients(cluster.layout)
    commands = f" PATH={clients}:$PATH" if clients.exists() else ""
    show.say(f"  use it     export SLURM_CONF={environment['SLURM_CONF']}{commands}")
    show.say(f"  submit     mw lab submit --name {name}")
    show.say(f"  break      mw lab break crash JOB --name {name}   (mw lab break lists all)")
    bin_dir = f" --set slurm.bin_dir={clients}" if commands else ""
    show.say(f"  watch it   mw up --set slurm.conf={environment['SLURM_CONF']}{bin_dir}")
    show.say(f"  take down  mw lab down --name {name}")


def _facts(cluster: Any) -> dict[str, Any]:
    return {
        "name": cluster.spec.name,
        "folder": str(cluster.folder),
        "version": cluster.version,
        "nodes": list(cluster.nodes),
        "slurm_conf": cluster.env()["SLURM_CONF"],
        "path": cluster.env()["PATH"],
        "command_log": str(cluster.command_log),
    }


@lab.command("down")
@with_session()
@click.option("--name", default="default", show_default=True, help=NAME_HELP)
@click.option("--keep", is_flag=True, help="Leave its files.")
def lab_down(session: Session, name: str, keep: bool) -> None:
    """Stop a lab and take its folder away."""
    from middlewatch.lab.cluster import Cluster

    with _lab_errors():
        Cluster(_folder(name)).down(remove=not keep, say=show.note)
    if session.as_json:
        show.as_json({"down": name})


@lab.command("status")
@with_session()
@click.option("--name", default="default", show_default=True, help=NAME_HELP)
def lab_status(session: Session, name: str) -> int:
    """Say what runs; exit code 6 where something of it does not."""
    from middlewatch.lab.cluster import Cluster

    with _lab_errors():
        cluster = Cluster.load(_folder(name))
        running = {daemon: cluster.running(daemon) for daemon in cluster.record().daemons}
    if session.as_json:
        show.as_json({"lab": _facts(cluster), "daemons": running})
    else:
        show.say(f"Slurm {cluster.version} in {cluster.folder}")
        show.table(("DAEMON", "RUNS"), [(d, "yes" if up else "NO") for d, up in running.items()])
    return Exit.OK if all(running.values()) else Exit.FINDINGS


@lab.command("submit")
@with_session()
@click.option("--name", default="default", show_default=True, help=NAME_HELP)
@click.option("--nodes", type=click.IntRange(1), default=2, show_default=True)
@click.option("--steps", type=click.IntRange(1), default=500, show_default=True)
@click.option("--comment", help="The job's opt-in; without it, this environment and `action`.")
@click.option("--user", help="Submit as this user of the lab.")
def lab_submit(
    session: Session, *, name: str, nodes: int, steps: int, comment: str | None, user: str | None
) -> None:
    """Submit the training job and print its number."""
    import json

    from middlewatch.lab.cluster import Cluster
    from middlewatch.lab.jobs import TrainerOptions

    environment = asking.environment(session)
    opt_in = {"middlewatch": {"environment": environment, "mode": "action"}}
    text = json.dumps(opt_in, separators=(",", ":")) if comment is None else comment
    with _lab_errors():
        cluster = Cluster.load(_folder(name))
        job_id = cluster.submit(TrainerOptions(nodes=nodes, steps=steps), user=user, comment=text)
    if session.as_json:
        show.as_json({"job_id": job_id})
    else:
        show.say(job_id)


@lab.command("break")
@with_session()
@click.option("--name", default="default", show_default=True, help=NAME_HELP)
@click.option("--rank", type=int, default=-1, show_default=True, help="Which rank; -1: the last.")
@click.argument("kind", required=False)
@click.argument("target", required=False)
def lab_break(
    session: Session, *, name: str, rank: int, kind: str | None, target: str | None
) -> None:
    """Break a job, a node or a daemon; without KIND, list the ways."""
    from middlewatch.lab import breakage
    from middlewatch.lab.cluster import Cluster

    if kind is None:
        if session.as_json:
            kinds = {k: {"target": v.target, "text": v.text} for k, v in breakage.KINDS.items()}
            show.as_json({"kinds": kinds})
            return
        show.table(
            ("KIND", "TARGET", "WHAT"),
            [(k, v.target.upper() or "-", v.text) for k, v in breakage.KINDS.items()],
        )
        return
    with _lab_errors():
        said = breakage.break_it(Cluster.load(_folder(name)), kind, target, rank=rank)
    if session.as_json:
        show.as_json({"done": said})
    else:
        show.say(said)
