"""A disk that really is full or read-only in the middle of an action, and a daemon that really can open no further file (WS-4, WS-12).

The app directory lies on a small file system of its own. The answer is typed and says what to do, the daemon lives on, and once there is
room the action comes to its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jamcore.testing.crash import Lives
from jamcore.testing.matrix.faulty_lives import ANSWERED, DONE, end
from jamcore.testing.matrix.play import Play
from jamcore.testing.matrix.troubled_lives import Trouble, mounted, troubled
from jamcore.testing.small_disk import ImageDisk

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.needs("small-disks"), pytest.mark.timeout(1200)]

POINTS = {
    "export": ("export.begun", "writing.export.begun", "writing.export.copied", "export.keep.intended"),
    "archive": ("archive.choose.recorded", "writing.export.begun", "archive.mark.recorded", "archive.aside.intended"),
    "restore": ("restore.begun", "restore.enter.recorded", "restore.place.intended", "restore.settle.intended"),
    "provision": ("provision.begun", "provision.layout.intended", "provision.ready.intended"),
    "payload-deletion": ("payload-deletion.begun", "payload-deletion.retire.intended"),
}
MACHINE = {"storage.failed", "store.unusable", "workspace.provision_failed", "continuity.checkpoint_failed"}
BEGUN = {"workspace.archive_unfinished"}
"""What an archive is answered that has begun to remove something: the next attempt goes on."""
ENGINE = {"engine.unavailable", "engine.unknown", "engine.failed", "ownership.marker_unreadable", "prepare.failed"}
"""What a room is answered whose engine, door or marker is the first to want a file, which depends on what else is open just then."""
ANSWERS = {
    Trouble.FULL: {"storage.full", "store.full", "workspace.provision_failed", "continuity.removal_space", *BEGUN},
    Trouble.READ_ONLY: {*MACHINE, *BEGUN},
    Trouble.DESCRIPTORS: {*MACHINE, *BEGUN, *ENGINE},
}
LEFT = {Trouble.FULL: (0, 48 << 10), Trouble.READ_ONLY: (0,), Trouble.DESCRIPTORS: (0, 3)}


class DiskPlay(Play):
    """A play whose world lies on a disk of its own."""

    @property
    def disk(self) -> ImageDisk:
        """The disk."""
        return ImageDisk(self.world.root, self.root / "image")

    def keep(self, name: str) -> None:
        """See :meth:`Play.keep`."""
        self.disk.keep(self.root / f"{name}.img")

    def bring_back(self, name: str) -> None:
        """See :meth:`Play.bring_back`."""
        self.disk.bring_back(self.root / f"{name}.img")


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory, lives: Lives) -> Iterator[DiskPlay]:
    """One world."""
    root: Path = tmp_path_factory.mktemp("disk")
    with mounted(ImageDisk(root / "world", root / "image")):
        yield DiskPlay(root, lives)


@pytest.mark.guarantee("WS-4", "WS-12")
@pytest.mark.parametrize("trouble", list(Trouble))
@pytest.mark.parametrize("kind", POINTS)
def test_a_machine_that_fails_in_the_middle(play: DiskPlay, kind: str, trouble: Trouble) -> None:
    """Whatever it had done by then: a typed answer, a daemon that lives on, no live byte lost, and an action that comes to its end."""
    play.prepare(kind)
    answers = set()
    for point in POINTS[kind]:
        for left in LEFT[trouble]:
            play.bring_back("prepared")
            play.cell = f"{kind}, {trouble} at {point}, {left} left"
            play.live(troubled, play.world.root, kind, trouble, point, left)
            if trouble is Trouble.READ_ONLY:
                play.disk.mend()
            play.require_held(kind)
            play.live(end, play.world.root, kind, False)
            play.require_tidy()
            answers.add(play.said(ANSWERED))
    assert answers <= {*ANSWERS[trouble], DONE}
    assert answers & ANSWERS[trouble], "nothing was met"
