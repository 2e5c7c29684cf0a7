#!/usr/bin/env python3
"""The door of a Slurm host for a controller that comes by SSH: these few commands, in these shapes.

This one file is copied to the host and stands as the forced command of a key in
``authorized_keys``; it needs Python 3.6 or later and nothing else. A request names an argument
list, never a line for a shell, and each word of it must match what that place may hold. What
arrives late is not begun: a request must follow our greeting within `LATEST_S`, so a caller who
was cut off knows when the last moment was at which his command could still have started.

    >  middlewatch-gate 1                        greeting, as soon as we run
    <  MW1 57                                    a request: its length, then that much JSON
    <  {"argv": ["scontrol", "requeue", "7"], "deadline_s": 20.0}
    >  o 120, e 14                               pieces of its output and its errors, each
                                                 followed by as many bytes
    >  x 0                                       its exit code (negative: killed by a signal), or
    >  p 31                                      why there is none, or
    >  r 40                                      why nothing was begun

``{"stay": true}`` runs nothing: it is answered by ``w`` with who we are, and ends with its input.
The end of the input ends a running command as well.
"""

import argparse
import json
import os
import pwd
import re
import selectors
import signal
import subprocess
import sys
import syslog
import time

MYPY = False
if MYPY:  # importing typing would cost more than all the rest
    from collections.abc import Sequence
    from typing import Any, Optional

VERSION = 1
GREETING = b"middlewatch-gate %d\n" % VERSION
LATEST_S = 5.0
LONGEST_REQUEST = 512 * 1024
LONGEST_RUN_S = 120.0
STDOUT_LIMIT = 256 * 1024 * 1024
STDERR_LIMIT = 64 * 1024

_JOB = r"[0-9]{1,10}(?:[_+][0-9]{1,10})?"
_NODE = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,253}[A-Za-z0-9])?"
_PART = r"[A-Za-z0-9._-]*(?:\[[0-9,-]+\][A-Za-z0-9._-]*)*"
_COLUMN = "[A-Za-z_]{1,40}"
_USER = "[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}"
_LIST = ("squeue", "--local", "-a")
_ALL = _LIST + ("--states=all",)


def _words(*shape: "str") -> "tuple[str, ...]":
    """A shape of fixed words only."""
    return tuple(re.escape(word) for word in shape)


_TABLE = "{0}:\x1f(?:,{0}:\x1f){{0,60}}".format(_COLUMN)
LOOKS = (
    _words("scontrol", "show", "config"),
    _words("scontrol", "show", "federation"),
    _words("scontrol", "show", "hostnames") + (r"(?=[A-Za-z0-9]){0}(?:[, ]+{0})*".format(_PART),),
    _words("sinfo", "-h", "-a", "-N", "-o", "%R|%a|%N|%T"),
    _words(*_ALL) + ("-O", _TABLE),
    _words(*_ALL) + ("-u", "[0-9]{1,10}", "-O", _TABLE),
    _words(*_ALL) + ("-j", "{0}(?:,{0})*".format(_JOB), "-O", _TABLE),
    _words(*_ALL) + ("-h", "-j", _JOB, "-o", "%[A-Za-z]"),
    _words(*_ALL) + ("-h", "-j", _JOB, "-O", _COLUMN + r":\|"),
    _words(*_ALL) + ("-j", "{0}(?:,{0})*".format(_JOB), "--json"),
    _words(*_LIST) + ("-j", _JOB, "--json"),
    _words(*_LIST) + ("--json",),
    ("squeue", "-h", "-j", _JOB, "-O", "BatchFlag:1"),
    ("sacct", "-D", "-P", "--delimiter=\x1f", "-j", "{0}(?:,{0})*".format(_JOB))
    + ("-o", "{0}(?:,{0})*".format(_COLUMN)),
    _words("sacct", "-n", "-X", "-P", "-S", "now-1minutes", "-o", "JobIDRaw"),
    _words("sacctmgr", "-n", "-P", "show", "user") + (_USER, "format=AdminLevel"),
    _words("scontrol", "show", "assoc_mgr", "flags=users") + ("users=" + _USER,),
)
"""One regular expression for each word; a command matches where all its words do."""

CHANGES = (
    ("scontrol", "requeue", _JOB),
    ("scontrol", "requeuehold", "State=SpecialExit", _JOB),
    ("scontrol", "release", _JOB),
    ("scancel", _JOB),
)
UPDATES = ("ExcNodeList=(?:{0}(?:,{0})*)?".format(_NODE), "StartTime=now", "Requeue=[01]")
"""What an update of one job may change, in this order, each at most once and one at least."""

WATCHDOGS = (("scontrol", "release", _JOB),) + tuple(
    ("scontrol", "update", "jobid=" + _JOB, word) for word in UPDATES[:2] + ("Requeue=1",)
)
"""All that a watchdog changes: it lets go and puts back, and neither requeues nor cancels."""


class Rejected(Exception):
    """Nothing was begun; the message says why."""


def refused(argv: "Sequence[str]", looks_only: "bool", watchdog_only: "bool" = False) -> "str":
    """Why this gate does not run these words; an empty text where it does."""
    if any(_fits(argv, shape) for shape in LOOKS):
        return ""
    if not (any(_fits(argv, shape) for shape in CHANGES) or _is_update(argv)):
        return "not one of the commands that this gate runs: {!r}".format(list(argv))[:300]
    if watchdog_only and not any(_fits(argv, shape) for shape in WATCHDOGS):
        return "this gate is a watchdog's (--watchdog-only): it lets go, and takes nothing"
    return "this gate only looks (--looks-only)" if looks_only else ""


def changes(argv: "Sequence[str]") -> "bool":
    """Whether these words, which are allowed, may change the cluster."""
    return not any(_fits(argv, shape) for shape in LOOKS)


def _fits(argv: "Sequence[str]", shape: "Sequence[str]") -> "bool":
    return len(argv) == len(shape) and all(
        re.fullmatch(pattern, word, re.ASCII) for pattern, word in zip(shape, argv)
    )


def _is_update(argv: "Sequence[str]") -> "bool":
    if len(argv) < 4 or not _fits(argv[:3], ("scontrol", "update", "jobid=" + _JOB)):
        return False
    left = list(UPDATES)
    for word in argv[3:]:
        while left and not re.fullmatch(left[0], word, re.ASCII):
            left.pop(0)
        if not left:
            return False
        left.pop(0)
    return True


def read_request(stream: "int", until: "float") -> "dict[str, Any]":
    """The request on this descriptor. Raises `Rejected` where none comes whole and in time."""
    head = _read(stream, b"\n", 0, until)
    match = re.fullmatch(rb"MW1 ([0-9]{1,7})\n", head)
    if match is None or int(match.group(1)) > LONGEST_REQUEST:
        raise Rejected("this is no request of middlewatch")
    body = _read(stream, b"", int(match.group(1)), until)
    try:
        request = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise Rejected("the request is no JSON") from None
    if not isinstance(request, dict):
        raise Rejected("the request is no JSON object")
    return request


def _read(stream: "int", end: "bytes", size: "int", until: "float") -> "bytes":
    """Up to and with ``end``, or ``size`` bytes; never a byte more than asked for."""
    data = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while len(data) < size if size else not data.endswith(end):
            left = until - time.monotonic()
            if left <= 0 or not selector.select(left):
                raise Rejected("no whole request came within {:g} s".format(LATEST_S))
            piece = os.read(stream, size - len(data) if size else 1)
            if not piece or len(data) > LONGEST_REQUEST:
                raise Rejected("the request ended early")
            data += piece
    return data


def checked(request: "dict[str, Any]") -> "tuple[list[str], float]":
    """The words and the deadline of a request. Raises `Rejected`."""
    argv, deadline = request.get("argv"), request.get("deadline_s")
    if set(request) != {"argv", "deadline_s"}:
        raise Rejected("the request has other parts than argv and deadline_s")
    if not isinstance(argv, list) or not argv or not all(isinstance(w, str) for w in argv):
        raise Rejected("argv is no list of words")
    if isinstance(deadline, bool) or not isinstance(deadline, (int, float)):
        raise Rejected("deadline_s is no number")
    if not 0 < deadline <= LONGEST_RUN_S:
        raise Rejected("deadline_s is not between 0 and {:g}".format(LONGEST_RUN_S))
    return argv, float(deadline)


def frame(letter: "str", data: "bytes") -> "bytes":
    return "{} {}\n".format(letter, len(data)).encode() + data


def environment(conf: "str") -> "dict[str, str]":
    """For Slurm's clients: nothing with which a user changes what they print."""
    kept = {"PATH", "HOME", "USER", "LOGNAME", "SLURM_CONF", "SLURM_CONF_SERVER"}
    found = {name: value for name, value in os.environ.items() if name in kept}
    found.update({"SLURM_TIME_FORMAT": "%s", "LC_ALL": "C", "TZ": "UTC"})
    if conf:
        found["SLURM_CONF"] = conf
    return found


class Out:
    """Frames to the caller. Where he is gone, so is the reason to go on."""

    def __init__(self, stream: "int") -> "None":
        self._stream = stream

    def send(self, data: "bytes") -> "None":
        view = memoryview(data)
        while view:
            view = view[os.write(self._stream, view) :]


def run(
    argv: "Sequence[str]", deadline_s: "float", options: "argparse.Namespace", out: "Out"
) -> "bytes":
    """Run it, pass on what it prints, and return the last frame."""
    program = os.path.join(options.bin, argv[0]) if options.bin else argv[0]
    until = time.monotonic() + deadline_s
    try:
        process = subprocess.Popen(
            [program] + list(argv[1:]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(options.conf),
            start_new_session=True,
            close_fds=True,
        )
    except (OSError, ValueError) as error:
        return frame("r", "{} could not be started: {}".format(argv[0], error).encode())
    try:
        problem = _pass_on(process, until, out)
        if not problem:
            try:
                code = process.wait(max(0.0, until - time.monotonic()))
                return "x {}\n".format(code).encode()
            except subprocess.TimeoutExpired:
                problem = "closed its output and did not end"
        return frame("p", "{} {}: killed".format(argv[0], problem).encode())
    finally:
        if process.returncode is None:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except OSError:
                pass
            process.wait()


def _pass_on(process: "subprocess.Popen[bytes]", until: "float", out: "Out") -> "str":
    """Both its outputs, to their ends; a word on what went wrong, or nothing."""
    left = {"o": STDOUT_LIMIT, "e": STDERR_LIMIT}
    open_ends = 2
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, "o")  # type: ignore[arg-type]
        selector.register(process.stderr, selectors.EVENT_READ, "e")  # type: ignore[arg-type]
        selector.register(0, selectors.EVENT_READ, "in")
        while open_ends:
            wait = until - time.monotonic()
            if wait <= 0:
                return "did not end within its deadline"
            for key, _ in selector.select(wait):
                data = os.read(key.fd, 1 << 16)
                if key.data == "in":
                    return "lost its caller"
                if not data:
                    selector.unregister(key.fileobj)
                    open_ends -= 1
                    continue
                if key.data == "o" and len(data) > left["o"]:
                    return "printed more than {} bytes".format(STDOUT_LIMIT)
                data = data[: left[key.data]]
                left[key.data] -= len(data)
                if data:
                    out.send(frame(key.data, data))
    return ""


def caller_left() -> "bool":
    """Whether the input has ended, or holds what nobody asked for."""
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        return bool(selector.select(0))


def who(options: "argparse.Namespace") -> "bytes":
    uid = os.geteuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = ""
    said = {
        "uid": uid,
        "user": name,
        "looks_only": options.looks_only,
        "watchdog_only": options.watchdog_only,
        "version": VERSION,
    }
    return frame("w", json.dumps(said).encode())


def serve(options: "argparse.Namespace") -> "None":
    """One request, from its greeting to its last frame."""
    out = Out(1)
    # The clock of the last moment starts before the greeting is out, not after it.
    until = time.monotonic() + LATEST_S
    out.send(GREETING)
    try:
        request = read_request(0, until)
        if request == {"stay": True}:
            out.send(who(options))
            while os.read(0, 4096):
                pass
            return
        argv, deadline_s = checked(request)
        why = refused(argv, options.looks_only, options.watchdog_only)
        if why:
            syslog.syslog(syslog.LOG_WARNING, "refused: " + ascii(why))
            raise Rejected(why)
        if caller_left():
            raise Rejected("the caller has left")
    except Rejected as error:
        out.send(frame("r", str(error).encode("utf-8", "replace")))
        return
    if changes(argv):
        syslog.syslog(syslog.LOG_NOTICE, "runs: " + " ".join(argv))
    out.send(run(argv, deadline_s, options, out))


def main(arguments: "Optional[Sequence[str]]" = None) -> "int":
    parser = argparse.ArgumentParser(prog="middlewatch-gate")
    parser.add_argument("--looks-only", action="store_true", help="refuse what changes a job")
    parser.add_argument(
        "--watchdog-only", action="store_true", help="change only what a watchdog changes"
    )
    parser.add_argument("--bin", default="", help="where Slurm's commands lie, instead of PATH")
    parser.add_argument("--conf", default="", help="SLURM_CONF for them")
    options = parser.parse_args(arguments)
    syslog.openlog("middlewatch-gate", syslog.LOG_PID, syslog.LOG_AUTH)
    try:
        serve(options)
    except OSError:
        return 1  # the caller is gone: there is nobody to tell
    return 0


if __name__ == "__main__":
    sys.exit(main())
