"""What a model server can do wrong, as data.

A fault belongs to a rule of the script (:mod:`jamcore.testing.servers.script`). It says what goes wrong, never how long: that is
the rule's ``fault_times``.
"""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import Field

from jamcore.domain.records import Record


class HttpFault(Record):
    """An answer that is no stream: 401, 404, 429, 500 and the like.

    ``retry_after_s`` sets the header ``Retry-After`` (whole seconds). ``body`` replaces the usual error object, byte for byte.
    """

    kind: Literal["http"] = "http"
    status: int = Field(ge=400, le=599)
    code: str = "scripted_fault"
    message: str = "scripted fault"
    retry_after_s: int | None = Field(default=None, ge=0)
    body: str | None = None


class CutFault(Record):
    """The connection closes inside the stream, after ``after_deltas`` deltas of the answer were sent."""

    kind: Literal["cut"] = "cut"
    after_deltas: int = Field(default=0, ge=0)


class SlowFault(Record):
    """Nothing, not even the head of the answer, is sent for ``first_byte_s`` seconds; then the answer follows in full."""

    kind: Literal["slow"] = "slow"
    first_byte_s: float = Field(gt=0, le=300)


class GarbageFault(Record):
    """The stream holds what no reader of server-sent events can use.

    ``bytes`` is not even UTF-8, and the stream ends with it. ``json`` is one well-formed event whose data is
    broken JSON, before the answer.
    """

    kind: Literal["garbage"] = "garbage"
    form: Literal["bytes", "json"] = "bytes"


class SilentFault(Record):
    """The stream begins and then says nothing until the client leaves."""

    kind: Literal["silent"] = "silent"


class FailedFault(Record):
    """The stream ends with ``response.failed``, with a code such as ``context_length_exceeded`` or ``rate_limit_exceeded``."""

    kind: Literal["failed"] = "failed"
    code: str
    message: str = "scripted failure"


Fault = Annotated[
    HttpFault | CutFault | SlowFault | GarbageFault | SilentFault | FailedFault,
    Field(discriminator="kind"),
]


def error_body(code: str, message: str) -> bytes:
    """Return the error object that the Responses API sends with a status of 400 and more."""
    return json.dumps({"error": {"type": "scripted_error", "code": code, "message": message, "param": None}}).encode()


def http_body(fault: HttpFault) -> bytes:
    """Return the body of an HTTP fault."""
    return error_body(fault.code, fault.message) if fault.body is None else fault.body.encode()


def http_headers(fault: HttpFault) -> dict[str, str]:
    """Return the headers of an HTTP fault beside the content type."""
    return {} if fault.retry_after_s is None else {"Retry-After": str(fault.retry_after_s)}
