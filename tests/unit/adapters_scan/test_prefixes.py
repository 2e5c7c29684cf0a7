"""What launchers and collectors put before a line: in any order, and nothing else."""

from __future__ import annotations

import pytest

from middlewatch.adapters.scan import Re2Scanner, read_catalogue

CATALOGUE = read_catalogue()
SCANNER = Re2Scanner(CATALOGUE)

ERROR = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
XID = "NVRM: Xid (PCI:0000:3b:00): 95, pid=2784113, name=python3.11, Uncontained: FBHUB"

PREFIXES: list[tuple[str, dict[str, str]]] = [
    ("", {}),
    ("12: ", {"label": "12"}),
    (" 3: ", {"label": "3"}),
    ("[1,12]<stderr>:", {"label": "12"}),
    ("[prterun-n1-4711@1,12]<stderr>: ", {"label": "12"}),
    ("[rank5]: ", {"rank": "5"}),
    ("[rank: 5] ", {"rank": "5"}),
    ("[Rank 5]: ", {"rank": "5"}),
    ("rank 5: ", {"rank": "5"}),
    ("[default3]:[rank11]:", {"local_rank": "3", "rank": "11"}),
    ("[trainer3]: ", {"local_rank": "3"}),
    ("[node7:3]: ", {"writer": "node7"}),
    ("worker-2: [rank17]: ", {"writer": "worker-2", "rank": "17"}),
    ("n7.site.org: ", {"writer": "n7.site.org"}),
    ("gpu-a | ", {"writer": "gpu-a"}),
    ("elk-1/0 | [rank0]: ", {"writer": "elk-1", "rank": "0"}),
    ("master | ", {}),
    ("2025-08-18T11:08:04.123456789Z ", {}),
    ("12:01:07 ", {}),
    ("[pod/llm-worker-3/pytorch] 2025-08-18T11:08:04Z [rank24]: ", {"rank": "24"}),
    ("(RayTrainWorker pid=881, ip=10.0.0.7) [rank3]: ", {"rank": "3"}),
    ('{"ts":"2026-02-17T15:20:06Z","level":"ERROR","rank":5,"msg":"', {}),
    ('n3: {"severity": "ERROR", "message": "', {"writer": "n3"}),
    (r'{"level":"ERROR","exc_info":"Traceback (most recent call last):\n  File \"t.py\"\n', {}),
    ('time=2026-02-17T15:20:06Z level=error msg="', {}),
    ("llm-node-0-1 [rank8]: ", {"writer": "llm-node-0-1", "rank": "8"}),
    (
        "llm-0-1-x7k2p trainer time=2026-02-17T15:20:06Z level=error err=",
        {"writer": "llm-0-1-x7k2p"},
    ),
    ("2025-08-18T11:08:04Z 4: ", {}),
]


def groups(line: str, pattern: str) -> dict[str, str] | None:
    hits = SCANNER.scan(line.encode() + b"\n", 0)
    return next((dict(hit.groups) for hit in hits if hit.pattern_id == pattern), None)


@pytest.mark.parametrize(("prefix", "told"), PREFIXES[:-1])
def test_prefix_is_passed_over_and_read(prefix: str, told: dict[str, str]) -> None:
    found = groups(prefix + ERROR, "cuda.ecc_uncorrectable")
    assert found is not None
    assert told.items() <= found.items()


@pytest.mark.parametrize(
    "quoted",
    ["note: ", "we saw ", "[response] ", "- ", '"', "# ", "(once) ", "INFO | "],
)
def test_quotation_is_no_prefix(quoted: str) -> None:
    assert groups(quoted + ERROR, "cuda.ecc_uncorrectable") is None
    assert groups(quoted + XID, "xid.ecc") is None


@pytest.mark.parametrize(
    ("prefix", "node"),
    [
        ("epilog[bs-gpu-0419]: [2201774.540012] ", "bs-gpu-0419"),
        ("[epilog bs-gpu-0419] ", "bs-gpu-0419"),
        ("bs-gpu-0419: [2201774.540012] ", "bs-gpu-0419"),
        ("bs-gpu-0419: [Thu Nov 21 11:33:30 2024] ", "bs-gpu-0419"),
        ("dmesg@bs-gpu-0419: ", "bs-gpu-0419"),
        ("bs-gpu-0419 kernel: [2201774.540012] ", "bs-gpu-0419"),
        ("Sep 14 02:40:04 bs-gpu-0419 kernel: ", "bs-gpu-0419"),
        ("2025-09-14T02:40:04.120331+00:00 bs-gpu-0419 kernel: ", "bs-gpu-0419"),
        ("2025-09-14T02:40:04+0000 bs-gpu-0419 kernel: ", "bs-gpu-0419"),
        ("<3>Sep 14 02:40:04 bs-gpu-0419 kernel: [22.1] ", "bs-gpu-0419"),
        ("[bs-gpu-0419] ", "bs-gpu-0419"),
    ],
)
def test_kernel_line_names_its_host(prefix: str, node: str) -> None:
    found = groups(prefix + XID, "xid.ecc")
    assert found is not None
    assert node in {found.get("node"), found.get("writer")}
