"""The program's own log: bounded, stripped, without secrets."""

from __future__ import annotations

import io
import json

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from middlewatch.wiring import logs
from middlewatch.wiring.settings import LogFormat, LogLevel, LogSettings


@given(st.dictionaries(st.sampled_from(["job", "error", "line", "nodes"]), st.text(max_size=500)))
def test_texts_are_bounded_and_stripped(event: dict[str, str]) -> None:
    for value in logs.harmless(None, "info", dict(event)).values():
        assert len(value) <= logs.USER_TEXT_LIMIT
        assert "\n" not in value
        assert "\x1b" not in value


@pytest.mark.parametrize(
    "key", ["token", "api_token", "Authorization", "password", "client_secret"]
)
def test_what_is_named_like_a_secret_is_not_logged(key: str) -> None:
    assert logs.harmless(None, "info", {key: "mw_abc"})[key] == "(not logged)"


def test_lists_are_bounded_as_well() -> None:
    event = logs.harmless(None, "info", {"nodes": [f"n{i}\x1b" for i in range(1000)]})
    assert len(event["nodes"]) == 50
    assert event["nodes"][0] == "n0"


@pytest.fixture
def _as_it_was() -> object:
    yield None
    structlog.reset_defaults()


@pytest.mark.usefixtures("_as_it_was")
def test_json_is_one_object_per_line_with_fixed_keys() -> None:
    out = io.StringIO()
    logs.configure(LogSettings(format=LogFormat.JSON), out)
    structlog.get_logger().info("started", job="47\n11")
    event = json.loads(out.getvalue())
    assert event["event"] == "started"
    assert event["level"] == "info"
    assert event["job"] == "47 11"
    assert event["timestamp"].endswith("Z")


@pytest.mark.usefixtures("_as_it_was")
def test_elsewhere_than_on_a_terminal_auto_means_json() -> None:
    out = io.StringIO()
    logs.configure(LogSettings(), out)
    structlog.get_logger().warning("odd")
    assert json.loads(out.getvalue())["event"] == "odd"


@pytest.mark.usefixtures("_as_it_was")
def test_logfmt_begins_with_time_and_level() -> None:
    out = io.StringIO()
    logs.configure(LogSettings(format=LogFormat.LOGFMT), out)
    structlog.get_logger().error("bad", job="1 2")
    assert out.getvalue().startswith("timestamp=")
    assert 'level=error event=bad job="1 2"' in out.getvalue()


@pytest.mark.usefixtures("_as_it_was")
def test_what_is_below_the_level_is_left_out() -> None:
    out = io.StringIO()
    logs.configure(LogSettings(level=LogLevel.ERROR), out)
    structlog.get_logger().warning("odd")
    assert out.getvalue() == ""
