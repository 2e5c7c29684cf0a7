"""Which of the newest live jobs could be watched and restarted, and what keeps the others from it.

The owner of a job reads this, so each finding says what to write or to type.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from middlewatch.model.answer import Absent, Known, Unknown
from middlewatch.model.optin import JobMode, read_comment
from middlewatch.model.scheduler import JobDetail, JobView
from middlewatch.wiring.findings import Examined, Finding, Level
from middlewatch.wiring.plain import plain
from middlewatch.wiring.settings import LogsSource

JOBS_EXAMINED = 20


def examined_jobs(this: Examined) -> Iterator[Finding]:
    if this.facts is None:
        return
    match this.scheduler.listing():
        case Known(value=snapshot):
            jobs = snapshot.jobs
        case Unknown(why=why):
            yield Finding("listing", Level.FAIL, f"not complete: {plain(why, 300)}")
            return
        case _:
            return
    live = [job for job in jobs if not job.ended]
    yield Finding(
        "listing", Level.OK, f"{len(jobs)} jobs in Slurm's memory, {len(live)} of them live"
    )
    recent = sorted(live, key=lambda job: job.submitted_at)[-JOBS_EXAMINED:]
    files = this.loaded.settings.logs.source is LogsSource.FILES
    opted = 0
    for job in recent:
        match this.scheduler.detail(job.job_id):
            case Known(value=detail):
                taken, found = job_findings(this, job, detail, files=files)
                opted += taken
                if taken and job.started_at is not None:
                    this.watched.append(job.job_id)
                yield from found
                if taken:
                    yield from _interactive(this, job)
            case Unknown(why=why):
                yield Finding("jobs", Level.INFO, f"job {job.job_id}: {plain(why, 200)}")
            case Absent():
                pass
    if recent and not opted:
        yield Finding(
            "opt-in",
            Level.INFO,
            f"none of the {len(recent)} newest live jobs has opted in",
            "owners add the line that `middlewatch check-comment` prints",
        )
    elif recent:
        yield Finding("opt-in", Level.OK, f"{opted} of the {len(recent)} newest live jobs opted in")


def job_findings(
    this: Examined, job: JobView, detail: JobDetail, *, files: bool = True
) -> tuple[bool, list[Finding]]:
    """Whether it has opted in, and what is to be said of it. ``files``: its output is read from its
    own files."""
    found: list[Finding] = []
    opt_in = read_comment(detail.comment, this.environment)
    right = f"right would be: {opt_in.suggestion}" if opt_in.suggestion else ""
    found += [
        Finding("opt-in", Level.WARN, f"job {job.job_id}: {plain(problem, 200)}", right)
        for problem in opt_in.problems_in(this.environment)
    ]
    if opt_in.effective(this.environment) is JobMode.OFF:
        return False, found
    requeue = detail.requeueable if detail.requeueable is not None else job.requeueable
    if requeue is False:
        found.append(
            Finding(
                "requeue",
                Level.WARN,
                f"job {job.job_id} cannot be requeued (Requeue=0)",
                f"its owner: scontrol update JobId={job.job_id} Requeue=1, and #SBATCH --requeue",
            )
        )
    if job.array_pending and job.held and (opt_in.depends_on or opt_in.depends_on_wrong):
        found.append(
            Finding(
                "workflow",
                Level.WARN,
                f"job {job.job_id} is a held array: what it declares to wait for is not looked at",
                "submit its tasks as jobs of their own; or let it go by hand: scontrol release "
                f"{job.job_id}",
            )
        )
    if job.heterogeneous and detail.uneven:
        found.append(
            Finding(
                "requeue",
                Level.WARN,
                f"job {job.job_id} has several components that exclude different nodes: it is "
                "watched, but not restarted, because an update would give all of them one list",
                "give all its components the same --exclude, or restart it by hand",
            )
        )
    for path in dict.fromkeys((detail.stdout, detail.stderr)) if files else ():
        trouble = log_trouble(path, job.uid)
        if trouble:
            found.append(
                Finding(
                    "logs",
                    Level.WARN,
                    f"job {job.job_id}: {plain(path, 200)} {trouble}",
                    "its failures would be seen by Slurm's word alone; run where the job's files "
                    "are mounted, with rights to read them",
                )
            )
    return True, found


def _interactive(this: Examined, job: JobView) -> Iterator[Finding]:
    """Slurm requeues batch jobs alone; the listing does not tell which those are."""
    done = this.ask(("squeue", "-h", "-j", job.job_id, "-O", "BatchFlag:1"))
    if done.exit_code == 0 and done.stdout.split() == ["0"]:
        yield Finding(
            "requeue",
            Level.WARN,
            f"job {job.job_id} cannot be requeued: srun or salloc started it, no batch script",
            "its owner: submit it with sbatch",
        )


def log_trouble(path: str, uid: int) -> str:
    """Why a job's output file could not be followed; empty where it can, or is not there yet."""
    if not path or path == "/dev/null":
        return "is no file"
    try:
        found = Path(path).lstat()
    except FileNotFoundError:
        folder = Path(path).parent
        return (
            "" if folder.is_dir() else f"lies in {plain(folder, 100)}, which is not on this machine"
        )
    except OSError as error:
        return f"cannot be looked at: {error.strerror}"
    if not stat.S_ISREG(found.st_mode):
        return "is no regular file"
    if found.st_uid != uid:
        return f"belongs to uid {found.st_uid}, not to the job's user"
    if found.st_nlink != 1:
        return "has more than one name (hard links)"
    if not os.access(path, os.R_OK):
        return "may not be read by us"
    return ""
