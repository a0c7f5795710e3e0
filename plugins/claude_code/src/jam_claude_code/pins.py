"""The one place that names the pinned Claude Code: raise it here, measure again (docs/facts-claude-code.md), run the contract tests."""

from __future__ import annotations

from jamcore.api import ToolchainSpec, WheelFile

VERSION = "0.2.189"
"""Of the vendor's distribution: what Jam installs, stores with a plan and with each checkpoint."""

PROGRAM_VERSION = "2.1.332"
"""What the program in that distribution says of itself."""

RESUMES: frozenset[str] = frozenset()
"""Older distributions whose transcripts this pin was seen to resume exactly. Empty: Jam has used no older one. Neighbouring numbers say
nothing: a patch of the distribution may bring a program that is a hundred releases newer."""

TOOLCHAIN = ToolchainSpec(
    distribution="claude-agent-sdk",
    version=VERSION,
    wheels=(
        WheelFile(platform="linux-x86_64", sha256="b26a6a30a4e2cb025a6f5c95e1ce4469b38fcc51015c392f627bea7c948d67ad"),
        WheelFile(platform="linux-aarch64", sha256="7e89e56f968a2f2b09e1a86cb66a937f004fc33948faad66425df847b07c5769"),
    ),
    root="claude_agent_sdk/_bundled",
    program="claude",
    executables=("claude",),
)
"""The vendor's wheel on PyPI bundles the whole program, one file that needs neither Node nor anything of the wheel's Python code."""
