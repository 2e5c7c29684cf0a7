"""The systemd unit for `up`, with the paths of this installation.

What stands in it and why:

- ``KillMode=process``: a restart of `up` must not take the watchdog with it, which guards what is
  held meanwhile. The watchdog leaves by itself when nothing is owed.
- ``RestartPreventExitStatus=78``: wrong settings do not mend themselves.
- ``CAP_DAC_READ_SEARCH`` alone: jobs' output belongs to their users; nothing is written there.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from middlewatch.ports.errors import Refused

USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}", re.ASCII)
_PLAIN = re.compile(r"[A-Za-z0-9/._+@-]+", re.ASCII)
_TEXT = """\
[Unit]
Description=Middlewatch: watches training jobs, restarts them on healthy nodes
After=network-online.target munge.service slurmctld.service
Wants=network-online.target
StartLimitIntervalSec=0

[Service]
Type=exec
{user}ExecStart={command}
Environment=MIDDLEWATCH_STATE_DIRECTORY={state}
{state_line}Restart=always
RestartSec=2
RestartPreventExitStatus=78
KillMode=process
OOMPolicy=continue
TimeoutStopSec=120
UMask=0077
LimitNOFILE=65536
NoNewPrivileges=yes
CapabilityBoundingSet=CAP_DAC_READ_SEARCH
AmbientCapabilities=CAP_DAC_READ_SEARCH
ProtectSystem=strict
ReadWritePaths={state}
ProtectHome=read-only
PrivateDevices=yes
ProtectControlGroups=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RestrictSUIDSGID=yes
LockPersonality=yes

[Install]
WantedBy=multi-user.target
"""


def unit(user: str, state: Path, config: Path | None = None, program: Path | None = None) -> str:
    """The unit's text. Raises `Refused` for a user's name or a path that a unit cannot hold."""
    if not USER.fullmatch(user):
        raise Refused(f"{user[:60]!r} is no user's name")
    program = program or Path(sys.prefix) / "bin" / "middlewatch"
    words = [program, *(() if config is None else ("--config", config.absolute())), "up"]
    for path in (*words, state):
        if not _PLAIN.fullmatch(str(path)):
            raise Refused(f"{str(path)[:200]!r} cannot stand in a unit: use a plainer path")
    ours = state.parent == Path("/var/lib")
    return _TEXT.format(
        user=f"User={user}\n",
        command=" ".join(map(str, words)),
        state=state,
        state_line=f"StateDirectory={state.name}\nStateDirectoryMode=0700\n" if ours else "",
    )
