"""Every name that the plugin uses exists in the schema that the pinned program itself generates."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from jam_codex import events, failures
from jam_codex.answers import DECLINES
from jam_codex.config import POLICIES, thread_settings, turn_settings
from jam_codex.pins import TOOLCHAIN, VERSION
from jam_codex.protocol import INITIALIZED, OUTCOMES, Ask, Told
from jam_codex.questions import ASKED, CHANGE, COMMAND, PERMISSIONS, reply
from jam_codex.runtime import CLIENT
from jamcore.api import ApprovalAnswer, ThreadRequest
from jamcore.testing.toolchains import pinned_toolchain

pytestmark = [pytest.mark.needs("codex")]

Schema = Mapping[str, Any]


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Schema]:
    """The generated schemas, experimental parts included, by name."""
    place = tmp_path_factory.mktemp("schema")
    home = tmp_path_factory.mktemp("home")
    program = pinned_toolchain(TOOLCHAIN) / TOOLCHAIN.program
    subprocess.run(
        (program, "app-server", "generate-json-schema", "--experimental", "--out", str(place)),
        check=True,
        timeout=60,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        env={"CODEX_HOME": str(home), "HOME": str(home), "PATH": "/usr/bin:/bin"},
    )
    return {path.stem: json.loads(path.read_text()) for path in place.rglob("*.json")}


@pytest.fixture(scope="module")
def definitions(schemas: Mapping[str, Schema]) -> Mapping[str, Schema]:
    """The definitions of the current protocol by name."""
    found: Mapping[str, Schema] = schemas["codex_app_server_protocol.v2.schemas"]["definitions"]
    return found


def methods(schema: Schema) -> set[str]:
    return {variant["properties"]["method"]["enum"][0] for variant in schema["oneOf"]}


def variants(schema: Schema) -> dict[str, Schema]:
    """Return the alternatives of a union that is told apart by ``type``."""
    return {variant["properties"]["type"]["enum"][0]: variant["properties"] for variant in schema["oneOf"]}


def texts(schema: Schema) -> Iterator[str]:
    """Yield every allowed text and the name of every one-member object, anywhere in a union."""
    yield from schema.get("enum", ())
    if len(schema.get("required", ())) == 1 and schema.get("type") == "object":
        yield from schema["required"]
    for part in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from texts(part)


def test_requests_and_notifications_exist(schemas: Mapping[str, Schema]) -> None:
    """What is asked, told and answered by name is in the protocol."""
    assert {ask.value for ask in Ask} <= methods(schemas["ClientRequest"])
    assert {told.value for told in Told} <= methods(schemas["ServerNotification"])
    assert set(DECLINES) <= methods(schemas["ServerRequest"])
    assert methods(schemas["ClientNotification"]) == {INITIALIZED}


def test_the_program_asks_nothing_that_was_never_looked_at(schemas: Mapping[str, Schema]) -> None:
    """Each request of the program is either declined politely or known to be refused with an error: a new one needs a decision."""
    refused = {
        "item/permissions/requestApproval",
        "account/chatgptAuthTokens/refresh",
        "attestation/generate",
        "currentTime/read",
    }
    assert methods(schemas["ServerRequest"]) == set(DECLINES) | refused


def test_parameters_exist(definitions: Mapping[str, Schema], schemas: Mapping[str, Schema]) -> None:
    """Every parameter that is sent is known, and no required one is missing."""
    thread = thread_settings(ThreadRequest(cwd="/w", model="m"))
    page = {"threadId", "sortDirection", "limit", "itemsView", "cursor"}
    sent: dict[str, set[str]] = {
        "ThreadStartParams": set(thread),
        "ThreadResumeParams": {"threadId", "excludeTurns", *thread},
        "ThreadTurnsListParams": page,
        "TurnStartParams": {"threadId", "input", *turn_settings()},
        "TurnInterruptParams": {"threadId", "turnId"},
        "ThreadBackgroundTerminalsCleanParams": {"threadId"},
    }
    for name, keys in sent.items():
        assert keys <= set(definitions[name]["properties"]), name
        assert set(definitions[name].get("required", ())) <= keys, name
    assert set(CLIENT) <= set(schemas["InitializeParams"]["properties"])
    assert "experimentalApi" in schemas["InitializeParams"]["definitions"]["InitializeCapabilities"]["properties"]


def test_values_exist(definitions: Mapping[str, Schema]) -> None:
    """Sandbox, approval, paging and status words are the program's own."""
    settings, policy = thread_settings(ThreadRequest(cwd="/w")), turn_settings()["sandboxPolicy"]
    assert isinstance(policy, dict)
    assert settings["sandbox"] in set(texts(definitions["SandboxMode"]))
    assert settings["approvalPolicy"] in set(texts(definitions["AskForApproval"]))
    assert policy["type"] in variants(definitions["SandboxPolicy"])
    assert policy["networkAccess"] in set(texts(definitions["NetworkAccess"]))
    assert {"asc", "desc"} <= set(texts(definitions["SortDirection"]))
    assert {"notLoaded", "summary"} <= set(texts(definitions["TurnItemsView"]))
    assert set(texts(definitions["TurnStatus"])) == set(OUTCOMES)
    assert "active" in variants(definitions["ThreadStatus"])


def test_items_are_read_by_fields_that_exist(definitions: Mapping[str, Schema]) -> None:
    """Each kind of item that becomes an event has the fields that are read from it."""
    items = variants(definitions["ThreadItem"])
    read = {
        "userMessage": {"id", "content"},
        "agentMessage": {"id", "text"},
        "plan": {"id", "text"},
        "reasoning": {"id", "summary", "content"},
        "commandExecution": {"id", "command", "cwd", "aggregatedOutput", "exitCode"},
        "fileChange": {"id", "changes", "status"},
        "mcpToolCall": {"id", "server", "tool", "arguments", "result", "error", "status"},
        "dynamicToolCall": {"id", "tool", "arguments", "contentItems", "success"},
        "webSearch": {"id", "query", "results"},
        "imageView": {"id", "path"},
        "functionCallOutput": {"id", "name", "output"},
        "contextCompaction": {"id"},
        **{kind: {"id"} for kind in events.UNTOLD},
    }
    assert set(events._ITEMS) | {"userMessage"} == set(read)
    for kind, fields in read.items():
        assert fields <= set(items[kind]), kind
    assert {"path", "kind", "diff"} <= set(definitions["FileUpdateChange"]["properties"])
    assert set(variants(definitions["PatchChangeKind"])) == set(events._CHANGES)
    assert "completed" in set(texts(definitions["PatchApplyStatus"]))


def test_notifications_are_read_by_fields_that_exist(definitions: Mapping[str, Schema]) -> None:
    """Each notification has the fields that are read from it."""
    read = {
        "ThreadStatusChangedNotification": {"threadId", "status"},
        "TurnStartedNotification": {"threadId", "turn"},
        "TurnCompletedNotification": {"threadId", "turn"},
        "ItemStartedNotification": {"threadId", "turnId", "item"},
        "ItemCompletedNotification": {"threadId", "turnId", "item"},
        "AgentMessageDeltaNotification": {"threadId", "turnId", "itemId", "delta"},
        "CommandExecutionOutputDeltaNotification": {"threadId", "turnId", "itemId", "delta"},
        "ThreadTokenUsageUpdatedNotification": {"threadId", "turnId", "tokenUsage"},
        "ErrorNotification": {"threadId", "turnId", "error", "willRetry"},
        "WarningNotification": {"threadId", "message"},
        "GuardianWarningNotification": {"threadId", "message"},
        "ConfigWarningNotification": {"summary", "details"},
        "ModelReroutedNotification": {"threadId", "turnId", "fromModel", "toModel"},
        "Turn": {"id", "status", "error"},
        "TurnError": {"message", "codexErrorInfo", "additionalDetails"},
        "TokenUsageBreakdown": {"inputTokens", "outputTokens", "totalTokens"},
        "ThreadTurnsListResponse": {"data", "nextCursor"},
        "TurnStartResponse": {"turn"},
        "ThreadStartResponse": {"thread"},
        "ThreadResumeResponse": {"thread"},
        "Thread": {"id"},
    }
    for name, fields in read.items():
        assert fields <= set(definitions[name]["properties"]), name


def test_failures_are_told_apart_by_kinds_that_exist(definitions: Mapping[str, Schema]) -> None:
    """Every kind of error that the plugin names is the program's; one that the program has and the plugin does not reads as other."""
    known = set(texts(definitions["CodexErrorInfo"]))
    assert set(failures._NAMED) <= known
    assert failures._WITH_STATUS | {"responseStreamDisconnected"} <= known


def test_refusals_have_the_form_that_is_expected(schemas: Mapping[str, Schema]) -> None:
    """Each polite refusal has the required fields of its answer, and its decision is an allowed one."""
    answers = {
        "item/commandExecution/requestApproval": "CommandExecutionRequestApprovalResponse",
        "item/fileChange/requestApproval": "FileChangeRequestApprovalResponse",
        "execCommandApproval": "ExecCommandApprovalResponse",
        "applyPatchApproval": "ApplyPatchApprovalResponse",
        "item/tool/requestUserInput": "ToolRequestUserInputResponse",
        "mcpServer/elicitation/request": "McpServerElicitationRequestResponse",
        "item/tool/call": "DynamicToolCallResponse",
    }
    assert set(answers) == set(DECLINES)
    for method, name in answers.items():
        schema = schemas[name]
        assert set(schema["required"]) <= set(DECLINES[method]) <= set(schema["properties"]), name
        decisions = {text for part in schema.get("definitions", {}).values() for text in texts(part)}
        for word in (DECLINES[method].get("decision"), DECLINES[method].get("action")):
            assert word is None or word in decisions, name


def test_questions_and_answers_have_the_form_that_is_expected(
    definitions: Mapping[str, Schema], schemas: Mapping[str, Schema]
) -> None:
    """What is asked is read by fields that exist, and "this once" and "no" are words of the program."""
    assert methods(schemas["ServerRequest"]) >= ASKED
    assert set(POLICIES.values()) <= set(texts(definitions["AskForApproval"]))
    read = {
        COMMAND: (
            "CommandExecutionRequestApproval",
            {"threadId", "turnId", "itemId", "command", "cwd", "reason", "kind", "additionalPermissions", "networkApprovalContext"},
        ),
        CHANGE: ("FileChangeRequestApproval", {"threadId", "turnId", "itemId", "reason", "grantRoot"}),
        PERMISSIONS: ("PermissionsRequestApproval", {"threadId", "turnId", "itemId", "reason", "permissions"}),
    }
    assert set(read) == ASKED
    for method, (name, fields) in read.items():
        assert fields <= set(schemas[f"{name}Params"]["properties"]), name
        answer = schemas[f"{name}Response"]
        allowed = reply(method, {"permissions": {}}, ApprovalAnswer.ALLOW)
        assert set(answer["required"]) <= set(allowed) <= set(answer["properties"])
    for method, name in ((COMMAND, "CommandExecutionApprovalDecision"), (CHANGE, "FileChangeApprovalDecision")):
        words = set(texts(schemas[f"{read[method][0]}Response"]["definitions"][name]))
        assert {reply(method, {}, answer)["decision"] for answer in ApprovalAnswer} <= words
    assert "turn" in set(texts(schemas["PermissionsRequestApprovalResponse"]["definitions"]["PermissionGrantScope"]))


def test_the_program_is_the_pinned_version(tmp_path: Path) -> None:
    """The wheel's digest, its version and what the program says of itself agree."""
    root = pinned_toolchain(TOOLCHAIN)
    done = subprocess.run(
        (root / TOOLCHAIN.program, "--version"),
        check=True,
        timeout=60,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        env={"CODEX_HOME": str(tmp_path), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    assert done.stdout.decode().split() == ["codex-cli", VERSION]
    assert all((root / program).exists() for program in TOOLCHAIN.executables)
