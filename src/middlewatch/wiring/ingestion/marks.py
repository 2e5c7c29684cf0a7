"""Are lines marked with the job, the node and the file that they came from?

Without the job's label no line is found at all; without the others a failure is known, but not by
its node. Where a label merely has another name, a setting of ours mends it; where its values are
wrong, only the collector can.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from middlewatch.wiring.ingestion import names
from middlewatch.wiring.ingestion.names import Label, shown
from middlewatch.wiring.ingestion.sample import Expected, Finding, Known, Level, Remedy, Sample


def marks(sample: Sample, expected: Expected, known: Known) -> Iterator[Finding]:
    """What is right and wrong with the labels of a log store's lines."""
    found = tuple(_job(sample, expected, known, names.labels_of(_labels(sample))))
    yield from found
    # What other programs write into the same store is judged by nobody here.
    name = next((r.value for f in found for r in f.remedies if r.key == "job_label"), expected.job)
    of_jobs = tuple(line for line in sample.lines if line.labels.get(str(name)))
    sample = replace(sample, lines=of_jobs or sample.lines)
    labels = names.labels_of(_labels(sample))
    yield from _node(sample, replace(expected, job=str(name)), known, labels)
    yield from _file(sample, expected, labels)


def _labels(sample: Sample) -> Iterator[Mapping[str, str]]:
    return (line.labels for line in sample.lines)


def _job(
    sample: Sample, expected: Expected, known: Known, labels: Mapping[str, Label]
) -> Iterator[Finding]:
    check, name = "job label", expected.job
    label = labels.get(name)
    wanted = known.wanted
    good = names.job_values(label, wanted) if label is not None else ()
    if label is None or not good:
        yield _job_elsewhere(sample, expected, known, labels)
        return
    # Of a known cluster, ended jobs are not known any more; what has the form of an id may be one.
    odd = [v for v in label.values if not names.JOB_ID.match(v)]
    if odd:
        yield Finding(
            check,
            Level.WARN,
            f"label {name!r} has values that are no job ids: {shown(odd)}",
            "let the collector write the id as squeue shows it (4711, tasks of arrays 4711_3) and "
            "nothing else" + _within(odd),
        )
    yield from _unmarked(sample, expected, known)
    if not odd:
        told = f"{len(good)} of Slurm's jobs" if wanted else f"{len(good)} ids by their form"
        yield Finding(check, Level.OK, f"label {name!r} holds job ids: {shown(good)} ({told})")
    yield from _in_stream(sample, expected, name)


def _unmarked(sample: Sample, expected: Expected, known: Known) -> Iterator[Finding]:
    """Other programs share a store with jobs; but a file that is called as jobs' files are is one."""
    every = (*sample.lines, *sample.beside)
    without = [line.labels for line in every if not line.labels.get(expected.job)]
    if not without:
        return
    marked = names.labels_of(line.labels for line in every if line.labels.get(expected.job))
    shapes = {_shape(value) for label in names.best_file(marked, "") for value in label.values}
    files = [
        value
        for label in names.best_file(names.labels_of(without), "")
        for value in label.values
        if (job := names.id_within(value.rpartition("/")[2]))
        and (job in known.jobs or _shape(value) in shapes)
    ]
    yield Finding(
        "job label",
        Level.WARN if files else Level.INFO,
        f"{len(without)} lines beside those of jobs have no label {expected.job!r}; they belong to no "
        "job" + (f", though they stand in {shown(files)}" if files else ""),
        "let the collector set the label for them too" if files else "",
    )


def _shape(path: str) -> str:
    """A file's name without the job id in it."""
    name = path.rpartition("/")[2]
    job = names.id_within(name)
    return name.replace(job, "%j") if job else name


def _in_stream(sample: Sample, expected: Expected, name: str) -> Iterator[Finding]:
    streamed = name in sample.stream_labels
    if expected.job_in_stream and not streamed and sample.stream_labels:
        yield Finding(
            "job label",
            Level.FAIL,
            f"{name!r} is a field of the lines, not one of the stream's labels "
            f"({shown(sorted(sample.stream_labels))}): asked as one, no line is found",
            "make it a label of the stream in the collector (faster), or set job_label_in_stream",
            (Remedy("logs", "job_label_in_stream", False), *_match_for(sample, expected)),
        )
    elif streamed and not expected.job_in_stream:
        yield Finding(
            "job label",
            Level.INFO,
            f"{name!r} is one of the stream's labels: asked as one, answers come faster",
            "set job_label_in_stream",
            (Remedy("logs", "job_label_in_stream", True),),
        )


def _match_for(sample: Sample, expected: Expected) -> tuple[Remedy, ...]:
    """Loki answers no question without a matcher: a label that all lines share will do."""
    if expected.source != "loki" or expected.match:
        return ()
    labels = names.labels_of(line.labels for line in sample.lines)
    for name in sorted(sample.stream_labels):
        label = labels.get(name)
        if label is not None and len(label.values) == 1 and label.lines == len(sample.lines):
            value = next(iter(label.values))
            if names.OUR_LABEL.match(name) and value.isprintable() and not set(value) & set('"\\'):
                return (Remedy("logs", "match", f'{name}="{value}"'),)
    return ()


def _job_elsewhere(
    sample: Sample, expected: Expected, known: Known, labels: Mapping[str, Label]
) -> Finding:
    name = expected.job
    label = labels.get(name)
    wanted = known.wanted
    what = (
        f"no line has a label {name!r}; there are {shown(sorted(labels))}"
        if label is None
        else f"label {name!r} holds {shown(label.values)}"
        + (", none of Slurm's jobs" if wanted else ", no job ids")
    )
    for other in names.best_job(labels, wanted, name):
        if not names.OUR_LABEL.match(other.name):
            continue
        streamed = other.name in sample.stream_labels or not sample.stream_labels
        remedies = [Remedy("logs", "job_label", other.name)]
        if streamed is not expected.job_in_stream:
            remedies.append(Remedy("logs", "job_label_in_stream", streamed))
            remedies += () if streamed else _match_for(sample, expected)
        values = names.job_values(other, wanted)
        return Finding(
            "job label",
            Level.FAIL,
            f"{what}; but {other.name!r} holds job ids: {shown(values)}",
            f'set job_label = "{other.name}", or rename the label in the collector',
            tuple(remedies),
        )
    if label is not None:
        return _unlike(label, what, wanted)
    return Finding(
        "job label",
        Level.FAIL,
        f"{what}, and none of them holds job ids",
        f"let the collector set {name!r}, best from the file's path: "
        "`logs check --collector alloy --outputs PATTERN` prints how" + _within_any(labels),
    )


def _unlike(label: Label, what: str, wanted: Collection[str]) -> Finding:
    """The label is there and its values are not Slurm's ids."""
    ids = [v for v in label.values if names.JOB_ID.match(v)]
    arrays = {job.partition("_")[0] for job in wanted if "_" in job}
    mend = "let the collector write the id as squeue shows it and nothing else"
    level = Level.FAIL
    if any(v in arrays for v in ids):
        mend += ": tasks of arrays as 4711_3 (%A_%a in the file's name), not the array's id alone"
    elif ids and len(ids) == len(label.values):
        level = Level.WARN
        mend = (
            "either no job of now has written yet, or the ids are of another cluster (then a "
            "`match` is needed), or tasks of arrays are named by their raw id (%j) and not as "
            "squeue shows them (%A_%a)"
        )
    return Finding("job label", level, what, mend + _within(label.values))


def _within(values: Iterable[str]) -> str:
    inside = [(v, names.id_within(v)) for v in values if not names.JOB_ID.match(v)]
    found = next(((v, job) for v, job in inside if job), None)
    return f"; {found[0][:60]!r} has {found[1]} in it" if found else ""


def _within_any(labels: Mapping[str, Label]) -> str:
    for label in names.best_file(labels, ""):
        for value in label.values:
            job = names.id_within(value.rpartition("/")[2])
            if job:
                return f"; {value[-60:]!r} in {label.name!r} has {job} in it"
    return ""


def _node(
    sample: Sample, expected: Expected, known: Known, labels: Mapping[str, Label]
) -> Iterator[Finding]:
    check, name, total = "node label", expected.node, len(sample.lines)
    label = labels.get(name)
    good = names.node_values(label, known.nodes) if label is not None else ()
    if label is not None and good:
        strange = [v for v in label.values if v not in good]
        if strange and known.nodes:
            yield Finding(
                check,
                Level.WARN,
                f"label {name!r} has values that are none of Slurm's nodes: {shown(strange)}",
                "a node that Slurm does not know is not believed: write the name as "
                "`scontrol show hostnames` does; a domain behind it does no harm",
            )
        elif label.lines < total:
            yield Finding(
                check,
                Level.WARN if label.lines < total / 2 else Level.INFO,
                f"{total - label.lines} of {total} lines have no label {name!r}",
                "let every collector set it; failures in those lines are known without their node",
            )
        else:
            yield Finding(check, Level.OK, f"label {name!r} holds nodes: {shown(good)}")
        return
    what = (
        f"no line has a label {name!r}"
        if label is None
        else f"label {name!r} holds {shown(label.values)}, no names of nodes"
    )
    for other in names.best_node(labels, known.nodes, name):
        if names.OUR_LABEL.match(other.name) and other.name not in {expected.job, expected.file}:
            yield Finding(
                check,
                Level.WARN,
                f"{what}; but {other.name!r} does: {shown(names.node_values(other, known.nodes))}",
                f'set node_label = "{other.name}", or rename the label in the collector',
                (Remedy("logs", "node_label", other.name),),
            )
            return
    yield Finding(
        check,
        Level.WARN,
        f"{what}, nor is it under another name",
        "let the collector on each node add the node's name; without it a failure is known by its "
        "node only where the line itself says it",
    )


def _file(sample: Sample, expected: Expected, labels: Mapping[str, Label]) -> Iterator[Finding]:
    check, name, total = "file label", expected.file, len(sample.lines)
    label = labels.get(name)
    if label is not None:
        if label.lines < total:
            yield Finding(
                check,
                Level.WARN if label.lines < total / 2 else Level.INFO,
                f"{total - label.lines} of {total} lines have no label {name!r}",
                "let the collector set it for every file: lines are expected in order within one",
            )
        else:
            yield Finding(check, Level.OK, f"label {name!r} holds files: {shown(label.values)}")
        return
    for other in names.best_file(labels, name):
        if names.OUR_LABEL.match(other.name):
            yield Finding(
                check,
                Level.WARN,
                f"no line has a label {name!r}; but {other.name!r} holds paths: "
                f"{shown(other.values)}",
                f'set file_label = "{other.name}", or rename the label in the collector',
                (Remedy("logs", "file_label", other.name),),
            )
            return
    yield Finding(
        check,
        Level.WARN,
        f"no line has a label {name!r}, nor a path under another name",
        "let the collector add the file's path: without it the files of one node count as one, in "
        "which no order can be relied on",
    )
