"""`middlewatch logs check` as it is called."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from click.testing import CliRunner, Result

from middlewatch.cli.app import app
from middlewatch.lab.loki import LokiStandIn
from tests.integration.ingestion.shipping import Ship, ShipClock, stamped

CORPUS = Path(__file__).parents[3] / "corpus" / "dev"


def run(home: Path, *arguments: str) -> Result:
    env = {"HOME": str(home), "XDG_CONFIG_HOME": None, "XDG_STATE_HOME": None}
    given = ["--state-dir", str(home / "state"), "logs", "check", "--no-slurm", *arguments]
    return CliRunner().invoke(app, given, env=env, prog_name="mw")


def shipped(loki: LokiStandIn) -> tuple[str, ...]:
    ship = Ship("loki", loki.url, ShipClock())
    times = [ship.at(-600 + 60 - n) for n in range(30)]
    labels = {"slurm_job_id": "4711", "host": "n1", "path": "/s/slurm-4711.out"}
    ship.push(labels, *((at, stamped(at, "step 1/9 loss 2")) for at in times))
    tenant = f"logs.tenant={ship.tenant}"
    return "--source", "loki", "--url", loki.url, "--set", tenant, "--watch", "0"


def test_findings_are_said_and_the_settings_that_it_writes_have_none(
    tmp_path: Path, loki: LokiStandIn
) -> None:
    given = shipped(loki)
    found = tmp_path / "found.toml"
    first = run(tmp_path, *given, "--write", str(found))
    assert first.exit_code == 6, first.output
    assert 'job_label = "slurm_job_id"' in first.output
    assert tomllib.loads(found.read_text())["logs"]["node_label"] == "host"
    again = run(tmp_path, "--config", str(found), "--watch", "0")
    assert again.exit_code == 0, again.output


def test_what_is_there_is_not_overwritten(tmp_path: Path, loki: LokiStandIn) -> None:
    found = tmp_path / "found.toml"
    found.write_text("mine")
    assert run(tmp_path, *shipped(loki), "--write", str(found)).exit_code == 5
    assert found.read_text() == "mine"


def test_json_holds_findings_settings_and_the_collector(tmp_path: Path, loki: LokiStandIn) -> None:
    answer = run(tmp_path, *shipped(loki), "--collector", "vector", "--json")
    body = json.loads(answer.stdout)
    assert body["fine"] is False
    assert {"section": "logs", "key": "job_label", "value": "slurm_job_id"} in body["remedies"]
    assert tomllib.loads(body["settings"])["logs"]["file_label"] == "path"
    assert "{{ mw_job }}" in tomllib.loads(body["collector"])["sinks"]["store"]["labels"].values()


def test_a_collectors_configuration_stands_alone_on_standard_output(
    tmp_path: Path, loki: LokiStandIn
) -> None:
    answer = run(tmp_path, *shipped(loki), "--collector", "vector")
    assert answer.exit_code == 6
    assert tomllib.loads(answer.stdout)["sources"]["slurm"]["type"] == "file"
    assert "job label" in answer.stderr


def test_exit_codes_tell_an_absent_server_from_wrong_settings(
    tmp_path: Path, loki: LokiStandIn
) -> None:
    assert run(tmp_path, "--source", "loki", "--url", "http://localhost:9").exit_code == 75
    assert run(tmp_path, "--source", "loki", "--url", "nonsense").exit_code == 78
    # A Loki is no VictoriaLogs.
    wrong = run(tmp_path, "--source", "victorialogs", "--url", loki.url, "--watch", "0")
    assert wrong.exit_code == 78
    away = run(tmp_path, *shipped(loki), "--metrics-url", "http://localhost:9")
    assert away.exit_code == 75
    assert run(tmp_path, *shipped(loki), "--collector", "alloy", "--outputs", "x").exit_code == 78
    assert run(tmp_path).exit_code == 3


def test_one_file_is_judged_by_itself(tmp_path: Path) -> None:
    answer = run(tmp_path, "--file", str(CORPUS / "d001.log"))
    assert "progress lines are seen" in answer.stdout
    assert "job label" not in answer.stdout
    assert run(tmp_path, "--file", str(tmp_path / "none.out")).exit_code == 6
    link = tmp_path / "link.out"
    link.symlink_to(CORPUS / "d001.log")
    assert "symbolic link" in run(tmp_path, "--file", str(link)).stdout


def test_the_end_of_a_large_file_of_any_bytes_is_judged(tmp_path: Path) -> None:
    large = tmp_path / "large.out"
    large.write_bytes(bytes(range(256)) * 20_000 + b"\n" + b"step 5/10 loss 2.1\n" * 50)
    answer = run(tmp_path, "--file", str(large))
    assert answer.exit_code in {0, 6}
    assert "progress lines are seen" in answer.stdout
