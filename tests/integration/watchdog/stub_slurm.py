"""A stand-in for squeue and scontrol over one file, to try a real watchdog process without Slurm.

Run as ``python stub_slurm.py FOLDER squeue|scontrol ARGUMENT…``; ``FOLDER/jobs.json`` holds the
jobs, ``FOLDER/changes.log`` gets one line for each command that changes something, and while
``FOLDER/down`` is there nothing answers.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

SEPARATOR = "\x1f"
CONFIG = "ClusterName             = alpha\nSLURM_VERSION           = 24.11.5\nMessageTimeout          = 1 sec\n"


def row(job: dict[str, object]) -> str:
    cells = {
        "Cluster": "alpha",
        "JobID": job["id"],
        "JobArrayID": job["id"],
        "HetJobID": "N/A",
        "State": job["state"],
        "Reason": job["reason"],
        "PriorityLong": job["priority"],
        "RestartCnt": job["restarts"],
        "SubmitTime": job["submit"],
        "EligibleTime": job["eligible"],
        "StartTime": "N/A",
        "EndTime": "N/A",
        "NodeList": "",
        "NumNodes": "1",
        "Partition": "train",
        "UserID": "1000",
        "UserName": "alice",
        "exit_code": "0",
        "TimeLimit": "UNLIMITED",
        "Dependency": "(null)",
        "Requeue": "1",
    }
    return "".join(f"{value}{SEPARATOR}" for value in cells.values())


def as_json(job: dict[str, object]) -> str:
    fields = {
        "job_id": job["id"],
        "name": "train",
        "user_name": "alice",
        "job_state": ["PENDING"],
        "state_reason": "JobHeldAdmin" if job.get("operator") else "JobHeldUser",
        "submit_time": {"set": True, "infinite": False, "number": job["submit"]},
        "priority": {"set": True, "infinite": False, "number": job["priority"]},
        "requeue": True,
    }
    return json.dumps({"jobs": [fields], "errors": []})


def main(folder: Path, program: str, arguments: list[str]) -> int:
    if (folder / "down").exists():
        sys.stderr.write(f"{program}: error: Unable to contact slurm controller\n")
        return 1
    path = folder / "jobs.json"
    jobs = {str(job["id"]): job for job in json.loads(path.read_text())}
    if "--json" in arguments:
        sys.stdout.write(as_json(jobs[arguments[arguments.index("-j") + 1]]))
        return 0
    if program == "squeue":
        from middlewatch.adapters.slurm.listing import TITLES

        sys.stdout.write("".join(f"{title}{SEPARATOR}" for title in TITLES) + "\n")
        wanted = arguments[arguments.index("-j") + 1].split(",")
        sys.stdout.writelines(row(jobs[number]) + "\n" for number in wanted if number in jobs)
        return 0
    if arguments[:2] == ["show", "config"]:
        sys.stdout.write(CONFIG)
        return 0
    if arguments[:2] == ["show", "assoc_mgr"]:
        sys.stdout.write("No users currently cached in Slurm.\n")
        return 0
    with (folder / "changes.log").open("a") as log:
        log.write(" ".join(arguments) + "\n")
    if arguments[0] == "update":
        job = jobs[arguments[1].removeprefix("jobid=")]
        job["eligible"] = int(time.time())
    else:
        job = jobs[arguments[1]]
        job["state"], job["reason"], job["priority"] = "RUNNING", "None", 1
    new = path.with_suffix(".new")
    new.write_text(json.dumps(list(jobs.values())))
    new.replace(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
