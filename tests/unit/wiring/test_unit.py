"""The systemd unit: systemd can read it, and nothing that a unit cannot hold gets into it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from middlewatch.ports.errors import Refused
from middlewatch.wiring.unit import unit

PROGRAM = Path(sys.executable)


def lines(text: str) -> set[str]:
    return set(text.splitlines())


@pytest.mark.parametrize("state", ["/var/lib/middlewatch", "/srv/mw/state"])
def test_systemd_takes_it_as_it_is(tmp_path: Path, state: str) -> None:
    file = tmp_path / "middlewatch.service"
    file.write_text(unit("games", Path(state), Path("/etc/middlewatch/a.toml"), PROGRAM))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(file)], capture_output=True, text=True, check=False
    )
    # systemd looks at the machine's other units as well, and says what it thinks of them.
    said = [line for line in done.stderr.splitlines() if "middlewatch" in line]
    assert (done.returncode, said) == (0, [])


def test_systemd_would_have_said_so(tmp_path: Path) -> None:
    file = tmp_path / "middlewatch.service"
    file.write_text(unit("games", Path("/var/lib/middlewatch"), None, Path("/nowhere/at-all")))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(file)], capture_output=True, text=True, check=False
    )
    assert "/nowhere/at-all" in done.stderr


def test_what_it_may_do_is_reading_and_nothing_else() -> None:
    text = lines(unit("middlewatch", Path("/var/lib/middlewatch"), None, PROGRAM))
    assert "User=middlewatch" in text
    assert "CapabilityBoundingSet=CAP_DAC_READ_SEARCH" in text
    assert "NoNewPrivileges=yes" in text
    assert "KillMode=process" in text
    assert "StateDirectory=middlewatch" in text
    assert f"ExecStart={PROGRAM} up" in text


def test_a_state_directory_elsewhere_is_only_named() -> None:
    text = lines(unit("mw", Path("/srv/mw/state"), Path("/etc/a.toml"), PROGRAM))
    assert "Environment=MIDDLEWATCH_STATE_DIRECTORY=/srv/mw/state" in text
    assert not any(line.startswith("StateDirectory") for line in text)
    assert f"ExecStart={PROGRAM} --config /etc/a.toml up" in text


@pytest.mark.parametrize("user", ["", "a b", "root\nExecStart=/bin/sh", "%u", "x" * 33])
def test_a_name_that_is_none_is_refused(user: str) -> None:
    with pytest.raises(Refused, match="no user's name"):
        unit(user, Path("/var/lib/middlewatch"), None, PROGRAM)


@pytest.mark.parametrize("path", ["/srv/a b", "/srv/%h", "/srv/a\nb", "/srv/ä"])
def test_a_path_that_a_unit_cannot_hold_is_refused(path: str) -> None:
    with pytest.raises(Refused, match="plainer path"):
        unit("middlewatch", Path(path), None, PROGRAM)
