"""What the plugin declares without a program: versions, failures, configuration, placement, credentials."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from types import MappingProxyType

import pytest

from jam_claude_code.config import RETRIES, TOOLS, arguments, environment
from jam_claude_code.description import SHARED_SEATS
from jam_claude_code.failures import classify
from jam_claude_code.pins import RESUMES, VERSION
from jam_claude_code.protocol import is_identity
from jam_claude_code.state import CAPTURE
from jamcore.api import (
    FULL_CELLS,
    ApprovalPolicy,
    PlanContribution,
    RuntimeRequest,
    ThreadRequest,
    TurnFailure,
)
from jamcore.testing.providers.declarations import ProviderDeclarations

pytestmark = pytest.mark.unprivileged

IDENTITY = "0447d3fd-34ba-492b-876b-da9bb3615d8e"
REQUEST = RuntimeRequest(
    tools_root="/jam/tools/claude_code",
    state_root="/jam/state/claude_code",
    home="/home/agent",
    relay_url="http://127.0.0.1:8790",
    start_directory="/home/agent",
    expected_version=VERSION,
)


class TestDeclarations(ProviderDeclarations):
    """Claude Code's. A neighbouring number says nothing: it may hold a program that is many releases apart."""

    cells = FULL_CELLS
    seats = SHARED_SEATS
    hints = ("jam credential set anthropic", "ANTHROPIC_API_KEY")
    platforms = ("linux-x86_64", "linux-aarch64")
    versions = MappingProxyType(
        {
            ("0.2.188", "0.2.189"): False,
            ("0.2.190", "0.2.189"): False,
            ("0.3.0", "0.2.189"): False,
            ("", VERSION): False,
            **{(old, VERSION): True for old in RESUMES | {VERSION}},
            **{(old, "0.1.0"): False for old in RESUMES},
        }
    )

    def look_at_the_contribution(self, contribution: PlanContribution) -> None:
        """Each thread has a directory of its own; what the program's environment is, is said when it starts."""
        assert contribution.state_subdirectories == ("threads",)
        assert contribution.guest_directories == (".jam/claude-code",)
        assert contribution.endpoint_paths == ("POST /v1/messages?beta=true",)
        assert contribution.environment == ()


FAILED: dict[str, tuple[dict[str, object], TurnFailure]] = {
    "nobody there": ({"words": "API Error: Connection refused (ECONNREFUSED)"}, TurnFailure.UNREACHABLE),
    "cut": ({"words": "API Error: Connection to the API was lost (ECONNRESET)."}, TurnFailure.STREAM_CUT),
    "silent": ({"words": "API Error: Request timed out."}, TurnFailure.STREAM_SILENT),
    "garbage": ({"words": "API Error: API returned an empty or malformed response (HTTP 200)"}, TurnFailure.STREAM_CUT),
    "no login": ({"words": "Not logged in · Please run /login"}, TurnFailure.UNAUTHORISED),
    "full": ({"reason": "prompt_too_long", "status": 400}, TurnFailure.CONTEXT_FULL),
    "no credit": ({"kind": "billing_error", "status": 400}, TurnFailure.USAGE_LIMIT),
    "400": ({"status": 400}, TurnFailure.BAD_REQUEST),
    "401": ({"status": 401}, TurnFailure.UNAUTHORISED),
    "403": ({"status": 403}, TurnFailure.UNAUTHORISED),
    "404": ({"status": 404, "kind": "model_not_found"}, TurnFailure.NOT_FOUND),
    "418": ({"status": 418}, TurnFailure.HTTP),
    "429": ({"status": 429}, TurnFailure.RATE_LIMITED),
    "503": ({"status": 503}, TurnFailure.SERVER_ERROR),
    "529": ({"status": 529}, TurnFailure.OVERLOADED),
    "a new reason": ({"reason": "something_new", "kind": "unheard_of"}, TurnFailure.OTHER),
    "wrong types": ({"reason": [], "kind": {}, "status": True}, TurnFailure.OTHER),
}


@pytest.mark.parametrize("name", FAILED)
def test_a_failure_has_one_code(name: str) -> None:
    """The program's reasons, statuses and sentences become Jam's stable codes; what is unknown is called other."""
    told, code = FAILED[name]
    words = str(told.pop("words", "")) if "words" in told else ""
    assert classify(reason=told.get("reason"), status=told.get("status"), kind=told.get("kind"), words=words) is code


def options(*, resume: bool = False, isolated: bool = True, **of_thread: object) -> dict[str, str]:
    """Return the options of the command line; one without a value has an empty one."""
    thread = ThreadRequest.model_validate({"cwd": "/w", **of_thread})
    argv = arguments(REQUEST.model_copy(update={"isolated": isolated}), thread, IDENTITY, resume=resume)
    assert argv[0] == "/jam/tools/claude_code/claude"
    assert all(word.startswith("--") for word in argv[1:])  # a value that stood alone could be read as an option
    return {name: value for name, _, value in (word.partition("=") for word in argv[1:])}


@pytest.mark.guarantee("CONT-1")
def test_a_thread_is_begun_once_and_resumed_ever_after() -> None:
    """Which of the two is Jam's to say: the program is never asked to do whatever fits."""
    first, later = options(), options(resume=True)
    assert first["--session-id"] == later["--resume"] == IDENTITY
    assert "--resume" not in first
    assert not {"--session-id", "--continue", "--fork-session"} & set(later)


def test_no_source_of_settings_is_read() -> None:
    """Neither a person's nor a repository's; what is set wins over every file, and tools are a list of what may be."""
    found = options()
    settings = json.loads(found["--settings"])
    assert found["--setting-sources"] == ""
    assert {"--strict-mcp-config", "--disable-slash-commands"} <= set(found)
    assert settings["cleanupPeriodDays"] > 36_000
    assert settings["env"] == {"ANTHROPIC_BASE_URL": "http://127.0.0.1:8790"}
    assert found["--tools"] == ",".join(TOOLS)
    assert not {"WebSearch", "WebFetch", "SendMessage", "ListAgents", "Monitor", "CronCreate"} & set(TOOLS)


def test_whether_it_asks_is_said_at_each_start() -> None:
    """A mode is not part of a transcript."""
    asking = options(approvals=ApprovalPolicy.ASK, resume=True)
    assert (asking["--permission-mode"], asking["--permission-prompt-tool"]) == ("default", "stdio")
    assert options(resume=True)["--permission-mode"] == "bypassPermissions"


@pytest.mark.guarantee("ENV-3")
def test_the_environment_is_its_own() -> None:
    """Requests go to the relay with a stand-in for the credential, retries end, nothing else is contacted, nothing starts by itself."""
    found = dict(environment(REQUEST, IDENTITY))
    assert found["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:8790"
    assert found["ANTHROPIC_API_KEY"] == "proxy-managed"
    assert found["CLAUDE_CONFIG_DIR"] == f"/jam/state/claude_code/threads/{IDENTITY}"
    assert found["CLAUDE_CODE_TMPDIR"].startswith("/home/agent/.jam/claude-code/")
    assert found["CLAUDE_CODE_MAX_RETRIES"] == str(RETRIES)
    off = ("DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "CLAUDE_CODE_DISABLE_CRON")
    assert {found[name] for name in (*off, "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS")} == {"1"}


def test_a_socket_of_a_thread_has_a_path_that_the_system_takes() -> None:
    """Its directory is named so that the longest path stays below the limit of 108 bytes, with room for a longer home."""
    temporary = dict(environment(REQUEST, IDENTITY))["CLAUDE_CODE_TMPDIR"]
    assert len(f"{temporary}/cc-socks/4194304.sock") < 80


@pytest.mark.guarantee("CAP-1")
def test_the_agent_is_told_whether_a_sandbox_is_around_it() -> None:
    """As a host process it must not rely on one; and the program's own guard against root is lifted only where there is one."""
    inside, outside = options(), options(isolated=False)
    assert "inside a sandbox" in inside["--append-system-prompt"]
    assert "No sandbox stands between you and this machine" in outside["--append-system-prompt"]
    assert ("IS_SANDBOX", "1") in environment(REQUEST, IDENTITY)
    assert "IS_SANDBOX" not in dict(environment(REQUEST.model_copy(update={"isolated": False}), IDENTITY))


def test_a_model_is_sent_only_when_a_person_chose_one() -> None:
    """Without a choice Claude Code uses its own default, and in a resumed thread the one it had."""
    assert "--model" not in options()
    assert options(model="m")["--model"] == "m"


@pytest.mark.guarantee("CONT-3", "SEC-7")
@pytest.mark.parametrize(
    ("path", "captured"),
    [
        (f"threads/{IDENTITY}/projects/-jam-work/{IDENTITY}.jsonl", True),
        (f"threads/{IDENTITY}/.claude.json", False),
        (f"threads/{IDENTITY}/.credentials.json", False),
        (f"threads/{IDENTITY}/sessions/12.key", False),
        (f"threads/{IDENTITY}/settings.json", False),
    ],
)
def test_what_is_captured_is_a_list(path: str, captured: bool) -> None:
    """The transcript and what it names; never a credential, a lock, or what decides how the program starts."""
    assert any(fnmatchcase(path, entry.pattern) for entry in CAPTURE.entries) is captured


@pytest.mark.parametrize("text", ["", "x", "../x", IDENTITY.upper(), IDENTITY.replace("-", ""), f"{{{IDENTITY}}}", f"{IDENTITY}\n"])
def test_an_id_is_a_uuid_in_its_usual_form(text: str) -> None:
    """It becomes the name of a directory and an argument of the program."""
    assert is_identity(IDENTITY)
    assert not is_identity(text)
