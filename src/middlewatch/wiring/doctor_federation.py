"""Is the cluster one of several that hand jobs to each other? Then some are not ours to see.

In a federation a job submitted here may be started by a sibling cluster. What is listed and acted on
here is this cluster alone (`squeue --local`), so that such a job is neither watched nor restarted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from middlewatch.wiring.findings import Examined, Finding, Level
from middlewatch.wiring.plain import plain

ARGV = ("scontrol", "show", "federation")
_NAME = re.compile(r"^Federation:\s+(\S+)", re.MULTILINE)


def examined_federation(this: Examined) -> Iterator[Finding]:
    """A warning where slurmctld says that it is in one. (A gate of an older version does not let the
    question through; then nothing is said.)"""
    if this.facts is None:
        return
    done = this.ask(ARGV)
    found = _NAME.search(done.stdout) if done.exit_code == 0 else None
    if found is None:
        return
    name = plain(found.group(1), 60)
    yield Finding(
        "federation",
        Level.WARN,
        f"{this.facts.name} is in the federation {name}: jobs that a sibling cluster runs are "
        "neither watched nor restarted here",
        f"let owners who want restarts submit with --clusters={this.facts.name}, and run a "
        "Middlewatch with an environment of its own for each cluster",
    )
