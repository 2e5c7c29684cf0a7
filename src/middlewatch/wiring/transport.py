"""How Slurm is reached, as the settings say it: what belongs together, and the target they name."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from middlewatch.adapters.slurm.rest import RestTarget
    from middlewatch.adapters.slurm.ssh import SshTarget
    from middlewatch.wiring.settings import ControllerSettings, Settings, SlurmSettings


def ssh_target(given: SlurmSettings) -> SshTarget:
    """Where the gate is. Its `problems` say what does not fit."""
    from middlewatch.adapters.slurm.ssh import SshTarget

    return SshTarget(
        host=given.ssh_host,
        port=given.ssh_port,
        user=given.ssh_user,
        key=_path(given.ssh_key),
        agent=given.ssh_agent,
        known_hosts=_path(given.ssh_known_hosts),
        jump=given.ssh_jump,
        config=_path(given.ssh_config),
        gate=given.ssh_gate,
        connect_timeout_s=given.ssh_connect_timeout_s,
    )


def watchdog_target(settings: Settings) -> SshTarget:
    """The same gate for the watchdog, with a key of its own where it has one."""
    target = ssh_target(settings.slurm)
    key = _path(settings.watchdog.ssh_key)
    return dataclasses.replace(target, key=key) if key else target


def rest_target(settings: Settings) -> RestTarget:
    """Where slurmrestd is, and what it does not say of its cluster."""
    from middlewatch.adapters.slurm.rest import RestTarget

    given = settings.slurm
    return RestTarget(
        url=given.rest_url,
        user=given.rest_user,
        token_file=_path(given.rest_token_file),
        cluster_name=settings.deployment.cluster_name,
        begin_delay_s=given.rest_begin_delay_s,
        message_timeout_s=given.rest_message_timeout_s,
    )


def about_transport(settings: Settings) -> Iterator[tuple[str, str, str]]:
    """What cannot be meant: (section, key, sentence)."""
    given = settings.slurm
    chosen = given.transport.value
    for key, transport in (("ssh_host", "ssh"), ("rest_url", "slurmrestd")):
        if getattr(given, key) and chosen != transport:
            yield "slurm", key, f'is set, but transport is not "{transport}"'
    if settings.watchdog.ssh_key and chosen != "ssh":
        yield "watchdog", "ssh_key", 'is set, but slurm.transport is not "ssh"'
    if chosen == "ssh":
        yield from _about_ssh(given)
        for name, problem in watchdog_target(settings).problems():
            if name == "key" and settings.watchdog.ssh_key:
                yield "watchdog", "ssh_key", problem
    if chosen == "slurmrestd":
        yield from _about_rest(settings)


def _about_ssh(given: SlurmSettings) -> Iterator[tuple[str, str, str]]:
    for name, problem in ssh_target(given).problems():
        yield "slurm", f"ssh_{name}", problem
    for key, argument in (("bin_dir", "--bin"), ("conf", "--conf")):
        if getattr(given, key):
            said = f"belongs to the other machine: give it to the gate there, as {argument}"
            yield "slurm", key, said


def _about_rest(settings: Settings) -> Iterator[tuple[str, str, str]]:
    given = settings.slurm
    parts = urlsplit(given.rest_url)
    local = parts.hostname in {"127.0.0.1", "localhost", "::1"}
    if given.rest_url.startswith("unix:/"):
        pass
    elif parts.scheme not in {"http", "https"} or not parts.hostname or parts.username:
        yield "slurm", "rest_url", "give it as http://host:port, https://host:port or unix:/path"
    elif parts.scheme == "http" and not local:
        yield "slurm", "rest_url", "a token would be sent in the clear: use https:// or unix:"
    for key in ("rest_user", "rest_token_file"):
        if not getattr(given, key):
            yield "slurm", key, "slurmrestd wants a user and a token of theirs"
    if not settings.deployment.cluster_name:
        yield "deployment", "cluster_name", "slurmrestd does not say it: write it down"


def about_gateway(given: ControllerSettings) -> Iterator[tuple[str, str, str]]:
    """What cannot be meant of the way from a controller to its gateway."""
    if not given.gateway:
        return
    parts = urlsplit(given.gateway)
    local = parts.hostname in {"127.0.0.1", "localhost", "::1"}
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username:
        yield "controller", "gateway", "give it as https://host:port"
    elif parts.scheme == "http" and not local:
        yield "controller", "gateway", "a token would be sent in the clear: use https://"
    if not given.token_file:
        yield "controller", "token_file", "name the file with a token of the scope controller"


def gate_script() -> str:
    """The gate's program, to be copied to the machine with Slurm's commands."""
    from middlewatch.adapters.slurm import gate as gate_program

    return Path(gate_program.__file__).read_text(encoding="utf-8")


def _path(text: str) -> str:
    return str(Path(text).expanduser().absolute()) if text else ""
