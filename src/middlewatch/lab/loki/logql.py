"""The little of LogQL that a reader of logs needs: selectors, label and line filters, counts.

    {job_id="12",node=~"n[12]"} | filename="/out.log" |= "Xid"
    sum by (node, filename) (count_over_time({job_id="12"}[3600s]))

Whatever else LogQL can do is refused as a parse error, as Loki refuses what it does not know.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_STRING = r'"(?:[^"\\\n]|\\.)*"|`[^`]*`'
_MATCHER = re.compile(rf"\s*({_NAME})\s*(=~|!~|!=|=)\s*({_STRING})\s*")
_LABEL_FILTER = re.compile(rf"\s*\|\s*({_NAME})\s*(=~|!~|!=|=)\s*({_STRING})")
_LINE_FILTER = re.compile(rf"\s*(\|=|!=|\|~|!~)\s*({_STRING})")
_COUNT = re.compile(
    r"\s*sum\s+by\s*\(([^)]*)\)\s*\(\s*count_over_time\s*\((?P<log>.*)\[(\d+)(ms|s|m|h|d)\]\s*\)\s*\)\s*\Z",
    re.DOTALL,
)
_UNITS = {"ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9}


class ParseError(ValueError):
    """The query is none; the message is what the server answers."""


@dataclass(frozen=True, slots=True)
class Test:
    """``label`` (or the line, where it is empty) compared with ``value``."""

    label: str
    operator: str
    value: str

    def holds(self, text: str) -> bool:
        match self.operator:
            case "=":
                return text == self.value
            case "!=":
                return text != self.value
            case "=~":
                return re.fullmatch(self.value, text) is not None
            case "!~":
                return re.fullmatch(self.value, text) is None
            case "has":
                return self.value in text
            case "lacks":
                return self.value not in text
            case "finds":
                return re.search(self.value, text) is not None
            case _:
                return re.search(self.value, text) is None


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which streams, by their labels, and which of their entries, by labels and text."""

    stream: tuple[Test, ...]
    entry: tuple[Test, ...] = ()

    def selects(self, labels: Mapping[str, str]) -> bool:
        return all(test.holds(labels.get(test.label, "")) for test in self.stream)

    def keeps(self, labels: Mapping[str, str], line: str) -> bool:
        return all(
            test.holds(labels.get(test.label, "") if test.label else line) for test in self.entry
        )


@dataclass(frozen=True, slots=True)
class CountQuery:
    """How many entries of ``log`` there are in the ``range_ns`` before a moment, by labels."""

    log: LogQuery
    by: tuple[str, ...]
    range_ns: int


def parse(text: str) -> LogQuery | CountQuery:
    """The query. Raises `ParseError`."""
    counted = _COUNT.match(text)
    if counted is None:
        return _log_query(text)
    by = tuple(name.strip() for name in counted[1].split(",") if name.strip())
    return CountQuery(_log_query(counted["log"]), by, int(counted[3]) * _UNITS[counted[4]])


def _log_query(text: str) -> LogQuery:
    at = len(text) - len(text.lstrip())
    if text[at : at + 1] != "{":
        raise _broken(text, at, "expecting {")
    at += 1
    stream = []
    while text[at : at + 1] != "}":
        found = _MATCHER.match(text, at)
        if found is None:
            raise _broken(text, at, "expecting a label matcher")
        stream.append(Test(found[1], found[2], _value(found[3], text, at)))
        at = found.end()
        if text[at : at + 1] == ",":
            at += 1
        elif text[at : at + 1] != "}":
            raise _broken(text, at, "expecting , or }")
    if not any(test.operator in {"=", "=~"} and not test.holds("") for test in stream):
        raise ParseError(
            "parse error : queries require at least one regexp or equality matcher that does not "
            "have an empty-compatible value"
        )
    return LogQuery(tuple(stream), _filters(text, at + 1))


def _filters(text: str, at: int) -> tuple[Test, ...]:
    found: list[Test] = []
    words = {"|=": "has", "!=": "lacks", "|~": "finds", "!~": "misses"}
    while text[at:].strip():
        on_line = _LINE_FILTER.match(text, at)
        on_label = _LABEL_FILTER.match(text, at)
        if on_line is not None:
            found.append(Test("", words[on_line[1]], _value(on_line[2], text, at)))
            at = on_line.end()
        elif on_label is not None:
            found.append(Test(on_label[1], on_label[2], _value(on_label[3], text, at)))
            at = on_label.end()
        else:
            raise _broken(text, at, "unexpected")
    return tuple(found)


def _value(literal: str, text: str, at: int) -> str:
    if literal.startswith("`"):
        return literal[1:-1]
    try:
        return str(ast.literal_eval(literal))
    except (ValueError, SyntaxError) as error:
        raise _broken(text, at, "invalid string") from error


def _broken(text: str, at: int, what: str) -> ParseError:
    return ParseError(
        f"parse error at line 1, col {at + 1}: syntax error: {what} at {text[at : at + 20]!r}"
    )
