"""Typed errors to responses: by code and family, never by wording (CTRL-3)."""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Awaitable, Callable
from types import MappingProxyType

from aiohttp import web
from pydantic import ValidationError

from jamcore.control.failures import DaemonOtherVersionError, PeerRefusedError
from jamcore.control.loopback import Doorkeeper
from jamcore.control.peer import peer_uid
from jamcore.control.schemas import ErrorBody
from jamcore.control.versions import API_HEADER, API_VERSION, VERSION_HEADER, jam_version
from jamcore.domain.errors import InvalidInputError, JamError, RefusalError
from jamcore.system.files import storage_error

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

UNAUTHORISED = 401
STATUS_BY_CODE = MappingProxyType(
    {
        "input.not_found": 404,
        "control.peer_refused": 403,
        "control.host_refused": 403,
        "control.origin_refused": 403,
        "control.token_refused": UNAUTHORISED,
    }
)
STATUS_BY_FAMILY = MappingProxyType({"input": 400, "conflict": 409})
REFUSAL_STATUS = 422
FAULT_STATUS = 500

VERSION_FREE = frozenset({"/v1/health", "/v1/shutdown"})
"""What clients of any release may ask: who answers, and to make room for another release."""

DOORKEEPER = web.AppKey("doorkeeper", Doorkeeper)
"""Who decides about requests over TCP; absent where nothing listens there."""

OWNER = web.AppKey("owner", int)
"""The uid that may use this application."""

_REFERENCE = re.compile(r" \([A-Z]+-\d+(, [A-Z]+-\d+)*\)")
_LOG = logging.getLogger(__name__)


def status_of(error: JamError) -> int:
    """Return the status of an error: 4xx when a person can act on it, else 5xx."""
    family = error.code.partition(".")[0]
    if status := STATUS_BY_CODE.get(error.code) or STATUS_BY_FAMILY.get(family):
        return status
    return REFUSAL_STATUS if isinstance(error, RefusalError) else FAULT_STATUS


def body_of(error: JamError) -> ErrorBody:
    """Return what a client is told: the class's own sentence as the message, and bounded context."""
    sentence = _REFERENCE.sub("", (type(error).__doc__ or error.code).strip().splitlines()[0])
    return ErrorBody(code=error.code, message=sentence.rstrip("."), context=error.context(), hint=error.hint)


def invalid(error: ValidationError, prefix: str) -> InvalidInputError:
    """Return the first problem of a body as a typed error. The value itself is never repeated: it may be a secret."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    field = ".".join((prefix, *(str(part) for part in first["loc"])))
    return InvalidInputError(field=field, problem=first["msg"])


def answer(error: JamError) -> web.Response:
    """Return the response for an error."""
    status = status_of(error)
    asked_for = {"WWW-Authenticate": "Bearer"} if status == UNAUTHORISED else {}
    return web.Response(
        text=body_of(error).model_dump_json(), status=status, content_type="application/json", headers=stamp() | asked_for
    )


def stamp() -> dict[str, str]:
    """Return the headers by which a client knows what it talks to."""
    return {API_HEADER: str(API_VERSION), VERSION_HEADER: jam_version(), "Cache-Control": "no-store"}


@web.middleware
async def errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer every error with the same body. What nobody foresaw is logged and leaves without details."""
    try:
        require_peer(request)
        _require_api(request)
        return await handler(request)
    except JamError as error:
        if status_of(error) >= FAULT_STATUS:
            _LOG.error("%s %s: %s", request.method, request.path, error, exc_info=error)
        return answer(error)
    except web.HTTPException as error:
        return _http(request, error)
    except ConnectionError:
        raise  # the client has gone; nobody reads an answer
    except OSError as error:
        _LOG.error("%s %s: %s", request.method, request.path, error, exc_info=error)
        return answer(storage_error(error))
    except Exception:  # noqa: BLE001 - the middleware is a boundary: nothing unforeseen reaches a client
        _LOG.exception("%s %s: unexpected", request.method, request.path)
        return answer(JamError())


def require_peer(request: web.Request) -> None:
    """Accept only the daemon's own user; root is another user too (SEC-6). Over TCP it is who has the token (CTRL-2).

    Raises:
        PeerRefusedError: Somebody else, or the system cannot tell.
        HostRefusedError, OriginRefusedError, TokenRefusedError: Over TCP.
    """
    connection: socket.socket | None = request.transport.get_extra_info("socket") if request.transport else None
    if connection is not None and connection.family != socket.AF_UNIX and DOORKEEPER in request.app:
        request.app[DOORKEEPER].require(request.headers)
        return
    uid = None if connection is None else peer_uid(connection)
    if uid != request.app[OWNER]:
        raise PeerRefusedError(peer_uid="unknown" if uid is None else str(uid))


def owner() -> int:
    """Return the uid of this process."""
    return os.geteuid()


def _require_api(request: web.Request) -> None:
    asked = request.headers.get(API_HEADER)
    if asked is not None and asked != str(API_VERSION) and request.path not in VERSION_FREE:
        raise DaemonOtherVersionError(daemon=f"{jam_version()}, interface {API_VERSION}", client=f"interface {asked[:16]}")


def _http(request: web.Request, error: web.HTTPException) -> web.Response:
    """Give aiohttp's own refusals the form of every other answer."""
    codes = {404: "input.no_such_route", 405: "input.method_not_allowed", 413: "input.too_large"}
    code = codes.get(error.status, "input.bad_request" if error.status < FAULT_STATUS else "fault.internal")
    body = ErrorBody(
        code=code,
        message=error.reason or "Refused",
        context={"method": request.method, "path": request.path[:200]},
        hint="The routes are listed in /v1/openapi.json.",
    )
    headers = {name: error.headers[name] for name in ("Allow",) if name in error.headers}
    return web.Response(
        text=body.model_dump_json(), status=error.status, content_type="application/json", headers=headers | stamp()
    )
