"""What the plugin declares without a program: versions, failures, configuration, placement, credentials."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from jam_copilot.config import KEY, LEFT_OUT, arguments, session_settings
from jam_copilot.description import SHARED_SEATS
from jam_copilot.failures import classify
from jam_copilot.pins import PROGRAM, RESUMES, TOOLCHAIN, VERSION
from jam_copilot.state import ACTIVATION, CAPTURE
from jamcore.api import (
    FULL_CELLS,
    PlanContribution,
    RuntimeRequest,
    ThreadRequest,
    TurnFailure,
)
from jamcore.testing.providers.declarations import ProviderDeclarations
from jamcore.testing.providers.opening import ProviderHooks

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


class TestDeclarations(ProviderDeclarations):
    """Copilot's. A patch of it changes what a resume does, so only what was measured is resumed."""

    cells = FULL_CELLS
    seats = SHARED_SEATS
    hints = ("COPILOT_PROVIDER_API_KEY", "GitHub login cannot be used")
    platforms = ("linux-x86_64",)
    versions = MappingProxyType(
        {
            ("1.0.101", VERSION): False,
            ("1.0.103", VERSION): False,
            (VERSION, "1.0.103"): False,
            ("1.0.103", "1.0.103"): True,
            ("", VERSION): False,
            ("nonsense", VERSION): False,
            **{(old, VERSION): True for old in RESUMES | {VERSION}},
            **{(old, "1.0.1"): False for old in RESUMES},
        }
    )

    def look_at_the_contribution(self, contribution: PlanContribution) -> None:
        """The program's side channels are off in its environment, and no token is named there."""
        assert dict(contribution.environment) == {
            "COPILOT_HOME": "/jam/state/it",
            "COPILOT_PKG_CACHE_HOME": "/jam/tools/it",
            "COPILOT_OFFLINE": "true",
            "COPILOT_AUTO_UPDATE": "false",
            "COPILOT_DISABLE_KEYTAR": "1",
        }
        assert contribution.state_subdirectories == ("session-state",)
        assert contribution.endpoint_paths == ("POST /v1/responses",)

    async def test_one_process_serves_all_and_asks(self, hooks: ProviderHooks) -> None:
        """And its program lies in what the package unpacks."""
        assert hooks.description.threads_share_process
        assert hooks.description.approvals
        assert f"/{VERSION}/" in TOOLCHAIN.program
        assert TOOLCHAIN.unpack is not None


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


@pytest.mark.guarantee("CONT-5", "SEC-7")
def test_locks_databases_and_configuration_are_never_captured() -> None:
    """Only the journals are; what a restore deletes has nothing in common with them."""
    assert [entry.pattern for entry in CAPTURE.entries] == ["session-state/*/events.jsonl"]
    assert CAPTURE.conversation_patterns == ("session-state/{identity}/events.jsonl",)
    assert not [pattern for pattern in ACTIVATION.delete if pattern.endswith(".jsonl")]
    assert {"session-state/*/inuse.*", "*.db", "*.json", "hooks/**"} <= set(ACTIVATION.delete)
