"""What the plugin says and reads exists in the pinned program: its options, its variables, the words of its frames."""

from __future__ import annotations

import mmap
import re
import subprocess
from pathlib import Path

import pytest

from jam_claude_code import failures, protocol
from jam_claude_code.config import TOOLS, arguments, environment
from jam_claude_code.events import FILE_TOOLS
from jam_claude_code.pins import PROGRAM_VERSION, TOOLCHAIN, VERSION
from jam_claude_code.protocol import ABORTED, MAY_USE_TOOL, Ask, System, Told
from jamcore.api import ApprovalPolicy, RuntimeRequest, ThreadRequest
from jamcore.testing.toolchains import pinned_toolchain

pytestmark = [pytest.mark.needs("claude_code")]

REQUEST = RuntimeRequest(
    tools_root="/t", state_root="/s", home="/h", relay_url="http://r", start_directory="/h", expected_version=VERSION
)
NOT_IN_THE_HELP = {"--permission-prompt-tool"}


@pytest.fixture(scope="module")
def program() -> Path:
    """The pinned program."""
    return pinned_toolchain(TOOLCHAIN) / TOOLCHAIN.program


def said(program: Path, option: str, home: Path) -> str:
    """Return what the program says to one option."""
    environment = {"HOME": str(home), "CLAUDE_CONFIG_DIR": str(home), "PATH": "/usr/bin:/bin"}
    done = subprocess.run((program, option), check=True, timeout=60, capture_output=True, stdin=subprocess.DEVNULL, env=environment)
    return done.stdout.decode()


def test_the_program_is_the_pinned_version(program: Path, tmp_path: Path) -> None:
    """The wheel's digest, its version and what the program says of itself agree."""
    assert said(program, "--version", tmp_path).split()[0] == PROGRAM_VERSION
    assert PROGRAM_VERSION in program.with_name("claude.version").read_text()


def test_options_exist(program: Path, tmp_path: Path) -> None:
    """Each option that is used is in the program's help, and each mode among its choices."""
    text = said(program, "--help", tmp_path)
    known = set(re.findall(r"--[a-z][a-z-]+", text))
    for policy in ApprovalPolicy:
        for resume in (False, True):
            thread = ThreadRequest(cwd="/w", model="m", approvals=policy)
            words = arguments(REQUEST, thread, "i", resume=resume)[1:]
            assert {word.partition("=")[0] for word in words} - NOT_IN_THE_HELP <= known


def test_names_exist(program: Path) -> None:
    """Variables, kinds of frames, tools and reasons are words of the program: a new one that lacks them needs to be looked at."""
    variables = {name for name, _ in environment(REQUEST, "i")}
    kinds = {*Told, *System, *Ask, MAY_USE_TOOL, *NOT_IN_THE_HELP, *TOOLS, *FILE_TOOLS.values(), *ABORTED}
    read = {
        "user_message_uuids",
        "terminal_reason",
        "api_error_status",
        "model_usage_since_last_result",
        "promptSource",
        "isApiErrorMessage",
        "isSidechain",
        "sessionId",
        "structuredPatch",
        "tool_use_result",
        "cleanupPeriodDays",
        "disableAllHooks",
        "No response requested.",
        "[Request interrupted by user",
        protocol.SYNTHETIC,
    }
    reasons = {str(name) for known in (failures._REASONS, failures._KINDS) for name in known}
    with program.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as text:
        lacking = {name for name in {*variables, *kinds, *read, *reasons} if text.find(str(name).encode()) < 0}
    assert lacking == set()
