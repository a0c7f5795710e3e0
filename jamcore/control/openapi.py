"""The OpenAPI document, made from the rows that make the application and from the records that travel (CTRL-2)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from pydantic.json_schema import models_json_schema

from jamcore.control.routes.route import AnyRoute, Route, StreamRoute
from jamcore.control.schemas import ErrorBody
from jamcore.control.versions import API_VERSION, jam_version
from jamcore.domain.records import Record

_PARAMETER = re.compile(r"\{(\w+)\}")
_COUNT: Mapping[str, object] = MappingProxyType({"type": "integer", "minimum": 0})
_REF = "#/components/schemas/{model}"

JsonObject = dict[str, Any]


def document(routes: Iterable[AnyRoute]) -> JsonObject:
    """Return the OpenAPI 3.1 document of these routes."""
    rows = tuple(routes)
    paths: dict[str, JsonObject] = {}
    for route in rows:
        method = "get" if isinstance(route, StreamRoute) else route.method.lower()
        paths.setdefault(route.path, {})[method] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Jam control interface",
            "version": f"{API_VERSION} (jam {jam_version()})",
            "description": "HTTP/1.1 over a private Unix socket. Only the user who runs the daemon may use it.",
        },
        "paths": paths,
        "components": {"schemas": _schemas(rows)},
    }


def _schemas(rows: tuple[AnyRoute, ...]) -> JsonObject:
    models: set[type[Record]] = {ErrorBody}
    for route in rows:
        models |= {route.event} if isinstance(route, StreamRoute) else {route.answer, *((route.body,) if route.body else ())}
    ordered = sorted(models, key=lambda model: model.__name__)
    _, definitions = models_json_schema([(model, "validation") for model in ordered], ref_template=_REF)
    schemas: JsonObject = definitions["$defs"]
    return schemas


def _operation(route: AnyRoute) -> JsonObject:
    parameters = [_path_parameter(name) for name in _PARAMETER.findall(route.path)]
    if isinstance(route, StreamRoute):
        parameters += [
            _query("after", "Begin after this sequence number", _COUNT),
            _query("follow", "1: wait for more; 0: end with the last", _COUNT),
        ]
        done, status = _done("Server-sent events; id is the sequence number", "text/event-stream", route.event), 200
    else:
        parameters += [_query(name, text, {"type": "string", "maxLength": 200}) for name, text in route.query]
        done, status = _done("Done", "application/json", route.answer), route.status
    operation: JsonObject = {
        "operationId": route.name,
        "summary": route.summary,
        "parameters": parameters,
        "responses": {str(status): done, "default": _done("A typed error", "application/json", ErrorBody)},
    }
    if isinstance(route, Route) and route.body is not None:
        operation["requestBody"] = {"required": True, "content": _content("application/json", route.body)}
    return operation


def _done(text: str, kind: str, model: type[Record]) -> JsonObject:
    return {"description": text, "content": _content(kind, model)}


def _content(kind: str, model: type[Record]) -> JsonObject:
    return {kind: {"schema": {"$ref": _REF.format(model=model.__name__)}}}


def _path_parameter(name: str) -> JsonObject:
    text = "A UUID, a unique prefix of 8 or more characters, or a room's name" if name == "ref" else "A name"
    return {"name": name, "in": "path", "required": True, "description": text, "schema": {"type": "string", "maxLength": 200}}


def _query(name: str, text: str, schema: Mapping[str, object]) -> JsonObject:
    return {"name": name, "in": "query", "required": False, "description": text, "schema": dict(schema)}
