"""Making, listing and revoking tokens on a state directory."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from middlewatch.adapters.sql.store import open_store
from middlewatch.cli.app import app
from middlewatch.contract.errors import ApiError
from middlewatch.services.gateway.access import Scope, caller_of_token


@pytest.fixture
def state(tmp_path: Path) -> Path:
    open_store(tmp_path / "middlewatch.db").close()
    return tmp_path


def run(state: Path, *words: str) -> Result:
    env = {"HOME": str(state), "MIDDLEWATCH_STATE_DIRECTORY": str(state)}
    return CliRunner().invoke(app, ["token", *words], env=env)


def scopes_of(state: Path, text: str) -> frozenset[Scope]:
    store = open_store(state / "middlewatch.db")
    try:
        return caller_of_token(f"Bearer {text}", store.tokens()).scopes
    finally:
        store.close()


def test_a_token_has_the_scopes_that_were_asked_for_and_no_others(state: Path) -> None:
    made = run(state, "add", "dash", "--scope", "read", "--scope", "ingest")
    assert made.exit_code == 0
    text = made.stdout.strip()
    assert scopes_of(state, text) == {Scope.READ, Scope.INGEST}
    listed = run(state, "list").stdout
    assert "dash" in listed
    assert "read,ingest" in listed
    assert text.rpartition("_")[2] not in listed


def test_a_revoked_token_opens_nothing_and_frees_its_name(state: Path) -> None:
    text = run(state, "add", "dash", "--scope", "read").stdout.strip()
    assert run(state, "add", "dash", "--scope", "read").exit_code == 5
    assert run(state, "revoke", "dash").exit_code == 0
    with pytest.raises(ApiError, match="revoked"):
        scopes_of(state, text)
    assert run(state, "add", "dash", "--scope", "read").exit_code == 0
    assert run(state, "revoke", "nobody").exit_code == 3


def test_a_token_in_a_file_is_for_its_owner_and_is_not_printed(state: Path) -> None:
    file = state / "controller.token"
    made = run(state, "add", "c2", "--scope", "controller", "--file", str(file))
    assert made.output == ""
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert scopes_of(state, file.read_text().strip()) == {Scope.CONTROLLER}


def test_without_a_state_there_is_nothing_to_add_to(tmp_path: Path) -> None:
    made = run(tmp_path, "add", "dash", "--scope", "read")
    assert made.exit_code == 3
    assert "middlewatch up" in made.output
    assert not (tmp_path / "middlewatch.db").exists()


def test_an_unknown_scope_is_a_wrong_use(state: Path) -> None:
    assert run(state, "add", "dash", "--scope", "root").exit_code == 2
