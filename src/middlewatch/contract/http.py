"""HTTP/JSON from the annotations in the protos: which request is which RPC, and its message.

Paths, verbs and parameters are written once, in proto/. This module reads them from the compiled
descriptors and binds a request's path, query and body to the RPC's message, by proto3's JSON
rules: camelCase names (snake_case is accepted too), 64-bit numbers as strings, enum names,
RFC 3339 times. Unknown members and unknown enum words are ignored, so that a newer client works.

Everything that comes in is untrusted. Whatever cannot be bound raises `ApiError` with what, where
and how to mend it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote

from google.api import annotations_pb2
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp

from middlewatch.contract.errors import ApiError, invalid
from middlewatch.contract.gen.heimdall.v1 import api_keys_pb2, audit_pb2, heimdall_pb2
from middlewatch.contract.gen.middlewatch.v1 import middlewatch_pb2

SERVICES: tuple[ServiceDescriptor, ...] = (
    heimdall_pb2.DESCRIPTOR.services_by_name["HeimdallService"],
    audit_pb2.DESCRIPTOR.services_by_name["AuditService"],
    api_keys_pb2.DESCRIPTOR.services_by_name["ApiKeysService"],
    middlewatch_pb2.DESCRIPTOR.services_by_name["MiddlewatchService"],
)

QUERY_FIELDS_MAX = 1000
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_TRUE = frozenset({"true", "TRUE", "True", "1", "t", "T"})
_FALSE = frozenset({"false", "FALSE", "False", "0", "f", "F"})
_RANGES = {
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
}


@dataclass(frozen=True, slots=True)
class Segment:
    """One part of a path: a literal, or (``field``) a variable of the request message."""

    literal: str
    field: str = ""


@dataclass(frozen=True, slots=True)
class Route:
    """One RPC's place in HTTP. ``body`` is ``*``, a field's name, or empty for none."""

    rpc: str
    verb: str
    segments: tuple[Segment, ...]
    body: str
    method: MethodDescriptor

    @property
    def path(self) -> str:
        """The path with its variables as the JSON names them: ``/v1/jobs/{heimdallJobId}``."""
        parts = []
        for segment in self.segments:
            if segment.field:
                field = self.method.input_type.fields_by_name[segment.field]
                parts.append(f"{{{field.json_name}}}")
            else:
                parts.append(segment.literal)
        return "/" + "/".join(parts)


@dataclass(frozen=True, slots=True)
class Match:
    """A route and the variables of its path, by proto field name."""

    route: Route
    variables: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class WrongVerb:
    """The path exists, for these verbs."""

    allowed: tuple[str, ...]


def routes(services: Iterable[ServiceDescriptor] = SERVICES) -> tuple[Route, ...]:
    """Every RPC with an HTTP rule, in the order of the sources."""
    found = []
    for service in services:
        for method in service.methods:
            rule = method.GetOptions().Extensions[annotations_pb2.http]
            verb = rule.WhichOneof("pattern")
            if verb is None:
                continue
            template = getattr(rule, verb)
            segments = tuple(
                Segment("", part[1:-1]) if part.startswith("{") else Segment(part)
                for part in template.removeprefix("/").split("/")
            )
            found.append(Route(method.full_name, verb.upper(), segments, rule.body, method))
    return tuple(found)


class Router:
    """Finds the route of a request. A literal part of a path wins over a variable."""

    def __init__(self, table: Sequence[Route]) -> None:
        self._routes = sorted(
            table, key=lambda route: tuple(bool(segment.field) for segment in route.segments)
        )

    def match(self, verb: str, raw_path: str) -> Match | WrongVerb | None:
        """The route for a verb and a percent-encoded path, or None where no such path is.

        Raises `ApiError` where a part of the path is no UTF-8 text.
        """
        parts = raw_path.removeprefix("/").split("/")
        allowed: list[str] = []
        for route in self._routes:
            variables = _variables(route, parts)
            if variables is None:
                continue
            if route.verb == verb:
                return Match(route, variables)
            allowed.append(route.verb)
        return WrongVerb(tuple(sorted(set(allowed)))) if allowed else None


def _variables(route: Route, parts: Sequence[str]) -> dict[str, str] | None:
    if len(parts) != len(route.segments):
        return None
    found = {}
    for segment, part in zip(route.segments, parts, strict=True):
        if not segment.field:
            # `:` may come percent-encoded; clients differ.
            if part != segment.literal and unquote(part) != segment.literal:
                return None
        elif not part:
            return None
        else:
            try:
                found[segment.field] = unquote(part, errors="strict")
            except UnicodeDecodeError:
                raise invalid(f"{segment.field} in the path is not UTF-8 text") from None
    return found


def bind(match: Match, query: str, body: bytes) -> Message:
    """The request message of a matched request. ``query`` is the raw text after ``?``.

    Raises `ApiError` (INVALID_ARGUMENT) for whatever cannot be bound.
    """
    route = match.route
    message: Message = GetMessageClass(route.method.input_type)()
    if route.body == "*":
        _parse_body(body, message)
    else:
        if route.body:
            nested = getattr(message, route.body)
            nested.SetInParent()
            _parse_body(body, nested)
        _bind_query(message, query, skip={route.body, *match.variables})
    for name, text in match.variables.items():
        _set(message, message.DESCRIPTOR.fields_by_name[name], (text,), name)
    return message


def _parse_body(body: bytes, message: Message) -> None:
    if not body.strip():
        return
    try:
        value = json.loads(
            body.decode("utf-8"), object_pairs_hook=_members, parse_constant=_no_constant
        )
    except UnicodeDecodeError:
        raise invalid("the body is not UTF-8 text; send JSON in UTF-8") from None
    except RecursionError:
        raise invalid("the body is nested too deeply; 100 levels are enough for any") from None
    except ApiError:
        raise
    except ValueError as error:
        raise invalid(f"the body is not JSON: {_short(error)}") from None
    if not isinstance(value, dict):
        raise invalid("the body must be a JSON object, such as {}")
    try:
        _check_texts(value)
        json_format.ParseDict(value, message, ignore_unknown_fields=True)
    except ApiError:
        raise
    except RecursionError:
        raise invalid("the body is nested too deeply; 100 levels are enough for any") from None
    except (
        json_format.ParseError,
        ValueError,
        TypeError,
        OverflowError,
        AttributeError,
        KeyError,
    ) as error:
        raise invalid(f"the body does not fit {message.DESCRIPTOR.name}: {_short(error)}") from None


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise invalid(f"member {twice[:80]!r} is given more than once in one object of the body")
    return found


def _no_constant(word: str) -> None:
    raise invalid(f"{word} is no JSON; a number must be finite")


def _check_texts(value: Any) -> None:
    """No text with a NUL or half a surrogate pair gets in: stores and other languages choke."""
    match value:
        case str():
            _check_text(value, "the body")
        case dict():
            for name, member in value.items():
                _check_text(name, "a member's name in the body")
                _check_texts(member)
        case list():
            for member in value:
                _check_texts(member)
        case _:
            pass


def _check_text(text: str, where: str) -> None:
    if "\x00" in text:
        raise invalid(f"{where} contains a NUL character; leave it out")
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise invalid(
                f"{where} contains half of a surrogate pair; send whole characters"
            ) from None


def _bind_query(message: Message, query: str, skip: set[str]) -> None:
    try:
        pairs = parse_qsl(
            query, keep_blank_values=True, errors="strict", max_num_fields=QUERY_FIELDS_MAX
        )
    except UnicodeDecodeError:
        raise invalid("the query is not UTF-8 text; percent-encode it as UTF-8") from None
    except ValueError:
        raise invalid(f"the query has more than {QUERY_FIELDS_MAX} parameters") from None
    descriptor = message.DESCRIPTOR
    given: dict[str, list[str]] = {}
    for name, text in pairs:
        field = descriptor.fields_by_camelcase_name.get(name) or descriptor.fields_by_name.get(name)
        if field is not None and field.name not in skip:
            given.setdefault(field.name, []).append(text)
    for name, texts in given.items():
        field = descriptor.fields_by_name[name]
        _set(message, field, texts, field.json_name)


def _set(message: Message, field: Any, texts: Sequence[str], name: str) -> None:
    for text in texts:
        _check_text(text, f"parameter {name}")
    if field.is_repeated:
        getattr(message, field.name).extend(_scalar(field, text, name) for text in texts)
        return
    if len(texts) > 1:
        raise invalid(f"parameter {name} is given {len(texts)} times; give it once")
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        _set_message(getattr(message, field.name), field, texts[0], name)
        return
    value = _scalar(field, texts[0], name)
    if value is not None:
        setattr(message, field.name, value)


def _set_message(target: Message, field: Any, text: str, name: str) -> None:
    if not isinstance(target, Timestamp):
        raise invalid(f"parameter {name} cannot be given in the query ({field.message_type.name})")
    try:
        target.FromJsonString(text)
    except (ValueError, TypeError, OverflowError):
        raise invalid(
            f"parameter {name}: {text[:60]!r} is no time; give RFC 3339, "
            "for example 2024-01-15T09:30:00Z"
        ) from None
    target.SetInParent()


def _scalar(field: Any, text: str, name: str) -> str | int | bool | None:
    """The value of a path or query text; None for an enum word that we do not know."""
    if field.type == FieldDescriptor.TYPE_STRING:
        return text
    if field.type == FieldDescriptor.TYPE_BOOL:
        if text in _TRUE or text in _FALSE:
            return text in _TRUE
        raise invalid(f"parameter {name}: {text[:60]!r} is neither true nor false")
    if field.type == FieldDescriptor.TYPE_ENUM:
        known = field.enum_type.values_by_name.get(text)
        return None if known is None else known.number
    least, most = _RANGES[field.type]
    if not _INTEGER.fullmatch(text):
        raise invalid(f"parameter {name}: {text[:60]!r} is no whole decimal number")
    number = int(text)
    if not least <= number <= most:
        raise invalid(f"parameter {name}: {text[:60]} is not within {least} and {most}")
    return number


def to_json(message: Message) -> bytes:
    """The JSON of a response: every plain field is there, also where it is empty or zero; absent
    are message fields and optional fields that nobody set."""
    value = json_format.MessageToDict(message, always_print_fields_with_no_presence=True)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
