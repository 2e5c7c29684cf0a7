"""Doctor's look at the way to Slurm where it leads over SSH or through slurmrestd."""

from __future__ import annotations

from collections.abc import Iterator

from middlewatch.adapters.slurm.rest import RestScheduler
from middlewatch.adapters.slurm.ssh import SshCommands
from middlewatch.model.answer import Known, Unknown
from middlewatch.model.gates import Mode
from middlewatch.wiring.findings import Examined, Finding, Level
from middlewatch.wiring.plain import plain


def examined_gate(this: Examined, gate: SshCommands) -> Iterator[Finding]:
    """Whether the gate answers, whom it is, and what it lets through."""
    why = gate.reach()
    if why:
        yield Finding("ssh", Level.FAIL, plain(why, 400), "docs/transports.md has the steps")
        return
    host = this.loaded.settings.slurm.ssh_host
    name = this.user[1] or str(this.user[0]) if this.user else "?"
    said = f"the gate on {host} runs Slurm's commands as {name}"
    yield Finding("ssh", Level.OK, said)
    if gate.looks_only:
        acting = this.loaded.settings.deployment.mode is Mode.ACTION
        yield Finding(
            "ssh",
            Level.WARN if acting else Level.INFO,
            "the gate only looks: no job can be changed through it",
            "take --looks-only out of its command in authorized_keys when jobs may be changed",
        )


def examined_rest(this: Examined) -> Iterator[Finding]:
    """Whether slurmrestd answers, for this token, and what it cannot do."""
    facts = this.scheduler.facts()
    if isinstance(facts, Unknown):
        yield Finding("slurmrestd", Level.FAIL, plain(facts.why, 400), "docs/transports.md")
        return
    listing = this.scheduler.listing()
    if not isinstance(listing, Known):
        why = listing.why if isinstance(listing, Unknown) else "no listing"
        yield Finding("slurmrestd", Level.FAIL, plain(why, 400), "docs/transports.md")
        return
    said = f"answers for {this.loaded.settings.slurm.rest_user}, {len(listing.value.jobs)} jobs"
    yield Finding("slurmrestd", Level.OK, said)
    hidden = this.scheduler.hidden() if isinstance(this.scheduler, RestScheduler) else ""
    if hidden and listing.value.only_uid is not None:
        yield Finding("slurmrestd", Level.WARN, plain(hidden, 600), "docs/transports.md#slurmrestd")
    if isinstance(this.scheduler, RestScheduler) and this.scheduler.requeues():
        return
    acting = this.loaded.settings.deployment.mode is Mode.ACTION
    yield Finding(
        "slurmrestd",
        Level.WARN if acting else Level.INFO,
        "it cannot requeue (26.05's can): no job is restarted through it",
        "for restarts: Slurm's commands, here or by SSH",
    )
