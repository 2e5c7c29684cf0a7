"""syslog-ng as a collector: Debian has it, and it ships files' lines to VictoriaLogs over HTTP.

It takes the time of a line once for all that it reads at one go, and a store keeps no order among
equal times: the running number of the line stands behind the millisecond. Its files are its buffer:
while the store is away nothing is read on.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from middlewatch.wiring.settings import LogsSettings

PUSH = "/insert/jsonline"
FILES = 10_000
"""How many files it follows at most."""
_TIME = (
    "${R_YEAR}-${R_MONTH}-${R_DAY}T${R_HOUR}:${R_MIN}:${R_SEC}"
    ".${R_MSEC}$(padding $(% ${SEQNUM} 1000000) 6 0)${R_TZOFFSET}"
)


def syslog_ng(
    given: LogsSettings,
    glob: str,
    regex: str,
    headers: Sequence[tuple[str, str]],
    *,
    names_node: bool,
    node_of_collector: bool,
) -> list[str]:
    """The configuration's lines. All texts must have been found fit to be quoted: no quotes,
    backslashes, backticks or dollar signs, but for the regular expression's last."""
    folder, pattern, recursive = _files(glob)
    labels = [given.job_label]
    fields = [f"{given.job_label}=${{.mw.job_id}}"]
    if names_node or node_of_collector:
        labels.append(given.node_label)
        fields.append(f"{given.node_label}={'${.mw.node}' if names_node else '${HOST}'}")
    labels.append(given.file_label)
    fields.append(f"{given.file_label}=${{FILE_NAME}}")
    sent = [("Content-Type", "application/stream+json"), *headers]
    if given.token_file:
        sent.append(("Authorization", "Bearer `LOGS_TOKEN`"))
    head = " ".join(f"'{name}: {value}'" for name, value in sent if "`" not in value)
    head += "".join(f' "{name}: {value}"' for name, value in sent if "`" in value)
    lines = [
        "@version: 3.35",
        "options { time-reopen(2); };",
        "",
        "source slurm {",
        "  wildcard-file(",
        f"    base-dir('{folder}') filename-pattern('{pattern}') recursive({recursive})",
        f"    max-files({FILES}) log-iw-size({FILES * 1000}) log-fetch-limit(1000)",
        "    follow-freq(0.5) read-old-records(yes) flags(no-parse, no-hostname)",
        "    log-msg-size(262144)",
        "  );",
        "};",
        "",
        "# Takes the job from the file's path; what is no job's output is not shipped.",
        "parser slurm_job {",
        "  regexp-parser(",
        f"    patterns('{regex}')",
        "    prefix('.mw.') template('${FILE_NAME}')",
        "  );",
        "};",
        "",
        "destination store {",
        "  http(",
        f"    url('{given.url.rstrip('/')}{PUSH}?_stream_fields={','.join(labels)}')",
        f"    method('POST') headers({head})",
    ]
    if given.username and not given.token_file:
        lines.append(f"    user('{given.username}') password(\"`LOGS_PASSWORD`\")")
    if given.ca_file:
        lines.append(f"    tls(ca-file('{given.ca_file}'))")
    return [
        *lines,
        '    batch-lines(1000) batch-timeout(500) delimiter("\\n") timeout(30) retries(1000000)',
        f'    body(\'$(format-json --scope none _time="{_TIME}" _msg=${{MESSAGE}}',
        f"      {' '.join(fields)})')",
        "  );",
        "};",
        "",
        "log { source(slurm); parser(slurm_job); destination(store); flags(flow-control); };",
    ]


def _files(glob: str) -> tuple[str, str, str]:
    """The folder without wildcards, the pattern of names, and whether files lie deeper than in it."""
    path = PurePosixPath(glob)
    parts = path.parts[:-1]
    plain = next((n for n, part in enumerate(parts) if "*" in part), len(parts))
    return str(PurePosixPath(*parts[:plain])), path.name, "yes" if plain < len(parts) else "no"
