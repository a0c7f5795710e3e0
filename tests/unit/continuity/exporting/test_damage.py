"""Everything one can do to a checkpoint in an export is refused by name, and nothing is published (WS-6, SEC-7, CONT-4)."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jamcore.domain import limits
from jamcore.domain.checkpoint_exports import CheckpointImportRefusedError
from jamcore.domain.continuity import ActivationPlan, CaptureEntry, CaptureKind, CaptureList
from jamcore.testing.databases import Conversation, host_databases
from tests.unit.continuity.exporting.carrying import Carried, Json, asked, builder, carry, edited, on_disk

if TYPE_CHECKING:
    from tests.unit.continuity.conftest import MakeWorld, World

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]

CAPTURES = CaptureList(
    entries=(
        CaptureEntry(pattern="home/sessions/**/*.jsonl", kind=CaptureKind.APPEND_ONLY),
        CaptureEntry(pattern="home/config/**", kind=CaptureKind.WHOLE),
        CaptureEntry(pattern="chats/*.db", kind=CaptureKind.DATABASE),
        CaptureEntry(pattern="chat.db", kind=CaptureKind.DATABASE),
    ),
    credential_patterns=("home/config/token*",),
)
LOG, PLAIN, LINK, DATABASE = "home/sessions/a.jsonl", "home/config/a", "home/config/link", "chat.db"
KEY = "ghp_" + "A1b2" * 9
Do = Callable[[Carried], object]


@dataclass(frozen=True)
class Row:
    """One kind of damage, and the path and the words that must name it."""

    name: str
    do: Do
    path: str
    words: str


def on(relative: str) -> Callable[[Carried], Path]:
    """Return where a file of the export is."""
    return lambda carried: carried.directory / relative


def content(relative: str, change: Callable[[bytes], bytes]) -> Do:
    """Change the bytes of a file."""
    return lambda carried: on(relative)(carried).write_bytes(change(on(relative)(carried).read_bytes()))


def become(relative: str, make: Callable[[Path], object]) -> Do:
    """Put something else in the place of a name."""

    def do(carried: Carried) -> None:
        path = on(relative)(carried)
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        make(path)

    return do


def link(path: Path) -> None:
    """Make a link to a file with the bytes that are listed."""
    outside = path.parents[len(path.parents) - 2] / "outside"
    path.symlink_to(outside)


def listen(path: Path) -> None:
    """Make a socket."""
    here = Path.cwd()
    os.chdir(path.parent)  # its whole path may be too long
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def listed(change: Callable[[Json], object]) -> Do:
    """Change the listing as data."""

    def do(carried: Carried) -> None:
        data = carried.read()
        change(data)
        carried.write(data)

    return do


def add(path: str, data: bytes = b"", **fields: object) -> Do:
    """Add a file to the export and to its listing, everything consistent."""

    def do(carried: Carried) -> None:
        listing = carried.read()
        entry = {
            "path": path,
            "kind": "file",
            "declared": "whole",
            "mode": 0o600,
            "mtime_ns": 1,
            "size": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
            "target": None,
        } | fields
        below = "databases" if entry["kind"] == "database" else "files"
        target = carried.directory / below / path
        if target.parent.is_dir() and not target.parent.is_symlink() and ".." not in path and not path.startswith("/"):
            target.write_bytes(data)
        ordered = [*listing["entries"], entry]
        listing["entries"] = sorted(ordered, key=lambda one: (one["kind"] == "database", one["path"].split("/")))
        listing["files"] += 1
        listing["bytes_total"] += entry["size"]
        carried.write(listing)

    return do


def replace(relative: str, path: str, data: bytes) -> Do:
    """Change a file and its listing, everything consistent."""

    def do(carried: Carried) -> None:
        listing = carried.read()
        entry = carried.entry(listing, path)
        listing["bytes_total"] += len(data) - entry["size"]
        entry.update(size=len(data), sha256=hashlib.sha256(data).hexdigest())
        on(relative)(carried).write_bytes(data)
        carried.write(listing)

    return do


def twice(data: Json) -> None:
    """List the last file twice."""
    data["entries"].insert(0, data["entries"][0])


DISK = (
    Row("a flip in a log", content(f"files/{LOG}", lambda data: data[:-1] + b"?"), LOG, "its bytes are not"),
    Row("a flip in a database", content(f"databases/{DATABASE}", lambda data: data[:-1] + b"?"), f"~/{DATABASE}", "its bytes are"),
    Row("a longer log", content(f"files/{LOG}", lambda data: data + b"\n"), LOG, "bytes, and"),
    Row("a shorter log", content(f"files/{LOG}", lambda data: data[:-1]), LOG, "bytes, and"),
    Row("a shorter database", content(f"databases/{DATABASE}", lambda data: data[:-512]), f"~/{DATABASE}", "bytes, and"),
    Row("no log", lambda carried: on(f"files/{LOG}")(carried).unlink(), LOG, "it is not there"),
    Row("no database", lambda carried: on(f"databases/{DATABASE}")(carried).unlink(), f"~/{DATABASE}", "it is not there"),
    Row("no files", lambda carried: shutil.rmtree(carried.directory / "files"), "files", "it is not there"),
    Row("no databases", lambda carried: shutil.rmtree(carried.directory / "databases"), "databases", "it is not there"),
    Row("a file more", lambda carried: on("files/home/config/more")(carried).touch(), "home/config/more", "it is not listed"),
    Row("a file more at the top", lambda carried: on("more")(carried).touch(), "more", "it is not listed"),
    Row("a database more", lambda carried: on("databases/more.db")(carried).touch(), "~/more.db", "it is not listed"),
    Row("a directory more", lambda carried: on("files/more")(carried).mkdir(), "more", "it is not listed"),
    Row("a link for a log", become(f"files/{LOG}", link), LOG, "no regular file"),
    Row("a FIFO for a log", become(f"files/{LOG}", os.mkfifo), LOG, "no regular file"),
    Row("a socket for a log", become(f"files/{LOG}", listen), LOG, "no regular file"),
    Row("a directory for a log", become(f"files/{LOG}", Path.mkdir), LOG, "no regular file"),
    Row("a link for a directory", become("files/home/sessions", link), "home/sessions", "no directory"),
    Row("a link for all files", become("files", link), "files", "no directory"),
    Row("a file for a directory", become("files/home/sessions", Path.touch), "home/sessions", "no directory"),
    Row("a file for a link", lambda carried: on(f"files/{LINK}")(carried).touch(), LINK, "it is not listed"),
    Row("a link that is listed", lambda carried: on(f"files/{LINK}")(carried).symlink_to("a"), LINK, "it is not listed"),
    Row("no listing", lambda carried: carried.listing.unlink(), "checkpoint.json", "it is not there"),
    Row("a link for the listing", become("checkpoint.json", link), "checkpoint.json", "no regular file"),
    Row("a FIFO for the listing", become("checkpoint.json", os.mkfifo), "checkpoint.json", "no regular file"),
    Row("an empty listing", lambda carried: carried.listing.write_bytes(b""), "checkpoint.json", ""),
    Row("half a listing", content("checkpoint.json", lambda data: data[:300]), "checkpoint.json", "EOF"),
    Row(
        "a name twice in the listing", content("checkpoint.json", lambda data: b'{"files":1,' + data[1:]), "checkpoint.json", "byte"
    ),
    Row("a huge listing", lambda carried: os.truncate(carried.listing, limits.EXPORTED_BYTES + 1), "checkpoint.json", "at most"),
)

LISTED = (
    Row("another schema", edited("", schema_version=2), "checkpoint.json", "schema_version"),
    Row("an unknown field", edited("", extra=1), "checkpoint.json", "extra"),
    Row("another count", edited("", files=1), "checkpoint.json", "counts other files"),
    Row("other bytes", edited("", bytes_total=1), "checkpoint.json", "counts other files"),
    Row("more than the limit", edited("", bytes_total=limits.CAPTURE_BYTES + 1), "checkpoint.json", "bytes_total"),
    Row("two of one conversation", listed(lambda data: data["sessions"].append(data["sessions"][0])), "checkpoint.json", "twice"),
    Row(
        "no name of the conversation",
        listed(lambda data: data["sessions"][0].update(provider_identity="")),
        "",
        "provider_identity",
    ),
    Row("a set-id bit", edited(PLAIN, mode=0o4755), "checkpoint.json", "mode"),
    Row("a negative size", edited(PLAIN, size=-1), "checkpoint.json", "size"),
    Row("a time beyond all", edited(PLAIN, mtime_ns=1 << 63), "checkpoint.json", "mtime_ns"),
    Row("no digest of its form", edited(PLAIN, sha256="A" * 64), "checkpoint.json", "sha256"),
    Row("an entry twice", listed(twice), "home", "listed twice"),
    Row("out of order", listed(lambda data: data["entries"].reverse()), "", "not listed in order"),
    Row("no digest", edited(PLAIN, sha256=None), PLAIN, "not listed as a file"),
    Row("a target of a file", edited(PLAIN, target="x"), PLAIN, "not listed as a file"),
    Row("a file as a link", edited(PLAIN, kind="link"), PLAIN, "not listed as a link"),
    Row("a directory with a size", edited("home", size=1), "home", "no size"),
    Row("a link's other size", edited(LINK, size=2), LINK, "target"),
    Row("an absolute name", add("/x"), "", "no path below"),
    Row("a name that leads up", add("home/config/../../../x"), "", "no path below"),
    Row("an empty name", edited(PLAIN, path="home/config//a"), "", "no path below"),
    Row("a NUL", edited(PLAIN, path="home/config/\0"), "", "no path below"),
    Row("a name too long", edited(PLAIN, path="home/config/" + "a" * 256), "", "no path below"),
    Row("a path too deep", edited(PLAIN, path="home/config" + "/a" * 70), "", "deeper than"),
    Row("another spelling of a name", edited(PLAIN, path="base64:aG9tZS9jb25maWcvYQ=="), "base64:", "not spelled"),
    Row("no base64", edited(PLAIN, path="base64:?"), "base64:", "not spelled"),
    Row("no directory around it", edited(PLAIN, path="home/config/b/a"), "home/config/b/a", "directory that it lies in"),
    Row("a file in a link", add("home/config/link/x"), "home/config/link/x", "directory that it lies in"),
    Row("what no checkpoint holds", add("home/hooks.json"), "home/hooks.json", "captures no such file"),
    Row("a log that is no log", edited(LOG, declared="whole"), LOG, "captures it as append-only"),
    Row("a file as a log", edited(PLAIN, declared="append-only"), PLAIN, "captures it as whole"),
    Row("a link as a log", edited(LOG, kind="link", target="x", size=1, sha256=None), LOG, "a symbolic link where"),
    Row("a directory of nothing", edited("home", path="cache"), "cache", "captures nothing there"),
    Row("a login", add("home/config/auth.json"), "home/config/auth.json", "a credential"),
    Row("a declared credential", add("home/config/token-1"), "home/config/token-1", "a credential"),
    Row("a lock", add("home/config/x.lock"), "home/config/x.lock", "a lock"),
    Row("a key in a log", replace(f"files/{LOG}", LOG, f"{KEY}\n".encode()), LOG, "GitHub token"),
    Row("a database of another name", edited(DATABASE, path="other.db"), "~/other.db", "captures no such database"),
    Row("a needed database left out", edited(DATABASE, path="chats/other.db"), "~/chat.db", "cannot do without"),
    Row("a database with a time", edited(DATABASE, mtime_ns=1), f"~/{DATABASE}", "not listed as a database"),
    Row("a database as a file", edited(DATABASE, declared="whole"), f"~/{DATABASE}", "not listed as a database"),
    Row("no database", replace(f"databases/{DATABASE}", DATABASE, b"x" * 4096), f"~/{DATABASE}", "no database"),
    Row("an empty database", replace(f"databases/{DATABASE}", DATABASE, b""), f"~/{DATABASE}", "no database"),
    Row("a database too large", edited(DATABASE, size=limits.DATABASE_BYTES + 1), f"~/{DATABASE}", "more than"),
)


@dataclass(frozen=True)
class Scene:
    """An export with a log, a file, a link and a database, and a host that it could come to."""

    there: World
    carried: Carried


@pytest.fixture
async def scene(make_world: MakeWorld, tmp_path: Path) -> AsyncIterator[Scene]:
    bare = ActivationPlan()
    async with (
        make_world(tmp_path / "here", captures=CAPTURES, plan=bare) as here,
        make_world(tmp_path / "there", captures=CAPTURES, plan=bare) as there,
    ):
        here.log().write_bytes(b"{}\n" * 30_000)
        here.write(PLAIN, b"plain")
        (here.state / LINK).symlink_to("a")
        Conversation(here.home / DATABASE).say("hello")
        row = await here.capture(databases=host_databases(here.home))
        yield Scene(there, carry(here, row, tmp_path / "export"))


@pytest.mark.guarantee("WS-6", "SEC-7", "CONT-4")
@pytest.mark.parametrize("row", [*DISK, *LISTED], ids=lambda row: row.name)
async def test_it_is_refused_by_name_and_nothing_is_published(scene: Scene, row: Row) -> None:
    """The inspection and the build say the same, of an export whose own digest is right."""
    row.do(scene.carried)
    there = scene.there
    listing = scene.carried.listing
    digest = hashlib.sha256(listing.read_bytes()).hexdigest() if listing.is_file() and not listing.is_symlink() else "0" * 64
    carried = Carried(scene.carried.directory, scene.carried.summary.model_copy(update={"digest": digest}))
    wanted = asked(there, carried)
    before = on_disk(there.app / "runtime-hosts")
    with pytest.raises(CheckpointImportRefusedError) as seen:
        await builder(there).inspect(carried.directory, captures=there.captures)
    with pytest.raises(CheckpointImportRefusedError) as refused:
        await builder(there).build(wanted)
    assert (seen.value.path, seen.value.reason) == (refused.value.path, refused.value.reason)
    assert row.path in refused.value.path
    assert row.words in refused.value.reason
    after = {path: found for path, found in on_disk(there.app / "runtime-hosts").items() if b"/recovery" not in path}
    assert after.keys() == before.keys()
    assert (there.packs, there.store.checkpoints) == ([], {})
    assert not [*there.recovery.rglob("*.json")]


@pytest.mark.guarantee("WS-6")
async def test_only_the_listing_that_was_confirmed_is_taken(scene: Scene) -> None:
    """Whoever exchanges a whole export between the look and the change is found out by its digest."""
    wanted = asked(scene.there, scene.carried)
    edited(PLAIN, mode=0o600)(scene.carried)
    await builder(scene.there).inspect(scene.carried.directory, captures=CAPTURES)
    with pytest.raises(CheckpointImportRefusedError, match="not the one that was confirmed"):
        await builder(scene.there).build(wanted)
