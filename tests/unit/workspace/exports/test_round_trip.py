"""What goes into an export comes out of it bit for bit, or is refused by its name (WS-5, WS-13)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from jamcore.domain.errors import ConflictError, NotFoundError
from jamcore.domain.exports import ExportRefusedError, TreeChangedError
from jamcore.testing.nasty_trees import facts_of, plant, plant_left_out
from tests.unit.workspace.exports.conftest import EXPORT, World

pytestmark = pytest.mark.unprivileged


@pytest.mark.guarantee("WS-13", "WS-5", "WS-6")
def test_a_nasty_tree_is_exported_and_restored_bit_for_bit(world: World, open_descriptors: Callable[[], int]) -> None:
    """Content, modes less set-id bits, times, links, hard links, holes, attributes, and every name; the workspace stays as it was."""
    plant(world.tree)
    before, descriptors = facts_of(world.tree), open_descriptors()
    done = world.write()
    assert facts_of(world.export / "workspace") == before
    assert world.verify(done.digest) == done
    assert facts_of(world.restore(done.digest)) == before == facts_of(world.tree)
    assert world.published == [str(EXPORT)]
    assert open_descriptors() == descriptors


@pytest.mark.guarantee("WS-5")
def test_an_export_is_checked_without_jam(world: World) -> None:
    """``sha256sum -c`` with every odd name, and every file of the export is in it but the sums themselves."""
    plant(world.tree)
    world.write()
    done = subprocess.run(
        ["sha256sum", "--strict", "-c", "SHA256SUMS"], cwd=world.export, capture_output=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, b"")
    files = [path for path in world.export.rglob("*") if not path.is_symlink() and path.is_file()]
    assert done.stdout.count(b": OK\n") == len(files) - 1
    (world.export / "workspace" / "files" / "large").write_bytes(b"changed")
    assert subprocess.run(["sha256sum", "--status", "-c", "SHA256SUMS"], cwd=world.export, check=False, timeout=60).returncode == 1


@pytest.mark.guarantee("WS-5")
def test_equal_trees_have_equal_exports(world: World, tmp_path: Path) -> None:
    """The list of entries and the sums depend on nothing but the tree."""
    plant(world.tree)
    world.write()
    first = (world.export / "entries.jsonl").read_bytes(), (world.export / "SHA256SUMS").read_bytes()
    world.export.rename(tmp_path / "first")
    world.write()
    assert ((world.export / "entries.jsonl").read_bytes(), (world.export / "SHA256SUMS").read_bytes()) == first
    world.files.remove_tree(tmp_path / "first")


@pytest.mark.guarantee("WS-13", "SEC-1")
def test_set_id_bits_are_stripped_and_named(world: World) -> None:
    """Of files and of directories, in the export and in what is restored."""
    plant(world.tree)
    done = world.write()
    assert done.manifest.stripped.first == ("files/set-id: set-user-id, set-group-id", "sticky: set-group-id")
    for root in (world.export / "workspace", world.restore(done.digest)):
        assert [path for path in root.rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o6000] == []


@pytest.mark.guarantee("WS-13")
def test_sockets_and_fifos_are_left_out_and_named(world: World) -> None:
    """They are a dead guest's, and say nothing without it; the rest is whole."""
    names = plant_left_out(world.tree)
    (world.tree / "file").write_text("x")
    done = world.write()
    assert tuple(text.rpartition(": ")[0] for text in done.manifest.left_out.first) == names
    assert (done.manifest.left_out.total, done.manifest.workspace.left_out) == (3, 3)
    assert facts_of(world.restore(done.digest)) == facts_of(world.tree)


@pytest.mark.guarantee("WS-4", "WS-13")
def test_a_workspace_is_held_against_its_export(world: World) -> None:
    """What was left out and stripped is no difference; everything else is one, by its name."""
    plant(world.tree)
    plant_left_out(world.tree)
    (world.tree / "build").mkdir()
    (world.tree / "build" / "lost").write_text("x")
    done = world.write(leave_out=("build",))
    reader, export = world.reader(), done.manifest.request.export_id
    reader.require_same(export, done.digest, world.source)
    (world.tree / "new").write_text("x")
    with pytest.raises(TreeChangedError, match="new"):
        reader.require_same(export, done.digest, world.source)
    (world.tree / "new").unlink()
    (world.tree / "fifo").unlink()
    (world.tree / "fifo").write_text("a file now")
    with pytest.raises(TreeChangedError, match="fifo"):
        reader.require_same(export, done.digest, world.source)


@pytest.mark.guarantee("WS-13")
@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_cannot_be_read_is_refused_by_name(world: World) -> None:
    """Files and directories, all of them at once, and nothing is published; unless a person agrees to lose them."""
    for name in ("file", "directory/below", "entered/below", "fine"):
        (world.tree / name).parent.mkdir(exist_ok=True)
        (world.tree / name).write_text("x")
    for name, mode in (("file", 0), ("directory", 0o300), ("entered", 0o600)):
        (world.tree / name).chmod(mode)
    with pytest.raises(ExportRefusedError) as refused:
        world.write()
    assert refused.value.named == ("directory: it cannot be read", "entered: it cannot be read", "file: it cannot be read")
    assert world.published == []
    done = world.write(leave_out=("directory", "entered", "file"))
    assert done.manifest.left_out.first[0] == "directory: left out on request"
    assert sorted(path.name for path in world.restore(done.digest).iterdir()) == ["fine"]


@pytest.mark.guarantee("WS-13")
@pytest.mark.needs("root")
def test_devices_are_refused_by_name(world: World) -> None:
    """An ordinary guest makes none; one that is there is something else than a workspace."""
    os.mknod(world.tree / "null", 0o20666, os.makedev(1, 3))
    with pytest.raises(ExportRefusedError) as refused:
        world.write()
    assert refused.value.named == ("null: it is a character device",)


@pytest.mark.guarantee("SEC-7")
def test_credentials_are_warned_of_and_exported(world: World) -> None:
    """By name and by shape, in text; an archive of a person's own workspace is not blocked for ever."""
    (world.tree / ".netrc").write_text("machine x")
    (world.tree / "notes").write_text("x" * 300_000 + " ghp_" + "a1B2" * 9 + "\n")
    (world.tree / "binary").write_bytes(b"\0 ghp_" + b"a1B2" * 9)
    done = world.write()
    assert done.manifest.credentials.first == (".netrc: a login by its name", "notes: a GitHub token")
    assert (world.export / "workspace" / ".netrc").read_text() == "machine x"


@pytest.mark.guarantee("WS-5", "WS-11")
def test_an_exact_retry_verifies_and_a_changed_one_is_refused(world: World) -> None:
    """The tree may be gone by then: nothing is written again."""
    (world.tree / "file").write_text("x")
    done = world.write()
    seen = world.export.stat().st_mtime_ns, world.export.stat().st_ino
    (world.tree / "file").write_text("changed since")
    assert world.write() == done
    assert (world.export.stat().st_mtime_ns, world.export.stat().st_ino) == seen
    with pytest.raises(ConflictError):
        world.write(leave_out=("file",))


@pytest.mark.guarantee("WS-5")
def test_what_a_killed_export_left_is_replaced(world: World) -> None:
    """Also what nobody but its owner could remove."""
    left = world.exports / f".{EXPORT}.partial"
    (left / "workspace" / "old").mkdir(parents=True)
    (left / "workspace").chmod(0o500)
    (world.tree / "new").write_text("x")
    world.write()
    assert world.published == [str(EXPORT)]
    assert sorted(path.name for path in (world.export / "workspace").iterdir()) == ["new"]


@pytest.mark.guarantee("WS-6")
def test_a_restore_never_replaces_anything(world: World) -> None:
    """Not even an empty directory or a dangling link."""
    done = world.write()
    (world.app / "there").mkdir()
    (world.app / "link").symlink_to("nowhere")
    for name in ("there", "link"):
        with pytest.raises(ConflictError):
            world.restore(done.digest, name)
    world.files.remove_tree(world.export)
    with pytest.raises(NotFoundError):
        world.restore(done.digest)


@pytest.mark.guarantee("WS-6", "SEC-1")
@pytest.mark.needs("root")
def test_what_is_restored_belongs_to_whom_its_parent_belongs(world: World) -> None:
    """Files, directories, links, and the hard links of a file."""
    plant(world.tree)
    done = world.write()
    parent = world.app / "sessions"
    parent.mkdir()
    os.chown(parent, 1234, 1235)
    root = world.restore(done.digest, "sessions/restored")
    owners = {(status.st_uid, status.st_gid) for path in (root, *root.rglob("*")) for status in (path.lstat(),)}
    assert owners == {(1234, 1235)}
    assert facts_of(root) == facts_of(world.tree)
