"""The ways in which a call can be declined, as every transport words them.

gRPC has a closed list of codes; HTTP/JSON shows the same code in a body of the form that
grpc-gateway writes, with a status that belongs to it. A message says what was wrong, where, and
how to mend it; nothing of our insides goes out.
"""

from __future__ import annotations

from enum import IntEnum

from middlewatch.contract import choices


class Code(IntEnum):
    """gRPC status codes that we use."""

    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


class ApiError(Exception):
    """A declined call. ``http_status`` overrides the status that belongs to the code."""

    def __init__(self, code: Code, message: str, http_status: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.http_status = http_status or choices.HTTP_STATUS[code.name]

    def body(self) -> dict[str, object]:
        """The JSON body: ``{"code", "message", "details"}``."""
        return {"code": int(self.code), "message": self.message, "details": []}


def invalid(message: str) -> ApiError:
    """The request itself is wrong; repeating it will not help."""
    return ApiError(Code.INVALID_ARGUMENT, message)


def not_found(message: str) -> ApiError:
    """What was asked for is not there."""
    return ApiError(Code.NOT_FOUND, message)
