"""Generate the wire code of `src/middlewatch/contract/gen/` from `proto/`.

protoc writes imports as if each .proto's folder were a package at the top of the path. Ours live
inside the package, so those imports are given our prefix; the sources keep the short paths that
clients in other languages expect. Output is deterministic: run twice, it changes nothing.
"""

from __future__ import annotations

import importlib.resources
import re
import shutil
import sys
import sysconfig
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "proto"
TARGET = ROOT / "src" / "middlewatch" / "contract" / "gen"
PREFIX = "middlewatch.contract.gen."
MARK = '"""Generated from proto/ by `make proto`. Not written by hand."""\n'


def include_paths() -> list[Path]:
    """Where protoc looks: our sources, protobuf's own, and those that packages bring (google/api)."""
    return [
        SOURCE,
        Path(str(importlib.resources.files("grpc_tools") / "_proto")),
        Path(sysconfig.get_paths()["purelib"]),
    ]


def run_protoc(sources: list[Path], target: Path) -> int:
    """Run protoc over all sources at once; its exit status."""
    scripts = Path(sys.executable).parent
    return int(
        protoc.main(
            [
                "protoc",
                *(f"-I{path}" for path in include_paths()),
                f"--plugin=protoc-gen-mypy={scripts / 'protoc-gen-mypy'}",
                f"--python_out={target}",
                f"--mypy_out=quiet:{target}",
                f"--grpc_python_out={target}",
                f"--plugin=protoc-gen-mypy_grpc={scripts / 'protoc-gen-mypy_grpc'}",
                f"--mypy_grpc_out=quiet:{target}",
                *(str(path.relative_to(SOURCE)) for path in sources),
            ]
        )
    )


def at_home(text: str, packages: set[str]) -> str:
    """The generated text with imports of our own packages pointing into TARGET."""
    for package in sorted(packages, key=len, reverse=True):
        dotted = re.escape(package)
        text = re.sub(
            rf"^from {dotted} import", f"from {PREFIX}{package} import", text, flags=re.MULTILINE
        )
        text = re.sub(
            rf"^import {dotted}\.(\w+_pb2(?:_grpc)?)\b",
            rf"import {PREFIX}{package}.\1",
            text,
            flags=re.MULTILINE,
        )
        text = re.sub(rf"(?<![\w.\"'/]){dotted}\.(\w+_pb2)\b", rf"{PREFIX}{package}.\1", text)
    return text


def generate(target: Path) -> int:
    """Write the code for everything under proto/ into an empty folder; protoc's exit status."""
    sources = sorted(SOURCE.rglob("*.proto"))
    code = run_protoc(sources, target) if sources else 0
    if code != 0:
        return code
    packages = {".".join(path.parent.relative_to(SOURCE).parts) for path in sources} - {""}
    written = sorted(target.rglob("*_pb2*.py*"))
    for path in written:
        path.write_text(at_home(path.read_text(), packages))
    for path in written:
        for folder in path.relative_to(target).parents:
            (target / folder / "__init__.py").write_text(MARK)
    return 0


def main() -> int:
    """Replace what was generated before."""
    if not any(SOURCE.rglob("*.proto")):
        print("proto: nothing under proto/")
        return 1
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir(parents=True)
    code = generate(TARGET)
    if code == 0:
        print(f"proto: generated {TARGET.relative_to(ROOT)}")
    return code


if __name__ == "__main__":
    sys.exit(main())
