"""How far an installation is, as a person sees it: a bar on a terminal, few lines on a pipe, nothing in JSON."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

import anyio
import pytest
from anyio.lowlevel import checkpoint

from jamcore.cli.commands.provider_install import install_shown
from jamcore.cli.download import LINES, download
from jamcore.domain.providers import NothingToInstallError
from jamcore.domain.requests import InstalledToolchain, InstallProgress

if TYPE_CHECKING:
    from jamcore.control.client import JamClient
    from jamcore.testing.jam_program import Terminal
    from tests.unit.cli.conftest import Jam

pytestmark = pytest.mark.unprivileged


@pytest.fixture
def held(home: Path) -> Iterator[Path]:
    """An installation that does not end before this file is gone."""
    hold = home / "hold-install"
    hold.touch()
    yield hold
    hold.unlink(missing_ok=True)


def test_a_terminal_shows_bytes_of_the_total(held: Path, terminal: Callable[..., Terminal]) -> None:
    """And nothing of it is left when it is done."""
    shown = terminal("provider", "install", "codex", COLUMNS="120")
    shown.expect("downloading codex")
    shown.expect("3.0/12.0 MB")
    held.unlink()
    shown.expect("codex 0.163.0: installed")
    assert shown.end() == 0
    assert "3.0/12.0 MB" not in shown.shown


def test_ctrl_c_leaves_the_installation_to_the_daemon(held: Path, terminal: Callable[..., Terminal]) -> None:
    """The bar goes, and it is said that it goes on."""
    assert held.exists()
    shown = terminal("provider", "install", "codex", COLUMNS="120")
    shown.expect("3.0/12.0 MB")
    shown.press("\x03")
    shown.expect("the installation goes on in the daemon")
    assert shown.end() == 130


def test_json_is_the_result_alone(jam: Jam) -> None:
    """Whatever is shown beside it, nothing of it is there."""
    done = jam("provider", "install", "codex", "--json")
    assert (done.json["provider"], done.err) == ("codex", "")


class Looked:
    """A daemon that refuses to install while it is asked how far it is, and answers that a little later."""

    def __init__(self) -> None:
        self.looks: list[str] = []
        self._asked = anyio.Event()

    async def install_progress(self, provider: str) -> InstallProgress:
        """Answer the first look at once, and the second when the installation has failed."""
        self.looks.append("asked")
        if len(self.looks) > 1:
            self._asked.set()
            for _ in range(5):
                await checkpoint()
        self.looks.append("answered")
        return InstallProgress()

    async def install(self, provider: str) -> InstalledToolchain:
        """Refuse."""
        await self._asked.wait()
        raise NothingToInstallError(provider=provider)


@pytest.mark.anyio
async def test_a_refusal_waits_for_the_look_that_is_under_way() -> None:
    """It is not cancelled in the middle of its answer, where the event loop would print a traceback of its own."""
    daemon = Looked()
    with pytest.raises(NothingToInstallError):
        await install_shown(cast("JamClient", daemon), "cursor", lambda _: None)
    assert daemon.looks == ["asked", "answered"] * 2


def lines(*states: InstallProgress) -> list[str]:
    """Return the lines that these states give without a terminal."""
    stream = io.StringIO()
    with download("codex", stream=stream, silent=False) as show:
        for state in states:
            show(state)
    return stream.getvalue().splitlines()


def test_a_pipe_gets_few_lines() -> None:
    """Each step once, and each tenth of a download once, however often it is asked."""
    loading = [InstallProgress(step="downloading", bytes=n * 1000, total=10_000_000) for n in range(10_001)]
    said = lines(InstallProgress(), *loading, *([InstallProgress(step="verifying")] * 3))
    assert said[:3] == ["installing codex …", "downloading codex: 0.0 of 10.0 MB", "downloading codex: 1.0 of 10.0 MB"]
    assert said[-2:] == ["downloading codex: 10.0 of 10.0 MB", "verifying codex"]
    assert len(said) == LINES + 3
    unpacking = [InstallProgress(step="unpacking", bytes=n, total=4) for n in range(5)]
    assert lines(*unpacking)[-1] == "unpacking codex: 0.0 of 0.0 MB", "every step that can say how far it is does"


def test_a_download_of_unknown_size_says_now_and_then_what_is_there() -> None:
    """A pip that tells nothing is no error; what lies on the disk says now and then that it goes on."""
    assert lines(InstallProgress(step="downloading"), InstallProgress(step="downloading"))[1:] == ["downloading codex"]
    grown = [InstallProgress(step="downloading", bytes=n * 1_000_000) for n in range(50)]
    assert lines(*grown)[1:] == ["downloading codex", "downloading codex: 20.0 MB", "downloading codex: 40.0 MB"]
