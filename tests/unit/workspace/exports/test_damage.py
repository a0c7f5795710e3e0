"""Whatever happens to an export is found, and named (WS-5)."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from jamcore.domain.exports import ExportDamagedError
from jamcore.domain.limits import EXPORT_LISTED
from jamcore.workspace.exports.verify import Verified
from tests.unit.workspace.exports.conftest import World

pytestmark = pytest.mark.unprivileged


def replace(path: Path, data: bytes) -> None:
    """Give a file other bytes of the same length, and its time back."""
    seen = path.stat()
    assert len(data) == seen.st_size
    path.write_bytes(data)
    os.utime(path, ns=(seen.st_mtime_ns, seen.st_mtime_ns))


def instead(path: Path, make: Callable[[Path], object]) -> None:
    """Put something else in the place of a file, and give its directory its time back."""
    seen = path.parent.stat()
    path.unlink()
    make(path)
    os.utime(path.parent, ns=(seen.st_mtime_ns, seen.st_mtime_ns))


def beside(path: Path, make: Callable[[Path], object]) -> None:
    """Add something, and give its directory its time back."""
    seen = path.parent.stat()
    make(path)
    os.utime(path.parent, ns=(seen.st_mtime_ns, seen.st_mtime_ns))


@pytest.fixture
def exported(world: World) -> Verified:
    """A small export of one of each."""
    tree = world.tree
    (tree / "a").mkdir()
    (tree / "a" / "file").write_text("content")
    os.setxattr(tree / "a" / "file", "user.note", b"1")
    os.link(tree / "a" / "file", tree / "again")
    (tree / "link").symlink_to("a")
    (tree / "other").write_text("content")
    os.mkfifo(tree / "fifo")
    return world.write()


DAMAGE: Mapping[str, tuple[Callable[[Path], object], str]] = {
    "content": (lambda w: replace(w / "other", b"CONTENT"), "workspace/other: has other content"),
    "longer": (lambda w: (w / "other").write_text("content!"), "workspace/other: has 8 bytes instead of 7"),
    "mode": (lambda w: (w / "a" / "file").chmod(0o777), "workspace/a/file: has the mode 0777"),
    "set-id": (lambda w: (w / "other").chmod(0o4644), "workspace/other: has the mode 4644 instead of"),
    "mode of a directory": (lambda w: (w / "a").chmod(0o711), "workspace/a: has the mode 0711"),
    "time": (lambda w: os.utime(w / "other", ns=(1, 1)), "workspace/other: has another modification time"),
    "time of a link": (
        lambda w: os.utime(w / "link", ns=(1, 1), follow_symlinks=False),
        "workspace/link: has another modification time",
    ),
    "attribute": (lambda w: os.setxattr(w / "a" / "file", "user.note", b"2"), "workspace/a/file: has other extended attributes"),
    "new attribute": (lambda w: os.setxattr(w / "a", "user.note", b"2"), "workspace/a: has other extended attributes"),
    "target": (lambda w: instead(w / "link", lambda p: p.symlink_to("b")), "workspace/link: has another link target"),
    "no hard link": (
        lambda w: instead(w / "again", lambda p: p.write_text("content")),
        "workspace/again: has other hard links",
    ),
    "more hard links": (
        lambda w: instead(w / "other", lambda p: os.link(w / "a" / "file", p)),
        "workspace/other: has other hard links",
    ),
    "missing": (lambda w: (w / "other").unlink(), "workspace/other: is missing"),
    "extra": (lambda w: beside(w / "more", Path.touch), "workspace/more: is not in the list of entries"),
    "extra FIFO where one was left out": (lambda w: beside(w / "fifo", os.mkfifo), "workspace/fifo: is not in the list"),
    "link for a file": (
        lambda w: instead(w / "other", lambda p: p.symlink_to("/etc/passwd")),
        "workspace/other: is a symlink instead of a file",
    ),
    "FIFO for a file": (lambda w: instead(w / "other", os.mkfifo), "workspace/other: is a FIFO instead of a file"),
    "extra beside the trees": (lambda w: (w.parent / "more").touch(), "more: does not belong to the export"),
    "readme": (lambda w: (w.parent / "README.txt").write_text("other"), "README.txt: has other content"),
    "sums": (lambda w: (w.parent / "SHA256SUMS").write_text(""), "SHA256SUMS: has other content"),
    "no sums": (lambda w: (w.parent / "SHA256SUMS").unlink(), "SHA256SUMS: it is missing"),
    "no entries": (lambda w: (w.parent / "entries.jsonl").unlink(), "entries.jsonl: it is missing"),
    "entries are a link": (
        lambda w: instead(w.parent / "entries.jsonl", lambda p: p.symlink_to("/etc/passwd")),
        "entries.jsonl: it is missing, or no file",
    ),
    "manifest is a FIFO": (lambda w: instead(w.parent / "manifest.json", os.mkfifo), "manifest.json: it is no file"),
    "entries cut": (lambda w: os.truncate(w.parent / "entries.jsonl", 400), "entries.jsonl: it has a line that is no entry"),
    "no workspace": (lambda w: w.rename(w.parent.parent / "away"), "workspace: is missing"),
}


@pytest.mark.guarantee("WS-5", "WS-13")
@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_found_and_named(world: World, exported: Verified, kind: str) -> None:
    """One thing at a time; and nothing else is named but what has to be."""
    damage, words = DAMAGE[kind]
    damage(world.export / "workspace")
    with pytest.raises(ExportDamagedError) as damaged:
        world.verify(exported.digest)
    assert any(text.startswith(words) for text in damaged.value.named), damaged.value.named
    with pytest.raises(ExportDamagedError):
        world.restore(exported.digest)
    assert not (world.app / "restored").exists()
    assert not list(world.app.glob(".restored*"))


@pytest.mark.guarantee("WS-5")
def test_all_that_differs_is_named_at_once(world: World, exported: Verified) -> None:
    """A person repairs from another copy what is named, so all of it is."""
    workspace = world.export / "workspace"
    replace(workspace / "other", b"CONTENT")
    (workspace / "a").chmod(0o700)
    beside(workspace / "more", Path.touch)
    with pytest.raises(ExportDamagedError) as damaged:
        world.verify(exported.digest)
    assert [text.partition(":")[0] for text in damaged.value.named] == ["workspace/a", "workspace/other", "workspace/more"]


@pytest.mark.guarantee("WS-5")
def test_other_times_hide_no_other_damage(world: World, exported: Verified) -> None:
    """A copy without its times names every file; what is worse stands before them, also where the list is bounded."""
    workspace = world.export / "workspace"
    for number in range(EXPORT_LISTED):
        beside(workspace / "a" / f"more-{number}", Path.touch)
    (workspace / "other").write_bytes(b"CONTENT")
    for path in sorted(workspace.rglob("*")):
        os.utime(path, ns=(1, 1), follow_symlinks=False)
    with pytest.raises(ExportDamagedError) as damaged:
        world.verify(exported.digest)
    listed = [text.partition(": ")[2] for text in damaged.value.named]
    assert listed[0] == "has other content"
    assert "has another modification time" not in listed
    assert len(listed) == EXPORT_LISTED


def forged(export: Path, change: Callable[[list[dict[str, object]]], object]) -> None:
    """Change the entries, and make the manifest and the sums fit again."""
    entries = [json.loads(line) for line in (export / "entries.jsonl").read_bytes().splitlines()]
    change(entries)
    data = b"".join(json.dumps(entry, separators=(",", ":"), ensure_ascii=False).encode() + b"\n" for entry in entries)
    (export / "entries.jsonl").write_bytes(data)
    manifest = json.loads((export / "manifest.json").read_bytes())
    manifest["entries_sha256"] = hashlib.sha256(data).hexdigest()
    text = json.dumps(manifest, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    (export / "manifest.json").write_text(text, encoding="utf-8")


@pytest.mark.guarantee("WS-5")
def test_a_forged_export_is_not_the_recorded_one(world: World, exported: Verified) -> None:
    """All fits together, but it is not what Jam recorded."""
    replace(world.export / "workspace" / "other", b"CONTENT")
    forged(world.export, lambda entries: entries[-1].update(sha256=hashlib.sha256(b"CONTENT").hexdigest()))
    with pytest.raises(ExportDamagedError) as damaged:
        world.verify(exported.digest)
    assert damaged.value.named == ("manifest.json: it is not the one that was recorded",)


@pytest.mark.guarantee("WS-5")
def test_a_list_of_entries_without_an_end_is_refused(world: World, exported: Verified, monkeypatch: pytest.MonkeyPatch) -> None:
    """An export from elsewhere takes no more memory than the largest of one's own."""
    monkeypatch.setattr("jamcore.workspace.exports.format._MOST_ENTRIES", 3)
    with pytest.raises(ExportDamagedError) as damaged:
        world.verify(exported.digest)
    assert damaged.value.named[0] == "entries.jsonl: it has more than 3 lines"


FORGERIES: Mapping[str, tuple[Callable[[list[dict[str, object]]], object], str]] = {
    "twice": (lambda entries: entries.insert(1, dict(entries[1])), "is there twice, or out of order"),
    "out of order": (lambda entries: entries.insert(1, entries.pop()), "is there twice, or out of order"),
    "elsewhere": (lambda entries: entries.append({"path": "z/x", "kind": "file"}), "z/x is in no tree of the export"),
    "above": (lambda entries: entries.append({"path": "workspace/../x", "kind": "file"}), "is there twice, or out of order"),
    "other spelling": (lambda entries: entries[0].update(path="base64:d29ya3NwYWNl"), "a line that is no entry"),
    "unknown field": (lambda entries: entries[0].update(extra=1), "a line that is no entry"),
    "default spelled out": (lambda entries: entries[0].update(why=""), "not written as Jam writes it"),
    "fewer": (lambda entries: entries.pop(), "workspace/other: is not in the list of entries"),
}


@pytest.mark.guarantee("WS-5", "WS-6")
@pytest.mark.parametrize("kind", FORGERIES)
def test_a_list_of_entries_that_means_two_things_is_refused(world: World, exported: Verified, kind: str) -> None:
    """Also where nobody recorded a digest: nothing in the list is ambiguous, or leads elsewhere."""
    assert exported.manifest.workspace.files == 3
    change, words = FORGERIES[kind]
    forged(world.export, change)
    with pytest.raises(ExportDamagedError) as damaged:
        world.verify()
    assert any(words in text for text in damaged.value.named), damaged.value.named
