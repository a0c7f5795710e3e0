"""What the plugin declares without a program: versions, failures, configuration, placement, credentials."""

from __future__ import annotations

import tomllib
from types import MappingProxyType
from typing import Any

import pytest

from jam_codex.config import arguments, thread_settings, turn_settings
from jam_codex.description import SHARED_SEATS
from jam_codex.failures import classify
from jam_codex.pins import RESUMES, VERSION
from jamcore.api import (
    FULL_CELLS,
    PlanContribution,
    RuntimeRequest,
    ThreadRequest,
    TurnFailure,
)
from jamcore.testing.providers.declarations import ProviderDeclarations

pytestmark = pytest.mark.unprivileged

REQUEST = RuntimeRequest(
    tools_root="/jam/tools/codex",
    state_root="/jam/state/codex",
    home="/home/agent",
    relay_url="http://127.0.0.1:8790",
    start_directory="/home/agent",
    expected_version=VERSION,
)


class TestDeclarations(ProviderDeclarations):
    """Codex's. Its numbers say which release a patch is of."""

    cells = FULL_CELLS
    seats = SHARED_SEATS
    hints = ("OPENAI_API_KEY",)
    platforms = ("linux-x86_64", "linux-aarch64")
    versions = MappingProxyType(
        {
            ("0.163.0", "0.163.0"): True,
            ("0.163.0", "0.163.4"): True,
            ("0.163.4", "0.163.0"): False,
            ("0.162.9", "0.163.0"): False,
            ("0.164.0", "0.163.0"): False,
            ("1.163.0", "0.163.0"): False,
            ("0.163.0-alpha.1", "0.163.0-alpha.1"): True,
            ("0.163.0-alpha.1", "0.163.0"): False,
            ("", "0.163.0"): False,
            ("nonsense", "0.163.0"): False,
            **{(old, VERSION): True for old in RESUMES},  # a measurement holds for the pinned program, ...
            **{(old, "0.1.0"): False for old in RESUMES},  # ... not for any other
        }
    )

    def look_at_the_contribution(self, contribution: PlanContribution) -> None:
        """Its home is the state root, and its databases lie on the guest's disk."""
        assert contribution.environment == (("CODEX_HOME", "/jam/state/it"),)
        assert contribution.guest_directories == (".jam/codex-sqlite",)
        assert contribution.endpoint_paths == ("POST /v1/responses",)


STATUS: dict[str, tuple[object, TurnFailure]] = {
    "nobody there": ({"httpConnectionFailed": {"httpStatusCode": None}}, TurnFailure.UNREACHABLE),
    "401": ({"httpConnectionFailed": {"httpStatusCode": 401}}, TurnFailure.UNAUTHORISED),
    "403": ({"httpConnectionFailed": {"httpStatusCode": 403}}, TurnFailure.UNAUTHORISED),
    "404": ({"httpConnectionFailed": {"httpStatusCode": 404}}, TurnFailure.NOT_FOUND),
    "418": ({"httpConnectionFailed": {"httpStatusCode": 418}}, TurnFailure.HTTP),
    "429": ({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}, TurnFailure.RATE_LIMITED),
    "503": ({"responseStreamConnectionFailed": {"httpStatusCode": 503}}, TurnFailure.SERVER_ERROR),
    "cut": ({"responseStreamDisconnected": {"httpStatusCode": None}}, TurnFailure.STREAM_CUT),
    "full": ("contextWindowExceeded", TurnFailure.CONTEXT_FULL),
    "unknown text": ("somethingNew", TurnFailure.OTHER),
    "unknown object": ({"somethingNew": {}}, TurnFailure.OTHER),
    "two at once": ({"a": {}, "b": {}}, TurnFailure.OTHER),
    "wrong type": ([], TurnFailure.OTHER),
}


@pytest.mark.parametrize("name", STATUS)
def test_an_error_kind_has_one_code(name: str) -> None:
    """The provider's kinds become Jam's stable codes; what is unknown is called other."""
    info, code = STATUS[name]
    assert classify({"message": "", "codexErrorInfo": info}) is code


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("stream disconnected before completion: stream closed before response.completed", TurnFailure.STREAM_CUT),
        ("stream disconnected before completion: idle timeout waiting for SSE", TurnFailure.STREAM_SILENT),
        ('{"error":{"message":"nope"}}', TurnFailure.BAD_REQUEST),
        ("who knows", TurnFailure.OTHER),
    ],
)
def test_an_error_without_a_kind_is_told_apart_by_its_sentence(message: str, code: TurnFailure) -> None:
    """Only a label depends on it."""
    assert classify({"message": message, "codexErrorInfo": "other"}) is code
    assert classify(None) is TurnFailure.OTHER


def settings() -> dict[str, Any]:
    """Return the configuration that the arguments make, read as Codex reads it: as TOML."""
    argv = arguments(REQUEST)
    assert argv[:2] == ("/jam/tools/codex/bin/codex", "app-server")
    assert set(argv[2::2]) == {"-c"}
    return tomllib.loads("\n".join(argv[3::2]))


def test_the_whole_configuration_is_in_the_arguments() -> None:
    """Requests go to the relay, retries end, nothing else is contacted, and the databases lie on the guest disk."""
    found = settings()
    provider = found["model_providers"][found["model_provider"]]
    assert provider["base_url"] == "http://127.0.0.1:8790/v1"
    assert provider["wire_api"] == "responses"
    assert "env_key" not in provider
    assert found["features"]["plugins"] is False
    assert found["features"]["unbounded_connection_retries"] is False
    assert found["analytics"]["enabled"] is False
    assert (found["approval_policy"], found["sandbox_mode"]) == ("never", "danger-full-access")
    assert found["sqlite_home"] == "/home/agent/.jam/codex-sqlite"


def test_no_project_is_trusted() -> None:
    """Neither the working directory nor anything above it, so that no file of the repository configures Codex."""
    config = thread_settings(ThreadRequest(cwd="/jam/work/s1"))["config"]
    assert config == {"projects": {path: {"trust_level": "untrusted"} for path in ("/jam/work/s1", "/jam/work", "/jam", "/")}}


def test_a_model_is_sent_only_when_a_person_chose_one() -> None:
    """Without a choice Codex uses its own default."""
    assert "model" not in thread_settings(ThreadRequest(cwd="/w"))
    assert thread_settings(ThreadRequest(cwd="/w", model="m"))["model"] == "m"


@pytest.mark.guarantee("CAP-1")
def test_the_agent_is_told_whether_a_sandbox_is_around_it() -> None:
    """As a host process it must not rely on one, and Codex must not believe in one."""
    request = ThreadRequest(cwd="/w")
    told = {each: str(thread_settings(request, isolated=each)["developerInstructions"]) for each in (True, False)}
    assert "inside a sandbox" in told[True]
    assert "inside a sandbox" not in told[False]
    assert "No sandbox stands between you and this machine" in told[False]
    assert turn_settings(isolated=True)["sandboxPolicy"] == {"type": "externalSandbox", "networkAccess": "restricted"}
    assert turn_settings(isolated=False)["sandboxPolicy"] == {"type": "dangerFullAccess"}
