"""Cursor, from public facts: its program is on no registry and needs an account. Its live test is the proof."""

from __future__ import annotations

from jam_acp.profile import Authentication, Extension, Profile, Resume, UnknownSession
from jamcore.api import CaptureEntry, CaptureKind, CaptureList, CredentialSpec

NAME = "cursor"
ORIGIN = "https://api2.cursor.sh"
DIRECTORY = ".jam/cursor"
"""Below the guest's home, since its conversations are databases."""

CURSOR = Profile(
    name=NAME,
    title="Cursor",
    argv=("cursor-agent", "-e", "{relay_url}", "acp"),
    version_argv=("cursor-agent", "--version"),
    environment=(
        ("CURSOR_API_KEY", "proxy-managed"),
        ("CURSOR_CONFIG_DIR", f"{{home}}/{DIRECTORY}"),
        ("CURSOR_DATA_DIR", f"{{home}}/{DIRECTORY}"),
        ("NO_OPEN_BROWSER", "1"),
    ),
    agent_image=NAME,
    cells="full",
    credential=CredentialSpec(
        name=NAME, environment_names=("CURSOR_API_KEY",), header="authorization", prefix="Bearer ", origin=ORIGIN
    ),
    default_origin=ORIGIN,
    endpoint_paths=("POST /auth/exchange_user_api_key",),
    guest_directories=(DIRECTORY,),
    capture=CaptureList(
        entries=(CaptureEntry(pattern=f"{DIRECTORY}/acp-sessions/*/store.db", kind=CaptureKind.DATABASE),),
        credential_patterns=("**/auth.json", "**/mcp.json"),
    ),
    resume=Resume.LOAD,
    keeps_cwd=True,  # as its other program does, for all that is known
    # With a key it must not be asked to authenticate: it would look for a stored login, open a browser, and wait.
    authentication=Authentication.NEVER,
    mode="agent",
    extensions=(
        Extension(method="cursor/ask_question", answer={"outcome": {"outcome": "skipped", "reason": "nobody can be asked here"}}),
        Extension(method="cursor/create_plan", answer={"outcome": {"outcome": "rejected"}}),
        Extension(method="cursor/update_todos", answer={"outcome": {"outcome": "accepted"}}, told=False),
        Extension(method="cursor/task", answer={"outcome": {"outcome": "accepted"}}, told=False),
        Extension(method="cursor/generate_image", answer={"outcome": {"outcome": "accepted"}}, told=False),
    ),
    unknown_session=(UnknownSession(code=-32002), UnknownSession(code=-32602, words="not found")),
)
