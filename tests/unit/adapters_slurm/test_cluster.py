from __future__ import annotations

from datetime import UTC, datetime

import pytest

from middlewatch.adapters.slurm.cluster import (
    facts_from,
    read_config,
    read_partitions,
    slurm_user,
    takes_work,
    version_tuple,
)
from middlewatch.ports.errors import Unreadable
from tests.unit.adapters_slurm.scripted import RELEASES, recording


@pytest.mark.parametrize("release", RELEASES)
def test_facts_are_read_from_each_releases_configuration(release: str) -> None:
    facts = facts_from(read_config(recording(release, "scontrol_show_config.txt")))
    assert (facts.name, facts.version) == ("lab", release)
    assert facts.begin_delay_s == 121.0
    assert (facts.message_timeout_s, facts.min_job_age_s, facts.kill_wait_s) == (10.0, 300.0, 5.0)
    assert facts.started_at is not None
    assert facts.started_at.date() == datetime(2026, 11, 29, tzinfo=UTC).date()
    assert (facts.job_requeue_default, facts.file_append) == (True, False)
    assert facts.private_data == frozenset()


def config(**values: str) -> dict[str, str]:
    return {"ClusterName": "c", "SLURM_VERSION": "24.11.5", **values}


def test_a_shorter_life_of_credentials_shortens_the_begin_time() -> None:
    facts = facts_from(config(AuthInfo="socket=/run/munge,cred_expire=15"))
    assert facts.begin_delay_s == 16.0


def test_hidden_kinds_of_data_are_named() -> None:
    facts = facts_from(config(PrivateData="jobs,usage"))
    assert facts.private_data == {"jobs", "usage"}


def test_boot_time_comes_in_epoch_seconds() -> None:
    assert facts_from(config(BOOT_TIME="1796000658")).started_at == datetime.fromtimestamp(
        1796000658, UTC
    )


def test_text_that_is_no_configuration_is_unreadable() -> None:
    with pytest.raises(Unreadable, match="ClusterName"):
        read_config("slurmctld is fine, thank you\n")


def test_the_user_of_slurmctld_is_known_by_name_and_number() -> None:
    assert slurm_user({"SlurmUser": "slurm(64030)"}) == ("slurm", 64030)
    assert slurm_user({}) is None


def test_releases_compare_as_numbers() -> None:
    assert version_tuple("22.05.8") < version_tuple("24.11.5") < version_tuple("26.05.5")
    assert version_tuple("unknown") == ()


@pytest.mark.parametrize(
    "state", ["idle", "mixed", "allocated", "completing", "idle~", "mixed#", "mixed-", "planned"]
)
def test_nodes_in_these_states_take_work(state: str) -> None:
    assert takes_work(state)


@pytest.mark.parametrize(
    "state",
    [
        "down", "down*", "idle*", "mixed*", "drained", "draining", "draining@", "fail", "failing",
        "maint", "reboot", "reboot^", "reserved", "idle$", "mixed@", "unknown", "future", "inval",
        "down~", "blocked", "",
    ],
)  # fmt: skip
def test_nodes_in_any_other_state_do_not(state: str) -> None:
    assert not takes_work(state)


def test_a_partition_lists_its_nodes_and_those_that_take_work() -> None:
    text = "train|up|a|idle\ntrain|up|b|drained\nscav|down|a|idle\n"
    views = read_partitions(text, lambda name: (name,))
    assert [(v.name, v.nodes, v.usable) for v in views] == [
        ("train", ("a", "b"), ("a",)),
        ("scav", ("a",), ()),
    ]


def test_a_line_of_another_shape_makes_the_partitions_unreadable() -> None:
    with pytest.raises(Unreadable, match="another shape"):
        read_partitions("train|up|a\n", lambda name: (name,))
