"""Real npm packages from the registry that npm is configured for, installed as ``jam provider install`` does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from jamcore.domain.providers import PackageFile, ToolchainSpec, UnpackStep
from jamcore.sandbox.toolchain import CompletionRecord, ToolchainDigestError, Toolchains, this_machine
from jamcore.system.files import Files
from jamcore.testing.toolchains import installed_toolchain

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.needs("npm-registry")]

SMALL = "e350a27e483a7bc4f2952a5db53a5e2d532abd20445734edb47bc4443ef8d7ea6767c00dbf4d34e0c44be3740a3c394af5c1af369e8d6566540656c65d8c719e"
LARGE = "7861cf6ec3f4a764207d56428ed6c604564f04e250d0337bc486c1440a3ba06f1bd737cb8ab40875f23887c232ebc0efd9c289189660dbf10eed6ecaa483093b"


def small(sha512: str = SMALL) -> ToolchainSpec:
    """Return a package of four files; nothing of it is run."""
    return ToolchainSpec(
        distribution="is-number",
        version="7.0.0",
        packages=(PackageFile(platform=this_machine(), name="is-number", sha512=sha512),),
        root="package",
        program="index.js",
        executables=(),
    )


UNPACKING = ToolchainSpec(
    distribution="copilot",
    version="1.0.102",
    packages=(PackageFile(platform="linux-x86_64", name="@github/copilot-linux-x64", sha512=LARGE),),
    root="package",
    program="pkg/linux-x64/1.0.102/prebuilds/linux-x64/copilot-runtime",
    executables=("copilot",),
    unpack=UnpackStep(command=("copilot", "--version"), environment=(("COPILOT_PKG_CACHE_HOME", "{root}"),)),
)
"""A vendor's program that unpacks 235 MB of itself at its first start."""


async def test_a_real_package_is_brought_and_verified(tmp_path: Path) -> None:
    """The digest is that of the registry's own file; with another one pinned nothing is installed."""
    tools = Toolchains(tmp_path, files=Files())
    await tools.install("small", small())
    assert b"is-number" in (tmp_path / "toolchains/small/7.0.0/package/index.js").read_bytes()
    with pytest.raises(ToolchainDigestError) as caught:
        await tools.install("other", small("0" * 128))
    assert caught.value.found == SMALL


@pytest.mark.needs("bubblewrap")
@pytest.mark.skipif(this_machine() != "linux-x86_64", reason="the package that is pinned here is of another machine")
def test_a_real_program_that_unpacks_itself_needs_to_write_nothing_later(tmp_path: Path) -> None:
    """Installed, it unpacked all of itself, confined; started with a new home it unpacks nothing again, and there is what it runs."""
    place = installed_toolchain(UNPACKING)
    record = CompletionRecord.model_validate_json((place / ".complete").read_bytes())
    assert record.unpacked is not None
    assert record.unpacked.confined
    assert record.unpacked.bytes > 200e6
    root, home = place / UNPACKING.root, tmp_path / "home"
    assert os.access(root / UNPACKING.program, os.X_OK)
    home.mkdir()
    before = sorted(root.rglob("*"))
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "COPILOT_PKG_CACHE_HOME": str(root)}
    done = subprocess.run((root / "copilot", "--version"), capture_output=True, check=True, timeout=60, env=environment)
    assert UNPACKING.version in done.stdout.decode()
    assert (sorted(root.rglob("*")), list(home.iterdir())) == (before, [])
