"""Do metrics carry the labels by which they are asked for?

The queries of `[metrics]` name a node by one label and a job by another. An exporter that names it
otherwise gives no series, which looks like a cluster without metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

from middlewatch.wiring.ingestion import names
from middlewatch.wiring.ingestion.names import shown
from middlewatch.wiring.ingestion.sample import Finding, Known, Level, Remedy

Labels = Mapping[str, str]
LEAST_SAMPLES = 2


@dataclass(frozen=True, slots=True)
class Measured:
    """One kind of measurement. ``asked`` are the label sets that our own query gives, ``raw`` those
    of the metric that it is made from, ``key`` the setting that holds the query."""

    kind: str
    key: str
    label: str
    metric: str
    asked: tuple[Labels, ...] = ()
    raw: tuple[Labels, ...] = ()
    query: str = ""
    """Our query with `$nodes` and `$node_label` in it, as a setting would hold it."""


@dataclass(frozen=True, slots=True)
class MetricSample:
    """``interval_s`` is the longest time between two scrapes that was seen; 0: not known."""

    kinds: tuple[Measured, ...] = ()
    steps: Measured | None = None
    interval_s: float = 0.0
    window_s: float = 60.0
    node_label_set: bool = field(default=False)


def metric_findings(sample: MetricSample, known: Known) -> Iterator[Finding]:
    """What is right and wrong with the labels of a metrics server's series."""
    seen = [one for one in sample.kinds if one.asked or one.raw]
    if not seen and (sample.steps is None or not (sample.steps.asked or sample.steps.raw)):
        yield Finding(
            "metrics",
            Level.WARN,
            "none of the metrics that are asked for is there",
            "let DCGM's exporter or node_exporter be scraped, look at metrics.tenant, or write "
            "queries of your own (docs/metrics.md)",
        )
        return
    absent = [one.kind for one in sample.kinds if not (one.asked or one.raw)]
    if absent:
        yield Finding(
            "metrics", Level.INFO, f"not measured here: {', '.join(absent)}; the others do without"
        )
    yield from _nodes(seen, sample, known)
    yield from _steps(sample.steps, known)
    if sample.interval_s * LEAST_SAMPLES > sample.window_s:
        window = float(ceil(sample.interval_s * 2.5))
        yield Finding(
            "metrics",
            Level.WARN,
            f"samples are {sample.interval_s:.0f} s apart: the window of {sample.window_s:g} s "
            "does not hold two of them",
            "set window, or scrape more often",
            (Remedy("metrics", "window", min(3600.0, window)),),
        )


def _nodes(seen: Sequence[Measured], sample: MetricSample, known: Known) -> Iterator[Finding]:
    wrong: list[tuple[Measured, str]] = []
    for one in seen:
        asked = names.labels_of(one.asked).get(one.label)
        if asked is not None and names.node_values(asked, known.nodes):
            yield Finding(
                "metric labels",
                Level.OK,
                f"{one.kind}: {one.label!r} holds nodes: "
                f"{shown(names.node_values(asked, known.nodes))}",
            )
            continue
        others = names.best_node(names.labels_of(one.raw), known.nodes, one.label)
        wrong.append((one, others[0].name if others else ""))
    if not wrong:
        return
    better = {name for _one, name in wrong}
    everywhere = len(wrong) == len(seen) and len(better) == 1 and "" not in better
    for one, name in wrong:
        values = names.labels_of(one.raw).get(one.label)
        what = f"{one.kind} ({one.metric}): " + (
            f"{one.label!r} holds {shown(values.values)}, "
            + ("none of Slurm's nodes" if known.nodes else "no names of nodes")
            if values is not None
            else f"there is no label {one.label!r}"
        )
        if not name:
            yield Finding(
                "metric labels",
                Level.WARN,
                f"{what}, nor does another label hold nodes",
                "let the scrape add the node's name as Slurm has it (relabel_configs), and name "
                "the label in metrics.node_label",
            )
            continue
        remedies: tuple[Remedy, ...]
        if everywhere:
            remedies = (Remedy("metrics", "node_label", name),)
            mend = f'set node_label = "{name}"'
        else:
            # One label for all would break those kinds that are right.
            query = one.query.replace("$node_label", name)
            if sample.node_label_set or "$nodes" not in query:
                remedies, mend = (), f"write {name} into metrics.{one.key}"
            else:
                remedies = (Remedy("metrics", one.key, query),)
                mend = f"set {one.key} to a query with {name}"
        yield Finding("metric labels", Level.WARN, f"{what}; but {name!r} does", mend, remedies)


def _steps(one: Measured | None, known: Known) -> Iterator[Finding]:
    if one is None or not (one.asked or one.raw):
        return
    asked = names.labels_of(one.asked).get(one.label)
    if asked is not None and names.job_values(asked, known.wanted):
        yield Finding(
            "metric labels",
            Level.OK,
            f"step counter: {one.label!r} holds job ids: "
            f"{shown(names.job_values(asked, known.wanted))}",
        )
        return
    raw = names.labels_of(one.raw)
    others = names.best_job(raw, known.wanted, one.label)
    values = raw.get(one.label)
    what = f"step counter ({one.metric}): " + (
        f"{one.label!r} holds {shown(values.values)}, none of Slurm's jobs"
        if values is not None
        else f"there is no label {one.label!r}"
    )
    if others:
        yield Finding(
            "metric labels",
            Level.WARN,
            f"{what}; but {others[0].name!r} holds job ids",
            f'set job_label = "{others[0].name}"',
            (Remedy("metrics", "job_label", others[0].name),),
        )
    else:
        yield Finding(
            "metric labels",
            Level.WARN,
            f"{what}, nor does another label hold job ids",
            "let the exporter or the scrape add Slurm's job id (docs/metrics.md)",
        )
