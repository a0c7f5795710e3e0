"""An export from elsewhere is taken in as it is, or refused by name with nothing of it here (WS-6, SEC-7)."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from uuid import UUID

import pytest

from jamcore.domain import layout
from jamcore.domain.errors import JamError
from jamcore.domain.exports import ENTRIES, MANIFEST, SUMS, ExportDamagedError, ImportNamesError
from jamcore.domain.imports import ImportRefusedError
from jamcore.system.files import Files
from jamcore.system.tree_calls import TreeCalls
from jamcore.workspace.exports.restore import ExportReader
from jamcore.workspace.exports.taking import ExportTaker
from tests.unit.workspace.exports.conftest import World
from tests.unit.workspace.exports.test_damage import beside, instead, replace
from tests.unit.workspace.exports.test_failures import FAILING, Failing

pytestmark = [pytest.mark.unprivileged, pytest.mark.guarantee("WS-6")]

NEW = UUID(int=9)
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0"[:20] * 2


@pytest.fixture
def brought(world: World, tmp_path: Path) -> Path:
    """An export, copied with ``cp -a`` to where another app directory finds it."""
    tree = world.tree
    (tree / "a").mkdir()
    (tree / "a" / "file").write_text("content")
    os.link(tree / "a" / "file", tree / "again")
    (tree / "link").symlink_to("/etc/passwd")
    (tree / "other").write_text("content")
    (tree / "token").write_text(SECRET[:40])
    with (tree / "sparse").open("wb") as stream:
        stream.truncate(1 << 20)
    (tree / "closed").mkdir(mode=0o500)
    world.write()
    brought = tmp_path / "usb" / "brought"
    brought.parent.mkdir()
    subprocess.run(["cp", "-a", str(world.export), str(brought)], check=True)
    return brought


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """Another app directory."""
    made = tmp_path / "there"
    made.mkdir(mode=0o700)
    return made


def taker(app: Path, calls: TreeCalls | None = None) -> ExportTaker:
    """What takes exports in."""
    return ExportTaker(app, files=Files(), calls=calls)


def left(app: Path) -> list[str]:
    """Return what is in the directory of exports."""
    exports = app / layout.EXPORTS
    return sorted(path.name for path in exports.iterdir()) if exports.exists() else []


@pytest.mark.guarantee("WS-13", "SEC-7")
def test_taken_in_bit_for_bit(brought: Path, there: Path, world: World) -> None:
    """It is whole by its recorded digest, credentials are found by looking, and no link was followed."""
    taken = taker(there).copy(NEW, brought)
    assert left(there) == [f".{NEW}.taken"]
    taker(there).publish(NEW)
    assert left(there) == [str(NEW)]
    assert taken.digest == hashlib.sha256((world.export / MANIFEST).read_bytes()).hexdigest()
    assert (taken.credentials.total, taken.credentials.first[0].split(":")[0]) == (1, "token")
    reader = ExportReader(there, files=Files())
    assert reader.verify(NEW, taken.digest).digest == taken.digest
    root = there / layout.export_root(NEW)
    assert (root / "workspace" / "link").readlink() == Path("/etc/passwd")
    assert (root / "workspace" / "sparse").stat().st_blocks == 0
    assert (root / "workspace" / "again").samefile(root / "workspace" / "a" / "file")


def test_a_pax_archive_keeps_everything(brought: Path, there: Path, tmp_path: Path) -> None:
    """The program and the options that the page about exports names bring all of it."""
    archive, unpacked = tmp_path / "it.tar", tmp_path / "unpacked"
    unpacked.mkdir()
    subprocess.run(["tar", "--format=posix", "--xattrs", "-S", "-C", str(brought), "-cf", str(archive), "."], check=True)
    subprocess.run(["tar", "--xattrs", "-C", str(unpacked), "-xpf", str(archive)], check=True)
    taker(there).copy(NEW, unpacked)
    assert left(there) == [f".{NEW}.taken"]


def test_a_copy_that_was_cut_is_made_anew(brought: Path, there: Path) -> None:
    """What an earlier attempt left goes first."""
    half = there / layout.taken_export(NEW)
    (half / "workspace").mkdir(parents=True)
    (half / "workspace" / "half").touch()
    taker(there).copy(NEW, brought)
    assert not (half / "workspace" / "half").exists()
    taker(there).drop(NEW)
    assert left(there) == []


def resigned(root: Path, change: Callable[[list[dict[str, object]]], object]) -> None:
    """Change the list of entries as somebody would who can write the whole export, with everything that vouches for it."""
    lines = [json.loads(line) for line in (root / ENTRIES).read_text().splitlines()]
    change(lines)
    data = b"".join(json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode() + b"\n" for line in lines)
    (root / ENTRIES).write_bytes(data)
    vouch(root, {"entries_sha256": hashlib.sha256(data).hexdigest()})


def vouch(root: Path, fields: Mapping[str, object]) -> None:
    """Change the manifest, and the sums that vouch for it and for the list."""
    manifest = json.loads((root / MANIFEST).read_text()) | dict(fields)
    data = json.dumps(manifest, indent=2, sort_keys=True, ensure_ascii=False).encode() + b"\n"
    (root / MANIFEST).write_bytes(data)
    sums = dict(line.split("  ", 1)[::-1] for line in (root / SUMS).read_text().splitlines())
    sums[MANIFEST] = hashlib.sha256(data).hexdigest()
    sums[ENTRIES] = hashlib.sha256((root / ENTRIES).read_bytes()).hexdigest()
    (root / SUMS).write_text("".join(f"{digest}  {name}\n" for name, digest in sums.items()))


def rewritten(root: Path, path: str, data: bytes, fields: Mapping[str, object]) -> None:
    """Give a file of an export other bytes, with everything that vouches for it."""
    seen = (root / path).stat()
    (root / path).write_bytes(data)
    os.utime(root / path, ns=(seen.st_mtime_ns, seen.st_mtime_ns))
    digest = hashlib.sha256(data).hexdigest()
    before = next(line for line in map(json.loads, (root / ENTRIES).read_text().splitlines()) if line["path"] == path)
    (root / SUMS).write_text((root / SUMS).read_text().replace(f"{before['sha256']}  {path}\n", f"{digest}  {path}\n"))

    def change(lines: list[dict[str, object]]) -> None:
        next(line for line in lines if line["path"] == path).update(sha256=digest, size=len(data))

    resigned(root, change)
    vouch(root, fields)


def renamed(old: str, new: str) -> Callable[[Path], None]:
    """Return what gives an entry of the list another path."""

    def change(lines: list[dict[str, object]]) -> None:
        next(line for line in lines if line["path"] == old)["path"] = new

    return lambda root: resigned(root, change)


def added(path: str) -> Callable[[Path], None]:
    """Return what lists one name more."""
    return lambda root: resigned(root, lambda lines: lines.append({**lines[-1], "path": path}))


def bind(path: Path) -> None:
    """Make a socket."""
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))


def many_lines(root: Path) -> None:
    """Claim a list of 10 GB: sparse, so that only its size is there."""
    with (root / ENTRIES).open("r+b") as stream:
        stream.truncate(10 << 30)


def bomb(root: Path) -> None:
    """Claim a file of more bytes than an export may have, without any of them."""
    os.truncate(root / "workspace" / "sparse", 300 << 30)


def emptied(root: Path) -> None:
    """Leave an empty directory."""
    shutil.rmtree(root)
    root.mkdir()


TOTALS = {"files": 5, "directories": 3, "symlinks": 1, "left_out": 0}
HUGE = {"workspace": TOTALS | {"bytes_total": 1 << 50}}
REFUSED: Mapping[str, tuple[Callable[[Path], object], type[JamError], str]] = {
    "a name that leads upwards": (renamed("workspace/other", "workspace/../other"), ImportNamesError, "leads upwards"),
    "an absolute name": (renamed("workspace/other", "/other"), ImportNamesError, "/other: is absolute"),
    "a zero byte": (renamed("workspace/other", "workspace/o\0"), ImportNamesError, "has a zero byte"),
    "a name of Jam's own": (renamed("workspace/other", "workspace/.jam-x"), ImportNamesError, "Jam keeps for itself"),
    "a name in no tree": (renamed("workspace/other", "elsewhere/other"), ImportNamesError, "is in no tree"),
    "a name twice": (added("workspace/token"), ImportNamesError, "workspace/token: is there twice"),
    "names that differ by case": (added("workspace/TOKEN"), ImportNamesError, "by case or Unicode form alone"),
    "a name that is not there": (added("workspace/zzz"), ExportDamagedError, "workspace/zzz: is missing"),
    "a hard link to nothing": (
        lambda root: resigned(root, lambda lines: lines[-1].update(same_file_as="workspace/none")),
        ImportNamesError,
        "is a hard link to no file",
    ),
    "a set-id mode in the list": (
        lambda root: resigned(root, lambda lines: lines[-1].update(mode="4755")),
        ExportDamagedError,
        "a line that is no entry",
    ),
    "10 GB of entries": (many_lines, ImportRefusedError, "entries.jsonl: has more than"),
    "a file of 300 GiB": (bomb, JamError, "bytes"),
    "giant totals": (lambda root: vouch(root, HUGE), ImportRefusedError, "claims more than"),
    "other totals": (
        lambda root: vouch(root, {"workspace": TOTALS | {"bytes_total": 1}}),
        ImportRefusedError,
        "not what the manifest",
    ),
    "a checkpoint that is not there": (
        lambda root: vouch(root, {"checkpoint_files": TOTALS | {"bytes_total": 1}}),
        ImportRefusedError,
        "checkpoint: is missing",
    ),
    "a socket": (lambda root: bind(root / "workspace" / "sock"), ImportRefusedError, "workspace/sock: is a socket"),
    "a FIFO": (lambda root: os.mkfifo(root / "workspace" / "pipe"), ImportRefusedError, "workspace/pipe: is a FIFO"),
    "a set-id bit": (lambda root: (root / "workspace" / "other").chmod(0o4755), ImportRefusedError, "other: has a set-id bit"),
    "a hard link out of it": (
        lambda root: os.link(root / "workspace" / "other", root.parent / "outside"),
        ImportRefusedError,
        "workspace/other: has another name outside",
    ),
    "a file more at the top": (lambda root: (root / "run.sh").touch(), ImportRefusedError, "run.sh: does not belong"),
    "a file more": (
        lambda root: beside(root / "workspace" / "more", Path.touch),
        ImportRefusedError,
        "not what the manifest counts",
    ),
    "a file less": (lambda root: (root / "workspace" / "other").unlink(), ImportRefusedError, "not what the manifest counts"),
    "a file for another": (
        lambda root: (root / "workspace" / "other").rename(root / "workspace" / "more"),
        ExportDamagedError,
        "workspace/other: is missing",
    ),
    "workspace is a link": (
        lambda root: (root / "workspace").symlink_to((root / "workspace").rename(root.parent / "moved")),
        ExportDamagedError,
        "workspace: it is missing, or no directory",
    ),
    "the manifest is a link": (
        lambda root: instead(root / MANIFEST, lambda path: path.symlink_to("/etc/passwd")),
        ExportDamagedError,
        "manifest.json: it is missing, or no file",
    ),
    "the list is a FIFO": (lambda root: instead(root / ENTRIES, os.mkfifo), ExportDamagedError, "entries.jsonl: it is no file"),
    "no manifest": (
        lambda root: (root / MANIFEST).unlink(),
        ImportRefusedError,
        "manifest.json: it is missing, so that this is no export",
    ),
    "an empty directory": (emptied, ImportRefusedError, "manifest.json: it is missing, so that this is no export"),
    "other times alone": (
        lambda root: os.utime(root / "workspace" / "other"),
        ImportRefusedError,
        "workspace/other: has another modification time",
    ),
    "another content": (
        lambda root: replace(root / "workspace" / "other", b"CONTENT"),
        ExportDamagedError,
        "workspace/other: has other content",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(brought: Path, there: Path, name: str) -> None:
    """Nothing of it is here afterwards."""
    change, kind, words = REFUSED[name]
    change(brought)
    with pytest.raises(kind) as caught:
        taker(there).copy(NEW, brought)
    assert words in " ".join(caught.value.named)  # type: ignore[attr-defined]
    assert left(there) == []


def test_a_link_or_an_archive_is_no_export(brought: Path, there: Path, tmp_path: Path) -> None:
    """A directory is asked for."""
    link, archive = tmp_path / "link", tmp_path / "it.tar"
    link.symlink_to(brought)
    archive.touch()
    for path, words in ((link, "it is a link"), (archive, "it is no directory"), (tmp_path / "none", "it is no directory")):
        with pytest.raises(ImportRefusedError, match=words):
            taker(there).copy(NEW, path)
    assert left(there) == []


@pytest.mark.guarantee("WS-5")
def test_a_byte_flipped_in_any_file(brought: Path, there: Path) -> None:
    """Each file of an export, one after the other, at its beginning and its end."""
    files = sorted(path for path in brought.rglob("*") if path.is_file() and not path.is_symlink() and path.stat().st_size)
    assert len(files) > 8
    for path in files:
        whole = path.read_bytes()
        for at in (0, len(whole) - 1):
            replace(path, whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            with pytest.raises(JamError) as caught:
                taker(there).copy(NEW, brought)
            assert path.name in str(caught.value.context()), path
            assert left(there) == []
        replace(path, whole)
    taker(there).copy(NEW, brought)


class Swaps(TreeCalls):
    """Puts a link in the place of a file just before it is opened for its bytes."""

    def __init__(self, path: Path, target: Path) -> None:
        self.swapped = path
        self.victim = target

    def open_file(self, parent: int, name: bytes) -> int:
        """See :class:`TreeCalls`."""
        if name == os.fsencode(self.swapped.name) and not self.swapped.is_symlink():
            self.swapped.unlink()
            self.swapped.symlink_to(self.victim)
        return super().open_file(parent, name)


@pytest.mark.guarantee("SEC-7")
def test_a_name_that_is_swapped_is_not_followed(brought: Path, there: Path, tmp_path: Path) -> None:
    """Whoever writes the source while it is read gets nobody else's file copied."""
    mine = tmp_path / "mine"
    mine.write_text("content")
    with pytest.raises(JamError):
        taker(there, Swaps(brought / "workspace" / "other", mine)).copy(NEW, brought)
    assert left(there) == []


@pytest.mark.guarantee("WS-12")
@pytest.mark.parametrize("call", FAILING)
def test_a_failed_call_takes_nothing_in_and_the_next_attempt_is_whole(
    brought: Path, there: Path, call: str, open_descriptors: Callable[[], int]
) -> None:
    """Whichever call fails, the first time and the last: a machine that fails says nothing of the export, and nothing is left open."""
    counting = Failing()
    whole = taker(there, counting).copy(NEW, brought)
    taker(there).drop(NEW)
    times = counting.counts[call]
    for nth in {1, times} if times else ():
        descriptors = open_descriptors()
        with pytest.raises(OSError, match="the disk is broken"):
            taker(there, Failing(call, nth)).copy(NEW, brought)
        assert left(there) == []
        assert open_descriptors() == descriptors
    assert taker(there).copy(NEW, brought) == whole


@pytest.mark.guarantee("WS-12")
def test_a_copy_that_nobody_kept_a_record_of_goes_whole(brought: Path, there: Path) -> None:
    """Also when it had its name already; what is gone is fine, and an export that is kept stays."""
    taker(there).copy(NEW, brought)
    taker(there).publish(NEW)
    taker(there).drop(NEW)
    assert left(there) == [str(NEW)]
    for _ in range(2):
        taker(there).drop(NEW, published=True)
        assert left(there) == []
