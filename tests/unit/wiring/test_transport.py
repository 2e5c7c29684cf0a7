"""How Slurm is reached: what belongs together is said, with the key to mend."""

from __future__ import annotations

from pathlib import Path

import pytest

from middlewatch.adapters.slurm import gate
from middlewatch.wiring import build
from middlewatch.wiring.settings import Settings, SlurmSettings, Transport, contradictions
from middlewatch.wiring.transport import about_transport, gate_script, ssh_target
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
    return [key for _, key, _ in about_transport(given)]


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
