"""Any tree at all, and very large ones (WS-13)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jamcore.domain import limits
from jamcore.domain.exports import ExportRefusedError
from jamcore.system.tree_calls import TreeCalls
from jamcore.system.trees import open_root, owned
from jamcore.testing.nasty_trees import facts_of
from jamcore.workspace.exports.survey import Bounds, Survey, survey
from tests.unit.workspace.exports.conftest import World

pytestmark = pytest.mark.unprivileged

NAMES = st.binary(min_size=1, max_size=12).filter(lambda raw: raw not in (b".", b"..") and b"/" not in raw and b"\0" not in raw)
TIMES = st.integers(min_value=-(2**31), max_value=2**33).map(lambda seconds: seconds * 1_000_000_000 + 987_654_321)
FILES = st.tuples(
    st.just("file"),
    st.lists(st.one_of(st.binary(max_size=200), st.integers(min_value=1, max_value=200_000)), max_size=4),
    st.sampled_from([0o600, 0o444, 0o755, 0o1640]),
    TIMES,
    st.dictionaries(st.sampled_from(["user.a", "user.b"]), st.binary(max_size=20), max_size=2),
)
LINKS = st.tuples(st.just("link"), st.binary(min_size=1, max_size=40).filter(lambda raw: b"\0" not in raw), TIMES)
AGAIN = st.just(("again",))
TREES = st.recursive(
    st.one_of(FILES, LINKS, AGAIN),
    lambda inside: st.tuples(
        st.just("directory"), st.dictionaries(NAMES, inside, max_size=5), st.sampled_from([0o700, 0o555, 0o1777]), TIMES
    ),
    max_leaves=25,
)


def build(path: Path, tree: tuple, first: list[Path]) -> None:  # type: ignore[type-arg]  # a tree of tuples has no simple type
    """Make a tree as drawn; ``again`` is a hard link to the first file, where there is one."""
    kind, *rest = tree
    if kind == "directory":
        children, mode, time = rest
        path.mkdir()
        for name, child in children.items():
            build(path / os.fsdecode(name), child, first)
        os.utime(path, ns=(time, time))
        path.chmod(mode)
    elif kind == "link":
        target, time = rest
        path.symlink_to(os.fsdecode(target))
        os.utime(path, ns=(time, time), follow_symlinks=False)
    elif kind == "file":
        _file(path, *rest)
        first.append(path)
    elif first:
        os.link(first[0], path)


def _file(path: Path, parts: list[bytes | int], mode: int, time: int, attributes: Mapping[str, bytes]) -> None:
    """Make a file of data and, as numbers of bytes, holes."""
    size = 0
    with path.open("wb") as stream:
        for part in parts:
            if isinstance(part, bytes):
                os.pwrite(stream.fileno(), part, size)
            size += part if isinstance(part, int) else len(part)
        stream.truncate(size)
    for name, value in attributes.items():
        os.setxattr(path, name, value)
    os.utime(path, ns=(time, time))
    path.chmod(mode)


@pytest.mark.slow
@pytest.mark.guarantee("WS-13", "WS-5", "WS-6")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.dictionaries(NAMES, TREES, max_size=6))
def test_any_tree_comes_back_bit_for_bit(children: dict[bytes, tuple]) -> None:  # type: ignore[type-arg]  # as above
    """Exported, verified, restored, and compared by other code than the one that copied it."""
    with tempfile.TemporaryDirectory() as place:
        world = World(Path(place).resolve() / "app")
        world.tree.parent.mkdir(parents=True)
        build(world.tree, ("directory", children, 0o755, 7), [])
        before = facts_of(world.tree)
        done = world.write()
        assert world.verify(done.digest) == done
        assert facts_of(world.restore(done.digest)) == before == facts_of(world.tree)
        world.files.remove_tree(world.app)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.guarantee("WS-13")
def test_a_hundred_thousand_files_are_exported_and_restored(world: World) -> None:
    """In one directory and in many."""
    for directory in (world.tree / "many", *(world.tree / f"d{number}" for number in range(500))):
        directory.mkdir()
        for number in range(50_000 if directory.name == "many" else 100):
            (directory / f"{number}").touch()
    done = world.write()
    assert (done.manifest.workspace.files, done.manifest.workspace.directories) == (100_000, 502)
    world.restore(done.digest)
    assert sum(len(files) for _, _, files in os.walk(world.app / "restored")) == 100_000


def looked_at(tree: Path, bounds: Bounds) -> Survey:
    """Look at a tree within bounds."""
    with owned(open_root(tree)) as root:
        return survey(root, TreeCalls(), bounds=bounds)


@pytest.mark.guarantee("WS-13")
@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        (Bounds(entries=4), "large: the tree has more than 4 names"),
        (Bounds(bytes_total=1 << 39), "large: the tree has more than 549755813888 bytes, holes included"),
        (Bounds(depth=2), "a/b/c: it is deeper than 2 directories"),
        (Bounds(path_bytes=5), "a/b/c: its path is longer than 5 bytes"),
        (Bounds(text_bytes=9), "a/b/c: the names in the tree are more than 9 bytes"),
    ],
)
def test_what_goes_beyond_a_bound_is_refused_by_name(world: World, bounds: Bounds, words: str) -> None:
    """Before any of it is copied: a hole costs a guest nothing, and its reader all of it."""
    (world.tree / "a" / "b" / "c").mkdir(parents=True)
    (world.tree / "large").touch()
    os.truncate(world.tree / "large", 1 << 40)
    refused = looked_at(world.tree, bounds).refused
    assert [text for text in refused.first if words in text], refused.first


@pytest.mark.guarantee("WS-13")
def test_attributes_beyond_their_bound_are_refused_by_name(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in the list of entries, which is in memory."""
    (world.tree / "file").touch()
    os.setxattr(world.tree / "file", "user.long", b"x" * 2000)
    monkeypatch.setattr(limits, "EXPORT_ATTRIBUTE_BYTES", 1000)
    with pytest.raises(ExportRefusedError) as refused:
        world.write()
    assert refused.value.named == ("file: its extended attributes are too large",)
    assert world.published == []


@pytest.mark.guarantee("WS-13")
@pytest.mark.needs("root")
def test_another_file_system_is_refused_and_not_entered(world: World) -> None:
    """Every machine has one mounted below a directory that can be looked at: ``/proc`` below ``/``."""
    with owned(open_root("/")) as root:
        calls = OnlyProc()
        refused = survey(root, calls).refused
    assert refused.first == ["proc: it lies on another file system"]
    assert calls.opened == []


class OnlyProc(TreeCalls):
    """Shows ``proc`` alone, and notes what is opened."""

    def __init__(self) -> None:
        self.opened: list[bytes] = []

    def names(self, directory: int, at_most: int) -> list[bytes]:
        """See :meth:`TreeCalls.names`."""
        return [b"proc"]

    def open_directory(self, parent: int, name: bytes) -> int:
        """See :meth:`TreeCalls.open_directory`."""
        self.opened.append(name)
        return super().open_directory(parent, name)
