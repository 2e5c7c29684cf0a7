"""Running one of Slurm's commands so that it can neither hang us, flood us nor read our habits.

A client that waits for a dead slurmctld returns after ten seconds or after a minute, and its
children hold the pipes after it was killed. So every command runs in a session of its own, with
a deadline after which the whole process group dies, with its output capped and with nothing of
the caller's environment that changes what Slurm's commands print.

A command that changes something has to die at its deadline also where we are dead by then, or
stand still: another controller counts on it. So coreutils' `timeout` stands between, and kills it a
little after we would have.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import selectors
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from middlewatch.ports.clock import Clock

STDOUT_LIMIT = 256 * 1024 * 1024
STDERR_LIMIT = 64 * 1024
LEASH_S = 0.5
"""How long after its deadline a command is killed that we have not killed."""
_KEPT = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT", "SLURM_SACK_KEY", "SLURM_SACK_JWKS")
_DROPPED = ("SLURM_", "SQUEUE_", "SACCT_", "SCONTROL_", "SCANCEL_", "SINFO_", "SBATCH_", "SALLOC_")


@dataclass(frozen=True, slots=True)
class Finished:
    """What came of one command.

    ``exit_code`` is None where it did not end by itself: ``problem`` says why (killed at its
    deadline, too much output, could not be started). A command killed by a signal from outside
    has a negative one. ``stderr`` is cut at 64 KiB.
    """

    argv: tuple[str, ...]
    exit_code: int | None
    stdout: str
    stderr: str
    problem: str
    started_at: datetime
    ended_at: datetime
    seconds: float

    @property
    def said(self) -> str:
        """One line for people: the problem, or the first thing that it complained about."""
        text = self.problem or self.stderr.strip() or self.stdout.strip()
        line = " / ".join(part.strip() for part in text.splitlines() if part.strip())
        return line[:500]


@dataclass(frozen=True, slots=True)
class Observed:
    """One command as told to an observer. ``changing`` says that it may change the cluster."""

    at: datetime
    argv: tuple[str, ...]
    exit_code: int | None
    duration: float
    changing: bool


class Commands:
    """Runs Slurm's clients.

    ``prefix`` stands before each command (a chroot, a namespace); ``bin_dir`` is where they lie,
    otherwise PATH decides. ``environ`` is the environment to start from (the process's own by
    default). ``observer`` is called after each command, in the calling thread. May be shared by
    threads if the observer may.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        prefix: Sequence[str] = (),
        bin_dir: Path | None = None,
        environ: Mapping[str, str] | None = None,
        observer: Callable[[Observed], None] | None = None,
        stdout_limit: int = STDOUT_LIMIT,
    ) -> None:
        self._clock = clock
        self._prefix = tuple(prefix)
        self._bin_dir = bin_dir
        self._environ = clean_environment(os.environ if environ is None else environ)
        self._observer = observer
        self._stdout_limit = stdout_limit
        self._timeout = shutil.which("timeout", path=self._environ.get("PATH"))

    def run(self, argv: Sequence[str], deadline_s: float, *, changing: bool = False) -> Finished:
        """Run ``argv`` (its first word a command of Slurm); never raises for what it does."""
        leash = self._leash(deadline_s) if changing else ()
        full = (*leash, *self._program(argv[0]), *argv[1:])
        started_at = self._clock.now()
        begin = self._clock.monotonic()
        code, out, err, problem = self._run(full, begin, deadline_s)
        seconds = self._clock.monotonic() - begin
        done = Finished(
            argv=tuple(argv),
            exit_code=code,
            stdout=out.decode("utf-8", "replace"),
            stderr=err.decode("utf-8", "replace"),
            problem=problem,
            started_at=started_at,
            ended_at=self._clock.now(),
            seconds=seconds,
        )
        if self._observer is not None:
            self._observer(Observed(started_at, tuple(argv), code, seconds, changing))
        return done

    def user(self) -> tuple[int, str] | None:
        """Number and name of the user that the commands run as; None where that is not known."""
        uid = os.geteuid()
        try:
            return uid, pwd.getpwuid(uid).pw_name
        except KeyError:
            return uid, ""

    @property
    def leashed(self) -> bool:
        """Whether a command that changes something ends at its deadline by itself, although nobody
        is left to kill it: coreutils' ``timeout`` does that."""
        return self._timeout is not None

    def close(self) -> None:
        """Let go of whatever is kept between two commands; here nothing."""

    def _program(self, name: str) -> tuple[str, ...]:
        """The words that stand for the first word of a command."""
        return (*self._prefix, str(self._bin_dir / name) if self._bin_dir is not None else name)

    def _leash(self, deadline_s: float) -> tuple[str, ...]:
        """The words before a command by which it ends although nobody is there to end it."""
        if self._timeout is None:
            return ()
        return (self._timeout, "--signal=KILL", f"{deadline_s + LEASH_S:g}")

    def _run(
        self, argv: tuple[str, ...], begin: float, deadline_s: float
    ) -> tuple[int | None, bytes, bytes, str]:
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environ,
                start_new_session=True,
                close_fds=True,
            )
        except (OSError, ValueError) as error:
            return None, b"", b"", f"{argv[0]} could not be started: {error}"
        out, err = bytearray(), bytearray()
        try:
            problem = self._drain(process, out, err, begin + deadline_s)
            if not problem:
                try:
                    code = process.wait(max(0.0, begin + deadline_s - self._clock.monotonic()))
                    return code, bytes(out), bytes(err), ""
                except subprocess.TimeoutExpired:
                    problem = "closed its output and did not end"
            return None, bytes(out), bytes(err), f"{argv[0]} {problem} ({deadline_s:g} s): killed"
        finally:
            # Not yet reaped, so that its number cannot belong to somebody else's group.
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()

    def _drain(
        self, process: subprocess.Popen[bytes], out: bytearray, err: bytearray, until: float
    ) -> str:
        """Read both pipes to their ends; a word on what went wrong, or nothing."""
        with selectors.DefaultSelector() as selector:
            for pipe, sink in ((process.stdout, out), (process.stderr, err)):
                if pipe is not None:
                    os.set_blocking(pipe.fileno(), False)
                    selector.register(pipe.fileno(), selectors.EVENT_READ, sink)
            while selector.get_map():
                left = until - self._clock.monotonic()
                if left <= 0:
                    return "did not end within its deadline"
                for key, _ in selector.select(left):
                    try:
                        data = os.read(key.fd, 1 << 16)
                    except BlockingIOError:
                        continue
                    if not data:
                        selector.unregister(key.fd)
                    elif key.data is err:
                        err += data[: max(0, STDERR_LIMIT - len(err))]
                    else:
                        out += data
                        if len(out) > self._stdout_limit:
                            return f"printed more than {self._stdout_limit} bytes"
        return ""


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for Slurm's clients: epoch times, plain language, none of the variables
    with which a user changes their formats, filters or target cluster."""
    kept = {
        name: value
        for name, value in environ.items()
        if name in _KEPT or not name.startswith(_DROPPED)
    }
    return kept | {"SLURM_TIME_FORMAT": "%s", "LC_ALL": "C", "TZ": "UTC"}
