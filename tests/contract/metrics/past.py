"""An hour of a cluster: two nodes of one job that stop working, one whose exporter dies, others."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from middlewatch.lab.metrics_servers import Series

BEGAN = datetime(2024, 3, 1, 12, 0, tzinfo=UTC)
SILENT = BEGAN + timedelta(minutes=30)
NOW = BEGAN + timedelta(minutes=38)
EVERY_S = 15


def _series(
    name: str, value: Callable[[float], float], until: datetime = NOW, **labels: str
) -> Series:
    """``value`` is given the seconds since the beginning."""
    count = int((until - BEGAN).total_seconds()) // EVERY_S
    times = [EVERY_S * n for n in range(count + 1)]
    begin = BEGAN.timestamp()
    return Series(name, tuple(labels.items()), tuple((begin + t, value(t)) for t in times))


def _gauge(before: float, after: float) -> Callable[[float], float]:
    edge = (SILENT - BEGAN).total_seconds()
    return lambda t: (before if t <= edge else after) + (t % 60) / 60


def _counter(before: float, after: float) -> Callable[[float], float]:
    edge = (SILENT - BEGAN).total_seconds()
    return lambda t: 1e6 + before * min(t, edge) + after * max(0.0, t - edge)


def _node(name: str, host: str, after: float, until: datetime = NOW) -> list[Series]:
    """One node; it goes on with the share ``after`` of what it did."""
    power, instance = "DCGM_FI_DEV_POWER_USAGE", f"{host}:9100"
    found = [
        _series(power, _gauge(480, 80 + 400 * after), until, Hostname=host, gpu="0"),
        _series(power, _gauge(500, 85 + 415 * after), until, Hostname=host, gpu="1"),
        _series(
            "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
            lambda t: 0.31 if t <= (SILENT - BEGAN).total_seconds() else 0.31 * after,
            until,
            Hostname=host,
            gpu="0",
        ),
    ]
    for cpu in ("0", "1"):
        for mode, rate in (("user", 0.9), ("idle", 0.1)):
            found.append(
                _series(
                    "node_cpu_seconds_total",
                    _counter(rate, rate * after),
                    until,
                    cpu=cpu,
                    mode=mode,
                    instance=instance,
                )
            )
    traffic = {"instance": instance, "device": "sda"}
    for direction in ("read", "written"):
        rate = _counter(2e6, 2e6 * after)
        found.append(_series(f"node_disk_{direction}_bytes_total", rate, until, **traffic))
    found += [
        _series(
            f"node_infiniband_port_data_{direction}_bytes_total",
            _counter(1e8, 1e8 * after),
            until,
            instance=instance,
            device="mlx5_0",
            port="1",
        )
        for direction in ("received", "transmitted")
    ]
    found += [
        _series(
            f"node_network_{direction}_bytes_total",
            _counter(1e3, 1e3),
            until,
            instance=instance,
            device=device,
        )
        for direction in ("receive", "transmit")
        for device in ("eth0", "lo")
    ]
    return found


def _steps(job: str, every_s: float, until_s: float) -> Series:
    return _series("middlewatch_step", lambda t: float(min(t, until_s) // every_s), job_id=job)


PAST: tuple[Series, ...] = (
    *_node("n1", "n1", 0.0),
    *_node("n2", "n2.cluster.local", 0.0),
    *_node("n10", "n10", 1.0),
    *_node("dying", "dying", 0.0, SILENT + timedelta(seconds=30)),
    _steps("42", 30, 1800),
    _steps("43", 60, 1e9),
)
