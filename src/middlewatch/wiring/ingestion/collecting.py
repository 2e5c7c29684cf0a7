"""A collector's configuration that marks lines as detection needs them.

Grafana Alloy, Vector, Promtail and syslog-ng tail the files that jobs write to, take the job's id from the
file's path and send lines as they are, with the time at which they were read. What a site gives
(a pattern, a URL) is data: it is quoted for the language that it stands in, or refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from middlewatch.wiring.ingestion.syslogng import syslog_ng
from middlewatch.wiring.settings import LogsSettings, LogsSource, tenant_headers

OUTPUTS = "/home/*/slurm-%j.out"
LONGEST = 1000
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PART = re.compile(r"%(\d*)(.)|(\*)|([^%*]+)", re.DOTALL)
_ANY = "[^/]+"


class Collector(StrEnum):
    ALLOY = "alloy"
    VECTOR = "vector"
    PROMTAIL = "promtail"
    SYSLOG_NG = "syslog-ng"


class CannotCollect(ValueError):
    """No configuration can be made of what was given; the message says how to mend it."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where jobs write. ``regex`` has the groups ``job_id`` and, where the path names it, ``node``."""

    glob: str
    regex: str
    names_node: bool
    raw_ids: bool
    """Tasks of arrays are named by their raw id, which is not what squeue shows."""


def outputs(pattern: str) -> Outputs:
    """What a file name in Slurm's notation (sbatch --output), with `*` for any name, stands for.

    Raises `CannotCollect`.
    """
    if not pattern.startswith("/"):
        raise CannotCollect(f"{pattern[:80]!r} is no absolute path: write /scratch/%u/slurm-%j.out")
    if len(pattern) > LONGEST or not pattern.isprintable() or set(pattern) & set("'\"`\\[]{}?$^"):
        raise CannotCollect(
            f"{pattern[:80]!r} cannot be put into a collector's configuration: quotes, brackets, "
            "?, $ and backslashes are not taken; use * and Slurm's %j, %A, %a, %u, %x, %N"
        )
    if "%A" in pattern and "%a" in pattern and "%A_%a" not in pattern:
        raise CannotCollect("a task's id is %A_%a, just so: other orders cannot be put together")
    groups: set[str] = set()
    text = re.sub(r"%A_%a", "%\x01", pattern)
    pieces = [_piece(found, groups) for found in _PART.finditer(text)]
    made = "".join(glob for glob, _ in pieces)
    if "job" not in groups:
        raise CannotCollect(f"{pattern[:80]!r} has no job id in it: %j, or %A_%a for arrays")
    return Outputs(
        glob=re.sub(r"\*+", "*", made),
        regex="^" + "".join(regex for _, regex in pieces) + "$",
        names_node="node" in groups,
        raw_ids="raw" in groups,
    )


def _piece(found: re.Match[str], groups: set[str]) -> tuple[str, str]:
    letter = found[2]
    if found[4] is not None:
        return found[4], _literal(found[4])
    if found[3] is not None:
        return "*", _ANY
    if letter == "%":
        return "%", "%"
    if letter in {"j", "A", "\x01"}:
        digits = "[0-9]+_[0-9]+" if letter == "\x01" else "[1-9][0-9]*"
        zeros = "0*" if found[1] else ""
        if "job" in groups:
            return "*", f"{zeros}{digits}"
        groups |= {"job"} | ({"raw"} if letter == "j" else set())
        return "*", f"{zeros}(?P<job_id>{digits})"
    if letter == "N" and "node" not in groups:
        groups.add("node")
        return "*", "(?P<node>[A-Za-z0-9.-]+)"
    if letter in "aJNnstubx":
        return "*", "[0-9]+" if letter in "anst" else _ANY
    raise CannotCollect(f"%{letter} is none of Slurm's signs for file names that is known here")


def _literal(text: str) -> str:
    # As [.]: a backslash would be quoted otherwise in each of the languages.
    return "".join(f"[{c}]" if c in ".+()|" else c for c in text)


def collector_configuration(
    kind: Collector, given: LogsSettings, where: Outputs, *, node_of_collector: bool = True
) -> str:
    """The whole configuration. Raises `CannotCollect`.

    ``node_of_collector``: where the path names no node, the machine that the collector runs on is
    written as the node.
    """
    if given.source is LogsSource.FILES:
        raise CannotCollect(
            "a collector ships to a log store: give --source victorialogs or loki, and --url"
        )
    for name in (given.job_label, given.node_label, given.file_label):
        if not _LABEL.match(name):
            raise CannotCollect(f"{name[:80]!r} cannot be a label in Loki's push API")
    if len({given.job_label, given.node_label, given.file_label}) < 3:
        raise CannotCollect("job_label, node_label and file_label must be three names")
    if not given.url.isprintable() or set(given.url) & set("'\"`\\ $"):
        raise CannotCollect(f"{given.url[:80]!r} cannot be put into a collector's configuration")
    makers: Mapping[Collector, Callable[[LogsSettings, Outputs, bool], str]] = {
        Collector.ALLOY: _alloy,
        Collector.VECTOR: _vector,
        Collector.PROMTAIL: _promtail,
        Collector.SYSLOG_NG: _syslog_ng,
    }
    return makers[kind](given, where, node_of_collector)


def push_path(given: LogsSettings, *, whole: bool = True) -> str:
    """Where lines are pushed to. VictoriaLogs would take JSON lines apart unless told not to."""
    if given.source is LogsSource.LOKI:
        return "/loki/api/v1/push"
    return "/insert/loki/api/v1/push" + ("?disable_message_parsing=1" if whole else "")


def _head(mark: str, where: Outputs, named: str, *, node_of_collector: bool) -> list[str]:
    lines = [
        f"{named} for Middlewatch, written by `middlewatch logs check`.",
        f"Files: {where.glob}",
        "Each file must be read by one collector alone: where it lies on a file system that all",
        "nodes mount, run one collector for it, not one per node.",
    ]
    if not where.names_node and node_of_collector:
        lines += [
            "The node is the machine that this collector runs on. That is right where nodes ship",
            "their own local files; with one collector for all, put %N into the file's name instead.",
        ]
    if where.raw_ids:
        lines += [
            "Tasks of arrays: %j is a raw id, which squeue does not show; let arrays write to files",
            "with %A_%a in their names, and make a second configuration for those.",
        ]
    return [f"{mark} {line}" for line in lines]


def _quoted(text: str) -> str:
    """A string as Alloy, YAML and TOML read it: JSON's, of plain ASCII."""
    return json.dumps(text)


def _headers(given: LogsSettings) -> tuple[tuple[str, str], ...]:
    return tenant_headers(given) if given.tenant else ()


def _alloy(given: LogsSettings, where: Outputs, node_of_collector: bool) -> str:
    groups = ["job_id", *(["node"] if where.names_node else [])]
    labels = {given.job_label: "job_id"}
    if where.names_node:
        labels[given.node_label] = "node"
    if given.file_label != "filename":
        labels[given.file_label] = "filename"
    lines = _head("//", where, "Grafana Alloy", node_of_collector=node_of_collector)
    lines += [
        "",
        'local.file_match "slurm" {',
        f'  path_targets = [{{"__path__" = {_quoted(where.glob)}}}]',
        '  sync_period  = "5s"',
        "}",
        "",
        'loki.source.file "slurm" {',
        "  targets       = local.file_match.slurm.targets",
        "  forward_to    = [loki.process.slurm.receiver]",
        "  tail_from_end = false",
        "}",
        "",
        'loki.process "slurm" {',
        "  forward_to = [loki.write.store.receiver]",
        "",
        f"  // Takes {' and '.join(groups)} from the file's path.",
        "  stage.regex {",
        '    source     = "filename"',
        f"    expression = {_quoted(where.regex)}",
        "  }",
        "",
        "  stage.labels {",
        "    values = {",
        *(f"      {name} = {_quoted(source)}," for name, source in labels.items()),
        "    }",
        "  }",
    ]
    if not where.names_node and node_of_collector:
        lines += [
            "",
            "  stage.static_labels {",
            f"    values = {{ {given.node_label} = constants.hostname }}",
            "  }",
        ]
    if given.file_label != "filename":
        lines += ["", "  stage.label_drop {", '    values = ["filename"]', "  }"]
    lines += [
        "",
        "  // What is no job's output is not shipped.",
        "  stage.match {",
        f"    selector = {_quoted(_none(given))}",
        '    action   = "drop"',
        "  }",
        "}",
        "",
        'loki.write "store" {',
        "  endpoint {",
        f"    url        = {_quoted(given.url.rstrip('/') + push_path(given))}",
        '    batch_wait = "1s"',
    ]
    headers = _headers(given)
    if headers:
        pairs = ", ".join(f"{_quoted(name)} = {_quoted(value)}" for name, value in headers)
        lines.append(f"    headers    = {{ {pairs} }}")
    if given.token_file:
        lines.append(f"    bearer_token_file = {_quoted(given.token_file)}")
    elif given.username:
        lines += [
            "    basic_auth {",
            f"      username      = {_quoted(given.username)}",
            f"      password_file = {_quoted(given.password_file)}",
            "    }",
        ]
    if given.ca_file:
        lines += ["    tls_config {", f"      ca_file = {_quoted(given.ca_file)}", "    }"]
    return "\n".join([*lines, "  }", "}", ""])


def _none(given: LogsSettings) -> str:
    """Selects lines without a job; Loki's selectors want a matcher that holds for something."""
    return f'{{{given.file_label}=~".+", {given.job_label}=""}}'


def _promtail(given: LogsSettings, where: Outputs, node_of_collector: bool) -> str:
    labels = {given.job_label: "job_id"}
    if where.names_node:
        labels[given.node_label] = "node"
    if given.file_label != "filename":
        labels[given.file_label] = "filename"
    lines = _head("#", where, "Promtail", node_of_collector=node_of_collector)
    if not where.names_node and node_of_collector:
        lines.append("# Start it with -config.expand-env=true, and HOSTNAME in its environment.")
    lines += [
        "# Promtail is not maintained any more (since March 2026): Alloy reads the same files.",
        "server:",
        "  disable: true",
        "positions:",
        "  filename: /var/lib/promtail/positions.yaml",
        "clients:",
        f"  - url: {_quoted(given.url.rstrip('/') + push_path(given))}",
        "    batchwait: 1s",
    ]
    headers = _headers(given)
    if headers:
        lines.append("    headers:")
        lines += [f"      {name}: {_quoted(value)}" for name, value in headers]
    if given.token_file:
        lines.append(f"    bearer_token_file: {_quoted(given.token_file)}")
    elif given.username:
        lines += [
            "    basic_auth:",
            f"      username: {_quoted(given.username)}",
            f"      password_file: {_quoted(given.password_file)}",
        ]
    if given.ca_file:
        lines += ["    tls_config:", f"      ca_file: {_quoted(given.ca_file)}"]
    lines += [
        "scrape_configs:",
        "  - job_name: slurm",
        "    static_configs:",
        "      - targets: [localhost]",
        "        labels:",
        f"          __path__: {_quoted(where.glob)}",
    ]
    if not where.names_node and node_of_collector:
        lines.append(f"          {given.node_label}: ${{HOSTNAME}}")
    lines += [
        "    pipeline_stages:",
        "      - regex:",
        "          source: filename",
        f"          expression: {_quoted(where.regex)}",
        "      - labels:",
        *(f"          {name}: {source}" for name, source in labels.items()),
    ]
    if given.file_label != "filename":
        lines += ["      - labeldrop:", "          - filename"]
    lines += [
        "      - match:",
        f"          selector: {_quoted(_none(given))}",
        "          action: drop",
    ]
    return "\n".join([*lines, ""])


def _syslog_ng(given: LogsSettings, where: Outputs, node_of_collector: bool) -> str:
    if given.source is not LogsSource.VICTORIALOGS:
        raise CannotCollect("syslog-ng speaks to VictoriaLogs alone: for Loki take alloy or vector")
    sent = (given.username, given.ca_file, *(value for _, value in _headers(given)))
    if any(not text.isprintable() or set(text) & set("'`\\$") for text in sent):
        raise CannotCollect("a user, a tenant or ca_file has signs that syslog-ng would misread")
    head = _head("#", where, "syslog-ng (3.35 or newer)", node_of_collector=node_of_collector)
    head += [
        "# Its module for HTTP is Debian's syslog-ng-mod-http. Bytes that are no UTF-8 become \\xhh.",
    ]
    if given.token_file or given.username:
        head.append("# LOGS_TOKEN or LOGS_PASSWORD come from its environment.")
    lines = syslog_ng(
        given,
        where.glob,
        where.regex,
        _headers(given),
        names_node=where.names_node,
        node_of_collector=node_of_collector,
    )
    # The version has to be the first line that is no remark.
    return "\n".join([*head, *lines, ""])


def _vector(given: LogsSettings, where: Outputs, node_of_collector: bool) -> str:
    lines = _head("#", where, "Vector", node_of_collector=node_of_collector)
    if given.source is LogsSource.VICTORIALOGS:
        lines += [
            "# Start VictoriaLogs with -loki.disableMessageParsing: it takes lines apart that are JSON",
            "# otherwise.",
        ]
    node = "found.node" if where.names_node else ".host" if node_of_collector else ""
    lines += [
        'data_dir = "/var/lib/vector"',
        "",
        "[sources.slurm]",
        'type = "file"',
        f"include = [{_quoted(where.glob)}]",
        'read_from = "beginning"',
        "max_line_bytes = 262144",
        "glob_minimum_cooldown_ms = 5000",
        "# Logs of one program begin alike: their first line does not tell them apart.",
        'fingerprint.strategy = "device_and_inode"',
        "",
        "# Takes the job from the file's path; what is no job's output is not shipped.",
        "[transforms.slurm_job]",
        'type = "remap"',
        'inputs = ["slurm"]',
        "drop_on_error = true",
        "source = '''",
        f"found = parse_regex!(.file, r'{where.regex}')",
        ".mw_job = found.job_id",
        *([f".mw_node = {node}"] if node else []),
        ".mw_file = .file",
        "'''",
        "",
        "[sinks.store]",
        'type = "loki"',
        'inputs = ["slurm_job"]',
        f"endpoint = {_quoted(given.url.rstrip('/'))}",
        f"path = {_quoted(push_path(given, whole=False))}",
        'out_of_order_action = "accept"',
        "batch.timeout_secs = 1",
        'encoding.codec = "text"',
        f'labels.{given.job_label} = "{{{{ mw_job }}}}"',
        *([f'labels.{given.node_label} = "{{{{ mw_node }}}}"'] if node else []),
        f'labels.{given.file_label} = "{{{{ mw_file }}}}"',
    ]
    for name, value in _headers(given):
        lines.append(
            f"tenant_id = {_quoted(value)}"
            if name == "X-Scope-OrgID"
            else f"request.headers.{name} = {_quoted(value)}"
        )
    if given.token_file:
        lines += [
            "# The token itself, from Vector's environment.",
            'auth.strategy = "bearer"',
            'auth.token = "${LOGS_TOKEN}"',
        ]
    elif given.username:
        lines += [
            "# The password from Vector's environment.",
            'auth.strategy = "basic"',
            f"auth.user = {_quoted(given.username)}",
            'auth.password = "${LOGS_PASSWORD}"',
        ]
    if given.ca_file:
        lines.append(f"tls.ca_file = {_quoted(given.ca_file)}")
    return "\n".join([*lines, ""])
