"""What the plugin declares without a program: versions, failures, configuration, placement, credentials."""

from __future__ import annotations

import pytest

from jam_copilot.config import KEY, LEFT_OUT, arguments, session_settings
from jam_copilot.description import SHARED_SEATS
from jam_copilot.failures import classify
from jam_copilot.pins import PROGRAM, RESUMES, TOOLCHAIN, VERSION
from jam_copilot.plugin import CopilotPlugin
from jam_copilot.state import ACTIVATION, CAPTURE
from jamcore.api import (
    FULL_CELLS,
    Cell,
    CredentialView,
    PlacementRequest,
    PlanContext,
    RuntimeRequest,
    ThreadRequest,
    TurnFailure,
)

pytestmark = pytest.mark.unprivileged

RELAY = "http://127.0.0.1:8790"
REQUEST = RuntimeRequest(
    tools_root="/jam/tools/copilot",
    state_root="/jam/state/copilot",
    home="/home/agent",
    relay_url=RELAY,
    start_directory="/home/agent",
    expected_version=VERSION,
)


@pytest.mark.parametrize(
    ("captured", "current", "accepted"),
    [
        (VERSION, VERSION, True),
        ("1.0.101", VERSION, False),
        ("1.0.103", VERSION, False),
        (VERSION, "1.0.103", False),
        ("1.0.103", "1.0.103", True),
        ("", VERSION, False),
        ("nonsense", VERSION, False),
    ],
)
@pytest.mark.guarantee("CONT-7")
def test_which_version_may_resume_which(captured: str, current: str, accepted: bool) -> None:
    """The same, or what was measured; never a guess: a patch of Copilot changes what a resume does."""
    assert CopilotPlugin().jam_accepts_version(captured, current) is accepted


def test_measured_versions_are_accepted_by_the_pin_alone() -> None:
    """A measurement holds for the pinned program, not for any other."""
    for old in RESUMES - {VERSION}:
        assert CopilotPlugin().jam_accepts_version(old, VERSION)
        assert not CopilotPlugin().jam_accepts_version(old, "1.0.1")


ERRORS: dict[str, tuple[dict[str, object], TurnFailure]] = {
    "401": ({"errorType": "authentication", "message": "no", "statusCode": 401}, TurnFailure.UNAUTHORISED),
    "403": ({"errorType": "query", "message": "403 no", "statusCode": 403}, TurnFailure.UNAUTHORISED),
    "400": ({"errorType": "query", "message": "400 no", "statusCode": 400}, TurnFailure.BAD_REQUEST),
    "404": ({"errorType": "query", "message": "not found", "statusCode": 404}, TurnFailure.NOT_FOUND),
    "418": ({"errorType": "query", "message": "418", "statusCode": 418}, TurnFailure.HTTP),
    "429": ({"errorType": "rate_limit", "message": "429", "statusCode": 429}, TurnFailure.RATE_LIMITED),
    "500": ({"errorType": "query", "message": "500", "statusCode": 500}, TurnFailure.SERVER_ERROR),
    "quota": ({"errorType": "quota", "message": "over"}, TurnFailure.USAGE_LIMIT),
    "context": ({"errorType": "context_limit", "message": "full"}, TurnFailure.CONTEXT_FULL),
    "policy": ({"errorType": "policy", "message": "no"}, TurnFailure.POLICY),
    "nobody there": (
        {"errorType": "query", "message": "Could not connect to local model provider at http://127.0.0.1:9/v1.\n  Check"},
        TurnFailure.UNREACHABLE,
    ),
    "cut": (
        {
            "errorType": "query",
            "message": "Last error: error reading a body from connection: unexpected EOF during chunk size line",
        },
        TurnFailure.STREAM_CUT,
    ),
    "garbage": (
        {"errorType": "query", "message": "Responses stream ended without a completed response (…)"},
        TurnFailure.STREAM_CUT,
    ),
    "unknown": ({"errorType": "somethingNew", "message": "who knows"}, TurnFailure.OTHER),
    "wrong types": ({"errorType": [], "message": 7, "statusCode": "x"}, TurnFailure.OTHER),
    "nothing": ({}, TurnFailure.OTHER),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_has_one_code(name: str) -> None:
    """Copilot's kinds, statuses and sentences become Jam's stable codes; what is unknown is called other."""
    error, code = ERRORS[name]
    assert classify(error) is code


def test_the_command_line_is_quiet() -> None:
    """No update, no login, no log; the program speaks over its standard input and output."""
    program, *flags = arguments(REQUEST)
    assert program == f"/jam/tools/copilot/{PROGRAM}"
    assert flags == ["--headless", "--stdio", "--no-auto-update", "--no-auto-login", "--log-level", "none"]


def test_a_session_is_told_everything_each_time() -> None:
    """Where requests go, that there is no key, what is off; nothing of it is remembered by Copilot."""
    settings = session_settings(ThreadRequest(cwd="/jam/work/s1", model="m"), relay_url=RELAY)
    assert settings["provider"] == {"type": "openai", "wireApi": "responses", "baseUrl": f"{RELAY}/v1", "apiKey": KEY}
    assert (settings["workingDirectory"], settings["model"]) == ("/jam/work/s1", "m")
    assert settings["excludedTools"] == list(LEFT_OUT)
    off = (
        "enableSessionStore",
        "enableConfigDiscovery",
        "enableFileHooks",
        "enableSkills",
        "enableSessionTelemetry",
    )
    assert [settings[name] for name in off] == [False] * len(off)
    assert "sessionId" not in settings
    assert "model" not in session_settings(ThreadRequest(cwd="/w"), relay_url=RELAY)


@pytest.mark.guarantee("CAP-1")
def test_the_agent_is_told_whether_a_sandbox_is_around_it() -> None:
    """As a host process it must not rely on one."""
    told = {
        each: str(session_settings(ThreadRequest(cwd="/w"), relay_url=RELAY, isolated=each)["systemMessage"])
        for each in (True, False)
    }
    assert "inside a sandbox" in told[True]
    assert "inside a sandbox" not in told[False]
    assert "No sandbox stands between you and this machine" in told[False]


@pytest.mark.guarantee("CAP-3")
def test_all_seven_cells_are_published() -> None:
    """One process serves many sessions, and where the files come from is not the provider's business."""
    description = CopilotPlugin().jam_describe_provider()
    assert description.cells == FULL_CELLS
    assert description.threads_share_process
    assert description.approvals


@pytest.mark.guarantee("PLAN-5")
@pytest.mark.parametrize("cell", sorted(FULL_CELLS, key=str), ids=str)
def test_the_contribution_is_the_same_for_every_cell(cell: Cell) -> None:
    """No cell panics and none differs; the program's side channels are off in its environment, and no token is named there."""
    context = PlanContext(
        cell=cell,
        state_root="/jam/state/copilot",
        tools_root="/jam/tools/copilot",
        home="/home/agent",
        relay_url=RELAY,
        abilities=frozenset(),
    )
    contribution = CopilotPlugin().jam_contribute_plan(context)
    assert dict(contribution.environment) == {
        "COPILOT_HOME": "/jam/state/copilot",
        "COPILOT_PKG_CACHE_HOME": "/jam/tools/copilot",
        "COPILOT_OFFLINE": "true",
        "COPILOT_AUTO_UPDATE": "false",
        "COPILOT_DISABLE_KEYTAR": "1",
    }
    assert contribution.state_subdirectories == ("session-state",)
    assert contribution.endpoint_paths == ("POST /v1/responses",)


@pytest.mark.guarantee("CONT-5", "SEC-7")
def test_locks_databases_and_configuration_are_never_captured() -> None:
    """Only the journals are; what a restore deletes has nothing in common with them."""
    assert [entry.pattern for entry in CAPTURE.entries] == ["session-state/*/events.jsonl"]
    assert CAPTURE.conversation_patterns == ("session-state/{identity}/events.jsonl",)
    assert not [pattern for pattern in ACTIVATION.delete if pattern.endswith(".jsonl")]
    assert {"session-state/*/inuse.*", "*.db", "*.json", "hooks/**"} <= set(ACTIVATION.delete)


def test_a_shared_process_takes_a_bounded_number_of_sessions() -> None:
    """One process for all, and a refusal with a reason when it is full."""
    assert CopilotPlugin().jam_place_session(PlacementRequest(seats=SHARED_SEATS - 1)).accepted
    full = CopilotPlugin().jam_place_session(PlacementRequest(seats=SHARED_SEATS))
    assert not full.accepted
    assert full.reason


@pytest.mark.anyio
async def test_readiness_is_about_the_key_alone() -> None:
    """A missing key is a reason and a hint that says what a GitHub login is not good for; the plugin never sees its text."""
    assert (await CopilotPlugin().jam_check_credentials(CredentialView(present=True, source="environment"))).ready
    missing = await CopilotPlugin().jam_check_credentials(CredentialView(present=False, source=""))
    assert not missing.ready
    assert "COPILOT_PROVIDER_API_KEY" in missing.hint
    assert "GitHub login cannot be used" in missing.hint


def test_the_pin_is_whole() -> None:
    """The version has a digest, and the program lies in what the package unpacks."""
    assert TOOLCHAIN.version == VERSION
    assert f"/{VERSION}/" in TOOLCHAIN.program
    assert TOOLCHAIN.platforms() == ("linux-x86_64",)
    assert TOOLCHAIN.unpack is not None
    assert TOOLCHAIN.unpack.command[0] in TOOLCHAIN.executables
