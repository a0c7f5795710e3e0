"""What the plugins declare without a program: cells, versions, failures, configuration, placement, credentials."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from types import MappingProxyType

import pytest

from jam_acp.failures import classify, ended_with, failed_with, is_unknown_session
from jam_acp.places import Places
from jam_acp.plugin import CursorPlugin, ResumableAcpPlugin
from jam_acp.profile import Profile
from jam_acp.profiles.cursor import CURSOR
from jam_acp.profiles.opencode import DATABASE, OPENCODE, SECURED, VERSION
from jamcore.api import (
    DEDICATED_MANAGED_CELLS,
    FULL_CELLS,
    CaptureKind,
    RemoteError,
    TurnEnded,
    TurnFailure,
    TurnOutcome,
)
from jamcore.testing.providers.declarations import ProviderDeclarations
from jamcore.testing.providers.opening import ProviderHooks, hooks_of

pytestmark = pytest.mark.unprivileged

PLACES = Places("/jam/tools/x", "/jam/state/x", "/home/agent", "http://127.0.0.1:8790", cwd="/jam/work/s1", model="some/model")


class TestOpenCode(ProviderDeclarations):
    """OpenCode's: always dedicated, configured by Jam. Its endpoint is a person's, and so is the key. Numbers say of what a patch is."""

    cells = DEDICATED_MANAGED_CELLS
    seats = 0
    hints = ()
    platforms = ("linux-x86_64",)
    versions = MappingProxyType(
        {
            (VERSION, VERSION): True,
            ("1.18.30", VERSION): True,
            (VERSION, "1.18.40"): True,
            ("1.18.34", VERSION): False,
            ("1.17.33", VERSION): False,
            ("1.19.0", VERSION): False,
            ("2.18.33", VERSION): False,
            ("1.18.33-beta.1", VERSION): False,
            ("1.18.33-beta.1", "1.18.33-beta.1"): True,
            ("", VERSION): False,
            ("", ""): False,
            ("nonsense", VERSION): False,
        }
    )


class TestCursor(ProviderDeclarations):
    """Cursor's: it may share a host, where each session has a process of its own. Its versions are dates: nothing follows from them."""

    cells = FULL_CELLS
    seats = CURSOR.seats
    hints = ("CURSOR_API_KEY",)
    platforms = ()
    versions = MappingProxyType({("2026.08.31", "2026.08.31"): True, ("2026.08.30", "2026.08.31"): False})

    @pytest.fixture
    async def hooks(self) -> ProviderHooks:
        """Cursor's hooks."""
        return await hooks_of(CURSOR.name, CursorPlugin())


@pytest.mark.guarantee("CONT-7")
def test_a_profile_may_accept_what_was_measured() -> None:
    """A measurement holds for the pinned program, not for any other."""
    measured = OPENCODE.model_copy(update={"resumes": ("1.17.0",)})
    assert ResumableAcpPlugin(measured).jam_accepts_version("1.17.0", VERSION)
    assert not ResumableAcpPlugin(measured).jam_accepts_version("1.17.0", "1.18.40")


# ---------------------------------------------------------------------------------------------------------------- OpenCode


def environment(places: Places = PLACES) -> dict[str, str]:
    """Return what OpenCode's process gets."""
    return {name: places.fill(value) for name, value in OPENCODE.environment}


def test_requests_go_to_the_relay_and_nothing_else_is_contacted() -> None:
    """The model's name and the endpoint are in its configuration, which no file can change; what would ask other hosts is off."""
    settings = json.loads(environment()["OPENCODE_CONFIG_CONTENT"])
    provider = settings["provider"]["jam"]
    assert provider["options"] == {"baseURL": "http://127.0.0.1:8790/v1", "apiKey": "proxy-managed"}
    assert list(provider["models"]) == ["some/model"]
    assert settings["model"] == settings["small_model"] == "jam/some/model"
    assert settings["enabled_providers"] == ["jam"]
    assert settings["instructions"] == ["/jam/work/s1/AGENTS.md"]
    assert (settings["autoupdate"], settings["share"]) == (False, "disabled")
    assert {"OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_DISABLE_PROJECT_CONFIG", "OPENCODE_PURE"} <= set(environment())


def test_no_model_and_no_directory_can_end_the_configuration() -> None:
    """They come from people, and stand inside JSON."""
    odd = Places("", "", "", "", cwd='/w/"], "x": ["', model='m"}, "evil": {"')
    settings = json.loads(environment(odd)["OPENCODE_CONFIG_CONTENT"])
    assert list(settings["provider"]["jam"]["models"]) == ['m"}, "evil": {"']
    assert settings["instructions"] == ['/w/"], "x": ["/AGENTS.md']


def test_the_database_is_declared_where_it_lies() -> None:
    """Below the guest's home, and its directory is made before the start; no bytes of a database are in the state root."""
    assert OPENCODE.capture is not None
    [entry] = OPENCODE.capture.entries
    assert entry.kind is CaptureKind.DATABASE
    assert environment()["OPENCODE_DB"] == f"/home/agent/{DATABASE}"
    assert PurePosixPath(DATABASE).match(entry.pattern)
    assert DATABASE.startswith(f"{OPENCODE.guest_directories[0]}/")


def test_the_side_server_gets_a_password_that_nobody_else_knows() -> None:
    """It is made in the guest by the shell that becomes the program; no text of the profile is one."""
    assert OPENCODE.argv[:4] == ("/bin/sh", "-c", SECURED, "sh")
    assert 'export OPENCODE_SERVER_PASSWORD="$word" && exec "$@"' in SECURED
    assert "OPENCODE_SERVER_PASSWORD" not in environment()


def test_files_that_an_agent_can_write_are_written_anew() -> None:
    """Its own configuration is emptied before each start, and it takes its plugin library for installed."""
    files = {file.path: file.content for file in OPENCODE.prepared}
    for name in ("opencode.json", "opencode.jsonc", "config.json"):
        assert json.loads(files[f"config/opencode/{name}"]) == {}
    lock = json.loads(files["config/opencode/package-lock.json"])
    assert lock["packages"][""]["dependencies"] == {"@opencode-ai/plugin": VERSION}
    assert "config/opencode/node_modules/.jam" in files


# -------------------------------------------------------------------------------------------------------------- both, failures


ERRORS: dict[str, tuple[RemoteError, Profile, TurnFailure]] = {
    "a login": (RemoteError(-32000, "Authentication required"), CURSOR, TurnFailure.UNAUTHORISED),
    "not found": (RemoteError(-32002, "Resource not found"), CURSOR, TurnFailure.NOT_FOUND),
    "not found, with data": (RemoteError(-32002, "no", {"sessionId": "s"}), OPENCODE, TurnFailure.NOT_FOUND),
    "OpenCode's other way": (RemoteError(-32603, "Internal error", {"service": "session"}), OPENCODE, TurnFailure.NOT_FOUND),
    "OpenCode's third way": (RemoteError(-32602, "Invalid params: session not found: x"), OPENCODE, TurnFailure.NOT_FOUND),
    "not OpenCode": (RemoteError(-32603, "Internal error", {"service": "session"}), CURSOR, TurnFailure.OTHER),
    "a model's error": (RemoteError(-32603, "no", {"service": "session", "errorName": "APIError"}), OPENCODE, TurnFailure.HTTP),
    "full": (
        RemoteError(-32603, "no", {"service": "session", "errorName": "ContextOverflowError"}),
        OPENCODE,
        TurnFailure.CONTEXT_FULL,
    ),
    "a bad parameter": (RemoteError(-32602, "model not found: x"), OPENCODE, TurnFailure.BAD_REQUEST),
    "unknown": (RemoteError(-1, "who knows"), OPENCODE, TurnFailure.OTHER),
    "odd data": (RemoteError(-32603, "no", [1]), OPENCODE, TurnFailure.OTHER),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_has_one_code(name: str) -> None:
    """Codes alone say too little: an unknown session has several forms, and its code others' meanings."""
    error, profile, code = ERRORS[name]
    assert classify(error, profile) is code
    assert is_unknown_session(error, profile) is (code is TurnFailure.NOT_FOUND)


def test_words_that_an_agent_hides_in_its_data_are_shown() -> None:
    """Once."""
    end = failed_with(RemoteError(-32603, "Internal error", {"details": "No previous sessions found"}), CURSOR)
    assert (end.outcome, end.detail) == (TurnOutcome.FAILED, "Internal error: No previous sessions found")
    assert ended_with("end_turn") == TurnEnded(outcome=TurnOutcome.COMPLETED)
