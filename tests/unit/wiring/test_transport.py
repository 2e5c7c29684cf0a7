"""How Slurm is reached: what belongs together is said, with the key to mend."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from middlewatch.adapters.slurm import gate
from middlewatch.wiring import build
from middlewatch.wiring.settings import (
    ControllerSettings,
    DeploymentSettings,
    Settings,
    SlurmSettings,
    Transport,
    contradictions,
)
from middlewatch.wiring.transport import about_gateway, about_transport, gate_script, ssh_target
from middlewatch.wiring.watchdog_process import read_arguments

GOOD = SlurmSettings(
    transport=Transport.SSH,
    ssh_host="ctl",
    ssh_user="mw",
    ssh_key="/etc/mw/key",
    ssh_known_hosts="/etc/mw/known",
    ssh_jump=("mw@bastion:2222",),
)


def keys(given: SlurmSettings) -> list[str]:
    return [key for _, key, _ in about_transport(Settings(slurm=given))]


def test_a_complete_way_has_nothing_to_mend() -> None:
    assert keys(GOOD) == []
    assert keys(SlurmSettings()) == []
    assert not list(contradictions(Settings(slurm=GOOD)))


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ({"ssh_host": ""}, "ssh_host"),
        ({"ssh_host": "ctl;id"}, "ssh_host"),
        ({"ssh_known_hosts": ""}, "ssh_known_hosts"),
        ({"ssh_key": ""}, "ssh_key"),
        ({"ssh_jump": ("a b",)}, "ssh_jump"),
        ({"bin_dir": "/opt/slurm/bin"}, "bin_dir"),
        ({"conf": "/etc/slurm.conf"}, "conf"),
        ({"transport": Transport.LOCAL}, "ssh_host"),
    ],
)
def test_what_does_not_fit_is_named_by_its_key(changed: dict[str, object], wrong: str) -> None:
    given = {name: getattr(GOOD, name) for name in GOOD.__slots__} | changed
    assert keys(SlurmSettings(**given)) == [wrong]  # type: ignore[arg-type]


def test_the_watchdog_is_told_the_same_way() -> None:
    spec = build.watchdog_spec(Settings(slurm=GOOD), Path("/var/lib/mw"))
    again, _ = read_arguments(spec.argv())
    assert again == spec
    assert ssh_target(GOOD).to_json() == again.ssh


def test_the_gate_that_is_handed_out_is_the_one_that_is_tested() -> None:
    assert gate_script() == Path(gate.__file__).read_text()


REST = SlurmSettings(
    transport=Transport.SLURMRESTD,
    rest_url="unix:/run/slurmrestd/socket",
    rest_user="mw",
    rest_token_file="/etc/mw/jwt",
)
NAMED = DeploymentSettings(cluster_name="lab")


def test_slurmrestd_needs_an_address_a_user_a_token_and_the_clusters_name() -> None:
    assert not list(contradictions(Settings(slurm=REST, deployment=NAMED)))
    assert keys(REST) == ["cluster_name"]
    assert keys(SlurmSettings(transport=Transport.SLURMRESTD)) == [
        "rest_url",
        "rest_user",
        "rest_token_file",
        "cluster_name",
    ]


@pytest.mark.parametrize(
    "url", ["http://ctl:6820", "ftp://ctl", "ctl:6820", "http://a:b@127.0.0.1"]
)
def test_a_token_of_slurms_goes_nowhere_in_the_clear(url: str) -> None:
    given = replace(REST, rest_url=url)
    found = [key for _, key, _ in about_transport(Settings(slurm=given, deployment=NAMED))]
    assert found == ["rest_url"]


def test_the_watchdog_is_told_of_slurmrestd() -> None:
    spec = build.watchdog_spec(Settings(slurm=REST, deployment=NAMED), Path("/var/lib/mw"))
    again, _ = read_arguments(spec.argv())
    assert again == spec


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ({"gateway": "http://mw.example.org:8642"}, "gateway"),
        ({"gateway": "mw:8642"}, "gateway"),
        ({"token_file": ""}, "token_file"),
    ],
)
def test_the_way_to_a_gateway_is_checked(changed: dict[str, str], wrong: str) -> None:
    good = ControllerSettings(gateway="https://mw:8642", token_file="/t")
    assert not list(about_gateway(good))
    assert [key for _, key, _ in about_gateway(replace(good, **changed))] == [wrong]
