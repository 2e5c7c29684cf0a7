"""Recoveries on the wire: what took how long, and how far each came."""

from __future__ import annotations

from middlewatch.contract.gen.heimdall.v1 import heimdall_pb2
from middlewatch.contract.gen.middlewatch.v1 import middlewatch_pb2 as wire
from middlewatch.contract.values import out_int32, out_int64, out_text, out_time
from middlewatch.model.recovery import Moment, PartName, Recovery


def recovery_message(recovery: Recovery) -> wire.Recovery:
    """All parts are listed, in order; one that is not known has no seconds."""
    largest = recovery.largest
    message = wire.Recovery(
        id=recovery.id,
        owner=heimdall_pb2.SchedulerMetadata(
            scheduler=recovery.cluster.scheduler, environment=recovery.cluster.environment
        ),
        job_id=out_text(recovery.job_id),
        attempt_id=recovery.attempt_id,
        attempt_index=out_int32(recovery.attempt_index),
        state=recovery.state.value,
        why=out_text(recovery.why),
        reason=recovery.reason,
        failure_class=out_text(recovery.failure_class),
        settled=recovery.settled,
        attempts=[out_int32(index) for index in recovery.attempts],
        total_seconds=recovery.total_s,
        undivided_seconds=recovery.unsplit_s,
        undivided=[name.value for name in recovery.unsplit],
        largest=largest.name.value if largest else "",
        moments=[_moment(moment) for moment in recovery.moments],
        clock_off_seconds=recovery.clock_off_s,
    )
    out_time(message.began_at, recovery.began_at)
    for name in ("lost_step", "checkpoint_step", "loaded_step", "resumed_step"):
        step = getattr(recovery, name)
        if step is not None:
            setattr(message, name, out_int64(step))
    for name in PartName:
        part = message.parts.add(name=name.value)
        seconds = recovery.seconds(name)
        if seconds is not None:
            part.seconds = seconds
    return message


def _moment(moment: Moment) -> wire.RecoveryMoment:
    message = wire.RecoveryMoment(
        mark=moment.mark.value,
        attempt_index=out_int32(moment.attempt_index),
        source=moment.source.value if moment.source else "",
        off_seconds=moment.off_s,
    )
    out_time(message.at, moment.at)
    if moment.learned_at is not None:
        out_time(message.learned_at, moment.learned_at)
    if moment.step is not None:
        message.step = out_int64(moment.step)
    return message
