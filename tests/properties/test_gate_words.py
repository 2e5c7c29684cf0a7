"""No word that somebody else chose reaches a command line as anything but that one word."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from middlewatch.adapters.slurm import actions, gate
from middlewatch.adapters.slurm.words import JOB_ID, NODE_NAME
from middlewatch.model.action import Action, ActionKind
from middlewatch.ports.errors import Refused
from tests.unit.adapters_slurm.test_gate import CHANGES, LOOKS

HOSTILE = st.one_of(
    st.text(max_size=40),
    st.builds(
        lambda a, b, c: a + b + c,
        st.sampled_from(["7", "gpu-1", "", "-", "--", "jobid=7", "ExcNodeList="]),
        st.sampled_from([";id", "$(id)", "`id`", "\n", "|sh", "&", " 8", "\x00", "\x1f", "'", '"']),
        st.sampled_from(["", "7", "gpu-2"]),
    ),
)


@given(argv=st.lists(HOSTILE, max_size=8))
def test_words_at_random_are_no_command(argv: list[str]) -> None:
    assert gate.refused(argv, looks_only=False)


@given(argv=st.sampled_from([*LOOKS, *CHANGES]), place=st.integers(0, 30), word=HOSTILE)
def test_a_word_put_into_a_command_passes_only_where_it_is_plain(
    argv: tuple[str, ...], place: int, word: str
) -> None:
    place %= len(argv)
    changed = (*argv[:place], word, *argv[place + 1 :])
    if gate.refused(changed, looks_only=False) == "" and changed != argv:
        # What may vary: job numbers, nodes, columns, users. None of them can be an option, a
        # second word, a line or anything to a shell.
        assert re.fullmatch(r"[A-Za-z0-9_.,+=:\[\]|\x1f@% -]*", word, re.ASCII), word
        assert not word.startswith("-") or argv[place].startswith("-")


@given(argv=st.sampled_from([*LOOKS, *CHANGES]), more=HOSTILE)
def test_a_word_more_is_another_command(argv: tuple[str, ...], more: str) -> None:
    update = argv[:2] == ("scontrol", "update")
    if not (update and re.fullmatch(r"ExcNodeList=.*|StartTime=now|Requeue=[01]", more)):
        assert gate.refused((*argv, more), looks_only=False)


@given(job=HOSTILE, nodes=st.lists(HOSTILE, max_size=3), kind=st.sampled_from(list(ActionKind)))
def test_an_action_with_somebodys_words_is_refused_or_passes_the_gate_unchanged(
    job: str, nodes: list[str], kind: ActionKind
) -> None:
    action = Action(kind, job, "k", exclusions=tuple(nodes), start_now=True)
    try:
        argv = actions.action_argv(action)
    except Refused:
        return
    assert JOB_ID.fullmatch(job)
    if kind is ActionKind.UPDATE:
        assert all(NODE_NAME.fullmatch(node) for node in nodes)
    assert gate.refused(argv, looks_only=False) == ""
