"""The one place that names the pinned Codex: raise it here, measure again (docs/facts-codex.md), run the contract tests."""

from __future__ import annotations

from jamcore.api import ToolchainSpec, WheelFile

VERSION = "0.163.0"

RESUMES: frozenset[str] = frozenset()
"""Versions of older releases whose rollouts this pin was seen to resume exactly. Empty: Jam has used no older release. Whoever raises the
pin measures the old one (README, "Raising the pin") and names it here, or every captured session is refused."""

TOOLCHAIN = ToolchainSpec(
    distribution="openai-codex-cli-bin",
    version=VERSION,
    wheels=(
        WheelFile(platform="linux-x86_64", sha256="76db41fb07fdf9ddacbe892b48d21dfde270031ec0f5666b5e558114355f006d"),
        WheelFile(platform="linux-aarch64", sha256="bb2b0d117eeb02608738cf2bcdf51f6a036343d0028272e11a94e72b0d23b141"),
    ),
    root="codex_cli_bin",
    program="bin/codex",
    # code-mode-host runs the tools of the newer models, rg is on the path of every command; Codex's own bwrap is never started.
    executables=("bin/codex", "bin/codex-code-mode-host", "codex-path/rg", "codex-resources/bwrap"),
)
"""The vendor's wheel on PyPI holds the whole program; the manylinux ones hold a static binary, so any Linux runs it."""
