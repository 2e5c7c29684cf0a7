"""limits: after which silence there is an alarm, what another limit would have meant, and changing
it while jobs run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click

from middlewatch.cli import asking, show
from middlewatch.cli.durations import seconds_of
from middlewatch.cli.session import Session, with_session

PATH = "/middlewatch/v1/limits"
Body = Mapping[str, Any]


@click.group(invoke_without_command=True)
@click.pass_context
def limits(context: click.Context) -> None:
    """Show, preview and change the limits of detection, for all jobs, while they run.

    The settings give them ([policy]); a change made here stays until it is reset, and the trail
    says who made it and why. Without a command: show.
    """
    if context.invoked_subcommand is None:
        context.invoke(show_)


@limits.command("show")
@with_session()
def show_(session: Session) -> None:
    """Show the limits in force and where each comes from."""
    _show(session, asking.gateway(session).get(PATH))


@limits.command()
@with_session()
@click.argument("limits", nargs=-1, required=True, metavar="NAME=DURATION...")
@click.option("--since", default="7d", metavar="DURATION", help="How far back (7d).")
def preview(session: Session, *, limits: tuple[str, ...], since: str) -> None:
    """Say which past alarms would come and which would go; changes nothing.

    \b
    Examples:
      mw limits preview silence_floor=10m
      mw limits preview first_step_limit=1h --since 30d
    """
    values, reset = _given(limits)
    body = {"limits": values, "reset": reset, "seconds": seconds_of(since, "--since")}
    answer = asking.gateway(session).post(f"{PATH}:preview", body)
    if session.as_json:
        show.as_json(answer)
        return
    show.say(
        f"{answer.get('attempts', 0)} attempts: {answer.get('alarmsNow', 0)} alarms as it is, "
        f"{answer.get('alarmsThen', 0)} with these limits"
    )
    rows = [*_rows("would come", answer.get("come")), *_rows("would go", answer.get("go"))]
    if rows:
        show.table(("ALARM", "JOBID", "ATT", "PHASE", "SINCE", "SILENT", "LIMIT", "NEW"), rows)
    if answer.get("cut"):
        show.note("there are more attempts than one preview looks at: the newest were")


@limits.command("set")
@with_session()
@click.argument("limits", nargs=-1, required=True, metavar="NAME=DURATION...")
@click.option("--reason", required=True, metavar="TEXT", help="Why; it stands in the trail.")
def set_(session: Session, *, limits: tuple[str, ...], reason: str) -> None:
    """Change limits now; NAME=reset goes back to what the settings say.

    \b
    Examples:
      mw limits set silence_floor=10m --reason "saves take longer on the new disks"
      mw limits set silence_floor=reset --reason "the old disks are back"
    """
    values, reset = _given(limits)
    gateway = asking.gateway(session)
    version = gateway.get(PATH).get("version") or "0"
    body = {"version": version, "limits": values, "reset": reset, "reason": reason}
    _show(session, gateway.post(PATH, body))


def _given(limits: Iterable[str]) -> tuple[list[dict[str, object]], list[str]]:
    values: list[dict[str, object]] = []
    reset: list[str] = []
    for text in limits:
        key, found, value = text.partition("=")
        if not found or not key.strip():
            raise click.UsageError(f"{text!r} is not NAME=DURATION, such as silence_floor=10m")
        name = key.strip().removeprefix("policy.").removesuffix("_s") + "_s"
        if value.strip() == "reset":
            reset.append(name)
        else:
            values.append({"name": name, "seconds": seconds_of(value, key)})
    return values, reset


def _show(session: Session, body: Body) -> None:
    if session.as_json:
        show.as_json(dict(body))
        return
    from middlewatch.wiring.loading import duration_text

    rows = [
        (
            str(limit["name"]).removesuffix("_s"),
            duration_text(float(limit["seconds"])),
            duration_text(float(limit["configuredSeconds"])),
            "the API" if limit.get("changed") else "settings",
        )
        for limit in body.get("limits") or []
    ]
    show.table(("LIMIT", "IN FORCE", "SETTINGS", "FROM"), rows)
    if body.get("changedBy"):
        when = show.clock_time(body.get("changedAt"))
        show.note(f"changed {when} by {body['changedBy']}: {body.get('reason')}")


def _rows(word: str, alarms: object) -> Iterable[tuple[object, ...]]:
    from middlewatch.wiring.loading import duration_text

    for alarm in alarms if isinstance(alarms, list) else []:
        pause = alarm.get("pause") or {}
        yield (
            word,
            alarm.get("jobId") or "-",
            alarm.get("attemptIndex") or 0,
            pause.get("phase") or "-",
            show.clock_time(pause.get("since")),
            duration_text(float(round(pause.get("seconds") or 0))),
            duration_text(float(round(pause.get("limitSeconds") or 0))),
            duration_text(float(round(alarm.get("wouldBeLimitSeconds") or 0))),
        )
