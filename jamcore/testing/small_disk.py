"""A small disk that really becomes full, or really becomes read-only as the kernel makes one after an error. Only root can mount it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

MIB = 1 << 20
SIZE = 64 * MIB
MOUNT_S = 30.0
_TRIES = 50
"""Others write at the same time as what fills a disk."""


class SmallDisk:
    """A file system that is full when somebody wants it to be."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._filler = root / "filler"

    def fill(self, leave: int = 0) -> None:
        """Take all free space but ``leave`` bytes."""
        self.free()
        with self._filler.open("ab", buffering=0) as file:
            for _ in range(_TRIES):
                found = os.statvfs(self.root)
                too_much = found.f_bavail * found.f_frsize - leave
                if too_much <= found.f_frsize:
                    return
                with suppress(OSError):
                    file.write(bytes(too_much))
        raise AssertionError("the disk does not become full")

    def free(self) -> None:
        """Give it back."""
        self._filler.unlink(missing_ok=True)


class ImageDisk(SmallDisk):
    """An ext4 file system in a file, mounted at a directory. Its states are kept as copies of the file."""

    def __init__(self, root: Path, image: Path) -> None:
        super().__init__(root)
        self._image = image

    def make(self) -> None:
        """Make it, empty, and mount it."""
        with self._image.open("wb") as file:
            file.truncate(SIZE)
        # Without a journal: an error is then the only thing that makes it read-only.
        _run("mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", str(self._image))
        self.mount()

    def mount(self) -> None:
        """Mount it."""
        self.root.mkdir(exist_ok=True)
        _run("mount", "-o", "loop,errors=remount-ro", str(self._image), str(self.root))

    def unmount(self) -> None:
        """Take it away; nobody uses it. Its bytes are in the image then, also where a copy of the mounts has it a little longer."""
        with suppress(OSError):  # one with an error is not flushed
            _run("sync", "-f", str(self.root))
        _run("umount", str(self.root))

    def keep(self, copy: Path) -> None:
        """Keep it as it is."""
        self.unmount()
        shutil.copyfile(self._image, copy)
        self.mount()

    def bring_back(self, copy: Path) -> None:
        """Make it what it was."""
        self.unmount()
        self._put(copy)
        self.mount()

    def fail(self) -> None:
        """Let the kernel find an error: from now on it is read-only, also for whoever has a file open."""
        device = Path(_run("findmnt", "-n", "-o", "SOURCE", str(self.root)).strip()).name
        Path(f"/sys/fs/ext4/{device}/trigger_fs_error").write_text("1")

    def mend(self) -> None:
        """Mount it anew, checked, as a person would."""
        self.unmount()
        self._put(self._image)
        _run("e2fsck", "-y", "-f", str(self._image), fine=(0, 1))
        self.mount()

    def _put(self, source: Path) -> None:
        """Put a copy in the image's place as a new file: the device of the old one may outlive its mount, with what it remembers."""
        new = self._image.with_name("new")
        shutil.copyfile(source, new)
        new.replace(self._image)


def probe_small_disks() -> str | None:
    """``small-disks``: a file can be mounted as an ext4 file system here, and the kernel can be told that it has an error."""
    if os.geteuid() != 0:
        return "the tests do not run as root"
    with tempfile.TemporaryDirectory(prefix="jam-disk-") as place:
        disk = ImageDisk(Path(place, "root"), Path(place, "image"))
        try:
            disk.make()
        except (OSError, subprocess.SubprocessError) as error:
            return str(error)
        try:
            disk.fail()
        except (OSError, subprocess.SubprocessError) as error:
            return str(error)
        finally:
            disk.unmount()
    return None


def _run(*argv: str, fine: tuple[int, ...] = (0,)) -> str:
    done = subprocess.run(argv, check=False, timeout=MOUNT_S, capture_output=True, text=True)
    if done.returncode not in fine:
        raise OSError(f"{argv[0]}: {done.stderr.strip()}")
    return done.stdout
