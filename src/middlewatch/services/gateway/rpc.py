"""gRPC on the same definitions and the same handlers, for those who want it.

Imported only where a gRPC port is set: grpcio costs memory.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

import grpc
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from middlewatch.contract.http import SERVICES
from middlewatch.ports.errors import Refused
from middlewatch.services.gateway.access import check_scope
from middlewatch.services.gateway.app import WORKERS, Calls

_CODES = {code.value[0]: code for code in grpc.StatusCode}


def serve(
    calls: Calls, address: str, certificate: Path | None, key: Path | None
) -> tuple[grpc.Server, int]:
    """A started server and its port. Raises `Refused` where the address cannot be bound."""
    server = grpc.server(
        ThreadPoolExecutor(WORKERS, thread_name_prefix="grpc"),
        options=[
            ("grpc.max_receive_message_length", calls.door.body_limit),
            ("grpc.so_reuseport", 0),
        ],
    )
    for service in SERVICES:
        methods = {
            method.name: grpc.unary_unary_rpc_method_handler(
                _behaviour(calls, method.full_name),
                request_deserializer=GetMessageClass(method.input_type).FromString,
                response_serializer=GetMessageClass(method.output_type).SerializeToString,
            )
            for method in service.methods
        }
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service.full_name, methods),)
        )
    try:
        if certificate is not None and key is not None:
            credentials = grpc.ssl_server_credentials(
                [(key.read_bytes(), certificate.read_bytes())]
            )
            port = server.add_secure_port(address, credentials)
        else:
            port = server.add_insecure_port(address)
    except (RuntimeError, OSError) as error:
        raise Refused(f"gRPC cannot listen on {address}: {error}") from error
    server.start()
    return server, port


def _behaviour(calls: Calls, rpc: str) -> Callable[[Message, grpc.ServicerContext], Message]:
    def behave(request: Message, context: grpc.ServicerContext) -> Message:
        began = calls.context.clock.monotonic()
        code = 0
        try:
            caller = calls.caller(_authorization(context), None)
            check_scope(caller, rpc)
            return calls.handlers[rpc](request, caller)
        except Exception as error:  # noqa: BLE001 - the last line of defence; it is logged whole
            shown = calls.declined(error, rpc)
            code = int(shown.code)
            _abort(context, code, shown.message)
        finally:
            calls.metrics.called(rpc, code, calls.context.clock.monotonic() - began)

    return behave


def _abort(context: grpc.ServicerContext, code: int, message: str) -> NoReturn:
    context.abort(_CODES[code], message)
    raise AssertionError("abort returns to nobody")


def _authorization(context: grpc.ServicerContext) -> str | None:
    given: Any = context.invocation_metadata() or ()
    found = [value for name, value in given if name == "authorization"]
    return str(found[0]) if found else None
