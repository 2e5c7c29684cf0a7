"""The watchdog as a process of its own: alone in its session, and needing almost nothing.

`up` starts it and may die at any moment, by any signal to its process group; this process then
goes on for as long as something of ours stands. It imports the standard library and our own
rooms only, so that a broken package elsewhere cannot keep a job held.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import fcntl
import hashlib
import json
import logging
import logging.handlers
import os
import signal
import stat
import sys
import threading
from collections.abc import Sequence
from dataclasses import Field, dataclass, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType
from typing import Any

from middlewatch import __version__
from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.journal.file import FileJournal
from middlewatch.adapters.slurm.command import Commands
from middlewatch.adapters.slurm.rest import RestScheduler, RestTarget
from middlewatch.adapters.slurm.scheduler import SlurmScheduler
from middlewatch.adapters.slurm.ssh import SshCommands, SshTarget
from middlewatch.model.gates import Mode
from middlewatch.model.identity import ClusterId
from middlewatch.ports.errors import PortError
from middlewatch.ports.scheduler import Scheduler
from middlewatch.reconciliation.deadlines import WatchdogConfig, check_deadlines
from middlewatch.reconciliation.holds import worth_keeping
from middlewatch.services.watchdog.service import Round, Watchdog
from middlewatch.wiring import presence
from middlewatch.wiring.presence import UpState, up_state

LOG_BYTES = 4 * 1024 * 1024
EX_OK, EX_FAILED, EX_CONFLICT, EX_CONFIG = 0, 1, 5, 78
UP_GRACE_S = 30.0
TIDY_EVERY_S = 3600.0
_CANNOT_BE_WRITTEN = frozenset({errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EACCES})
REMEMBER_DAYS = 30
"""How long the journal remembers which of a job's exclusions were its user's own."""


@dataclass(frozen=True, slots=True)
class WatchdogSpec:
    """Everything that the process is told, as `up` knows it. ``bin_dir`` and ``slurm_conf``
    empty: PATH and the environment decide. ``prefix`` stands before each of Slurm's commands;
    ``ssh``, where it is not empty, is the `SshTarget` behind which they are, as JSON; ``rest``
    the `RestTarget` that stands for them."""

    state_dir: Path
    environment: str = "default"
    mode: Mode = Mode.ACTION
    config: WatchdogConfig = WatchdogConfig()
    look_deadline_s: float = 10.0
    up_grace_s: float = UP_GRACE_S
    bin_dir: str = ""
    slurm_conf: str = ""
    prefix: tuple[str, ...] = ()
    ssh: str = ""
    rest: str = ""

    def digest(self) -> str:
        """Short text that differs where a watchdog would behave differently."""
        words = "\0".join((__version__, *self.argv()))
        return hashlib.sha256(words.encode()).hexdigest()[:16]

    def argv(self) -> tuple[str, ...]:
        """The arguments that `main` reads back into the same spec."""
        numbers = [
            f"--{item.name.replace('_', '-')}={_kind(item)(getattr(self.config, item.name))}"
            for item in fields(self.config)
        ]
        return (
            f"--state-dir={self.state_dir}",
            f"--environment={self.environment}",
            f"--mode={self.mode.value}",
            *numbers,
            f"--look-deadline-s={float(self.look_deadline_s)}",
            f"--up-grace-s={float(self.up_grace_s)}",
            f"--bin-dir={self.bin_dir}",
            f"--slurm-conf={self.slurm_conf}",
            *(f"--prefix={word}" for word in self.prefix),
            *([f"--ssh={self.ssh}"] if self.ssh else []),
            *([f"--rest={self.rest}"] if self.rest else []),
        )


def _kind(item: Field[Any]) -> type[int | float]:
    """How a number of the configuration is read and written: the same text for the same number."""
    return int if isinstance(item.default, int) else float


def read_arguments(arguments: Sequence[str]) -> tuple[WatchdogSpec, bool]:
    """The spec, and whether to detach. Exits with 2 for arguments that it does not know."""
    parser = argparse.ArgumentParser(prog="middlewatch-watchdog", description=__doc__)
    parser.add_argument("--state-dir", type=Path, required=True)
    parser.add_argument("--environment", default="default")
    parser.add_argument("--mode", type=Mode, choices=list(Mode), default=Mode.ACTION)
    for item in fields(WatchdogConfig):
        name = f"--{item.name.replace('_', '-')}"
        parser.add_argument(name, type=_kind(item), default=item.default)
    parser.add_argument("--look-deadline-s", type=float, default=10.0)
    parser.add_argument("--up-grace-s", type=float, default=UP_GRACE_S)
    parser.add_argument("--bin-dir", default="")
    parser.add_argument("--slurm-conf", default="")
    parser.add_argument("--prefix", action="append", default=[])
    parser.add_argument("--ssh", default="", help="where Slurm's commands are, as JSON")
    parser.add_argument("--rest", default="", help="the slurmrestd to ask instead, as JSON")
    parser.add_argument("--detach", action="store_true", help="go on in a session of its own")
    given = parser.parse_args(arguments)
    config = WatchdogConfig(
        **{item.name: getattr(given, item.name) for item in fields(WatchdogConfig)}
    )
    spec = WatchdogSpec(
        state_dir=given.state_dir,
        environment=given.environment,
        mode=given.mode,
        config=config,
        look_deadline_s=given.look_deadline_s,
        up_grace_s=given.up_grace_s,
        bin_dir=given.bin_dir,
        slurm_conf=given.slurm_conf,
        prefix=tuple(given.prefix),
        ssh=given.ssh,
        rest=given.rest,
    )
    return spec, given.detach


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the watchdog; with ``--detach``, return once it runs in a session of its own.

    Exit codes: 0 left in order (or detached and running), 1 could not start, or left while
    something of ours stood, 5 another one guards this state directory, 78 a deadline that
    protects nobody.
    """
    spec, detach = read_arguments(sys.argv[1:] if arguments is None else arguments)
    problems = check_deadlines(spec.config, None)
    if problems:
        sys.stderr.writelines(f"watchdog: {problem}\n" for problem in problems)
        return EX_CONFIG
    try:
        if not spec.state_dir.is_dir():
            spec.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = _take_lock(spec.state_dir)
    except OSError as error:
        sys.stderr.write(
            f"watchdog: state directory {spec.state_dir} cannot be used: {error.strerror}\n"
        )
        return EX_FAILED
    if lock is None:
        there = presence.read(spec.state_dir / presence.WATCHDOG_ALIVE)
        who = f"process {there.pid}" if there is not None else "another process"
        sys.stderr.write(f"watchdog: {who} already guards {spec.state_dir}\n")
        return EX_CONFLICT
    if not detach:
        return Process(spec, _stderr_log(), lock).run()
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        return _wait_for_the_detached(reader, spec.state_dir)
    os.close(reader)
    _detach()
    code = EX_FAILED
    try:
        code = Process(spec, _file_log(spec.state_dir), lock).run(writer)
    finally:
        os._exit(code)


def _take_lock(state_dir: Path) -> int | None:
    """The right to guard this directory, held until the process ends; None: somebody has it.

    Where nothing can be written any more (a full disk, or one that was mounted anew for reading),
    the file as it is, or the directory itself, is locked: there is still a journal to read.
    """
    path = state_dir / presence.WATCHDOG_LOCK
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno not in _CANNOT_BE_WRITTEN:
            raise
        there = path if path.exists() else state_dir
        handle = os.open(there, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def _detach() -> None:
    """Become a process that no terminal, no session and no process group of `up` can reach."""
    os.setsid()
    if os.fork():
        os._exit(EX_OK)
    os.umask(0o077)
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)


def _wait_for_the_detached(reader: int, state_dir: Path) -> int:
    """Return once the other side says that it runs, or has died before it could."""
    with os.fdopen(reader, "rb") as pipe:
        word = pipe.read(1)
    os.wait()
    if word:
        return EX_OK
    sys.stderr.write(f"watchdog: it died at its start; see {state_dir / presence.WATCHDOG_LOG}\n")
    return EX_FAILED


class Process:
    """The loop around the service: signs of life, `up`'s state, and when to leave."""

    def __init__(self, spec: WatchdogSpec, log: logging.Logger, lock: int) -> None:
        self._spec = spec
        self._lock = lock
        self._log = log
        self._clock = SystemClock()
        self._journal = FileJournal(spec.state_dir)
        self._watchdog = Watchdog(
            _scheduler(spec, self._clock),
            self._journal,
            spec.config,
            spec.mode,
            log,
            pulse=self._show_life,
        )
        self._wake = threading.Event()
        self._asked_to_leave: datetime | None = None
        self._tidied_at = self._clock.now()
        self._up: UpState | None = None
        self._last: Round | None = None
        self._lifeless = ""

    def run(self, ready: int | None = None) -> int:
        """Turn until there is a reason to leave; the exit code. One byte goes to ``ready`` once
        the watchdog stands guard."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            (self._spec.state_dir / presence.WATCHDOG_PID).write_text(f"{os.getpid()}\n")
        except OSError as error:
            self._log.warning("the process number could not be written: %s", error)
        self._show_life()
        self._tidy()
        self._log.info("on guard, mode %s, over %s", self._spec.mode.value, self._spec.state_dir)
        if ready is not None:
            os.write(ready, b"1")
            os.close(ready)
        try:
            return self._turn()
        finally:
            for name in self._own_files():
                with contextlib.suppress(OSError):
                    (self._spec.state_dir / name).unlink()

    def _own_files(self) -> tuple[str, ...]:
        if not self._stands():
            # What lies there now is another one's.
            return ()
        return (presence.WATCHDOG_PID, presence.WATCHDOG_ALIVE)

    def _stands(self) -> bool:
        folder = self._spec.state_dir
        if stat.S_ISDIR(os.fstat(self._lock).st_mode):
            return presence.is_file_of(self._lock, folder)
        return presence.is_file_of(self._lock, folder / presence.WATCHDOG_LOCK)

    def _turn(self) -> int:
        while True:
            if not self._stands():
                self._log.error("the state directory was removed or replaced: nothing to guard")
                return EX_FAILED
            now = self._clock.now()
            up = self._look_at_up(now)
            nobody_else = up not in (UpState.ALIVE, UpState.SILENT)
            leaving = self._asked_to_leave is not None
            try:
                self._last = self._watchdog.tick(now, leaving=leaving and nobody_else)
            except Exception:  # noqa: BLE001 - the process's edge: whatever it was, go on
                self._log.exception("a round failed; the next one comes")
                self._last = None
            self._show_life()
            if (now - self._tidied_at).total_seconds() > TIDY_EVERY_S:
                self._tidy()
            code = self._leave_with(up, self._last, self._clock.now())
            if code is not None:
                return code
            interval = self._spec.config.interval_s
            self._wake.wait(min(interval, 1.0) if leaving else interval)
            self._wake.clear()

    def _leave_with(self, up: UpState, last: Round | None, now: datetime) -> int | None:
        if self._asked_to_leave is None:
            if up is UpState.STOPPED and last is not None and last.quiet:
                self._log.info("up has stopped in order and nothing of ours stands: leaving")
                return EX_OK
            return None
        if self._spec.mode is not Mode.ACTION or (last is not None and last.may_leave):
            self._log.info("asked to leave: leaving")
            return EX_OK
        waited = (now - self._asked_to_leave).total_seconds()
        if waited > self._spec.config.max_hold_s + self._spec.config.command_deadline_s:
            self._log.error("asked to leave, and leaving although something of ours still stands")
            return EX_FAILED
        return None

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self._asked_to_leave is None:
            self._asked_to_leave = self._clock.now()
        self._wake.set()

    def _look_at_up(self, now: datetime) -> UpState:
        seen = up_state(self._spec.state_dir, now, self._spec.up_grace_s)
        if seen is not self._up:
            level = logging.WARNING if seen in _WORRYING else logging.INFO
            self._log.log(level, "up: %s", _MEANING[seen])
            self._up = seen
        return seen

    def _show_life(self) -> None:
        last = self._last
        standing = "unknown" if last is None or last.standing is None else str(last.standing)
        leaving = " leaving" if self._asked_to_leave is not None else ""
        told = self._spec.digest()
        refused = f" refused={','.join(last.refused)}" if last is not None and last.refused else ""
        note = f"mode={self._spec.mode.value} standing={standing} told={told}{refused}{leaving}"
        try:
            presence.write(
                self._spec.state_dir / presence.WATCHDOG_ALIVE,
                presence.of_this_process(self._clock.now(), note),
            )
            self._lifeless = ""
        except OSError as error:
            if self._lifeless != str(error):
                self._lifeless = str(error)
                self._log.warning("no sign of life can be written: %s", error)

    def _tidy(self) -> None:
        self._tidied_at = now = self._clock.now()
        since = now - timedelta(days=REMEMBER_DAYS)
        try:
            unreadable = self._journal.read().garbage
            if unreadable:
                self._log.error(
                    "%d lines of the journal cannot be read: what they spoke of is not guarded; look "
                    "for held jobs: squeue -t SPECIAL_EXIT",
                    unreadable,
                )
            before, after = self._journal.compact(lambda entries: worth_keeping(entries, since))
            found = self._journal.read()
        except PortError as error:
            self._log.error("%s", error)
            return
        if found.newer:
            self._log.warning(
                "%d journal lines are of a later version and are left alone", len(found.newer)
            )
        if before != after:
            self._log.info("journal tidied: %d entries, were %d", after, before)


_WORRYING = frozenset({UpState.SILENT, UpState.DIED})
_MEANING = {
    UpState.ALIVE: "it is there",
    UpState.SILENT: "its process is there, but it has shown no sign of life; going on",
    UpState.DIED: "it died without stopping in order; going on by ourselves",
    UpState.STOPPED: "it has stopped in order",
    UpState.NEVER: "there is none yet; going on by ourselves",
}


def _scheduler(spec: WatchdogSpec, clock: SystemClock) -> Scheduler:
    if spec.rest:
        return RestScheduler(
            ClusterId("slurm", spec.environment),
            RestTarget.from_json(spec.rest),
            clock,
            query_deadline_s=spec.look_deadline_s,
        )
    environ = dict(os.environ)
    if spec.slurm_conf:
        environ["SLURM_CONF"] = spec.slurm_conf
    commands: Commands
    if spec.ssh:
        target = SshTarget.from_json(spec.ssh)
        commands = SshCommands(clock, target, folder=spec.state_dir / "ssh", environ=environ)
    else:
        commands = Commands(
            clock,
            prefix=spec.prefix,
            bin_dir=Path(spec.bin_dir) if spec.bin_dir else None,
            environ=environ,
        )
    cluster = ClusterId("slurm", spec.environment)
    return SlurmScheduler(cluster, commands, clock, query_deadline_s=spec.look_deadline_s)


class _Lines(logging.Formatter):
    """One JSON object per line; nothing in a text can make a second line."""

    def format(self, record: logging.LogRecord) -> str:
        event: dict[str, object] = {
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "event": record.getMessage()[:2000],
            "role": "watchdog",
        }
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)[-4000:]
        return json.dumps(event)


def _logger(handler: logging.Handler) -> logging.Logger:
    handler.setFormatter(_Lines())
    log = logging.getLogger("middlewatch.watchdog")
    log.setLevel(logging.INFO)
    log.propagate = False
    log.handlers = [handler]
    return log


def _stderr_log() -> logging.Logger:
    return _logger(logging.StreamHandler(sys.stderr))


def _file_log(state_dir: Path) -> logging.Logger:
    try:
        handler: logging.Handler = logging.handlers.RotatingFileHandler(
            state_dir / presence.WATCHDOG_LOG, maxBytes=LOG_BYTES, backupCount=1
        )
    except OSError:
        handler = _system_log()
    return _logger(handler)


def _system_log() -> logging.Handler:
    """Where the state directory takes no line, the machine's own log may."""
    try:
        return logging.handlers.SysLogHandler("/dev/log", logging.handlers.SysLogHandler.LOG_DAEMON)
    except OSError:
        return logging.NullHandler()


if __name__ == "__main__":
    sys.exit(main())
