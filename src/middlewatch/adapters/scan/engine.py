"""Which engine searches, and how it is made ready without keeping anybody waiting.

Hyperscan is some ten times faster and not to be had everywhere; RE2 is. Both give the same hits
(`finding`). To compile a whole catalogue takes Hyperscan longer than a command may take to start,
so that what it made is kept in the user's cache folder, under a name that says what it was made
from. The engine trusts those bytes without looking, so only bytes that nobody else can have
written are read back.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from middlewatch.adapters.scan.catalogue import Catalogue
from middlewatch.adapters.scan.cores import cores
from middlewatch.adapters.scan.finding import Both, Finder, HyperscanFinder, Re2Finder
from middlewatch.adapters.scan.reading import LineReader
from middlewatch.adapters.scan.scanner import LineScanner
from middlewatch.adapters.scan.syntax import UnsupportedError, tree, written

if TYPE_CHECKING:
    import hyperscan

LARGEST = 64 << 20
"""Bytes of a kept database; a larger file is not ours."""
MOST_KEPT = 8
"""Databases that stay in the folder."""
_FORM = "1"
"""Changes when the same catalogue is compiled in another way."""


class Engine(StrEnum):
    AUTO = "auto"
    HYPERSCAN = "hyperscan"
    RE2 = "re2"


class NoEngineError(RuntimeError):
    """The engine that was asked for is not to be had here."""


def scanner_for(
    catalogue: Catalogue, engine: Engine = Engine.AUTO, folder: Path | None = None
) -> LineScanner:
    """The scanner port by the engine that was asked for; ``folder`` as `cache_folder` has it.

    Raises `NoEngineError` where Hyperscan is asked for by name and cannot be had.
    """
    if engine is Engine.RE2:
        return CoresScanner(catalogue)
    try:
        return HyperscanScanner(catalogue, cache_folder() if folder is None else folder)
    except NoEngineError:
        if engine is Engine.HYPERSCAN:
            raise
        return CoresScanner(catalogue)


def engine_of(scanner: LineScanner) -> Engine:
    return Engine.HYPERSCAN if isinstance(scanner, HyperscanScanner) else Engine.RE2


class HyperscanScanner(LineScanner):
    """Our patterns by Hyperscan, a site's by RE2, as is any of ours that Hyperscan has no way to
    search for (``by_re2`` has their ids)."""

    def __init__(self, catalogue: Catalogue, folder: Path | None = None) -> None:
        """Raises `NoEngineError`; ``folder`` None: nothing is kept."""
        wanted, others = _parted(catalogue)
        try:
            database = database_of(wanted, folder)
        except NoEngineError:
            # One expression that it refuses must not cost all the others their speed.
            refused = refused_of(wanted)
            if not refused:
                raise
            numbers = {number for number, _ in refused}
            wanted, more = _divided(wanted, numbers)
            others = [*others, *more]
            database = database_of(wanted, folder)
        self.by_re2 = tuple(dict.fromkeys(catalogue.patterns[number].id for number, _ in others))
        finders: list[Finder] = [HyperscanFinder(database)]
        if others:
            finders.append(Re2Finder(others))
        super().__init__(
            catalogue.patterns,
            finders[0] if len(finders) == 1 else Both(finders),
            LineReader([pattern.regex for pattern in catalogue.patterns]),
        )


class CoresScanner(LineScanner):
    """By RE2, which searches for the same words as Hyperscan does: where there is no Hyperscan.
    With whole patterns it would read some hundred kilobytes a second."""

    def __init__(self, catalogue: Catalogue) -> None:
        """Raises `ValueError` where the patterns together do not fit into RE2's memory."""
        wanted, others = _parted(catalogue)
        super().__init__(
            catalogue.patterns,
            Re2Finder([*wanted, *others]),
            LineReader([pattern.regex for pattern in catalogue.patterns]),
        )


Expressions = list[tuple[int, str]]
"""What is searched for, with the numbers of the patterns."""


def _parted(catalogue: Catalogue) -> tuple[Expressions, Expressions]:
    """The words of our own patterns, and the patterns that are searched for as they stand."""
    wanted: Expressions = []
    others: Expressions = []
    for number, pattern in enumerate(catalogue.patterns):
        found = _cores_of(pattern.regex) if pattern.id not in catalogue.foreign else ()
        if found:
            wanted.extend((number, core) for core in found)
        else:
            others.append((number, pattern.regex))
    return wanted, others


def _divided(expressions: Expressions, numbers: set[int]) -> tuple[Expressions, Expressions]:
    """Those of other patterns, and those of these ``numbers``."""
    kept = [one for one in expressions if one[0] not in numbers]
    return kept, [one for one in expressions if one[0] in numbers]


def _cores_of(regex: str) -> tuple[str, ...]:
    """What is searched for instead of the regex; empty where there is nothing to search for."""
    try:
        found = tuple(dict.fromkeys(written(core) for core in cores(tree(regex))))
    except UnsupportedError:
        return ()
    return found if all(found) else ()


def database_of(
    expressions: Sequence[tuple[int, str]], folder: Path | None = None
) -> hyperscan.Database:
    """The expressions with their numbers, compiled or read back. Raises `NoEngineError`."""
    try:
        import hyperscan
    except ImportError as error:
        raise NoEngineError(
            f"hyperscan cannot be imported ({error}); install it, or set watcher.engine to re2"
        ) from error
    try:
        name = _name(expressions, version("hyperscan"))
        kept = None if folder is None else _read_back(folder, name)
        if kept is not None:
            with suppress(hyperscan.error):
                return _ready(hyperscan.loadb(kept, hyperscan.HS_MODE_BLOCK))
        made = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        made.compile(
            expressions=[text.encode("ascii") for _, text in expressions],
            ids=[number for number, _ in expressions],
            elements=len(expressions),
            flags=[hyperscan.HS_FLAG_MULTILINE] * len(expressions),
        )
        if folder is not None:
            _keep(folder, name, hyperscan.dumpb(made))
    except hyperscan.error as error:
        raise NoEngineError(
            f"hyperscan will not do here: {error}; set watcher.engine to re2"
        ) from error
    return made


def refused_of(expressions: Sequence[tuple[int, str]]) -> Expressions:
    """Those that Hyperscan does not take even alone; none where it is not to be had."""
    refused = []
    for one in expressions:
        try:
            database_of([one])
        except NoEngineError as error:
            if isinstance(error.__cause__, ImportError):
                return []
            refused.append(one)
    return refused


def _ready(database: hyperscan.Database) -> hyperscan.Database:
    import hyperscan

    database.scratch = hyperscan.Scratch(database)
    return database


# ------------------------------------------------------------------------------------------ keeping


def cache_folder() -> Path | None:
    """Where compiled databases are kept: below ``$XDG_CACHE_HOME``, or the home's ``.cache``."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    if given and Path(given).is_absolute():
        return Path(given) / "middlewatch"
    home = os.environ.get("HOME", "")
    return Path(home) / ".cache" / "middlewatch" if home and Path(home).is_absolute() else None


def _name(expressions: Sequence[tuple[int, str]], version: str) -> str:
    """A file name that says what a database was made from, processor included."""
    said = hashlib.sha256(f"{_FORM}\0{version}\0{_processor()}".encode())
    for number, text in expressions:
        said.update(f"\0{number}\0{text}".encode())
    return f"patterns-{said.hexdigest()[:40]}.hsdb"


def _processor() -> str:
    """What the engine looks at before it uses a processor's special instructions."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith(("flags", "Features")):
                return line
    return os.uname().machine


def _read_back(folder: Path, name: str) -> bytes | None:
    """A kept database, if nobody but us can have written it and it is whole."""
    with suppress(OSError):
        if not _only_ours(os.lstat(folder), stat.S_IFDIR):
            return None
        opened = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            status = os.fstat(opened)
            if not _only_ours(status, stat.S_IFREG) or not 64 < status.st_size <= LARGEST:
                return None
            data = _whole(opened, status.st_size)
        finally:
            os.close(opened)
        digest, body = data[:64], data[64:]
        if hashlib.sha256(body).hexdigest().encode() == digest:
            return body
    return None


def _whole(opened: int, size: int) -> bytes:
    parts = []
    while size > 0 and (part := os.read(opened, size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _only_ours(status: os.stat_result, kind: int) -> bool:
    """Of this kind, ours, and for nobody else to write."""
    return (
        stat.S_IFMT(status.st_mode) == kind
        and status.st_uid == os.geteuid()
        and not status.st_mode & 0o022
        and (kind == stat.S_IFDIR or status.st_nlink == 1)
    )


def _keep(folder: Path, name: str, body: bytes) -> None:
    """Write a database for the next time; where that cannot be, there is none next time."""
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _only_ours(os.lstat(folder), stat.S_IFDIR):
            return
        # A file of its own, readable by us alone, then put into place: never half a database.
        opened, new = tempfile.mkstemp(prefix=".new-", dir=folder)
        try:
            with os.fdopen(opened, "wb") as file:
                file.write(hashlib.sha256(body).hexdigest().encode() + body)
            Path(new).replace(folder / name)
        except OSError:
            Path(new).unlink(missing_ok=True)
            raise
        kept = sorted(folder.glob("patterns-*.hsdb"), key=lambda path: path.stat().st_mtime)
        for old in kept[:-MOST_KEPT]:
            old.unlink(missing_ok=True)
