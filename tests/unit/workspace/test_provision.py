"""The directories of a host and its sessions: made again and again, also beside a guest that can write where they are (WS-1, SHARE-5)."""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from jamcore.domain import layout
from jamcore.domain.cells import WorkspaceSource
from jamcore.system.files import Files
from jamcore.workspace.provision import HostManifest, Provisioner

HOST, ONE, TWO = UUID(int=1), UUID(int=2), UUID(int=3)
MANIFEST = HostManifest(
    agent_id=UUID(int=9), host_id=HOST, provider="good", sandbox="jam-x", created_at=datetime(2026, 1, 1, tzinfo=UTC)
)
pytestmark = pytest.mark.unprivileged


def provision(app: Path, session: UUID) -> bool:
    """Make a Managed session's directories."""
    return Provisioner(app, files=Files()).provision(MANIFEST, session=session, source=WorkspaceSource.MANAGED, subdirectories=())


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """An app directory with one host and one session."""
    assert provision(tmp_path / "app", ONE)
    return tmp_path / "app"


@pytest.mark.guarantee("WS-1", "SHARE-5")
def test_each_session_of_a_host_has_a_directory_of_its_own(app: Path) -> None:
    """Side by side below the one that the guest sees, private, and again without a change."""
    assert provision(app, TWO)
    (app / layout.session_workspace(HOST, TWO) / "kept").write_text("x")
    assert provision(app, TWO)
    directories = [app / layout.session_workspace(HOST, session) for session in (ONE, TWO)]
    assert directories[0].parent == directories[1].parent
    assert [stat.S_IMODE(path.stat().st_mode) for path in directories] == [0o700, 0o700]
    assert (directories[1] / "kept").exists()


@pytest.mark.guarantee("SHARE-5", "SEC-1")
def test_a_session_that_joins_gets_the_guests_owner(app: Path) -> None:
    """As root, guests are other users: what is made while one runs belongs to whom the directory above belongs."""
    if os.geteuid() != 0:
        pytest.skip("an ordinary user's guests are that user")
    sessions = (app / layout.session_workspace(HOST, ONE)).parent
    os.chown(sessions, 1_900_000_123, 1_900_000_123)
    assert provision(app, TWO)
    made = (app / layout.session_workspace(HOST, TWO)).stat()
    assert (made.st_uid, made.st_gid) == (1_900_000_123, 1_900_000_123)


@pytest.mark.guarantee("SHARE-5", "WS-13")
@pytest.mark.parametrize("kind", ["link", "dangling", "file"])
def test_what_a_guest_put_in_the_way_is_not_followed(app: Path, tmp_path: Path, kind: str) -> None:
    """A link of the session's name leads nowhere, and nothing outside is touched."""
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)
    place = app / layout.session_workspace(HOST, TWO)
    if kind == "file":
        place.write_text("in the way")
    else:
        place.symlink_to(outside if kind == "link" else tmp_path / "nowhere")
    with pytest.raises(OSError):  # noqa: PT011 - ELOOP or ENOTDIR, as the kernel says
        provision(app, TWO)
    assert stat.S_IMODE(outside.stat().st_mode) == 0o755
    assert not (tmp_path / "nowhere").exists()
