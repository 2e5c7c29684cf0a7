"""From files, environment and flags to settings."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from middlewatch.model.gates import Mode
from middlewatch.wiring import loading
from middlewatch.wiring.loading import BadSettings, Loaded, duration, duration_text, load
from middlewatch.wiring.settings import Settings, specs

NOWHERE = Path("/nonexistent/middlewatch.toml")


def from_text(tmp_path: Path, text: str, environ: dict[str, str] | None = None) -> Loaded:
    path = tmp_path / "middlewatch.toml"
    path.write_text(text)
    return load(environ or {}, config=path)


def problems_of(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(BadSettings) as caught:
        from_text(tmp_path, text)
    return [str(problem) for problem in caught.value.problems]


def test_without_anything_the_defaults_hold_and_monitor_is_the_mode() -> None:
    loaded = load({}, system_file=NOWHERE)
    assert loaded.settings.deployment.mode is Mode.MONITOR
    assert loaded.settings.deployment.acknowledge_scheduler_actions is False
    assert loaded.settings.deployment.partitions == ()
    assert set(loaded.origins.values()) == {"default"}
    assert loaded.files == ()


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    path.write_text("[gateway]\nport = 1001\nbind = '127.0.0.2'\n[log]\nlevel = 'debug'\n")
    loaded = load(
        {"MIDDLEWATCH_GATEWAY_PORT": "1002", "MIDDLEWATCH_GATEWAY_BIND": "127.0.0.3"},
        config=path,
        flags={"gateway.port": "1003"},
    )
    assert loaded.settings.gateway.port == 1003
    assert loaded.settings.gateway.bind == "127.0.0.3"
    assert loaded.settings.log.level.value == "debug"
    assert loaded.origins["gateway.port"] == "command line"
    assert loaded.origins["gateway.bind"] == "$MIDDLEWATCH_GATEWAY_BIND"
    assert loaded.origins["log.level"] == f"{path}:5"


def test_the_users_own_file_wins_over_the_systems(tmp_path: Path) -> None:
    system = tmp_path / "etc.toml"
    system.write_text("[gateway]\nport = 1\n[log]\nlevel = 'error'\n")
    own = tmp_path / "home" / ".config" / "middlewatch"
    own.mkdir(parents=True)
    (own / "middlewatch.toml").write_text("[gateway]\nport = 2\n")
    loaded = load({"HOME": str(tmp_path / "home")}, system_file=system)
    assert loaded.settings.gateway.port == 2
    assert loaded.settings.log.level.value == "error"
    assert len(loaded.files) == 2


def test_a_named_file_is_read_alone(tmp_path: Path) -> None:
    system = tmp_path / "etc.toml"
    system.write_text("[gateway]\nport = 1\n")
    named = tmp_path / "named.toml"
    named.write_text("[log]\nlevel = 'error'\n")
    loaded = load({"MIDDLEWATCH_CONFIG": str(named)}, system_file=system)
    assert loaded.settings.gateway.port == Settings().gateway.port
    assert loaded.files == (named,)


def test_a_named_file_that_is_missing_is_a_problem() -> None:
    with pytest.raises(BadSettings, match="no such file"):
        load({}, config=NOWHERE)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[deployment]\npartitons = []\n", ":2: unknown key 'deployment.partitons'; did you mean deployment.partitions?"),
        ("[gatway]\nport = 1\n", ":1: unknown section 'gatway'; did you mean [gateway]?"),
        ("[policy]\n\nmax_restart = 3\n", ":3: unknown key 'policy.max_restart'; did you mean policy.max_restarts?"),
        ("[log]\nport = 3\n", ":2: unknown key 'log.port'; did you mean gateway.port?"),
        ("port = 3\n", ":1: unknown key outside a section 'port'; did you mean gateway.port?"),
    ],
)  # fmt: skip
def test_an_unknown_key_is_refused_with_its_line_and_the_nearest_right_one(
    tmp_path: Path, text: str, said: str
) -> None:
    assert problems_of(tmp_path, text) == [f"{tmp_path}/middlewatch.toml{said}"]


def test_an_unknown_variable_is_refused_with_the_nearest_right_one() -> None:
    with pytest.raises(BadSettings, match="did you mean MIDDLEWATCH_GATEWAY_PORT"):
        load({"MIDDLEWATCH_GATEWAY_PROT": "1"}, system_file=NOWHERE)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[deployment]\nmode = 'acton'\n", "did you mean 'action'?"),
        ("[gateway]\nport = 70000\n", "must lie between 0 and 65535"),
        ("[gateway]\nport = true\n", "must be a whole number"),
        ("[gateway]\ninsecure = 'perhaps'\n", "must be true or false"),
        ("[deployment]\npartitions = [1]\n", "must be a list of names"),
        ("[state]\ndirectory = 7\n", "must be text"),
        ("[watcher]\ninterval = 'soon'\n", "is no duration"),
        ("[watcher]\ninterval = -1\n", "must not be negative"),
        ("[watcher]\ninterval = 0\n", "must lie between"),
        ("[deployment\n", "cannot be understood"),
        ("deployment = 3\n", "is a section"),
    ],
)
def test_a_wrong_value_is_refused_with_what_would_be_right(
    tmp_path: Path, text: str, said: str
) -> None:
    (problem,) = problems_of(tmp_path, text)
    assert said in problem
    assert problem.startswith(str(tmp_path))


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    text = "[gateway]\nport = 'x'\nbnd = 'y'\n[log]\nlevel = 'loud'\n"
    assert len(problems_of(tmp_path, text)) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[gateway]\nbind = '0.0.0.0'\n", "can be reached from elsewhere"),
        ("[gateway]\ntls_cert = 'a.pem'\n", "go together"),
        ("[gateway]\ninsecure = true\n[deployment]\nmode = 'action'\n", "refused with mode"),
        ("[gateway]\ninsecure=true\nbind='::'\ntls_terminated_elsewhere=true\n", "only a loopback"),
        ("[deployment]\nenvironment = 'a b'\n", "is no name"),
        ("[policy]\nattempts_without_checkpoint = 0\n", "at least 1"),
        ("[watchdog]\nmax_hold = 5\n", "may still be under way"),
        ("[controller]\nlease = 3\n", "longer than slurm.command_deadline"),
        ("[watcher]\nlisting_shortest = 60\n", "must not be shorter than watcher.listing_shortest"),
    ],
)
def test_what_cannot_be_meant_together_is_refused(tmp_path: Path, text: str, said: str) -> None:
    assert any(said in problem for problem in problems_of(tmp_path, text))


def test_action_without_acknowledgement_is_allowed_and_said(tmp_path: Path) -> None:
    loaded = from_text(tmp_path, "[deployment]\nmode = 'action'\n")
    assert any("acknowledge_scheduler_actions is false" in text for text in loaded.cautions)
    assert any("partitions is empty" in text for text in loaded.cautions)


def test_listings_so_rare_that_short_jobs_are_missed_are_allowed_and_said(tmp_path: Path) -> None:
    said = "a job that begins and ends between two listings"
    rare = from_text(tmp_path, "[watcher]\nlisting_longest = '90s'\n")
    assert any(said in text for text in rare.cautions)
    usual = from_text(tmp_path, "[watcher]\nlisting_longest = '45s'\n")
    assert not any(said in text for text in usual.cautions)


def test_the_documented_spelling_of_the_acknowledgement_is_understood(tmp_path: Path) -> None:
    loaded = from_text(tmp_path, "[deployment]\nacknowledgeSchedulerActions = true\n")
    assert loaded.settings.deployment.acknowledge_scheduler_actions is True


def test_a_duration_key_may_also_end_in_s(tmp_path: Path) -> None:
    loaded = from_text(tmp_path, "[watcher]\ninterval_s = '2m'\n")
    assert loaded.settings.watcher.interval_s == 120.0


@pytest.mark.parametrize(
    ("given_", "seconds"),
    [(600, 600), (1.5, 1.5), ("600", 600), ("10m", 600), ("90s", 90), ("1h30m", 5400), ("250ms", 0.25), ("2d", 172800)],
)  # fmt: skip
def test_durations_are_seconds_or_text_with_units(given_: object, seconds: float) -> None:
    assert duration(given_) == seconds


@given(st.integers(0, 10**8) | st.floats(0, 10**6).map(lambda value: round(value, 2)))
def test_a_duration_shown_in_normal_form_is_read_as_the_same(seconds: float) -> None:
    assert duration(duration_text(seconds)) == pytest.approx(seconds, rel=1e-5)


@given(st.text(max_size=30))
def test_any_text_for_a_duration_is_read_or_refused(text: str) -> None:
    try:
        seconds = duration(text)
    except ValueError:
        return
    assert seconds >= 0


@given(st.text(max_size=200))
def test_any_file_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("any") / "m.toml"
    path.write_text(text, encoding="utf-8", errors="replace")
    try:
        loaded = load({}, config=path)
    except BadSettings:
        return
    assert loaded.settings.policy.version


def test_the_policys_version_is_a_digest_of_its_values(tmp_path: Path) -> None:
    before = load({}, system_file=NOWHERE).settings.policy
    again = load({}, system_file=NOWHERE).settings.policy
    other = from_text(tmp_path, "[policy]\nmax_restarts = 7\n").settings.policy
    assert before.version == again.version
    assert other.version != before.version
    assert len(before.version) == 12


def test_every_key_has_a_meaning_and_its_default_can_be_written_into_a_file(tmp_path: Path) -> None:
    lines: list[str] = []
    section = ""
    for spec in specs():
        assert spec.text, spec
        if spec.section != section:
            section = spec.section
            lines.append(f"[{section}]")
        lines.append(f"{spec.key} = {loading.shown(spec, spec.default)}")
    loaded = from_text(tmp_path, "\n".join(lines) + "\n")
    assert loaded.settings == load({}, system_file=NOWHERE).settings


def test_every_key_can_be_set_from_the_environment() -> None:
    environ = {}
    for spec in specs():
        text = loading.shown(spec, spec.default)
        environ[spec.variable] = ",".join(spec.default) if spec.kind is tuple else text.strip('"')
    assert load(environ, system_file=NOWHERE).settings == load({}, system_file=NOWHERE).settings


def test_the_documentation_names_every_key() -> None:
    text = (Path(__file__).parents[3] / "docs" / "settings.md").read_text()
    missing = [f"{s.section}.{s.key}" for s in specs() if f"`{s.section}.{s.key}`" not in text]
    assert not missing
