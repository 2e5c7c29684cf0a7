"""The one signal about what a job declares to wait for."""

from __future__ import annotations

import json
from dataclasses import replace

from middlewatch.attribution import issues_from
from middlewatch.model.attempt import Attempt
from middlewatch.model.optin import OptIn, read_comment
from middlewatch.model.signal import Severity, SignalKind
from middlewatch.services.watcher.declared import declared_signal
from tests.unit.attribution.made import at, attempt


def declares(*depends_on: object, environment: str = "prod", mode: str = "action") -> Attempt:
    member = {"environment": environment, "mode": mode, "dependsOn": list(depends_on)}
    return replace(attempt(), opt_in=read_comment(json.dumps({"middlewatch": member})))


def test_a_declaration_is_told_once_and_again_when_it_changes() -> None:
    first = declares("7")
    signal = declared_signal(OptIn(), first, at(0))
    assert signal is not None
    assert (signal.kind, signal.detail) == (SignalKind.DEPENDENCY, "afterok:7")
    assert declared_signal(first.opt_in, first, at(1)) is None
    other = declared_signal(first.opt_in, declares("8"), at(2))
    assert other is not None
    assert other.key != signal.key
    again = declared_signal(OptIn(), first, at(3))
    assert again is not None
    assert again.key == signal.key


def test_a_wrong_declaration_is_told_as_a_warning() -> None:
    signal = declared_signal(OptIn(), declares("soon"), at(0))
    assert signal is not None
    assert signal.severity is Severity.WARNING
    assert "soon" in signal.detail


def test_nothing_is_told_of_jobs_that_are_not_ours() -> None:
    assert declared_signal(OptIn(), attempt(), at(0)) is None
    assert declared_signal(OptIn(), declares("7", environment="test"), at(0)) is None
    assert declared_signal(OptIn(), declares("7", mode="off"), at(0)) is None


def test_it_makes_no_issue() -> None:
    target = declares("7")
    signal = declared_signal(OptIn(), target, at(0))
    assert signal is not None
    assert issues_from((signal,), (), target) == ()
