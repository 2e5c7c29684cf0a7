"""Where things lie, and who may work there."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from middlewatch.ports.errors import Refused
from middlewatch.wiring import places
from middlewatch.wiring.places import AlreadyRunning, Lock, holder
from middlewatch.wiring.settings import GatewaySettings, Settings, StateSettings
from tests.identities import effectively


def with_state(path: Path) -> Settings:
    return replace(Settings(), state=StateSettings(directory=str(path)))


def test_root_keeps_its_state_where_services_do() -> None:
    assert places.preferred(Settings(), {}, 0) == Path("/var/lib/middlewatch")


def test_others_keep_it_in_their_state_home() -> None:
    assert places.preferred(Settings(), {"XDG_STATE_HOME": "/x"}, 1000) == Path("/x/middlewatch")
    assert places.preferred(Settings(), {"HOME": "/h"}, 1000) == Path("/h/.local/state/middlewatch")


def test_a_relative_state_home_is_not_believed() -> None:
    environ = {"XDG_STATE_HOME": "x", "HOME": "/h"}
    assert places.preferred(Settings(), environ, 1000) == Path("/h/.local/state/middlewatch")


def test_a_reader_makes_nothing(tmp_path: Path) -> None:
    found = places.found(with_state(tmp_path / "s"), {})
    assert found.state == tmp_path / "s"
    assert not found.state.exists()


def test_the_state_is_made_for_its_owner_only(tmp_path: Path) -> None:
    made = places.prepared(with_state(tmp_path / "s"), {})
    assert made.state.stat().st_mode & 0o777 == 0o700


def test_a_socket_whose_path_would_be_too_long_lies_elsewhere_and_always_there(
    tmp_path: Path,
) -> None:
    deep = tmp_path / ("d" * 80) / ("e" * 40)
    one = places.found(with_state(deep), {})
    two = places.found(with_state(deep), {})
    other = places.found(with_state(deep / "f"), {})
    assert len(os.fsencode(one.socket)) < 108
    assert one.socket == two.socket
    assert one.socket != other.socket


def test_a_named_socket_is_taken(tmp_path: Path) -> None:
    settings = replace(with_state(tmp_path), gateway=GatewaySettings(socket="/run/mw.sock"))
    assert places.found(settings, {}).socket == Path("/run/mw.sock")


def test_only_one_may_hold_a_lock_and_the_other_is_told_who(tmp_path: Path) -> None:
    lock = Lock(tmp_path / "up.lock", "up")
    with pytest.raises(AlreadyRunning, match=f"process {os.getpid()}"):
        Lock(tmp_path / "up.lock", "up")
    assert holder(tmp_path / "up.lock") == os.getpid()
    lock.release()
    assert holder(tmp_path / "up.lock") is None
    Lock(tmp_path / "up.lock", "up").release()


def test_a_lock_that_never_was_is_held_by_nobody(tmp_path: Path) -> None:
    assert holder(tmp_path / "none.lock") is None


@pytest.mark.root
def test_a_state_that_another_user_made_is_refused_with_the_remedy() -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        path = Path(folder) / "up.lock"
        path.touch(mode=0o600)
        with effectively("games"), pytest.raises(Refused, match=r"belongs to root.*chown -R games"):
            Lock(path, "up")
