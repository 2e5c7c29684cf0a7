"""From files, environment and flags to settings, knowing for each value where it came from.

Order: default, /etc/middlewatch/middlewatch.toml, ~/.config/middlewatch/middlewatch.toml (or just
the one file that --config or $MIDDLEWATCH_CONFIG names), environment, flags; the later wins.
Whatever is not understood is refused, all of it at once, each with its place and how to mend it:
a setting that is silently dropped is worse than a program that does not start.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from middlewatch.model.policy import Policy
from middlewatch.wiring.settings import KeySpec, Settings, cautions, contradictions, specs

SYSTEM_FILE = Path("/etc/middlewatch/middlewatch.toml")
CONFIG_VARIABLE = "MIDDLEWATCH_CONFIG"
_PREFIX = "MIDDLEWATCH_"
_FILE_LIMIT = 1_000_000
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}
_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: where it stands, and what would be right."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


class BadSettings(Exception):
    """The settings cannot be used; every problem that was found."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class Loaded:
    """``origins`` says for "section.key" where its value came from; ``files`` were read."""

    settings: Settings
    origins: Mapping[str, str]
    files: tuple[Path, ...]
    cautions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Given:
    value: object
    where: str


def load(
    environ: Mapping[str, str],
    *,
    config: Path | None = None,
    flags: Mapping[str, object] | None = None,
    system_file: Path = SYSTEM_FILE,
) -> Loaded:
    """The settings. ``flags`` are "section.key" to value; one that is None was not given.

    Raises `BadSettings`.
    """
    problems: list[Problem] = []
    known = {(spec.section, spec.key): spec for spec in specs()}
    given: dict[tuple[str, str], _Given] = {}
    read: list[Path] = []
    for path, wanted in _files(environ, config, system_file):
        found = _read(path, wanted, problems)
        if found is not None:
            read.append(path)
            given |= _from_file(path, *found, known, problems)
    given |= _from_environment(environ, known, problems)
    for name, value in (flags or {}).items():
        section, _, key = name.partition(".")
        place = section, _canonical(section, key, known)
        if place not in known:
            where = "command line"
            problems.append(Problem(where, _unknown("key", name, _guesses(name, known))))
        elif value is not None:
            given[place] = _Given(value, "command line")
    settings, origins = _built(given, known, problems)
    if not problems:
        problems += [
            Problem(origins[f"{section}.{key}"], f"{section}.{key}: {what}")
            for section, key, what in contradictions(settings)
        ]
    if problems:
        raise BadSettings(problems)
    return Loaded(settings, origins, tuple(read), tuple(cautions(settings)))


def duration(value: object) -> float:
    """Seconds from 600, 1.5, "600", "10m", "1h30m", "250ms". Raises ValueError with the reason."""
    if isinstance(value, bool):
        raise ValueError("is true or false, not a duration")  # noqa: TRY004 - one kind for callers
    if isinstance(value, int | float):
        seconds = float(value)
    else:
        text = str(value).strip().lower()
        pieces = list(_DURATION.finditer(text))
        if not pieces or "".join(p.group(0) for p in pieces) != text:
            raise ValueError(f"{text[:40]!r} is no duration: seconds, or text like 90s, 10m, 1h30m")
        if len(pieces) > 1 and not all(p.group(2) for p in pieces):
            raise ValueError(f"{text[:40]!r} is ambiguous: give each part its unit")
        seconds = sum(float(p.group(1)) * _SECONDS[p.group(2) or ""] for p in pieces)
    if not 0 <= seconds < float("inf"):
        raise ValueError("must not be negative, and must end")
    return seconds


def duration_text(seconds: float) -> str:
    """The normal form of a duration: what is shown."""
    if seconds == int(seconds):
        whole = int(seconds)
        for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
            if whole and whole % size == 0:
                return f"{whole // size}{unit}"
        return f"{whole}s"
    return f"{seconds:g}s"


def policy_version(policy: Policy) -> str:
    """A digest of the values, so that a decision names exactly what it was decided under."""
    values = asdict(policy)
    del values["version"]
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def shown(spec: KeySpec, value: object) -> str:
    """A value as it would be written in the file."""
    if spec.duration and isinstance(value, int | float):
        return f'"{duration_text(value)}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return json.dumps(list(value), ensure_ascii=False)
    if isinstance(value, StrEnum):
        return json.dumps(value.value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)


def value_of(settings: Settings, spec: KeySpec) -> object:
    found: object = getattr(getattr(settings, spec.section), spec.attribute)
    return found


# ----------------------------------------------------------------------------------------- files


def _files(
    environ: Mapping[str, str], config: Path | None, system_file: Path
) -> Iterator[tuple[Path, bool]]:
    """Files to read, the weakest first, each with whether it must be there."""
    named = config or (Path(environ[CONFIG_VARIABLE]) if environ.get(CONFIG_VARIABLE) else None)
    if named is not None:
        yield named.expanduser(), True
        return
    yield system_file, False
    base = environ.get("XDG_CONFIG_HOME") or (
        f"{environ['HOME']}/.config" if environ.get("HOME") else ""
    )
    if base:
        yield Path(base) / "middlewatch" / "middlewatch.toml", False


def _read(path: Path, wanted: bool, problems: list[Problem]) -> tuple[dict[str, Any], str] | None:
    try:
        if not wanted and not path.exists():
            return None
        with path.open("rb") as handle:
            raw = handle.read(_FILE_LIMIT + 1)
        if len(raw) <= _FILE_LIMIT:
            text = raw.decode("utf-8")
            return tomllib.loads(text), text
        problems.append(Problem(str(path), f"more than {_FILE_LIMIT} bytes: no settings file"))
    except FileNotFoundError:
        problems.append(Problem(str(path), "no such file"))
    except OSError as error:
        problems.append(Problem(str(path), f"cannot be read: {error.strerror}"))
    except (ValueError, RecursionError) as error:
        problems.append(Problem(str(path), f"cannot be understood: {error}"))
    return None


def _from_file(
    path: Path,
    content: dict[str, Any],
    text: str,
    known: Mapping[tuple[str, str], KeySpec],
    problems: list[Problem],
) -> dict[tuple[str, str], _Given]:
    given: dict[tuple[str, str], _Given] = {}
    sections = {section for section, _key in known}
    for section, members in content.items():
        where = f"{path}:{_line(text, section)}"
        if section not in sections:
            kind = "section" if isinstance(members, dict) else "key outside a section"
            problems.append(Problem(where, _unknown(kind, section, _guesses(section, known))))
            continue
        if not isinstance(members, dict):
            problems.append(Problem(where, f"{section} is a section: write [{section}]"))
            continue
        for raw_key, value in members.items():
            key = _canonical(section, raw_key, known)
            where = f"{path}:{_line(text, section, raw_key)}"
            if (section, key) not in known:
                name = f"{section}.{raw_key}"
                problems.append(Problem(where, _unknown("key", name, _guesses(name, known))))
                continue
            given[section, key] = _Given(value, where)
    return given


def _canonical(section: str, key: str, known: Mapping[tuple[str, str], KeySpec]) -> str:
    """``interval_s`` and ``acknowledgeSchedulerActions`` are other spellings of ours."""
    snake = re.sub(r"(?<=[a-z])([A-Z])", lambda m: "_" + m.group(1).lower(), key)
    for candidate in (snake, snake.removesuffix("_s")):
        spec = known.get((section, candidate))
        if spec is not None and (candidate == snake or spec.duration):
            return candidate
    return key


def _line(text: str, section: str, key: str | None = None) -> int:
    """The line of a section's header, or of a key in it; 1 where it cannot be told."""
    inside = ""
    dotted = re.compile(rf"\s*{re.escape(section)}\s*\.\s*[\"']?{re.escape(key or '')}\b")
    plain = re.compile(rf"\s*[\"']?{re.escape(key or '')}[\"']?\s*=")
    for number, line in enumerate(text.splitlines(), start=1):
        header = re.match(r"\s*\[\s*([^\[\]]+?)\s*\]", line)
        if header:
            inside = header.group(1).strip("\"'")
            if key is None and inside == section:
                return number
            continue
        if key is None:
            if inside == "" and re.match(rf"\s*[\"']?{re.escape(section)}[\"']?\s*[.=]", line):
                return number
        elif (inside == section and plain.match(line)) or (inside == "" and dotted.match(line)):
            return number
    return 1


# ----------------------------------------------------------------------------------- environment


def _from_environment(
    environ: Mapping[str, str],
    known: Mapping[tuple[str, str], KeySpec],
    problems: list[Problem],
) -> dict[tuple[str, str], _Given]:
    variables = {spec.variable: place for place, spec in known.items()}
    given: dict[tuple[str, str], _Given] = {}
    for name, value in environ.items():
        if not name.startswith(_PREFIX) or name == CONFIG_VARIABLE:
            continue
        bare = name.removesuffix("_S")
        place = variables.get(name)
        if place is None and bare in variables and known[variables[bare]].duration:
            place = variables[bare]
        if place is not None:
            given[place] = _Given(value, f"${name}")
        elif name.removeprefix(_PREFIX).partition("_")[0].lower() != "lab":
            near = difflib.get_close_matches(name, [*variables, CONFIG_VARIABLE], n=1, cutoff=0.5)
            problems.append(Problem(f"${name}", _unknown("variable", name, near)))
    return given


# ---------------------------------------------------------------------------------------- values


def _built(
    given: Mapping[tuple[str, str], _Given],
    known: Mapping[tuple[str, str], KeySpec],
    problems: list[Problem],
) -> tuple[Settings, dict[str, str]]:
    values: dict[str, dict[str, Any]] = {}
    origins: dict[str, str] = {}
    for (section, key), spec in known.items():
        name = f"{section}.{key}"
        found = given.get((section, key))
        origins[name] = found.where if found else "default"
        if found is None:
            continue
        try:
            values.setdefault(section, {})[spec.attribute] = _value(spec, found.value)
        except ValueError as error:
            problems.append(Problem(found.where, f"{name} {error}"))
    defaults = Settings()
    settings = replace(
        defaults,
        **{
            item.name: replace(getattr(defaults, item.name), **values.get(item.name, {}))
            for item in fields(defaults)
        },
    )
    versioned = replace(settings.policy, version=policy_version(settings.policy))
    return replace(settings, policy=versioned), origins


def _value(spec: KeySpec, value: object) -> object:
    if spec.kind is tuple:
        return _names(value)
    if spec.kind is bool:
        return _boolean(value)
    if issubclass(spec.kind, StrEnum):
        return _member(spec.kind, value)
    if spec.kind is str:
        if not isinstance(value, str):
            raise ValueError(f"must be text, not {_short(value)}")
        if "\0" in value or "\n" in value:
            raise ValueError("must be one line of text")
        return value
    number: float
    if spec.duration:
        number = duration(value)
    else:
        try:
            number = int(value) if isinstance(value, str) else _integer(value)
        except ValueError:
            raise ValueError(f"must be a whole number, not {_short(value)}") from None
    if not spec.low <= number <= spec.high:
        low, high = (
            (duration_text(spec.low), duration_text(spec.high))
            if spec.duration
            else (f"{spec.low:g}", f"{spec.high:g}")
        )
        raise ValueError(f"must lie between {low} and {high}, not {_short(value)}")
    return number


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError  # noqa: TRY004 - the caller adds the sentence
    return value


def _names(value: object) -> tuple[str, ...]:
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
        raise ValueError(f'must be a list of names such as ["a", "b"], not {_short(value)}')
    return tuple(dict.fromkeys(item.strip() for item in items if item.strip()))


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    if word in _TRUE | _FALSE:
        return word in _TRUE
    raise ValueError(f"must be true or false, not {_short(value)}")


def _member(kind: type[StrEnum], value: object) -> StrEnum:
    words = [member.value for member in kind]
    if isinstance(value, str) and value.strip().lower() in words:
        return kind(value.strip().lower())
    near = difflib.get_close_matches(str(value), words, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"must be one of {', '.join(words)}, not {_short(value)}{hint}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _guesses(name: str, known: Mapping[tuple[str, str], KeySpec]) -> list[str]:
    """The nearest right name: in the same section, then anywhere, then by the key alone."""
    section, dot, key = name.partition(".")
    if not dot:
        sections = list(dict.fromkeys(s for s, _ in known))
        near = difflib.get_close_matches(name, sections, n=1, cutoff=0.5)
        if near:
            return [f"[{near[0]}]"]
        key = name
    exactly = [f"{s}.{k}" for s, k in known if k == key]
    if exactly:
        return exactly
    here = [k for s, k in known if s == section]
    near = difflib.get_close_matches(key, here, n=1, cutoff=0.55)
    if near:
        return [f"{section}.{near[0]}"]
    everywhere = {k: f"{s}.{k}" for s, k in known}
    near = difflib.get_close_matches(key, list(everywhere), n=1, cutoff=0.55)
    return [everywhere[near[0]]] if near else []


def _unknown(kind: str, name: str, near: Sequence[str]) -> str:
    hint = f"; did you mean {near[0]}?" if near else "; `middlewatch config show` lists all"
    return f"unknown {kind} {name[:80]!r}{hint}"
