"""OpenCode: its pin, and how it is told to contact nothing but the model endpoint. Raise the pin here, and measure again (README)."""

from __future__ import annotations

import json
from collections.abc import Mapping

from jam_acp.profile import Extension, Profile, Resume, UnknownSession
from jamcore.api import CaptureEntry, CaptureKind, CaptureList, PackageFile, PreparedFile, ToolchainSpec

NAME = "opencode"
VERSION = "1.18.33"

DATABASE = ".jam/opencode/opencode.db"
"""Below the guest's home: the one file that holds all sessions, messages and tool calls."""
DATABASES = ".jam/opencode/*.db"
"""What is captured. With a star, since a host on which no session was ever opened has none, and must still be saved."""
CONFIG = "config/opencode"
"""Below the state root. OpenCode reads its configuration there, and the guest can write there, so it is written anew before each start."""
PROVIDER = "jam"

CONTEXT_TOKENS = 128_000
OUTPUT_TOKENS = 8_192
"""What OpenCode is told of every model: it asks for so many tokens at most, and summarises before so many are full."""

SETTINGS: Mapping[str, object] = {
    "model": f"{PROVIDER}/{{model}}",
    "small_model": f"{PROVIDER}/{{model}}",
    "autoupdate": False,
    "share": "disabled",
    "snapshot": False,  # a second git repository of the whole workspace, for an undo that nobody can reach here
    # Otherwise sessions are offered models that its vendor hosts.
    "enabled_providers": [PROVIDER],
    # Otherwise the first turn asks the model for a title, too.
    "agent": {"title": {"disable": True}},
    # It always asks; whether a person hears of it is Jam's to decide.
    # Nobody is asked what a sub-agent asks, and it waits for ever: so there are none.
    "permission": {"edit": "ask", "bash": "ask", "task": "deny", "webfetch": "deny", "websearch": "deny"},
    "lsp": False,  # servers would be downloaded
    "formatter": False,
    "instructions": ["{cwd}/AGENTS.md"],
    "provider": {
        PROVIDER: {
            "npm": "@ai-sdk/openai-compatible",  # bundled: nothing is installed
            "name": "Jam",
            "options": {"baseURL": "{relay_url}/v1", "apiKey": "proxy-managed"},
            "models": {"{model}": {"name": "{model}", "limit": {"context": CONTEXT_TOKENS, "output": OUTPUT_TOKENS}}},
        }
    },
}

SECURED = 'read -r word </proc/sys/kernel/random/uuid && [ -n "$word" ] && export OPENCODE_SERVER_PASSWORD="$word" && exec "$@"'
"""Beside its protocol OpenCode opens an HTTP server on loopback that answers everybody. The password is made in the guest at each start and
known to nobody else; without one nothing is started."""

MOVE = (
    "UPDATE session SET path = CASE WHEN path = ltrim(directory, '/') THEN ltrim('{cwd}', '/') ELSE path END, directory = '{cwd}' "
    "WHERE id = '{identity}'"
)
"""Where a session has another directory than it began in: that of an export on another machine, or of files that were copied."""

INSTRUCTIONS = """\
Jam runs you. Usually a sandbox is around you whose only network is the model endpoint; where none is, you run as the person who uses this
machine: change nothing outside this workspace, and look at nothing there, unless the person asks for exactly that.
Before you change anything in a directory, read AGENTS.md there if there is one, and follow it.
"""

OPENCODE = Profile(
    name=NAME,
    title="OpenCode",
    argv=("/bin/sh", "-c", SECURED, "sh", "{tools_root}/bin/opencode", "acp", "--pure"),
    version_argv=("{tools_root}/bin/opencode", "--version"),
    environment=(
        ("OPENCODE_CONFIG_CONTENT", json.dumps(SETTINGS)),
        ("OPENCODE_DB", f"{{home}}/{DATABASE}"),
        ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
        ("OPENCODE_DISABLE_CLAUDE_CODE", "1"),
        ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
        ("OPENCODE_DISABLE_EXTERNAL_SKILLS", "1"),
        ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
        ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
        # What an agent wrote into the repository must not decide whether the next start works.
        ("OPENCODE_DISABLE_PROJECT_CONFIG", "1"),
        ("OPENCODE_DISABLE_SHARE", "1"),
        ("OPENCODE_PURE", "1"),
        # It also looks for configuration in the home's .opencode; the tools cannot be written to.
        ("OPENCODE_TEST_HOME", "{tools_root}"),
        ("XDG_CONFIG_HOME", "{state_root}/config"),
    ),
    toolchain=ToolchainSpec(
        distribution="opencode",
        version=VERSION,
        packages=(
            PackageFile(
                platform="linux-x86_64",
                name="opencode-linux-x64",
                sha512="abfb7fde9d824f1393f72da4be37ac6ff2d969bdbed5eaa5861580d3605eea68"
                "d3b6662d341701b2b239c83a38170ed948f056da8c8c20630d46a88a4238805b",
            ),
        ),
        root="package",
        program="bin/opencode",
        executables=("bin/opencode",),
    ),
    agent_image=NAME,
    cells="dedicated-managed",
    endpoint_paths=("POST /v1/chat/completions",),
    prepared=(
        PreparedFile(path=f"{CONFIG}/opencode.json", content="{}\n"),
        PreparedFile(path=f"{CONFIG}/opencode.jsonc", content="{}\n"),
        PreparedFile(path=f"{CONFIG}/config.json", content="{}\n"),
        PreparedFile(path=f"{CONFIG}/AGENTS.md", content=INSTRUCTIONS),
        # With these two it takes its plugin library for installed, and asks no package registry.
        PreparedFile(path=f"{CONFIG}/node_modules/.jam", content=""),
        PreparedFile(
            path=f"{CONFIG}/package-lock.json",
            content=json.dumps({"packages": {"": {"dependencies": {"@opencode-ai/plugin": VERSION}}}}) + "\n",
        ),
    ),
    state_subdirectories=(CONFIG,),
    guest_directories=(DATABASE.rpartition("/")[0],),
    capture=CaptureList(
        entries=(CaptureEntry(pattern=DATABASES, kind=CaptureKind.DATABASE),),
        credential_patterns=("**/auth.json", "**/mcp-auth.json", "**/*.pem", "**/*.key"),
    ),
    resume=Resume.LOAD,
    kept_at_once=True,
    keeps_cwd=True,
    move=("{tools_root}/bin/opencode", "db", "--pure", MOVE),
    model_value=f"{PROVIDER}/{{model}}",
    default_model="default",
    harmless=("description", "timeout"),
    change_keys=(
        ("filePath", "path"),
        ("filepath", "path"),
        ("content", "new"),
        ("oldString", "old"),
        ("newString", "new"),
        ("replaceAll", "nothing"),
        ("diff", "patch"),
    ),
    extensions=(
        # Told after an allowed change, which it makes itself all the same; an error would be one that it does not handle.
        Extension(method="fs/write_text_file", answer={}, told=False),
    ),
    unknown_session=(
        UnknownSession(code=-32002),
        UnknownSession(code=-32602, words="session not found"),
        UnknownSession(code=-32603, data=(("service", "session"),)),
    ),
    versions="patch",
)
