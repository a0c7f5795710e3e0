"""What a model server can do wrong, as data.

A fault belongs to a rule of the script (:mod:`jamcore.testing.servers.script`). It says what goes wrong, never how long: that is
the rule's ``fault_times``. The same fault means the same for each API; how it looks on the wire is its dialect's
(:mod:`jamcore.testing.servers.dialect`).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from jamcore.domain.records import Record


class HttpFault(Record):
    """An answer that is no stream: 401, 404, 429, 500 and the like.

    ``code`` is what the API's error object carries as its machine-readable word; empty: the API's own for this status.
    ``retry_after_s`` sets the header ``Retry-After`` (whole seconds). ``body`` replaces the usual error object, byte for byte.
    """

    kind: Literal["http"] = "http"
    status: int = Field(ge=400, le=599)
    code: str = ""
    message: str = "scripted fault"
    retry_after_s: int | None = Field(default=None, ge=0)
    body: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        """The headers beside the content type."""
        return {} if self.retry_after_s is None else {"Retry-After": str(self.retry_after_s)}


class DownFault(Record):
    """The connection closes before a byte of the answer, as that of a server which dies or restarts."""

    kind: Literal["down"] = "down"


class CutFault(Record):
    """The connection closes inside the stream, after ``after_deltas`` deltas of the answer were sent; a whole answer is cut in half."""

    kind: Literal["cut"] = "cut"
    after_deltas: int = Field(default=0, ge=0)


class SlowFault(Record):
    """Nothing, not even the head of the answer, is sent for ``first_byte_s`` seconds; then the answer follows in full."""

    kind: Literal["slow"] = "slow"
    first_byte_s: float = Field(gt=0, le=300)


class GarbageFault(Record):
    """The stream holds what no reader of server-sent events can use.

    ``bytes`` is not even UTF-8, and the stream ends with it. ``json`` is one well-formed event whose data is
    broken JSON, before the answer; a whole answer is then half its JSON, ended in good order.
    """

    kind: Literal["garbage"] = "garbage"
    form: Literal["bytes", "json"] = "bytes"


class SilentFault(Record):
    """The stream begins, sends ``after_deltas`` deltas, and then says nothing until the client leaves; of a whole answer only the head."""

    kind: Literal["silent"] = "silent"
    after_deltas: int = Field(default=0, ge=0)


class FailedFault(Record):
    """The stream begins and ends with the API's own event of a failure; a whole answer is a status of 500 with the same code.

    Which codes there are is the API's: ``context_length_exceeded`` or ``rate_limit_exceeded`` of one, ``overloaded_error`` of another.
    """

    kind: Literal["failed"] = "failed"
    code: str
    message: str = "scripted failure"


Fault = Annotated[
    HttpFault | DownFault | CutFault | SlowFault | GarbageFault | SilentFault | FailedFault,
    Field(discriminator="kind"),
]
