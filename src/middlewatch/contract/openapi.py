"""The OpenAPI 3.1 description of the HTTP API, derived from the same descriptors as the routes.

Nothing here is written by hand but titles: a path, parameter or field that the router knows is in
the description, and nothing else is.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import (
    Descriptor,
    EnumDescriptor,
    FieldDescriptor,
)

from middlewatch import __version__
from middlewatch.contract import choices
from middlewatch.contract.http import Route, routes

JSON = "application/json"
ERROR_SCHEMA = "rpcStatus"
_DISABLED = "heimdall.v1.ApiKeysService."

_PLAIN: dict[int, dict[str, Any]] = {
    FieldDescriptor.TYPE_STRING: {"type": "string"},
    FieldDescriptor.TYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.TYPE_INT32: {"type": "integer", "format": "int32"},
    FieldDescriptor.TYPE_INT64: {"type": "string", "format": "int64"},
    FieldDescriptor.TYPE_DOUBLE: {"type": "number", "format": "double"},
}
_WELL_KNOWN: dict[str, dict[str, Any]] = {
    "google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    "google.protobuf.Struct": {"type": "object", "additionalProperties": True},
}
_HEALTH = {
    "/healthz": "The process answers.",
    "/livez": "The process answers.",
    "/readyz": "The store can be written and every loop has lately completed a tick.",
}


def document() -> dict[str, Any]:
    """The whole description, ready to be written as JSON."""
    schemas: dict[str, Any] = {ERROR_SCHEMA: _error_schema()}
    paths: dict[str, Any] = {}
    for route in routes():
        paths.setdefault(route.path, {})[route.verb.lower()] = _operation(route, schemas)
    for path, summary in _HEALTH.items():
        paths[path] = {"get": _health(path, summary)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Middlewatch",
            "version": __version__,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"bearer": []}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": dict(sorted(schemas.items())),
        },
    }


def text() -> str:
    """The description as it is served and kept in docs/openapi.json."""
    return json.dumps(document(), indent=2, ensure_ascii=False, sort_keys=False) + "\n"


def _operation(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    method = route.method
    service = method.containing_service
    operation: dict[str, Any] = {
        "operationId": f"{service.name}_{method.name}",
        "summary": _words(method.name),
        "tags": [service.name],
    }
    in_path = [segment.field for segment in route.segments if segment.field]
    parameters = [_parameter(method.input_type, name, "path", schemas) for name in in_path]
    if route.body != "*":
        parameters += [
            _parameter(method.input_type, field.name, "query", schemas)
            for field in method.input_type.fields
            if field.name not in {*in_path, route.body}
        ]
    if parameters:
        operation["parameters"] = parameters
    if route.body:
        schema = _body_schema(route, set(in_path), schemas)
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": schema}}}
    responses: dict[str, Any] = {
        "200": {
            "description": "A successful response.",
            "content": {JSON: {"schema": _reference(method.output_type, schemas)}},
        },
        "default": _error("Declined; the message says why and how to mend it."),
    }
    if method.full_name.startswith(_DISABLED):
        responses["500"] = _error(choices.API_KEYS_DISABLED)
    operation["responses"] = responses
    return operation


def _health(path: str, summary: str) -> dict[str, Any]:
    content = {JSON: {"schema": {"type": "object"}}}
    responses = {"200": {"description": "Yes.", "content": content}}
    if path == "/readyz":
        responses["503"] = {"description": "No; the body says what is missing.", "content": content}
    return {
        "operationId": path.strip("/"),
        "summary": summary,
        "tags": ["Health"],
        "security": [],
        "responses": {**responses, "default": _error("Declined.")},
    }


def _parameter(
    message: Descriptor, name: str, where: str, schemas: dict[str, Any]
) -> dict[str, Any]:
    field = message.fields_by_name[name]
    parameter: dict[str, Any] = {"name": field.json_name, "in": where}
    required = where == "path" or name in choices.REQUIRED.get(message.full_name, ())
    if required:
        parameter["required"] = True
    parameter["schema"] = _field_schema(message, field, schemas)
    if where == "path":
        parameter["schema"].setdefault("minLength", 1)
    if field.is_repeated:
        parameter |= {"style": "form", "explode": True}
    return parameter


def _body_schema(route: Route, in_path: set[str], schemas: dict[str, Any]) -> dict[str, Any]:
    message = route.method.input_type
    if route.body != "*":
        nested = message.fields_by_name[route.body].message_type
        if nested is None:
            raise ValueError(f"{route.rpc}: the body {route.body} is no message")
        return _reference(nested, schemas)
    if not in_path:
        return _reference(message, schemas)
    name = f"{route.method.containing_service.name}{route.method.name}Body"
    schemas[name] = _message_schema(message, schemas, leave_out=in_path)
    return {"$ref": f"#/components/schemas/{name}"}


def _reference(message: Descriptor, schemas: dict[str, Any]) -> dict[str, Any]:
    name = _schema_name(message.full_name)
    if name not in schemas:
        schemas[name] = {}  # a message may contain itself
        schemas[name] = _message_schema(message, schemas)
    return {"$ref": f"#/components/schemas/{name}"}


def _message_schema(
    message: Descriptor, schemas: dict[str, Any], leave_out: set[str] | None = None
) -> dict[str, Any]:
    fields = [field for field in message.fields if field.name not in (leave_out or set())]
    schema: dict[str, Any] = {"type": "object"}
    if fields:
        schema["properties"] = {
            field.json_name: _field_schema(message, field, schemas) for field in fields
        }
    needed = choices.REQUIRED.get(message.full_name, frozenset())
    required = [field.json_name for field in fields if field.name in needed]
    if required:
        schema["required"] = required
    return schema


def _field_schema(message: Descriptor, field: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    limits = choices.LIMITS.get(
        (message.full_name, field.name), choices.LIMITS.get(("*", field.name), {})
    )
    single = _single_schema(field, schemas)
    if field.is_repeated:
        return {"type": "array", "items": single, **limits}
    return {**single, **limits}


def _single_schema(field: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    if field.type == FieldDescriptor.TYPE_ENUM:
        return _enum(field.enum_type, schemas)
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        known = _WELL_KNOWN.get(field.message_type.full_name)
        return dict(known) if known else _reference(field.message_type, schemas)
    return dict(_PLAIN[field.type])


def _enum(enum: EnumDescriptor, schemas: dict[str, Any]) -> dict[str, Any]:
    name = _schema_name(enum.full_name)
    schemas[name] = {
        "type": "string",
        "enum": [value.name for value in enum.values],
        "default": enum.values[0].name,
    }
    return {"$ref": f"#/components/schemas/{name}"}


def _schema_name(full_name: str) -> str:
    """``heimdall.v1.Job`` is ``v1Job``, as documented; ours carry our name before it."""
    package, _, name = full_name.rpartition(".")
    return f"v1{name}" if package == "heimdall.v1" else f"middlewatchV1{name}"


def _error_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["code", "message", "details"],
        "properties": {
            "code": {"type": "integer", "format": "int32"},
            "message": {"type": "string"},
            "details": {"type": "array", "items": {"type": "object"}},
        },
    }


def _error(description: str) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{ERROR_SCHEMA}"}
    return {"description": description, "content": {JSON: {"schema": schema}}}


def _words(name: str) -> str:
    """``GetJobsBySchedulerId`` as a short title."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).capitalize()


if __name__ == "__main__":
    Path(sys.argv[1] if len(sys.argv) > 1 else "docs/openapi.json").write_text(text())
