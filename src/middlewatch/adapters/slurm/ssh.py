"""Slurm's commands on another machine, over one connection of OpenSSH's own client.

Nothing that we pass is ever a line for a shell: the remote side runs one fixed program, the gate
(`gate.py`), and the words of a command reach it as JSON on its input. One connection is made and
kept, each command is a channel of it with a process, a deadline and an end of its own. A command
whose answer was lost may have happened, as it may when slurmctld falls silent; but the gate begins
nothing later than `gate.LATEST_S` after it greeted us, so it is known from when on it cannot any
more.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import selectors
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from middlewatch.adapters.slurm.command import (
    STDERR_LIMIT,
    STDOUT_LIMIT,
    Commands,
    Observed,
    clean_environment,
)
from middlewatch.adapters.slurm.gate import GREETING, LATEST_S, LONGEST_RUN_S
from middlewatch.ports.clock import Clock
from middlewatch.ports.errors import Refused

MASTER, CHANNEL = "middlewatch-master", "middlewatch-channel"
"""Names of the host in the configuration that we write for ssh: one makes the connection, the other
only ever uses it."""
REMOTE_MARGIN_S = 0.5
RETRY_S = 2.0
UNSENT = ", before it was sent"
AGAIN_S = (0.05, 0.2, 0.5)
"""Pauses before a command that was not sent is tried again."""
CHANNELS = 8
"""At once; sshd's own limit (MaxSessions) is ten, one of which the connection itself takes."""
_FOLDER_PATH_LIMIT = 55
"""The kernel takes 107 bytes for a socket's path; below the folder ours has up to fifty."""
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9])?|[0-9A-Fa-f:]{2,45}")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}")
_JUMP = re.compile(rf"(?:{_USER.pattern}@)?(?:{_HOST.pattern})(?::[0-9]{{1,5}})?")
_WORD = re.compile(r"/?[A-Za-z0-9_][A-Za-z0-9_./-]{0,200}")
_PATH = re.compile(r"/[^\x00-\x1f\x7f\"'\\$%`]{1,500}")


@dataclass(frozen=True, slots=True)
class SshTarget:
    """Where the gate is and how to get there. Paths are absolute.

    ``known_hosts`` pins the host's key, and those of the hosts in ``jump`` (``[user@]host[:port]``,
    in their order). ``agent`` lets keys come from ssh-agent; ``key`` empty leaves the choice to it
    or to ``config``, a site's own ssh_config, which may say whatever we do not. ``gate`` is the
    program that is asked for; a forced command in authorized_keys overrides it.
    """

    host: str
    known_hosts: str
    port: int = 22
    user: str = ""
    key: str = ""
    agent: bool = False
    jump: tuple[str, ...] = ()
    config: str = ""
    gate: str = "middlewatch-gate"
    connect_timeout_s: float = 10.0

    def problems(self) -> tuple[tuple[str, str], ...]:
        """What cannot be right, as (field, sentence)."""
        found: list[tuple[str, str]] = []
        if not _HOST.fullmatch(self.host):
            found.append(("host", f"{self.host[:80]!r} is no host name"))
        if self.user and not _USER.fullmatch(self.user):
            found.append(("user", f"{self.user[:80]!r} is no user's name"))
        found += [
            ("jump", f"{one[:80]!r} is not [user@]host[:port]")
            for one in self.jump
            if not _JUMP.fullmatch(one)
        ]
        if not self.known_hosts:
            needed = "without the host's pinned key nobody knows whom we talk to: name a file, for "
            found.append(("known_hosts", f"{needed}example one that `ssh-keyscan HOST` began"))
        for name in ("known_hosts", "key", "config"):
            path = getattr(self, name)
            if path and not _PATH.fullmatch(path):
                found.append((name, f"{path[:80]!r} is no absolute path that ssh takes as it is"))
        if not self.key and not self.agent and not self.config:
            found.append(("key", "no key: name one, allow the agent, or give a configuration"))
        if not _WORD.fullmatch(self.gate):
            found.append(("gate", f"{self.gate[:80]!r} is no program's name or path"))
        return tuple(found)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> SshTarget:
        given: dict[str, Any] = json.loads(text)
        return cls(**{**given, "jump": tuple(given["jump"])})


def ssh_config(target: SshTarget, control: Path) -> str:
    """The configuration for both uses of the host. Raises `Refused` for a target with problems."""
    problems = target.problems()
    if problems:
        raise Refused("; ".join(f"{name}: {text}" for name, text in problems))
    common = [
        f"HostName {target.host}",
        f"Port {target.port}",
        *([f"User {target.user}"] if target.user else []),
    ]
    jump = [f"ProxyJump {','.join(target.jump)}"] if target.jump else []
    everywhere = [
        "BatchMode yes",
        "StrictHostKeyChecking yes",
        f'UserKnownHostsFile "{target.known_hosts}"',
        "GlobalKnownHostsFile /dev/null",
        "UpdateHostKeys no",
        "VerifyHostKeyDNS no",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "PreferredAuthentications publickey",
        *([f'IdentityFile "{target.key}"'] if target.key else []),
        *(["IdentitiesOnly yes"] if target.key and not target.agent else []),
        *([] if target.agent else ["IdentityAgent none"]),
        "ForwardAgent no",
        "ForwardX11 no",
        "Tunnel no",
        "PermitLocalCommand no",
        "RequestTTY no",
        "EscapeChar none",
        "ControlPersist no",
        f"ConnectTimeout {max(1, round(target.connect_timeout_s))}",
        "ConnectionAttempts 1",
        "TCPKeepAlive yes",
        "ServerAliveInterval 5",
        "ServerAliveCountMax 3",
        "LogLevel ERROR",
    ]
    lines = [
        f"Host {MASTER}",
        *common,
        *jump,
        "ControlMaster yes",
        f'ControlPath "{control}"',
        f"Host {CHANNEL}",
        *common,
        # Where the connection has gone, a channel must not quietly make one of its own.
        "ProxyCommand false",
        "ControlMaster no",
        f'ControlPath "{control}"',
        "Host *",
        *everywhere,
        *([f'Include "{target.config}"'] if target.config else []),
    ]
    return "\n".join(lines) + "\n"


class SshCommands(Commands):
    """Runs Slurm's clients behind a gate. May be shared by threads.

    ``folder`` is where the socket of the connection may lie; where its path is too long for one,
    a private folder below the system's temporary one is made. Nothing is connected before the
    first command; a connection that is lost is made again for the next command, but not more
    often than every `RETRY_S`. Raises `Refused` for a target with problems.
    """

    def __init__(
        self,
        clock: Clock,
        target: SshTarget,
        *,
        folder: Path | None = None,
        environ: Mapping[str, str] | None = None,
        observer: Callable[[Observed], None] | None = None,
        stdout_limit: int = STDOUT_LIMIT,
    ) -> None:
        super().__init__(clock, observer=observer, stdout_limit=stdout_limit)
        given = clean_environment(os.environ if environ is None else environ)
        wanted = {"PATH", "HOME", "USER", "LOGNAME", "LC_ALL", *(["SSH_AUTH_SOCK"] * target.agent)}
        self._ssh_environ = {name: value for name, value in given.items() if name in wanted}
        self._target = target
        ssh_config(target, Path("/"))  # refuses now what would fail at each command
        self._given_folder = folder
        self._folder: Path | None = None
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(CHANNELS)
        self._master: subprocess.Popen[bytes] | None = None
        self._number = 0
        self._user: tuple[int, str] | None = None
        self._looks_only = False
        self._watchdog_only = False
        self._failed: tuple[float, str] | None = None
        atexit.register(self.close)

    def user(self) -> tuple[int, str] | None:
        """Whom the gate runs as; None where it cannot be reached."""
        begin = self._clock.monotonic()
        why = self._connected(begin + self._target.connect_timeout_s)
        return None if why else self._user

    def reach(self) -> str:
        """Why the gate cannot be reached, or nothing."""
        return self._connected(self._clock.monotonic() + self._target.connect_timeout_s)

    @property
    def looks_only(self) -> bool:
        """Whether the gate said that it runs nothing that changes a job."""
        return self._looks_only

    @property
    def watchdog_only(self) -> bool:
        """Whether the gate, when last met, said that it changes only what a watchdog changes."""
        return self._watchdog_only

    def close(self) -> None:
        """End the connection and remove its folder. A later command makes both again."""
        with self._lock:
            self._hang_up()
            folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    # ---------------------------------------------------------------------------- one command

    def _program(self, name: str) -> tuple[str, ...]:
        return (name,)

    def _leash(self, deadline_s: float) -> tuple[str, ...]:
        return ()  # the gate has the deadline, and keeps it without us

    def _run(
        self, argv: tuple[str, ...], begin: float, deadline_s: float
    ) -> tuple[int | None, bytes, bytes, str]:
        until = begin + deadline_s
        if not self._slots.acquire(timeout=deadline_s):
            return None, b"", b"", f"{argv[0]}: all channels to {self._target.host} are busy"
        try:
            why = self._connected(until)
            if why:
                return None, b"", b"", f"{argv[0]} was not sent: {why}"
            tried = self._through(argv, until)
            for pause_s in AGAIN_S:
                if not tried[3].endswith(UNSENT) or self._clock.monotonic() + pause_s >= until:
                    break
                # sshd still counts a channel that has just ended, and refuses one more: what was
                # not sent may be sent.
                self._clock.sleep(pause_s)
                tried = self._through(argv, until)
            return tried
        finally:
            self._slots.release()

    def _through(self, argv: tuple[str, ...], until: float) -> tuple[int | None, bytes, bytes, str]:
        left_s = until - self._clock.monotonic()
        # The remote side kills it a little earlier, so that nothing of ours outlives our deadline.
        run_s = max(left_s - REMOTE_MARGIN_S, left_s / 2)
        request = {"argv": list(argv), "deadline_s": round(max(0.1, min(run_s, LONGEST_RUN_S)), 2)}
        try:
            process = self._ssh(CHANNEL)
        except OSError as error:
            return None, b"", b"", f"ssh could not be started: {error}"
        answer = _Answer(self._stdout_limit)
        try:
            problem = _talk(process, _framed(request), answer, until, self._clock)
        finally:
            _end(process)
        if problem and not answer.over:
            said = answer.complaint.decode("utf-8", "replace").strip()
            where = self._target.host
            told = f" ({said[:200]})" if said else ""
            asked = "" if answer.greeted else UNSENT
            return None, b"", b"", f"{argv[0]} on {where}: {problem}{told}{asked}"
        if answer.rejected:
            # Nothing was begun: that is an answer, and it is no.
            return 1, b"", f"middlewatch-gate: refused: {answer.words}".encode(), ""
        return answer.code, bytes(answer.out), bytes(answer.err), answer.words

    def _ssh(self, name: str) -> subprocess.Popen[bytes]:
        if self._folder is None:
            raise OSError("the connection was closed")
        config = self._folder / f"config-{self._number}"
        return subprocess.Popen(
            ("ssh", "-F", str(config), name, self._target.gate),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._ssh_environ,
            start_new_session=True,
            close_fds=True,
        )

    # -------------------------------------------------------------------------- the connection

    def _connected(self, until: float) -> str:
        """Have a connection; why there is none, or nothing."""
        # Whoever comes while another thread connects waits no longer than his own deadline.
        if not self._lock.acquire(timeout=max(0.0, until - self._clock.monotonic())):
            return f"no connection to {self._target.host} in time"
        try:
            if self._master is not None and self._master.poll() is None:
                return ""
            now = self._clock.monotonic()
            if self._failed is not None and now - self._failed[0] < RETRY_S:
                return self._failed[1]
            self._hang_up()
            try:
                why = self._connect(min(until, now + self._target.connect_timeout_s + 2.0))
            except OSError as error:
                why = f"ssh could not be started: {error}"
            self._failed = (self._clock.monotonic(), why) if why else None
            if why:
                self._hang_up()
            return why
        finally:
            self._lock.release()

    def _connect(self, until: float) -> str:
        folder = self._own_folder()
        self._number += 1
        config = folder / f"config-{self._number}"
        config.write_text(ssh_config(self._target, folder / f"s{self._number}"), encoding="utf-8")
        # The connection belongs to a channel of its own that stays open until our end of its
        # input closes: with us, however we go, it goes.
        self._master = self._ssh(MASTER)
        answer = _Answer(self._stdout_limit)
        problem = _talk(self._master, _framed({"stay": True}), answer, until, self._clock)
        if answer.who is not None:
            self._user = (int(answer.who.get("uid", -1)), str(answer.who.get("user", "")))
            self._looks_only = bool(answer.who.get("looks_only"))
            self._watchdog_only = bool(answer.who.get("watchdog_only"))
            return ""
        said = answer.complaint.decode("utf-8", "replace").strip().splitlines()
        return f"no connection to {self._target.host}: " + _explained(said, problem, answer.words)

    def _own_folder(self) -> Path:
        if self._folder is not None:
            return self._folder
        parent = self._given_folder
        if parent is not None:
            with contextlib.suppress(OSError):
                parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        candidates = (parent, Path(tempfile.gettempdir()), Path("/tmp"))  # noqa: S108 - mkdtemp in it
        parent = next((path for path in candidates if path is not None and _fits(path)), None)
        if parent is None:
            raise OSError("no folder for the socket of a connection: all paths are too long")
        _remove_left_behind(parent)
        made = tempfile.mkdtemp(prefix=f"mw-ssh-{os.getpid()}-", dir=parent)
        self._folder = Path(made)
        return self._folder

    def _hang_up(self) -> None:
        if self._master is not None:
            _end(self._master)
            self._master = None


class _Answer:
    """What came of one request, frame by frame."""

    def __init__(self, limit: int) -> None:
        self.greeted = False
        self.over = False
        self.rejected = False
        self.code: int | None = None
        self.words = ""
        self.who: dict[str, Any] | None = None
        self.out, self.err, self.complaint = bytearray(), bytearray(), bytearray()
        self._limit = limit
        self._data = bytearray()

    def take(self, data: bytes) -> str:
        """Read on; a word on what cannot be, or nothing."""
        self._data += data
        if not self.greeted:
            known = bytes(self._data[: len(GREETING)])
            if not GREETING.startswith(known):
                return f"another program than our gate answered: {bytes(self._data[:80])!r}"
            if len(known) < len(GREETING):
                return ""
            self.greeted = True
            del self._data[: len(GREETING)]
        while not self.over:
            end = self._data.find(b"\n", 0, 24)
            if end < 0:
                return "" if len(self._data) < 24 else "its answer is not in frames"
            letter, _, number = bytes(self._data[:end]).partition(b" ")
            if not re.fullmatch(rb"-?[0-9]{1,10}", number):
                return "its answer is not in frames"
            if letter == b"x":
                self.code, self.over = int(number), True
                return ""
            size = int(number)
            if letter not in {b"o", b"e", b"p", b"r", b"w"} or size < 0:
                return "its answer is not in frames"
            if size > self._limit or len(self.out) > self._limit:
                return f"printed more than {self._limit} bytes"
            if len(self._data) < end + 1 + size:
                return ""
            body = bytes(self._data[end + 1 : end + 1 + size])
            del self._data[: end + 1 + size]
            problem = self._frame(letter, body)
            if problem:
                return problem
        return ""

    def _frame(self, letter: bytes, body: bytes) -> str:
        match letter:
            case b"o":
                self.out += body
            case b"e":
                self.err += body[: max(0, STDERR_LIMIT - len(self.err))]
            case b"w":
                try:
                    self.who = dict(json.loads(body))
                except ValueError:
                    return "it does not say who it is"
                self.over = True
            case _:
                self.words = body.decode("utf-8", "replace")[:500]
                self.rejected = letter == b"r"
                self.over = True
        return ""


def _framed(request: Mapping[str, object]) -> bytes:
    body = json.dumps(request).encode("utf-8")
    return b"MW1 %d\n" % len(body) + body


def _talk(
    process: subprocess.Popen[bytes], request: bytes, answer: _Answer, until: float, clock: Clock
) -> str:
    """Greeting, request, answer; why it did not come to an answer, or nothing.

    The request is sent only behind the greeting: from then on it is known when it is too old.
    """
    assert process.stdin is not None  # noqa: S101 - Popen was asked for the pipes
    assert process.stdout is not None  # noqa: S101
    assert process.stderr is not None  # noqa: S101
    given_up = until
    waiting = memoryview(request)
    with selectors.DefaultSelector() as selector:
        for pipe in (process.stdin, process.stdout, process.stderr):
            os.set_blocking(pipe.fileno(), False)
        selector.register(process.stdout, selectors.EVENT_READ)
        selector.register(process.stderr, selectors.EVENT_READ)
        writing = False
        while not answer.over:
            left = given_up - clock.monotonic()
            if left <= 0:
                return "did not answer within its deadline"
            if answer.greeted and waiting and not writing:
                selector.register(process.stdin, selectors.EVENT_WRITE)
                writing = True
            for key, _ in selector.select(left):
                if key.fileobj is process.stdin:
                    try:
                        waiting = waiting[os.write(key.fd, waiting) :]
                    except BlockingIOError:
                        continue
                    except OSError:
                        waiting = memoryview(b"")
                    if not waiting:
                        selector.unregister(process.stdin)
                    continue
                try:
                    data = os.read(key.fd, 1 << 16)
                except BlockingIOError:
                    continue
                if key.fileobj is process.stderr:
                    answer.complaint += data[: max(0, 4096 - len(answer.complaint))]
                    if not data:
                        selector.unregister(process.stderr)
                    continue
                if not data:
                    _last_words(process, answer)
                    return "the connection ended without an answer"
                problem = answer.take(data)
                if problem:
                    return problem
    return ""


def _last_words(process: subprocess.Popen[bytes], answer: _Answer) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1.0)
    if process.stderr is not None:
        with contextlib.suppress(OSError):
            answer.complaint += os.read(process.stderr.fileno(), 4096)


def _end(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    # Not yet reaped, so that its number cannot belong to somebody else's group.
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _explained(said: list[str], problem: str, words: str) -> str:
    """What went wrong with a connection, and how to mend it."""
    text = " / ".join(line.strip() for line in said if line.strip())[:300] or words or problem
    if "Host key verification failed" in text or "HOST IDENTIFICATION HAS CHANGED" in text:
        return f"{text}; the host's key is not the one in slurm.ssh_known_hosts"
    if "Permission denied" in text:
        return f"{text}; is our public key in the user's authorized_keys there?"
    if "another program" in problem:
        return f"{problem}; the forced command must be middlewatch's gate and print nothing else"
    if "not found" in text or "No such file" in text:
        return f"{text}; install the gate there (`middlewatch slurm-gate` prints it)"
    return text


def _fits(path: Path) -> bool:
    """Whether a socket of ours can lie below that folder."""
    short = len(os.fsencode(path)) <= _FOLDER_PATH_LIMIT
    return short and _PATH.fullmatch(str(path)) is not None and os.access(path, os.W_OK)


def _remove_left_behind(parent: Path) -> None:
    """Folders of processes that were killed; their sockets answer nobody."""
    for folder in parent.glob("mw-ssh-*-*"):
        pid = folder.name.split("-")[2]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(folder, ignore_errors=True)


__all__ = ["LATEST_S", "SshCommands", "SshTarget", "ssh_config"]
