"""One controller in one of its rounds, as `ahead` needs it: what one advice breaks, it breaks alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from middlewatch.model.action import NOT_SENT, Action, ActionKind
from middlewatch.model.advice import Advice
from middlewatch.model.answer import Answer
from middlewatch.model.scheduler import Snapshot
from middlewatch.ports.errors import Conflict
from middlewatch.reconciliation.situation import Act, Situation, Step
from middlewatch.services.controller.ahead import Recall
from middlewatch.services.controller.gather import Asked
from middlewatch.services.controller.round import Round

if TYPE_CHECKING:
    from middlewatch.services.controller.controller import Controller

NEW_WORK = frozenset({ActionKind.REQUEUE, ActionKind.REQUEUE_HOLD, ActionKind.CANCEL})
TOO_OLD = NOT_SENT + "the look that justified it had grown too old"


def came_too_late(situation: Situation, action: Action) -> bool:
    """Whether a command that needs a fresh look came too late for its look the last time: on such a
    machine it gets one of its own, made when all else is known."""
    last = situation.actions[-1] if situation.actions else None
    return action.kind in NEW_WORK and last is not None and last.text == TOO_OLD


@dataclass(frozen=True, slots=True)
class RoundsHand:
    """Implements `ahead.Hand`."""

    controller: Controller
    tick: Round

    def handle(
        self,
        advice: Advice,
        look: Answer[Snapshot],
        *,
        asked: Asked | None = None,
        recall: Recall | None = None,
        lightly: bool = False,
    ) -> Situation | None:
        tick = self.tick
        tick.sent = ""
        try:
            return self.controller.handle(
                advice, look, tick, asked=asked, recall=recall, lightly=lightly
            )
        except Conflict:
            # Somebody wrote meanwhile: the next round starts from what stands now.
            tick.again = True
            tick.standing += 1
        except Exception as error:  # noqa: BLE001 - what one advice breaks, it breaks alone
            tick.standing += 1
            tick.problems.append(f"{advice.job_id}: {error}")
            self.controller.tell(advice, error)
        return None

    def step_for(
        self, advice: Advice, look: Answer[Snapshot], asked: Asked, recall: Recall
    ) -> Step | None:
        try:
            return self.controller.step_for(advice, look, asked, recall, self.tick)
        except Exception:  # noqa: BLE001 - it comes again, and is told, where the advice is handled
            return None

    def look_at(self, job_ids: Sequence[str]) -> Answer[Snapshot]:
        return self.controller.look_at(job_ids)

    def new_work(self, step: Step) -> bool:
        return isinstance(step, Act) and step.action.kind in NEW_WORK

    def acted(self, advice: Advice) -> bool:
        return self.tick.sent == advice.attempt_id

    def seconds(self) -> float:
        return self.controller.clock.monotonic()

    def put_off(self, count: int) -> None:
        self.tick.standing += count
        self.tick.again = True
