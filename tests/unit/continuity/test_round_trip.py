# pathlib has no paths of raw bytes, and raw bytes are what is tested.
# ruff: noqa: PTH101, PTH102, PTH112, PTH114, PTH115, PTH118, PTH123, PTH208, PTH211
"""Capturing and restoring is the identity, for every tree that a file system can hold (WS-13, CONT-1)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jamcore.continuity.generations.format import BLOCK
from jamcore.continuity.tree.locks import is_lock
from jamcore.domain.continuity import ActivationPlan, CaptureEntry, CaptureKind, CaptureList, ResumeSource
from jamcore.domain.secret_shapes import LOGIN_FILES

if TYPE_CHECKING:
    from tests.unit.continuity.conftest import MakeWorld, World

ALL = CaptureList(
    entries=(CaptureEntry(pattern="**/*.log", kind=CaptureKind.APPEND_ONLY), CaptureEntry(pattern="**", kind=CaptureKind.WHOLE))
)

names = st.one_of(
    st.binary(min_size=1, max_size=12),
    st.sampled_from([b"\xff\xfe", b"new\nline", b" ", b"-rf", b"\x1b[31m", "ä".encode(), b"A", b"a", b"n" * 255, b"..."]),
).filter(
    lambda name: (
        b"/" not in name
        and b"\0" not in name
        and name not in (b".", b"..")
        and not name.endswith(b".log")
        and name not in LOGIN_FILES
        and not is_lock(name, 0)
    )
)


@dataclass(frozen=True)
class File:
    """A file."""

    data: bytes
    mode: int


@dataclass(frozen=True)
class Link:
    """A symbolic link."""

    target: bytes


@dataclass(frozen=True)
class Folder:
    """A directory."""

    mode: int
    children: dict[bytes, object]


contents = st.one_of(
    st.just(b""),
    st.binary(max_size=60),
    st.builds(
        lambda size, fill: bytes([fill]) * size, st.sampled_from([BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK]), st.integers(0, 255)
    ),
)
files = st.builds(File, contents, st.integers(0, 0o377).map(lambda mode: mode | 0o400))
links = st.builds(Link, st.binary(min_size=1, max_size=40).filter(lambda target: b"\0" not in target))
nodes = st.recursive(
    files | links,
    lambda below: st.builds(Folder, st.integers(0, 0o77).map(lambda mode: mode | 0o700), st.dictionaries(names, below, max_size=4)),
    max_leaves=12,
)
trees = st.dictionaries(names, nodes, max_size=5)


def build(directory: bytes, children: dict[bytes, object]) -> None:
    for name, node in children.items():
        path = os.path.join(directory, name)
        match node:
            case File(data, mode):
                with open(path, "wb") as stream:
                    stream.write(data)
                os.chmod(path, mode)
            case Link(target):
                os.symlink(target, path)
            case Folder(mode, below):
                os.mkdir(path)
                build(path, below)
                os.chmod(path, mode)


def read(directory: bytes) -> dict[bytes, object]:
    found: dict[bytes, object] = {}
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        mode = os.lstat(path).st_mode & 0o7777
        if os.path.islink(path):
            found[name] = Link(os.readlink(path))
        elif os.path.isdir(path):
            found[name] = Folder(mode, read(path))
        else:
            with open(path, "rb") as stream:
                found[name] = File(stream.read(), mode)
    return found


def times(directory: bytes) -> dict[bytes, int]:
    return {
        os.path.join(top, name): os.lstat(os.path.join(top, name)).st_mtime_ns
        for top, folders, others in os.walk(directory)
        for name in (*folders, *others)
    }


@pytest.mark.unprivileged
@pytest.mark.guarantee("WS-13", "CONT-1")
@settings(max_examples=60, deadline=None)
@given(tree=trees, scramble=trees)
def test_what_was_captured_comes_back(make_world: MakeWorld, tree: dict[bytes, object], scramble: dict[bytes, object]) -> None:
    """Names as raw bytes, links, empty files and directories, modes and times: all as they were, whatever stood there meanwhile."""
    with tempfile.TemporaryDirectory() as directory:
        anyio.run(_in_world, make_world, directory, _round_trip, tree, scramble)


async def _in_world(make_world: MakeWorld, directory: str, work: Callable[..., Awaitable[None]], *arguments: object) -> None:
    async with make_world(Path(directory) / "app", captures=ALL, plan=ActivationPlan()) as world:
        await work(world, *arguments)


async def _round_trip(world: World, tree: dict[bytes, object], scramble: dict[bytes, object]) -> None:
    state = os.fsencode(world.state)
    (world.state / "home/sessions").rmdir()
    (world.state / "home").rmdir()
    build(state, tree)
    before = times(state)
    await world.capture()
    assert (await world.place()).source is ResumeSource.LIVE
    world.state.rename(world.state.with_name("old"))
    world.state.mkdir()
    build(state, scramble)
    placed = await world.place()
    if placed.source is ResumeSource.LIVE:
        return  # what stood there extends the captured tree
    assert merged(read(state), tree) == tree
    assert {path: at for path, at in times(state).items() if path in before} == before
    assert (await world.place()).source is ResumeSource.LIVE


def merged(restored: dict[bytes, object], expected: dict[bytes, object]) -> dict[bytes, object]:
    """Return what was restored without directories that were there meanwhile and hold nothing now."""
    found: dict[bytes, object] = {}
    for name, node in restored.items():
        wanted = expected.get(name)
        if isinstance(node, Folder):
            below = merged(node.children, wanted.children if isinstance(wanted, Folder) else {})
            if below or wanted is not None:
                found[name] = Folder(node.mode, below)
        else:
            found[name] = node
    return found


@pytest.mark.guarantee("CONT-10", "CONT-11")
@settings(max_examples=40, deadline=None)
@given(pieces=st.lists(st.binary(min_size=1, max_size=3 * BLOCK), min_size=2, max_size=5), back=st.integers(0, 4))
def test_any_growth_of_a_log_is_live_and_every_generation_is_whole(make_world: MakeWorld, pieces: list[bytes], back: int) -> None:
    """However a log grows between checkpoints, each generation restores to exactly what was there, and growth alone is live."""
    with tempfile.TemporaryDirectory() as directory:
        anyio.run(_in_world, make_world, directory, _growth, pieces, back)


async def _growth(world: World, pieces: list[bytes], back: int) -> None:
    path = world.write("x.log", b"")
    for piece in pieces[:-1]:
        with path.open("ab") as stream:
            stream.write(piece)
        await world.capture()
        assert (await world.inspect()).evidence.generation_state == "verified"
    captured = path.read_bytes()
    with path.open("ab") as stream:
        stream.write(pieces[-1])
    assert (await world.place()).source is ResumeSource.LIVE
    cut = len(captured) - 1 - back
    if cut < 0 or (b"\n" in captured and not captured.endswith(b"\n")):
        return  # a torn last line may be missing
    os.truncate(path, cut)
    assert (await world.place()).source is ResumeSource.GENERATION
    assert path.read_bytes() == captured
