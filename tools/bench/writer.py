"""Runs inside a job: trains in name only, prints failure lines at random moments, goes on each time.

Stands alone: it is started by the lab's interpreter as the job's user. Each line is written and noted
with its place in the file and the moment just after the write, so that whoever compares them with
the store knows when the line could first be seen.

    writer.py LINES_FILE NOTES_FILE COUNT MEAN_PAUSE_S SEED
"""

import json
import os
import random
import sys
import time

STEP_S = 0.5


def main() -> None:
    lines = json.loads(open(sys.argv[1]).read())  # noqa: PTH123, SIM115
    count, mean_s = int(sys.argv[3]), float(sys.argv[4])
    chance = random.Random(int(sys.argv[5]))
    step, written = 0, 0
    next_line = time.time() + 5 + chance.expovariate(1 / mean_s)
    next_step = time.time()
    with open(sys.argv[2], "a") as notes:  # noqa: PTH123
        while True:
            now = time.time()
            if now >= next_step:
                step += 1
                os.write(1, b"middlewatch: step=%d total=1000000 loss=2.5\n" % step)
                next_step = now + STEP_S
            elif now >= next_line and written < count:
                block = chance.choice(lines).encode()
                os.write(1, block + b"\n")
                at = time.time()
                end = os.lseek(1, 0, os.SEEK_CUR)
                last_line = end - 1 - len(block.rsplit(b"\n", 1)[-1])
                notes.write(f"{last_line} {at!r}\n")
                notes.flush()
                written += 1
                next_line = at + chance.expovariate(1 / mean_s)
            pause = min(next_step, next_line if written < count else next_step) - time.time()
            time.sleep(max(0.0005, pause))


if __name__ == "__main__":
    main()
