"""A real Slurm, with accounting, on one machine, for as long as somebody needs it.

``up`` starts it, ``Cluster.load`` finds it again from another process, ``down`` leaves nothing.
All that is known about a running lab stands in ``lab.json`` in its folder, written before and
after each start, so that an interrupted or killed command can be cleaned up by the next one.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import pwd
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from middlewatch.lab import commandlog, daemons, freeports, jobs, rooted
from middlewatch.lab.config import Layout, Ports
from middlewatch.lab.errors import LabError, NoLab
from middlewatch.lab.patience import wait_for
from middlewatch.lab.processes import Process, alive, send, stop
from middlewatch.lab.spec import LabSpec
from middlewatch.lab.sweep import sweep

MARKER = ".middlewatch-lab"
"""File that makes a folder a lab's: only a folder with it is ever removed."""

ACCOUNTING: tuple[str, ...] = (
    "JobIDRaw",
    "State",
    "ExitCode",
    "Submit",
    "Start",
    "End",
    "NodeList",
    "Partition",
    "DerivedExitCode",
)
"""Fields of one accounting record that every supported release has."""


@dataclass(slots=True)
class Record:
    """What ``lab.json`` holds."""

    spec: LabSpec
    ports: Ports
    host: str
    version: str
    daemons: dict[str, Process] = field(default_factory=dict)


class Cluster:
    """Handle of one lab. Cheap; several handles, also in several processes, may share a lab."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.layout = Layout(folder)

    @classmethod
    def load(cls, folder: Path) -> Cluster:
        """The lab in ``folder``. Raises NoLab where there is none."""
        cluster = cls(folder)
        cluster.record()
        return cluster

    # ------------------------------------------------------------------ what is written down

    def record(self) -> Record:
        """The present ``lab.json``. Raises NoLab."""
        try:
            raw = json.loads(self.layout.lab_json.read_text())
        except FileNotFoundError:
            raise NoLab(f"no lab in {self.folder}: start one with `middlewatch lab up`") from None
        except (OSError, ValueError) as error:
            raise NoLab(f"{self.layout.lab_json} cannot be read: {error}") from error
        spec: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in raw["spec"].items()
        }
        spec["folder"] = self.folder
        ports = {**raw["ports"], "nodes": tuple(raw["ports"]["nodes"])}
        return Record(
            spec=LabSpec(**spec),
            ports=Ports(**ports),
            host=raw["host"],
            version=raw["version"],
            daemons={name: Process(**item) for name, item in raw["daemons"].items()},
        )

    def write(self, record: Record) -> None:
        """Replace ``lab.json`` in one step."""
        raw = {
            "version": record.version,
            "host": record.host,
            "cluster": record.spec.cluster,
            "nodes": record.spec.node_names,
            "job_users": record.spec.job_users,
            "operator": record.spec.operator,
            "env": {"SLURM_CONF": str(self.layout.slurm_conf)},
            "spec": asdict(record.spec),
            "ports": asdict(record.ports),
            "daemons": {name: asdict(item) for name, item in record.daemons.items()},
        }
        new = self.layout.lab_json.with_suffix(".new")
        new.write_text(json.dumps(raw, indent=2, default=str) + "\n")
        new.replace(self.layout.lab_json)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[Record]:
        with (self.folder / MARKER).open("a") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            record = self.record()
            yield record
            self.write(record)

    @property
    def spec(self) -> LabSpec:
        """The spec that the lab was started with."""
        return self.record().spec

    @property
    def version(self) -> str:
        """Slurm's release, for example ``22.05.8``."""
        return self.record().version

    @property
    def nodes(self) -> tuple[str, ...]:
        """Node names in order."""
        return self.spec.node_names

    @property
    def command_log(self) -> Path:
        """JSON lines of the commands issued through ``bin/``; see ``commandlog``."""
        return self.folder / "commands.jsonl"

    # ---------------------------------------------------------------------------- commands

    def env(self, logged: bool = True) -> dict[str, str]:
        """Environment for a program that is to work on this lab.

        PATH begins with the recording commands unless ``logged`` is false, then come those of
        the lab's release. Nothing of the caller's environment is in it.
        """
        of_release = rooted.clients(self.layout)
        path = f"{of_release}:{daemons.SYSTEM_PATH}" if of_release.exists() else daemons.SYSTEM_PATH
        if logged:
            path = f"{self.layout.bin}:{path}"
        return {"PATH": path, "LANG": "C.UTF-8", "SLURM_CONF": str(self.layout.slurm_conf)}

    def run(
        self,
        argv: Sequence[str],
        user: str | None = None,
        check: bool = True,
        timeout: float | None = 60.0,
        *,
        logged: bool = False,
        stdin: str | None = None,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a Slurm client on this lab, as root or as ``user``; text in and out.

        Not recorded in the command log unless ``logged``. With ``check`` a failure raises
        LabError with what the command printed. ``env`` is added to ``env()``.
        """
        environment = {**self.env(logged), **(env or {})}
        prefix = self.record().spec.prefix
        if prefix:
            argv = (*prefix, *argv)
        found = shutil.which(argv[0], path=environment["PATH"])
        if found is None:
            raise LabError(f"{argv[0]}: no such command")
        identity: dict[str, Any] = {}
        if user is not None:
            entry = pwd.getpwnam(user)
            identity = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
            environment |= {"USER": user, "LOGNAME": user, "HOME": str(self.home(user))}
        answer = subprocess.run(
            [found, *argv[1:]],
            env=environment,
            cwd=cwd or (self.home(user) if user else self.folder),
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
            **identity,
        )
        if check and answer.returncode != 0:
            raise LabError(
                f"{' '.join(argv)}: exit {answer.returncode}: "
                f"{(answer.stderr or answer.stdout).strip()}"
            )
        return answer

    def home(self, user: str) -> Path:
        """A user's own folder in the lab: jobs are submitted from there, logs lie there."""
        return self.layout.home / user

    def token(self, user: str = "root") -> str:
        """A token (JWT) for that user, good for an hour; the spec has ``jwt``."""
        said = self.run(["scontrol", "token", f"username={user}", "lifespan=3600"]).stdout
        return said.strip().partition("=")[2]

    def submit(
        self,
        job: str | jobs.TrainerOptions,
        user: str | None = None,
        comment: str | None = None,
        extra: Sequence[str] = (),
    ) -> str:
        """Submit a batch script, or the trainer with options; return the job id.

        ``extra`` are further arguments of sbatch. The user is the first of the job users unless
        given. The job's log is ``slurm-<id>.out`` in ``home(user)`` unless it says otherwise.
        """
        spec = self.spec
        user = user or spec.job_users[0]
        home = self.home(user)
        text = job if isinstance(job, str) else jobs.script(job, self.layout.bin, home)
        argv = ["sbatch", "--parsable"]
        if comment is not None:
            argv.append(f"--comment={comment}")
        answer = self.run([*argv, *extra], user=user, stdin=text)
        job_id = answer.stdout.strip().split(";")[0]
        if not isinstance(job, str):
            note = {"user": user, "checkpoints": str(job.folder(home, job_id))}
            (self.layout.jobs / f"{job_id}.json").write_text(json.dumps(note) + "\n")
        return job_id

    def job(self, job_id: str) -> dict[str, str]:
        """Fields of ``scontrol show job``; empty when slurmctld knows no such job.

        For scripts and tests of the lab only: this parser believes what users wrote.
        """
        answer = self.run(["scontrol", "-o", "show", "job", job_id], check=False)
        words = answer.stdout.split() if answer.returncode == 0 else []
        return dict(word.split("=", 1) for word in words if "=" in word)

    def wait_state(self, job_id: str, states: str | Sequence[str], timeout: float = 60.0) -> str:
        """Wait until the job is in one of the states; return it. Raises LabError in the end."""
        wanted = {states} if isinstance(states, str) else set(states)
        last: dict[str, str] = {}

        def there() -> str:
            nonlocal last
            last = self.job(job_id) or last
            state = last.get("JobState", "")
            return state if state in wanted else ""

        state = wait_for(there, timeout, every_s=0.1)
        if state:
            return state
        raise LabError(
            f"job {job_id} is {last.get('JobState', 'unknown')} "
            f"(Reason={last.get('Reason', '?')}) after {timeout:.0f} s, "
            f"not {' or '.join(sorted(wanted))}"
        )

    def accounting(self, job_id: str, fields: Sequence[str] = ACCOUNTING) -> list[dict[str, str]]:
        """Accounting's records of a job's attempts, oldest first."""
        answer = self.run(
            [
                "sacct",
                "-D",
                "-X",
                "-n",
                "-P",
                "--delimiter=\x1f",
                "-j",
                job_id,
                "-o",
                ",".join(fields),
            ]
        )
        rows = (line.split("\x1f") for line in answer.stdout.splitlines())
        return [dict(zip(fields, row, strict=True)) for row in rows]

    # ----------------------------------------------------------------------------- daemons

    def start_daemon(self, name: str, wait: bool = True) -> Process:
        """Start a daemon that does not run; return when it serves unless ``wait`` is false."""
        with self._changing() as record:
            running = record.daemons.get(name)
            if running is not None and alive(running):
                return running
            which = daemons.daemon(name, record.spec, self.layout, record.ports)
            running = daemons.start(which, daemons.environment(self.folder, self.layout))
            record.daemons[name] = running
        if wait:
            daemons.await_service(which, running)
        return running

    def stop_daemon(self, name: str, sig: int = signal.SIGTERM) -> None:
        """Signal a daemon and wait until it has gone (``SIGKILL`` after 10 s). Idempotent."""
        running = self.record().daemons.get(name)
        if running is None:
            raise LabError(f"this lab has no daemon {name!r}")
        if sig != signal.SIGTERM:
            send(running, sig)
            wait_for(lambda: not alive(running), timeout_s=10.0)
        stop(running, grace_s=10.0)

    def running(self, name: str) -> bool:
        """Whether the daemon's process lives (a frozen one does)."""
        known = self.record().daemons.get(name)
        return known is not None and alive(known)

    def freeze(self, name: str) -> None:
        """Stop a daemon in its tracks (SIGSTOP): it holds its ports and answers nothing."""
        self._signal(name, signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        """Let a frozen daemon go on."""
        self._signal(name, signal.SIGCONT)

    def _signal(self, name: str, signum: int) -> None:
        known = self.record().daemons.get(name)
        if known is None or not send(known, signum):
            raise LabError(f"{name} does not run")

    def kill_node(self, name: str) -> None:
        """Kill a node's slurmd: a node failure. Slurm notices after SlurmdTimeout and more."""
        self.stop_daemon(daemons.slurmd_name(name), signal.SIGKILL)

    def start_node(self, name: str, wait: bool = True) -> None:
        """Start a node's slurmd again."""
        self.start_daemon(daemons.slurmd_name(name), wait=wait)

    def node_state(self, name: str) -> str:
        """``sinfo``'s long state of a node, for example ``idle``, ``mixed``, ``down*``."""
        return daemons.node_state(name, self.spec.prefix, self.env(logged=False))

    def tidy(self) -> None:
        """Put a lab in order after whatever was done to it: no jobs, no faults, all idle.

        Returns when that is so; raises LabError otherwise.
        """
        commandlog.clear_faults(self.folder)
        record = self.record()
        for name in sorted(record.daemons, key=_stop_order, reverse=True):
            if not send(record.daemons[name], signal.SIGCONT):
                self.start_daemon(name, wait=not name.startswith("slurmd@"))
        if self.run(["squeue", "-h", "-o", "%i"]).stdout.strip():
            for user in (*record.spec.job_users, record.spec.operator, "root"):
                self.run(["scancel", f"--user={user}"])
        states: dict[str, str] = {}

        def in_order() -> bool:
            lines = self.run(["sinfo", "-h", "-N", "-o", "%N %T"]).stdout.splitlines()
            states.update((line.split()[0], line.split()[1]) for line in lines)
            off = [node for node, state in states.items() if state.startswith(("drain", "down"))]
            if off:
                self.run(
                    ["scontrol", "update", f"nodename={','.join(off)}", "state=RESUME"], check=False
                )
            busy = self.run(["squeue", "-h", "-o", "%i"]).stdout.strip()
            return not busy and set(states.values()) == {"idle"}

        if not wait_for(in_order, timeout_s=60.0, every_s=0.2):
            raise LabError(f"the lab is not in order after 60 s: {states}")

    # --------------------------------------------------------------------------------- end

    def down(self, remove: bool = True, say: Callable[[str], None] = lambda _line: None) -> None:
        """Stop everything of this lab and, with ``remove``, take its folder away.

        Works on a half-started lab and on one whose ``up`` was killed. A lab that stays on the
        disk is stopped gently, so that its files can be read; one that goes is killed.
        """
        if not (self.folder / MARKER).exists():
            raise NoLab(f"no lab in {self.folder}")
        with contextlib.suppress(NoLab):
            known = self.record().daemons
            order = sorted(known, key=_stop_order)
            if not remove:
                for name in order:
                    stop(known[name], grace_s=10.0)
        killed = sweep(self.folder)
        say(f"stopped; {killed} processes killed" if killed else "stopped")
        rooted.strip(self.layout)
        freeports.release(self.folder)
        if remove:
            shutil.rmtree(self.folder)
        else:
            self.layout.lab_json.unlink(missing_ok=True)


def _stop_order(name: str) -> int:
    order = ("slurmd@", "slurmctld", "slurmdbd", "mariadbd", "munged")
    return next(index for index, start in enumerate(order) if name.startswith(start))
