"""Every name that the plugin uses exists in the schemas that come with the pinned program."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from jam_copilot import events, failures
from jam_copilot.config import EVERYTHING, session_settings
from jam_copilot.history import KINDS
from jam_copilot.pins import SCHEMAS, TOOLCHAIN, VERSION
from jam_copilot.protocol import UNLISTED, Ask, Told
from jam_copilot.questions import WANTS_MORE, reply
from jamcore.api import ApprovalAnswer, ThreadRequest
from jamcore.testing.toolchains import pinned_toolchain

pytestmark = [pytest.mark.needs("copilot")]

Schema = Mapping[str, Any]


@pytest.fixture(scope="module")
def place() -> Path:
    """The directory of what the package unpacked."""
    return pinned_toolchain(TOOLCHAIN)


@pytest.fixture(scope="module")
def methods(place: Path) -> Mapping[str, Schema]:
    """The requests that the program takes, by name, with references in their parameters resolved."""
    api = json.loads((place / SCHEMAS / "api.schema.json").read_text())
    return {
        found["rpcMethod"]: {**found, "definitions": api["definitions"]}
        for part in ("server", "session")
        for found in requests(api[part])
    }


@pytest.fixture(scope="module")
def definitions(place: Path) -> Mapping[str, Schema]:
    """The definitions of the events by name."""
    found: Mapping[str, Schema] = json.loads((place / SCHEMAS / "session-events.schema.json").read_text())["definitions"]
    return found


def requests(tree: Mapping[str, Any]) -> Iterator[Schema]:
    """Yield the requests of a tree of them."""
    for value in tree.values():
        if isinstance(value, Mapping):
            if "rpcMethod" in value:
                yield value
            else:
                yield from requests(value)


def resolved(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """Follow references."""
    while "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    return schema


def data_of(definitions: Mapping[str, Schema]) -> dict[str, Schema]:
    """Return the schema of the data of each kind of event."""
    kinds = [
        part
        for part in definitions.values()
        if "const" in part.get("properties", {}).get("type", {}) and "data" in part["properties"]
    ]
    return {part["properties"]["type"]["const"]: resolved(part["properties"]["data"], definitions) for part in kinds}


def test_requests_and_their_parameters_exist(methods: Mapping[str, Schema]) -> None:
    """What is asked by name is listed, but for three; every parameter that is sent is known, and no required one is missing."""
    sent: dict[Ask, set[str]] = {
        Ask.CONNECT: set(),
        Ask.SEND: {"sessionId", "prompt"},
        Ask.ABORT: {"sessionId"},
        Ask.READ_EVENTS: {"sessionId", "types", "max", "cursor", "direction"},
        Ask.ANSWER: {"sessionId", "requestId", "result"},
        Ask.PERMIT: {"sessionId", *EVERYTHING},
        Ask.LIST_TASKS: {"sessionId"},
        Ask.CANCEL_TASK: {"sessionId", "id"},
        Ask.SAVE: {"sessionId"},
        Ask.CHECK_IN_USE: {"sessionIds"},
    }
    assert set(sent) == set(Ask) - UNLISTED
    assert not {name.value for name in UNLISTED} & set(methods)
    for name, keys in sent.items():
        schema = methods[name.value]
        params = resolved(schema["params"], schema["definitions"])
        assert keys <= set(params["properties"]), name
        assert set(params.get("required", ())) <= keys, name


def test_settings_of_a_session_are_those_of_the_vendors_own_client(place: Path) -> None:
    """The requests that no schema lists are written by a client that comes with the program."""
    client = (place / SCHEMAS).parent / "copilot-sdk" / "index.js"
    for ask in (Ask.CREATE, Ask.RESUME):
        begin = client.read_text().index(f'sendRequest("{ask}"')
        written = client.read_text()[begin : begin + 8_000]
        sent = set(session_settings(ThreadRequest(cwd="/w", model="m"), relay_url="http://r"))
        assert {name for name in sent if not re.search(rf"\b{name}:", written)} == set(), ask
    assert f'"{Ask.DETACH}"' in client.read_text()


def test_events_and_their_fields_exist(definitions: Mapping[str, Schema]) -> None:
    """Each kind of event that is read has the fields that are read from it."""
    read: dict[Told, set[str]] = {
        Told.USER_MESSAGE: {"messageId", "content"},
        Told.MESSAGE_DELTA: {"messageId", "deltaContent"},
        Told.MESSAGE: {"messageId", "content", "toolRequests"},
        Told.REASONING: {"reasoningId", "content"},
        Told.REASONING_DELTA: set(),
        Told.USAGE: {"inputTokens", "outputTokens"},
        Told.TURN_START: set(),
        Told.TURN_END: set(),
        Told.TOOL_START: {"toolCallId", "toolName", "arguments"},
        Told.TOOL_COMPLETE: {"toolCallId", "success", "result", "error", "shellExecution", "fileEdits"},
        Told.SHELL_OUTPUT: {"toolCallId", "text"},
        Told.PERMISSION: {"requestId", "permissionRequest"},
        Told.INFO: {"infoType", "message"},
        Told.WARNING: {"message"},
        Told.ERROR: {"errorType", "message", "statusCode"},
        Told.ABORT: set(),
        Told.COMPACTION: {"success"},
        Told.TRUNCATION: set(),
        Told.RESUMED: {"alreadyInUse", "eventsFileSizeBytes"},
        Told.IDLE: {"aborted"},
    }
    assert set(read) == set(Told)
    known = data_of(definitions)
    for kind, fields in read.items():
        assert fields <= set(known[kind.value].get("properties", {})), kind
    parts = {
        "ToolExecutionCompleteResult": {"content", "detailedContent"},
        "ToolExecutionCompleteError": {"message"},
        "ToolExecutionCompleteShellExecution": {"exitCode"},
        "ToolExecutionCompleteFileEdit": {"path", "kind"},
    }
    for name, fields in parts.items():
        assert fields <= set(definitions[name]["properties"]), name
    assert set(definitions["ToolExecutionCompleteFileEditKind"]["enum"]) == set(events._CHANGES)
    assert set(KINDS) <= set(Told)


def test_questions_and_answers_have_the_form_that_is_expected(
    methods: Mapping[str, Schema], definitions: Mapping[str, Schema]
) -> None:
    """What is asked is read by fields that exist, "this once" and "no" are words of the program, and what wants more is known."""
    read = {
        "PermissionRequestShell": {"toolCallId", "fullCommandText", "intention", "resolvedWorkingDirectory", "warning"},
        "PermissionRequestWrite": {"toolCallId", "fileName", "resolvedPath", "diff", "fileEdits"},
        "PermissionRequestRead": {"toolCallId", "path", "resolvedPath"},
        "PermissionWriteFileEdit": {"before", "after"},
        "PermissionWriteFileContent": {"path"},
    }
    for name, fields in read.items():
        assert fields <= set(definitions[name]["properties"]), name
    kinds = {name: definitions[name]["properties"]["kind"]["const"] for name in read if name.startswith("PermissionRequest")}
    assert set(kinds.values()) == {"shell", "write", "read"}
    more = {key for name in kinds for key in definitions[name]["properties"] if re.search(r"andbox|managed", key)}
    assert more - {"requestSandboxBypassReason"} == set(WANTS_MORE)
    answers = methods[Ask.ANSWER.value]["definitions"]
    for answer, name in (
        (ApprovalAnswer.ALLOW, "PermissionDecisionApproveOnce"),
        (ApprovalAnswer.DENY, "PermissionDecisionReject"),
    ):
        said = reply(answer)
        assert set(said) <= set(answers[name]["properties"])
        assert said["kind"] == answers[name]["properties"]["kind"]["const"]


def test_failures_are_told_apart_by_kinds_that_exist(definitions: Mapping[str, Schema]) -> None:
    """Every kind of error that the plugin names is one that the program's own words list."""
    described = definitions["ErrorData"]["properties"]["errorType"]["description"]
    assert set(failures._NAMED) <= set(re.findall(r'"(\w+)"', described))


def test_a_task_that_runs_is_called_running(methods: Mapping[str, Schema]) -> None:
    """By it the commands are found that an interrupt ends."""
    parts = methods[Ask.LIST_TASKS.value]["definitions"]
    assert "running" in parts["TaskStatus"]["enum"]
    assert {"id", "status"} <= set(parts["TaskShellInfo"]["properties"])


def test_the_program_is_the_pinned_version(place: Path, tmp_path: Path) -> None:
    """The package's digest, its version and what the program says of itself agree; the small program is there, and can be run."""
    done = subprocess.run(
        (place / "copilot", "--version"),
        check=True,
        timeout=60,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        env={"COPILOT_HOME": str(tmp_path), "COPILOT_PKG_CACHE_HOME": str(place), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    assert VERSION in done.stdout.decode()
    assert os.access(place / TOOLCHAIN.program, os.X_OK)
