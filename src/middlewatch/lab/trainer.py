#!/usr/bin/env python3
"""A training job small enough for a laptop and real enough to be recovered.

Several ranks under ``srun`` fit a linear model by stochastic gradient descent. In each step each
rank draws its own batch, computes a gradient, and all gradients are summed through rank 0: a
real barrier, so that one rank that hangs makes all wait, and one that is slow makes all slow.
Rank 0 saves checkpoints (written aside, fsynced, renamed) with the weights and the state of
every rank's random numbers, so that a job resumed from one computes exactly what it would have
computed without interruption.

It prints what real trainers print (``--format``) and can be told to fail in the ways in which
real ones do (``--fault``), by option or, while it runs, by a control file.

Alone on purpose: one file, standard library only, Python 3.8 or newer, because it runs as other
users, on other interpreters, inside jobs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import socket
import struct
import sys
import time
import traceback
from datetime import datetime
from pathlib import Path

DIMENSIONS = 16
BATCH = 8
RATE = 0.05

FAULTS = (
    "crash-python",
    "crash-cuda",
    "crash-segv",
    "crash-exit",
    "nccl-timeout",
    "nccl-remote-error",
    "oom",
    "disk-full",
    "hang",
    "slow",
    "self-recover",
)


class PeerLost(Exception):
    """Another rank closed its connection: it has died."""


class CollectiveTimeout(Exception):
    """The other ranks have waited too long for one."""


# ------------------------------------------------------------------------------- where we are


def number(name, default=0):
    """An integer of the environment; Slurm leaves SLURM_RESTART_COUNT unset in the first attempt."""
    try:
        return int(os.environ.get(name, ""))
    except ValueError:
        return default


RANK = number("SLURM_PROCID")
WORLD = number("SLURM_NTASKS", 1)
LOCAL = number("SLURM_LOCALID")
ATTEMPT = number("SLURM_RESTART_COUNT")
LAUNCH = number("SLURM_STEP_ID")
JOB = os.environ.get("SLURM_JOB_ID", "0")
HOST = os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def say(line, stream=None):
    """Print one line in one write, so that lines of several ranks do not cut each other."""
    out = stream or sys.stdout
    out.write(line + "\n")
    out.flush()


def stamp():
    return datetime.now().strftime("%Y-%m-%d %H:%M:%S.%f")  # noqa: DTZ005 - as Megatron prints it


# -------------------------------------------------------------------------------- collectives


class Ring:
    """All-reduce through rank 0 over TCP. The sum is taken in the order of ranks: exact."""

    def __init__(self, folder, timeout):
        self.timeout = timeout
        self.peers = {}
        self.root = None
        # One key per attempt and launch: a requeued job must not meet its predecessor's ports.
        meeting = folder / ("rendezvous-%s-%d-%d.json" % (JOB, ATTEMPT, LAUNCH))
        if WORLD == 1:
            return
        if RANK == 0:
            self._gather_peers(meeting)
        else:
            self._find_root(meeting)

    def _gather_peers(self, meeting):
        server = socket.create_server(("0.0.0.0", 0), backlog=WORLD)  # noqa: S104 - other hosts connect
        server.settimeout(120)
        where = {"host": socket.gethostname(), "port": server.getsockname()[1]}
        write_atomically(meeting, json.dumps(where).encode())
        while len(self.peers) < WORLD - 1:
            connection, _ = server.accept()
            connection.settimeout(None)
            hello = receive(connection)
            if hello.get("key") != [JOB, ATTEMPT, LAUNCH]:
                connection.close()
                continue
            self.peers[hello["rank"]] = connection
        server.close()
        meeting.unlink()

    def _find_root(self, meeting):
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                where = json.loads(meeting.read_text())
                host = where["host"]
                if host == socket.gethostname():
                    host = "127.0.0.1"
                self.root = socket.create_connection((host, where["port"]), timeout=10)
            except (OSError, ValueError):
                time.sleep(0.05)
                continue
            self.root.settimeout(None)
            send(self.root, {"key": [JOB, ATTEMPT, LAUNCH], "rank": RANK})
            return
        raise SystemExit("rank %d: no rendezvous with rank 0 within 120 s" % RANK)

    def exchange(self, mine):
        """Give rank 0 this rank's message and return its answer, made by ``combine``."""
        if RANK == 0:
            parts = [mine]
            for rank in range(1, WORLD):
                parts.append(self._receive(self.peers[rank]))
            answer = combine(parts)
            for rank in range(1, WORLD):
                send(self.peers[rank], answer)
            return answer, parts
        send(self.root, mine)
        return self._receive(self.root), None

    def _receive(self, connection):
        connection.settimeout(self.timeout or None)
        try:
            return receive(connection)
        except socket.timeout:
            raise CollectiveTimeout from None


def combine(parts):
    count = float(len(parts))
    gradient = [sum(column) / count for column in zip(*(part["gradient"] for part in parts))]
    return {"gradient": gradient, "loss": sum(part["loss"] for part in parts) / count}


def send(connection, message):
    body = json.dumps(message).encode()
    try:
        connection.sendall(struct.pack(">I", len(body)) + body)
    except OSError:
        raise PeerLost from None


def receive(connection):
    size = struct.unpack(">I", receive_exactly(connection, 4))[0]
    return json.loads(receive_exactly(connection, size))


def receive_exactly(connection, count):
    data = b""
    while len(data) < count:
        try:
            part = connection.recv(count - len(data))
        except ConnectionError:
            part = b""
        if not part:
            raise PeerLost
        data += part
    return data


# -------------------------------------------------------------------------------- checkpoints


def write_atomically(path, data):
    """A reader sees the old file or the new one, also after a crash of the machine."""
    temporary = path.with_name(".%s.%d" % (path.name, os.getpid()))
    with temporary.open("wb") as handle:
        handle.write(data)
        handle.flush()
        os.fsync(handle.fileno())
    temporary.replace(path)
    folder = os.open(str(path.parent), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def checkpoint_path(folder, step):
    return folder / ("step-%07d.json" % step)


def latest_checkpoint(folder):
    """The newest whole checkpoint, or None. A file that cannot be read is passed over."""
    for path in sorted(folder.glob("step-*.json"), reverse=True):
        try:
            return json.loads(path.read_text()), path
        except (OSError, ValueError):
            say("WARNING: checkpoint %s cannot be read, trying the one before" % path)
    return None


# ------------------------------------------------------------------------------ what is printed


class Plain:
    """Middlewatch's own lines: any program can print them. See docs/lab.md."""

    def start(self, options):
        pass

    def step(self, step, options, loss, seconds, norm):
        if RANK == WORLD - 1:
            say(
                "middlewatch: step=%d total=%d loss=%.6E step_time_s=%.3f"
                % (step, options.steps, loss, seconds)
            )

    def saving(self, step, path):
        pass

    def saved(self, step, path):
        say("middlewatch: checkpoint=saved step=%d path=%s" % (step, path))

    def loaded(self, step, path):
        say("middlewatch: checkpoint=loaded step=%d path=%s" % (step, path))

    def fresh(self, folder):
        pass

    def end(self):
        pass


class Megatron:
    """As Megatron-LM prints: iteration lines by the last rank, checkpoints by rank 0."""

    def start(self, options):
        if RANK == 0:
            say("[before the start of training step] datetime: %s " % stamp()[:19])

    def step(self, step, options, loss, seconds, norm):
        if RANK == WORLD - 1:
            say(
                " [%s] iteration %8d/%8d | consumed samples: %12d | elapsed time per iteration "
                "(ms): %.1f | learning rate: %.6E | global batch size: %5d | lm loss: %.6E | "
                "loss scale: %.1f | grad norm: %.3f | number of skipped iterations: %3d | "
                "number of nan iterations: %3d |"
                % (
                    stamp(), step, options.steps, step * BATCH * WORLD, seconds * 1000, RATE,
                    BATCH * WORLD, loss, 1.0, norm, 0, 0,
                )
            )  # fmt: skip

    def saving(self, step, path):
        say("[%s] saving checkpoint at iteration %7d to %s in torch format" % (stamp(), step, path.parent))

    def saved(self, step, path):
        say(
            "  [%s] successfully saved checkpoint from iteration %7d to %s [ t 1/1, p 1/1 ]"
            % (stamp(), step, path.parent)
        )

    def loaded(self, step, path):
        say(" loading checkpoint from %s at iteration %d" % (path.parent, step))
        say("  successfully loaded checkpoint from %s [ t 1/1, p 1/1 ] at iteration %d" % (path.parent, step))

    def fresh(self, folder):
        say("WARNING: could not find the metadata file %s/latest_checkpointed_iteration.txt" % folder)
        say("    will not load any checkpoints and will start from random")

    def end(self):
        if RANK == 0:
            say("[after training is done] datetime: %s " % stamp()[:19])


class HuggingFace:
    """As the Trainer of Hugging Face prints: a dictionary and a progress bar, by rank 0."""

    def start(self, options):
        self.begun = time.monotonic()
        self.first = None
        if RANK == 0:
            say("***** Running training *****")
            say("  Num examples = {:,}".format(options.steps * BATCH * WORLD))
            say("  Total optimization steps = {:,}".format(options.steps))

    def step(self, step, options, loss, seconds, norm):
        if RANK != 0:
            return
        if self.first is None:
            self.first = step - 1
        epoch = round(step / max(1, options.steps), 2)
        values = {"loss": round(loss, 4), "grad_norm": norm, "learning_rate": RATE, "epoch": epoch}
        say(repr(values))
        gone = time.monotonic() - self.begun
        rate = gone / max(1, step - self.first)
        left = rate * (options.steps - step)
        bar = ("#" * (10 * step // options.steps)).ljust(10)
        sys.stderr.write(
            "\r%3d%%|%s| %d/%d [%s<%s, %5.2fs/it]"
            % (100 * step // options.steps, bar, step, options.steps, clock(gone), clock(left), rate)
        )
        sys.stderr.flush()

    def saving(self, step, path):
        say("Saving model checkpoint to %s/checkpoint-%d" % (path.parent, step))

    def saved(self, step, path):
        say("Model weights saved in %s" % path)

    def loaded(self, step, path):
        say("  Continuing training from checkpoint, will skip to saved global_step")
        say("  Continuing training from global step %d" % step)

    def fresh(self, folder):
        pass

    def end(self):
        if RANK == 0:
            say("\n\nTraining completed. Do not forget to share your model on huggingface.co/models =)\n")


def clock(seconds):
    return "%02d:%02d" % divmod(int(seconds), 60)


FORMATS = {"plain": Plain, "megatron": Megatron, "hf": HuggingFace}


# --------------------------------------------------------------------------------------- faults


class Faults:
    """Decides, at the beginning of each step, whether this rank fails now and how."""

    def __init__(self, options):
        self.options = options
        self.slowdown = 1.0
        self.recovered = False
        self.seen = None

    def due(self, step):
        """The fault that strikes this rank in this step, or None."""
        options = self.options
        if options.fault and self._here(options.fault_rank, options.fault_attempt):
            first = options.fault_every_launch or LAUNCH == 0
            if first and (step == options.fault_at or (options.fault == "slow" and step > options.fault_at)):
                return options.fault
        return self._ordered()

    @staticmethod
    def _here(rank, attempt):
        return (rank % WORLD) == RANK and attempt in (-1, ATTEMPT)

    def _ordered(self):
        """A fault that somebody wrote into the control file; each order is taken once."""
        try:
            text = self.options.control.read_text()
        except (OSError, UnicodeDecodeError):
            return None
        if text == self.seen:
            return None
        self.seen = text
        try:
            order = json.loads(text)
            kind, rank = order["fault"], int(order.get("rank", 0))
            attempt = int(order.get("attempt", ATTEMPT))
            factor = float(order.get("factor", self.options.slow_factor))
        except (ValueError, KeyError, TypeError, AttributeError):
            say("control file %s cannot be understood" % self.options.control, sys.stderr)
            return None
        if kind == "heal":
            self.slowdown = 1.0
            return None
        if kind not in FAULTS or not self._here(rank, attempt):
            return None
        self.options.slow_factor = factor
        return kind

    def strike(self, kind, step):
        """Let the fault happen. Returns only where the rank goes on."""
        if kind == "slow":
            self.slowdown = self.options.slow_factor
        elif kind == "self-recover":
            self._recover(step)
        elif kind == "crash-python":
            batch = list(range(BATCH))
            return batch[BATCH + step]  # a real IndexError with a real traceback
        elif kind == "crash-cuda":
            cuda_error()
        elif kind == "crash-segv":
            say("rank %d on %s: Segmentation fault (signal 11)" % (RANK, HOST), sys.stderr)
            signal.signal(signal.SIGSEGV, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGSEGV)
        elif kind == "crash-exit":
            say("rank %d on %s: exiting with code %d" % (RANK, HOST, self.options.fault_exit), sys.stderr)
            os._exit(self.options.fault_exit)
        elif kind == "oom":
            say(
                "slurmstepd-%s: error: Detected 1 oom_kill event in StepId=%s.%d. Some of the step "
                "tasks have been OOM Killed." % (HOST, JOB, LAUNCH),
                sys.stderr,
            )
            os.kill(os.getpid(), signal.SIGKILL)
        elif kind == "disk-full":
            with open("/dev/full", "wb", buffering=0) as full:  # noqa: PTH123 - a device
                full.write(b"checkpoint")  # a real ENOSPC
        elif kind == "nccl-remote-error":
            remote_error()
        elif kind in ("hang", "nccl-timeout"):
            while True:
                time.sleep(3600)
        return None

    def _recover(self, step):
        if self.recovered:
            return
        self.recovered = True
        try:
            raise RuntimeError("data loader worker (pid %d) is killed by signal: Terminated." % os.getpid())
        except RuntimeError:
            traceback.print_exc()
            say("rank %d: recovered, trying step %d again" % (RANK, step), sys.stderr)


def cuda_error():
    say(
        "%s kernel: NVRM: Xid (PCI:0000:3b:00): 48, pid=%d, name=python3, An uncorrectable double "
        "bit error (DBE) has been detected on GPU in the framebuffer at partition 0, subpartition 1."
        % (HOST, os.getpid()),
        sys.stderr,
    )
    raise RuntimeError(
        "CUDA error: uncorrectable ECC error encountered\n"
        "CUDA kernel errors might be asynchronously reported at some other API call, so the "
        "stacktrace below might be incorrect.\n"
        "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
        "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
    )


def watchdog_lines(step, seconds):
    """What PyTorch's watchdog prints in every rank that waited in vain."""
    say(
        "[rank%d]:[E ProcessGroupNCCL.cpp:616] [Rank %d] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=%d, OpType=ALLREDUCE, NumelIn=%d, NumelOut=%d, Timeout(ms)=%d) "
        "ran for %d milliseconds before timing out."
        % (RANK, RANK, step, DIMENSIONS, DIMENSIONS, seconds * 1000, seconds * 1000 + 37),
        sys.stderr,
    )
    say(
        "[rank%d]:[E ProcessGroupNCCL.cpp:630] Some NCCL operations have failed or timed out. Due "
        "to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on "
        "corrupted/incomplete data." % RANK,
        sys.stderr,
    )
    say(
        "[rank%d]:[E ProcessGroupNCCL.cpp:636] To avoid data inconsistency, we are taking the "
        "entire process down." % RANK,
        sys.stderr,
    )


def remote_error():
    raise RuntimeError(
        "NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:2006, remote process "
        "exited or there was a network error, NCCL version 2.20.5\n"
        "ncclRemoteError: A call failed possibly due to a network error or a remote process "
        "exiting prematurely."
    )


# -------------------------------------------------------------------------------------- training


class Training:
    def __init__(self, options):
        self.options = options
        self.folder = options.checkpoint_dir
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log = FORMATS[options.format]()
        self.faults = Faults(options)
        # The model to be found is the same for all ranks; the batches are each rank's own.
        source = random.Random(options.seed)
        self.truth = [source.gauss(0, 1) for _ in range(DIMENSIONS)]
        self.weights = [0.0] * DIMENSIONS
        self.batches = random.Random(options.seed * 1000003 + RANK)
        self.step = 0

    def resume(self):
        found = latest_checkpoint(self.folder)
        if found is None:
            if RANK == 0:
                self.log.fresh(self.folder)
            return
        state, path = found
        self.step = state["step"]
        self.weights = state["weights"]
        if RANK < len(state["random"]):
            version, internal, gauss = state["random"][RANK]
            self.batches.setstate((version, tuple(internal), gauss))
        if RANK == 0:
            self.log.loaded(self.step, path)

    def gradient(self):
        """Loss and gradient of one batch of this rank."""
        total, gradient = 0.0, [0.0] * DIMENSIONS
        for _ in range(BATCH):
            row = [self.batches.gauss(0, 1) for _ in range(DIMENSIONS)]
            target = sum(a * b for a, b in zip(row, self.truth)) + self.batches.gauss(0, 0.01)
            error = sum(a * b for a, b in zip(row, self.weights)) - target
            total += error * error
            for index, value in enumerate(row):
                gradient[index] += 2 * error * value / BATCH
        return total / BATCH, gradient

    def save(self, parts):
        path = checkpoint_path(self.folder, self.step)
        self.log.saving(self.step, path)
        state = {
            "step": self.step,
            "weights": self.weights,
            "random": [part["random"] for part in parts],
            "attempt": ATTEMPT,
        }
        if self.options.checkpoint_seconds:
            time.sleep(self.options.checkpoint_seconds)
        write_atomically(path, json.dumps(state).encode())
        for old in sorted(self.folder.glob("step-*.json"))[: -self.options.keep]:
            old.unlink()
        self.log.saved(self.step, path)

    def run(self):
        options = self.options
        self.resume()
        if options.startup_seconds:
            time.sleep(options.startup_seconds)
        ring = Ring(self.folder, options.collective_timeout)
        self.log.start(options)
        while self.step < options.steps:
            begun = time.monotonic()
            kind = self.faults.due(self.step + 1)
            if kind is not None:
                self.faults.strike(kind, self.step + 1)
            loss, gradient = self.gradient()
            wanted = options.step_seconds * self.faults.slowdown
            time.sleep(max(0.0, wanted - (time.monotonic() - begun)))
            saves = (self.step + 1) % options.checkpoint_every == 0 or self.step + 1 == options.steps
            mine = {"loss": loss, "gradient": gradient}
            if saves:
                mine["random"] = self.batches.getstate()
            try:
                answer, parts = ring.exchange(mine)
            except CollectiveTimeout:
                watchdog_lines(self.step + 1, options.collective_timeout)
                os.abort()
            self.step += 1
            self.weights = [w - RATE * g for w, g in zip(self.weights, answer["gradient"])]
            norm = sum(g * g for g in answer["gradient"]) ** 0.5
            if self.step % options.log_every == 0 or self.step == options.steps:
                self.log.step(self.step, options, answer["loss"], time.monotonic() - begun, norm)
            if saves and parts is not None:
                self.save(parts)
        self.log.end()


def arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--checkpoint-dir", type=Path, required=True)
    add("--steps", type=int, default=100, help="steps until the training is done")
    add("--step-seconds", type=float, default=0.2, help="how long one step takes at least")
    add("--checkpoint-every", type=int, default=10, metavar="STEPS")
    add("--checkpoint-seconds", type=float, default=0.0, help="how long a save takes at least")
    add("--startup-seconds", type=float, default=0.0, help="pause before the first step")
    add("--keep", type=int, default=3, help="checkpoints that are kept")
    add("--log-every", type=int, default=1, metavar="STEPS")
    add("--seed", type=int, default=1)
    add("--format", choices=sorted(FORMATS), default="megatron")
    add("--fault", choices=FAULTS)
    add("--fault-at", type=int, default=1, metavar="STEP", help="strikes before this step is done")
    add("--fault-rank", type=int, default=-1, help="-1 is the last rank")
    add("--fault-attempt", type=int, default=0, help="SLURM_RESTART_COUNT it strikes in; -1: each")
    add("--fault-every-launch", action="store_true", help="not only in the attempt's first srun")
    add("--fault-exit", type=int, default=1, help="exit code of crash-exit")
    add("--slow-factor", type=float, default=4.0)
    add("--collective-timeout", type=float, default=0.0, help="seconds; 0 waits for ever")
    add("--cascade", choices=("none", "remote-error"), default="none",
        help="what the others print when a rank dies")  # fmt: skip
    add("--control", type=Path, help="file with orders; default: control.json beside checkpoints")
    options = parser.parse_args(argv)
    if options.fault == "nccl-timeout" and not options.collective_timeout:
        options.collective_timeout = 3.0
    if options.control is None:
        options.control = options.checkpoint_dir / "control.json"
    return options


def main():
    options = arguments()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if RANK == 0:
        say("trainer: job %s attempt %d launch %d, %d ranks" % (JOB, ATTEMPT, LAUNCH, WORLD))
    say("trainer: rank %d on %s (local rank %d)" % (RANK, HOST, LOCAL))
    try:
        Training(options).run()
    except PeerLost:
        # srun --kill-on-bad-exit normally ends this rank before it notices for itself.
        if options.cascade == "remote-error":
            try:
                remote_error()
            except RuntimeError:
                traceback.print_exc()
            os._exit(1)
        time.sleep(20)
        os._exit(1)
    except Exception:
        # As PyTorch does it: every line of the traceback names the rank.
        text = traceback.format_exc()
        say("\n".join("[rank%d]: %s" % (RANK, line) for line in text.splitlines()), sys.stderr)
        os._exit(1)


if __name__ == "__main__":
    main()
