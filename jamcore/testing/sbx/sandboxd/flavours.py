"""What an agent's image and kit put into a guest besides the system: files of its home, and instructions above the workspace."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from jamcore.testing.sbx.sandboxd.state import Sandbox

INSTRUCTIONS = "This is a sandbox of Docker Sandboxes.\n"
CODEX = """\
approval_policy = "never"
sandbox_mode = "danger-full-access"
mcp_oauth_credentials_store = "file"
"""


def furnish(home: Path, sandbox: Sandbox) -> None:
    """Write the files of an agent into a new home (``guest.codex-home``)."""
    if sandbox.agent == "codex":
        place = home / ".codex"
        place.mkdir()
        (place / "auth.json").write_text('{"OPENAI_API_KEY":"proxy-managed"}', encoding="utf-8")
        (place / "config.toml").write_text(CODEX, encoding="utf-8")


def instructions(sandbox: Sandbox) -> dict[str, str]:
    """Return the file above the workspace (``guest.instructions``), where nothing of a workspace lies."""
    if not sandbox.workspaces:
        return {}
    above = PurePosixPath(sandbox.primary).parent
    if any(above.is_relative_to(path.removesuffix(":ro")) for path in (*sandbox.workspaces, "/home/agent")):
        return {}
    return {str(above / ("CLAUDE.md" if sandbox.agent == "claude" else "AGENTS.md")): INSTRUCTIONS}
