"""slurm-gate: the program that a Slurm host needs for a controller that comes by SSH."""

from __future__ import annotations

import click

from middlewatch.cli import show


@click.command("slurm-gate")
def slurm_gate() -> int:
    """Print the gate: one Python file (3.6 or later) for the machine with Slurm's commands.

    Copy it there and make it the forced command of our key in authorized_keys; it runs the few
    commands that we need, in the shapes in which we send them, and nothing else. docs/transports.md
    has the steps.

    \b
      mw slurm-gate | ssh root@ctl 'cat > /usr/local/bin/middlewatch-gate'
    """
    from middlewatch.wiring.transport import gate_script

    show.say(gate_script().rstrip("\n"))
    return 0
