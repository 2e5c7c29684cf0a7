"""What is left out by default here, because it repeats on another release or by another way what is
tried anyway: ``MIDDLEWATCH_TEST_TRANSPORTS=all`` runs it."""

from __future__ import annotations

import os

import pytest

REPEATED = frozenset(
    {
        "test_a_gate_of_its_own_lets_it_let_go_and_nothing_more",
        "test_through_a_slurmrestd_that_can_it_lets_go_without_a_command",
        "test_owner_and_operator_let_go_all_that_is_ours_with_everything_else_dead[24.11]",
        "test_owner_and_operator_let_go_all_that_is_ours_with_everything_else_dead[newest]",
    }
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get("MIDDLEWATCH_TEST_TRANSPORTS") == "all":
        return
    not_now = [item for item in items if item.name in REPEATED]
    if not_now:
        config.hook.pytest_deselected(items=not_now)
        items[:] = [item for item in items if item not in not_now]
