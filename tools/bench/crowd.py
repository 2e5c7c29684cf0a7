"""Runs by itself: plays thousands of jobs that print, each into a file of its own.

    crowd.py FOLDER NOTES JOBS LINES_PER_S SECONDS SEED [BACKLOG_MB BACKLOG_FILES]

Each job prints its lines of a second in one write, as a program with a buffer does, and the jobs
take turns evenly over the second. One line in a hundred is a progress line, one in two thousand a
warning or a failure. Each of these is noted: the file, the place of its line and the moment just
before it was written, so that whoever finds it knows how late that was. With a backlog, so many
megabytes are first written to the last few files, as an outage would leave them, and the place of
the last line of each is noted.
"""

import os
import random
import sys
import time
from pathlib import Path

TURNS = 100
"""Turns per second."""
FAILURE = b"[rank3]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
WORDS = (
    b"2026-01-01 00:00:00,%03d INFO loader.py:%d: shard %09d of the data set was read, next is queued",
    b"[rank%d]: 2026-01-01 00:00:00,%03d DEBUG optimizer.py:88: group %09d has its gradients reduced",
    b"%d: cache hit rate 0.%03d over the last %09d requests, nothing to evict, nothing to refresh now",
)


def noise(chance: random.Random, count: int) -> bytes:
    lines = []
    for _ in range(count):
        words = chance.choice(WORDS)
        lines.append(
            words % (chance.randrange(1000), chance.randrange(1000), chance.randrange(10**9))
        )
    return b"\n".join(lines) + b"\n"


def main() -> None:
    folder, notes = Path(sys.argv[1]), Path(sys.argv[2])
    jobs, rate, seconds = int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
    chance = random.Random(int(sys.argv[6]))
    backlog_mb, backlog_files = (int(word) for word in sys.argv[7:9] or ("0", "0"))
    each = max(1, rate // jobs)
    texts = [noise(chance, each) for _ in range(256)]
    shorter = [noise(chance, each - 1) if each > 1 else b"" for _ in range(256)]
    files = [
        os.open(folder / f"{n}.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        for n in range(jobs)
    ]
    places = [os.fstat(file).st_size for file in files]
    steps = [1000] * jobs
    with notes.open("a", buffering=1) as noted:
        if backlog_mb:
            for number in range(jobs - backlog_files, jobs):
                text = noise(chance, 20_000)
                for _ in range(max(1, backlog_mb * 1_000_000 // backlog_files // len(text))):
                    os.write(files[number], text)
                places[number] = os.fstat(files[number]).st_size
                noted.write(f"{number} {places[number]} {time.time()!r} backlog\n")
                os.write(files[number], FAILURE)
                places[number] += len(FAILURE)
            noted.write("written\n")
        begun = time.time()
        written = 0
        # Of each job's lines so many in a second are progress, so many failures.
        step_share, fault_share = each / 100, each / 2000
        turn = 0
        while (now := time.time()) < begun + seconds:
            due = begun + turn / TURNS
            if now < due:
                time.sleep(due - now)
            for number in range(turn % TURNS, jobs - backlog_files, TURNS):
                kind = chance.random()
                if kind < fault_share:
                    text = shorter[turn & 255] + FAILURE
                    place = places[number] + len(text) - len(FAILURE)
                    noted.write(f"{number} {place} {time.time()!r} line\n")
                elif kind < fault_share + step_share:
                    steps[number] += 10
                    line = b"middlewatch: step=%d total=100000 loss=2.31\n" % steps[number]
                    text = shorter[turn & 255] + line
                else:
                    text = texts[(turn + number) & 255]
                os.write(files[number], text)
                places[number] += len(text)
                written += each
            turn += 1
        noted.write(f"end {written} {begun!r} {time.time()!r} {turn}\n")


if __name__ == "__main__":
    main()
