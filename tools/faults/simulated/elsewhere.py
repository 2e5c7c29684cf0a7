"""A controller on another host: the store behind the gateway of the host that has it.

Both sides are the real ones, the client's `RemoteStore` and the gateway's handler; between them lies
a network that takes time, and a process that may be dead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from middlewatch.adapters.api.client import ApiClient
from middlewatch.adapters.api.control import RemoteStore
from middlewatch.contract.errors import ApiError, Code
from middlewatch.contract.gen.middlewatch.v1 import middlewatch_pb2 as wire
from middlewatch.model.action import ActionRecord, Answered
from middlewatch.model.change import Applied, Change
from middlewatch.model.identity import ClusterId
from middlewatch.ports.clock import Clock
from middlewatch.ports.errors import Conflict, NotFound, PortError, Refused, Unreachable
from middlewatch.ports.store import Store
from middlewatch.services.gateway.access import Caller, Scope
from middlewatch.services.gateway.control import handlers
from middlewatch.services.gateway.service import Context, Handler
from tools.faults.simulated.told import Seen

CONTROL = "middlewatch.v1.MiddlewatchService.Control"
PATIENCE_S = 3.0
"""How long a client waits for a gateway that is not there."""
_CALLER = Caller("elsewhere", frozenset({Scope.CONTROLLER}))


class Gateway:
    """The door of the process that has the store. ``there`` is asked whether it can answer."""

    def __init__(
        self, store: Store, clock: Clock, cluster: ClusterId, there: Callable[[], bool]
    ) -> None:
        context = Context(store=store, clock=clock, cluster=cluster)
        self._handler: Handler = handlers(context)[CONTROL]
        self._there = there
        self.seen_by_caller: Seen | None = None
        """What whoever calls at this moment last saw of a job."""

    def answer(self, body: dict[str, Any], seen: Seen) -> dict[str, Any]:
        """Raises what a client would be told."""
        if not self._there():
            raise Unreachable("no answer from the gateway")
        self.seen_by_caller = seen
        try:
            given = cast(
                "wire.ControlResponse", self._handler(wire.ControlRequest(**body), _CALLER)
            )
        except ApiError as error:
            raise _told(error) from error
        return {"body": given.body, "version": given.version}


def _told(error: ApiError) -> PortError:
    if error.code is Code.NOT_FOUND:
        return NotFound(str(error))
    if error.code in {Code.ABORTED, Code.FAILED_PRECONDITION}:
        return Conflict(str(error))
    return Refused(str(error))


def remote_store(
    gateway: Callable[[], Gateway],
    cluster: ClusterId,
    pause: Callable[[float], None],
    seen: Seen,
) -> RemoteStore:
    """What the controller on the other host works with. ``pause`` lets its time pass."""

    class _Client:
        def call(self, _verb: str, _path: str, *, body: dict[str, Any]) -> dict[str, Any]:
            pause(0.005)
            try:
                answer = gateway().answer(body, seen)
            except Unreachable:
                pause(PATIENCE_S)
                raise
            pause(0.005)
            return answer

        def close(self) -> None: ...

    return RemoteStore(lambda: cast(ApiClient, _Client()), cluster)


class Afar:
    """A remote store whose user may die around every write."""

    def __init__(
        self,
        store: RemoteStore,
        step: Callable[[str], None],
        planned: Callable[[ActionRecord], None],
    ) -> None:
        self._store = store
        self._step = step
        self._planned = planned

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def apply(self, change: Change) -> Applied:
        self._step("before the store")
        applied = self._store.apply(change)
        for record in change.actions:
            if record.answered is Answered.IN_FLIGHT:
                self._planned(record)
        self._step("behind the store")
        return applied
