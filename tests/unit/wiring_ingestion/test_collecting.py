"""The collectors' programs are not here: what can be tested is that their languages read it."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace

import pytest
import yaml

from middlewatch.wiring.ingestion.collecting import (
    CannotCollect,
    Collector,
    collector_configuration,
    outputs,
)
from middlewatch.wiring.settings import LogsSettings, LogsSource

VL = LogsSettings(
    source=LogsSource.VICTORIALOGS, url="https://logs.example.org:9428", tenant="12:34"
)
LOKI = LogsSettings(
    source=LogsSource.LOKI,
    url="https://loki.example.org",
    tenant="hpc",
    username="mw",
    password_file="/etc/mw/password",
    ca_file="/etc/mw/ca.pem",
    file_label="path",
)
WHERE = outputs("/scratch/%u/run.d/%x-%j.out")


@pytest.mark.parametrize(
    ("pattern", "path", "job", "node"),
    [
        ("/home/*/slurm-%j.out", "/home/a/slurm-4711.out", "4711", ""),
        ("/s/%u/%x-%A_%a.log", "/s/a/my-run-4711_12.log", "4711_12", ""),
        ("/s/%N/%8j.out", "/s/n1.example/00004711.out", "4711", "n1.example"),
        ("/s/%j/%j-%t.out", "/s/4711/4711-3.out", "4711", ""),
        ("/s/a.b/%j%%", "/s/a.b/4711%", "4711", ""),
    ],
)
def test_a_pattern_of_slurm_finds_the_job_in_a_path(
    pattern: str, path: str, job: str, node: str
) -> None:
    made = outputs(pattern)
    found = re.match(made.regex, path)
    assert found is not None
    assert found["job_id"] == job
    assert (found["node"] if made.names_node else "") == node
    assert re.fullmatch(re.escape(made.glob).replace(r"\*", "[^/]*"), path)


@pytest.mark.parametrize(
    "pattern",
    [
        "slurm-%j.out",
        "/home/a.out",
        "/x/%j'.out",
        '/x/"%j',
        "/x/%j\n",
        "/x/%Q-%j",
        "/%a_%A",
        "/$j%j",
    ],
)
def test_a_pattern_that_cannot_be_used_is_refused(pattern: str) -> None:
    with pytest.raises(CannotCollect):
        outputs(pattern)


def test_promtails_yaml_says_what_is_meant() -> None:
    made = yaml.safe_load(collector_configuration(Collector.PROMTAIL, VL, WHERE))
    client = made["clients"][0]
    assert client["url"] == (
        "https://logs.example.org:9428/insert/loki/api/v1/push?disable_message_parsing=1"
    )
    assert client["headers"] == {"AccountID": "12", "ProjectID": "34"}
    scrape = made["scrape_configs"][0]
    assert scrape["static_configs"][0]["labels"]["__path__"] == WHERE.glob
    regex, labels, drop = scrape["pipeline_stages"]
    assert regex["regex"] == {"source": "filename", "expression": WHERE.regex}
    assert labels["labels"] == {"job_id": "job_id"}
    assert drop["match"]["action"] == "drop"
    renamed = yaml.safe_load(collector_configuration(Collector.PROMTAIL, LOKI, WHERE))
    assert {"labels": {"job_id": "job_id", "path": "filename"}} in renamed["scrape_configs"][0][
        "pipeline_stages"
    ]
    assert renamed["clients"][0]["basic_auth"]["password_file"] == "/etc/mw/password"


def test_vectors_toml_says_what_is_meant() -> None:
    made = tomllib.loads(collector_configuration(Collector.VECTOR, LOKI, WHERE))
    assert made["sources"]["slurm"]["include"] == [WHERE.glob]
    assert WHERE.regex in made["transforms"]["slurm_job"]["source"]
    sink = made["sinks"]["store"]
    assert sink["labels"] == {
        "job_id": "{{ mw_job }}",
        "node": "{{ mw_node }}",
        "path": "{{ mw_file }}",
    }
    assert (sink["endpoint"], sink["path"]) == ("https://loki.example.org", "/loki/api/v1/push")
    assert sink["tenant_id"] == "hpc"
    assert sink["tls"] == {"ca_file": "/etc/mw/ca.pem"}
    for one in (made, tomllib.loads(collector_configuration(Collector.VECTOR, VL, WHERE))):
        for component in (*one["transforms"].values(), *one["sinks"].values()):
            assert set(component["inputs"]) <= {*one["sources"], *one["transforms"]}


@pytest.mark.parametrize("given", [VL, LOKI])
@pytest.mark.parametrize("pattern", ["/s/%N/%j.out", "/home/*/slurm-%j.out"])
def test_alloys_blocks_are_balanced_and_lead_to_each_other(
    given: LogsSettings, pattern: str
) -> None:
    text = collector_configuration(Collector.ALLOY, given, outputs(pattern))
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', re.sub(r"(?m)^\s*//.*$", "", text))
    assert '"' not in bare.replace('""', "")
    depth = []
    for character in bare:
        if character in "{[(":
            depth.append(character)
        elif character in "}])":
            assert depth.pop() + character in {"{}", "[]", "()"}
    assert depth == []
    made = {f"{kind}.{name}" for kind, name in re.findall(r'(?m)^([\w.]+) "(\w+)" \{', text)}
    used = set(re.findall(r"((?:loki|local)\.[a-z_.]+\.\w+)\.(?:receiver|targets)", bare))
    assert used
    assert used <= made


def test_a_secret_never_stands_in_a_configuration() -> None:
    for kind in Collector:
        given = VL if kind is Collector.SYSLOG_NG else LOKI
        given = replace(given, username="mw", password_file="/etc/mw/password")
        made = collector_configuration(kind, given, WHERE)
        assert any(name in made for name in ("/etc/mw/password", "${LOGS_PASSWORD}", "`LOGS_P"))


def test_syslog_ng_is_told_where_files_lie_and_what_their_lines_are_called() -> None:
    text = collector_configuration(Collector.SYSLOG_NG, VL, outputs("/scratch/*/logs/%j_%N.out"))
    assert "base-dir('/scratch') filename-pattern('*_*.out') recursive(yes)" in text
    assert "node=${.mw.node}" in text
    flat = collector_configuration(Collector.SYSLOG_NG, VL, outputs("/logs/slurm-%j.out"))
    assert "base-dir('/logs') filename-pattern('slurm-*.out') recursive(no)" in flat
    assert "node=${HOST}" in flat
    with pytest.raises(CannotCollect, match="VictoriaLogs alone"):
        collector_configuration(Collector.SYSLOG_NG, LOKI, WHERE)


@pytest.mark.parametrize(
    "given",
    [
        LogsSettings(),
        LogsSettings(source=LogsSource.LOKI, url='https://x"y'),
        LogsSettings(source=LogsSource.LOKI, url="https://x", job_label="a.b"),
        LogsSettings(source=LogsSource.LOKI, url="https://x", job_label="node"),
    ],
)
def test_settings_of_which_no_collector_can_be_made_are_refused(given: LogsSettings) -> None:
    for kind in Collector:
        with pytest.raises(CannotCollect):
            collector_configuration(kind, given, WHERE)
