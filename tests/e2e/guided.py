"""The administrator's guide as something to type: its blocks, and a machine to type them on.

The machine is this one in a mount namespace of its own: `/etc`, `/opt` and `/usr/local` are copies,
`/var/lib` has the same folders under another roof, and all of it vanishes with the namespace, so
that a user, a unit and settings can be made as the guide says. A real Slurm runs inside it. What stands in for something is systemd, which
runs in no test: `systemctl` below starts the unit's command as the unit's user, with the unit's
environment and capabilities, and kills all of its processes.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from middlewatch.lab.cluster import Cluster
from middlewatch.lab.patience import wait_for
from tests.identities import runnable_by

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "administrator.md"
USER = "games"
"""Who types what stands behind a `$`; a user of the lab."""
LAB = """
import sys
from middlewatch.lab.spec import LabSpec
from middlewatch.lab.start import up
spec = LabSpec(name=sys.argv[1], nodes=2, cred_expire=15, extra=("PartitionName=canary Nodes=ALL State=UP",))
up(spec)
"""
SYSTEMCTL = r"""#!/bin/bash
# systemctl: starts the unit's command as the unit says, and kills what came of it.
unit=/etc/systemd/system/middlewatch.service
said() { sed -n "s/^$1=//p" $unit; }
begin() {
  user=$(said User); state=/var/lib/$(said StateDirectory)
  install -d -o $user -g $user -m $(said StateDirectoryMode) $state
  # Only what the unit says is in the environment; caps as in the bounding set.
  cap=$(said AmbientCapabilities | tr A-Z a-z | sed 's/^cap_/+/')
  setsid setpriv --reuid=$user --regid=$user --init-groups --no-new-privs --inh-caps=-all,$cap \
    --bounding-set=-all,$cap --ambient-caps=$cap \
    env -i PATH=/usr/local/bin:/usr/bin:/bin $(said Environment) $(said ExecStart) \
    >> /var/lib/middlewatch/unit.log 2>&1 < /dev/null &
  echo $! > /run/guide-unit.pid
  for n in $(seq 600); do test -S $state/middlewatch.sock -o -e $state/url && return 0; sleep 0.1; done
  tail -20 /var/lib/middlewatch/unit.log >&2; exit 1
}
finish() {
  pid=$(cat /run/guide-unit.pid 2>/dev/null) || return 0
  kill -TERM $pid 2>/dev/null || return 0
  while kill -0 $pid 2>/dev/null && ! grep -q "^State:.*Z" /proc/$pid/status; do sleep 0.1; done
}
case "$1" in
  daemon-reload) systemd-analyze verify $unit 2>&1 | grep middlewatch | grep -v nobody && exit 1; exit 0 ;;
  enable) begin ;;
  start) begin ;;
  restart) finish; rm -f /var/lib/middlewatch/url; begin ;;
  stop|disable) finish; rm -f /var/lib/middlewatch/url ;;
  kill) pkill -KILL -u $(said User) -f middlewatch; rm -f /var/lib/middlewatch/url ;;
  *) echo "systemctl: $* is not in the guide" >&2; exit 2 ;;
esac
"""


@dataclass(frozen=True, slots=True)
class Line:
    """One command of the guide. ``section`` is the number of its chapter."""

    section: int
    root: bool
    text: str


def lines() -> list[Line]:
    """All commands of the guide in their order; a here-document belongs to its command."""
    found: list[Line] = []
    section, inside, open_ = 0, False, ""
    for row in GUIDE.read_text().splitlines():
        if heading := re.match(r"## (\d+)\. ", row):
            section = int(heading[1])
        if row.startswith("```"):
            inside = row == "```console"
            continue
        if not inside:
            continue
        if open_:
            last = found.pop()
            found.append(Line(last.section, last.root, f"{last.text}\n{row}"))
            open_ = "" if row == open_ else open_
        elif row[:2] in {"# ", "$ "}:
            found.append(Line(section, row[0] == "#", row[2:]))
            here = re.search(r"<<'(\w+)'", row)
            open_ = here[1] if here else ""
        else:
            raise AssertionError(f"a line of the guide is neither root's nor anybody's: {row}")
    return found


@dataclass
class Machine:
    """``folder`` holds what belongs to it; `close` leaves nothing."""

    folder: Path
    lab_name: str
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(mode=0o755)
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sleep", "infinity"]
        )
        # Entered too early it would be the machine itself.
        assert wait_for(self._apart, timeout_s=60.0)
        self.lab = Cluster(Path("/var/tmp") / f"middlewatch-lab-{self.lab_name}")

    def prepare(self) -> None:
        """Copies of what the guide changes, a Slurm, and our program where `make setup` puts it."""
        for place in ("/etc", "/opt", "/usr/local"):
            copy = self.folder / place.strip("/").replace("/", "-")
            self.run(f"mkdir {copy} && cp -a {place}/. {copy}/ && mount --bind {copy} {place}")
        self.run(
            f"mkdir {self.folder}/old {self.folder}/roof && cd {self.folder} && "
            "mount --bind /var/lib old && "
            "for one in $(ls old); do test -d old/$one -a $one != middlewatch || continue; "
            "mkdir roof/$one && mount --bind old/$one roof/$one; done && mount --rbind roof /var/lib"
        )
        self._install()
        self.run(f"{shlex.join([sys.executable, '-c', LAB, self.lab_name])}")
        self.run(
            f"mkdir -p /etc/slurm && ln -sfn {self.lab.layout.slurm_conf} /etc/slurm/slurm.conf"
        )
        path = self.folder / "usr-local" / "bin" / "systemctl"
        path.parent.mkdir(exist_ok=True)
        path.write_text(SYSTEMCTL)
        path.chmod(0o755)

    def _apart(self) -> bool:
        try:
            theirs = Path(f"/proc/{self.holder.pid}/ns/mnt").readlink()
        except OSError:
            return False
        name = Path(f"/proc/{self.holder.pid}/comm").read_text().strip()
        return name == "sleep" and theirs != Path("/proc/self/ns/mnt").readlink()

    def _install(self) -> None:
        runnable = runnable_by(USER)
        packages = runnable.env.get("PYTHONPATH", "")
        if not packages:
            packages = ":".join([str(ROOT / "src"), *(p for p in sys.path if "-packages" in p)])
        venv = "/opt/middlewatch/.venv"
        self.run(f"{runnable.python} -m venv --without-pip {venv}")
        pth = "\n".join(packages.split(":"))
        site = f"{venv}/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
        self.run(f"cat > {site}/middlewatch.pth <<'E'\n{pth}\nE")
        program = f"#!{venv}/bin/python\nfrom middlewatch.cli import main\nmain()\n"
        for name in ("mw", "middlewatch"):
            self.run(f"cat > {venv}/bin/{name} <<'E'\n{program}E\nchmod 755 {venv}/bin/{name}")

    def run(
        self,
        command: str,
        *,
        root: bool = True,
        codes: tuple[int, ...] = (0,),
        limit_s: float = 120,
    ) -> str:
        """What the command printed. Fails where it ended with another code, saying what it said."""
        become = () if root else ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups")
        done = subprocess.run(
            [
                *("nsenter", "--target", str(self.holder.pid), "--mount", "--", *become),
                *("bash", "-o", "pipefail", "-c"),
                f"cd {self.home(root)} && umask 022 && {{ {command}\n}}",
            ],
            env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
        self.said.append(f"{'#' if root else '$'} {command}\n{done.stdout}{done.stderr}")
        told = "\n".join(self.said[-6:])
        assert done.returncode in codes, f"exit code {done.returncode}:\n{told}"
        return done.stdout

    def home(self, root: bool) -> Path:
        """Where it is typed: jobs of that user write their output there."""
        return Path("/") if root or not self.lab.folder.exists() else self.lab.home(USER)

    def close(self) -> None:
        try:
            if self.lab.folder.exists():
                self.lab.down()
        finally:
            self.holder.kill()
            self.holder.wait()
            shutil.rmtree(self.folder, ignore_errors=True)
            os.sync()
