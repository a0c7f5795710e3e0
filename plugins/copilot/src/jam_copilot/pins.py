"""The one place that names the pinned Copilot: raise it here, measure again (docs/facts-copilot.md), run the contract tests."""

from __future__ import annotations

from jamcore.api import PackageFile, ToolchainSpec, UnpackStep

VERSION = "1.0.102"
PROTOCOL = 3
"""Of the program's JSON-RPC interface, as it says itself."""

RESUMES: frozenset[str] = frozenset()
"""Older versions whose conversations this pin was seen to resume exactly. Empty: Jam has used no older one. The vendor releases a patch
most days and changes what a resume does in them, so an older patch would be a guess."""

_UNPACKED = f"pkg/linux-x64/{VERSION}"
PROGRAM = f"{_UNPACKED}/prebuilds/linux-x64/copilot-runtime"
"""The server alone: a small program that needs no terminal and starts in 14 ms. It lies in what the large one unpacks."""
SCHEMAS = f"{_UNPACKED}/schemas"

TOOLCHAIN = ToolchainSpec(
    distribution="copilot",
    version=VERSION,
    packages=(
        PackageFile(
            platform="linux-x86_64",
            name="@github/copilot-linux-x64",
            sha512=(
                "7861cf6ec3f4a764207d56428ed6c604564f04e250d0337bc486c1440a3ba06f"
                "1bd737cb8ab40875f23887c232ebc0efd9c289189660dbf10eed6ecaa483093b"
            ),
        ),
    ),
    root="package",
    program=PROGRAM,
    executables=("copilot",),
    unpack=UnpackStep(command=("copilot", "--version"), environment=(("COPILOT_PKG_CACHE_HOME", "{root}"),)),
)
"""The vendor's npm package for one platform; the large program in it unpacks itself once, when it is installed. No Node is needed."""
