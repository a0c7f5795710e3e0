"""Names in an export from elsewhere: what could mean another place, or one another, is refused by name (WS-6)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jamcore.domain.checkpoint_exports import spelled
from jamcore.domain.exports import ExportedKind, ExportEntry, ImportNamesError
from jamcore.workspace.exports.names import check_names

pytestmark = pytest.mark.unprivileged
TOP = ExportEntry(path="workspace", kind=ExportedKind.DIRECTORY)


def file(path: bytes, same_as: str | None = None) -> ExportEntry:
    """Return the entry of a file; its names are all that matters here."""
    return ExportEntry(path=spelled(path), kind=ExportedKind.FILE, same_file_as=same_as)


def refusals(*entries: ExportEntry) -> tuple[str, ...]:
    """Return what is refused."""
    try:
        check_names(entries)
    except ImportNamesError as error:
        return error.named
    return ()


@pytest.mark.guarantee("WS-6")
@pytest.mark.parametrize(
    ("path", "words"),
    [
        (b"/etc/passwd", "is absolute"),
        (b"workspace/../../x", "leads upwards"),
        (b"workspace/..", "leads upwards"),
        (b"workspace/a\0b", "has a zero byte"),
        (b"workspace//x", "has an empty name"),
        (b"workspace/./x", "has an empty name"),
        (b"workspace/", "has an empty name"),
        (b"other/x", "is in no tree of the export"),
        (b"manifest.json", "is in no tree of the export"),
        (b"workspace/.jam-emptying-1", "has a name that Jam keeps for itself"),
        (b"workspace/" + b"x" * 256, "has a name of more than 255 bytes"),
        (b"workspace" + b"/x" * 200, "is deeper than 128 directories"),
        (b"workspace" + b"/" + b"/".join([b"x" * 200] * 30), "is longer than 4000 bytes"),
        (b"workspace/missing/x", "lies in no directory of the export"),
    ],
)
def test_a_name_that_could_mean_another_place_is_refused(path: bytes, words: str) -> None:
    """By itself, whatever else is there; what is fine is not named."""
    (refused,) = refusals(TOP, file(path), file(b"workspace/fine"))
    assert refused.endswith(words)


@pytest.mark.guarantee("WS-6")
@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (b"a", b"a", "is there twice"),
        (b"Readme", b"README", "differs from workspace/Readme by case"),
        ("stra\u00dfe".encode(), b"STRASSE", "by case or Unicode form alone"),
        ("\u00e9".encode(), "e\u0301".encode(), "by case or Unicode form alone"),
        (b"\xff.A", b"\xff.a", "by case or Unicode form alone"),
    ],
)
def test_two_names_that_could_be_one_file_are_refused(first: bytes, second: bytes, words: str) -> None:
    """The later one is named, with the one before it."""
    (refused,) = refusals(TOP, file(b"workspace/" + first), file(b"workspace/" + second))
    assert words in refused


@pytest.mark.guarantee("WS-6")
@pytest.mark.parametrize("kind", [ExportedKind.SYMLINK, ExportedKind.FILE, ExportedKind.LEFT_OUT])
def test_nothing_lies_below_what_is_no_directory(kind: ExportedKind) -> None:
    """A link would lead a careless program out of the tree."""
    entry = ExportEntry(path="workspace/a", kind=kind, target="/etc" if kind is ExportedKind.SYMLINK else None)
    assert refusals(TOP, entry, file(b"workspace/a/passwd")) == ("workspace/a/passwd: lies in no directory of the export",)


@pytest.mark.guarantee("WS-6")
def test_a_hard_link_is_to_a_file_before_it() -> None:
    """Not to a directory, to a later one, to another hard link or outside."""
    first = file(b"workspace/a")
    assert refusals(TOP, first, file(b"workspace/b", "workspace/a")) == ()
    for target in ("workspace", "workspace/c", "/etc/passwd", "workspace/b"):
        assert len(refusals(TOP, first, file(b"workspace/b", target), file(b"workspace/c"))) == 1


@pytest.mark.guarantee("WS-6")
@given(st.lists(st.binary(min_size=1, max_size=6), max_size=6))
def test_whatever_is_accepted_stays_below_the_tree(names: list[bytes]) -> None:
    """For any bytes: an accepted path has names alone, none of which leads anywhere."""
    path = b"workspace/" + b"/".join(names)
    parts = path.split(b"/")
    above = [ExportEntry(path=spelled(b"/".join(parts[:n])), kind=ExportedKind.DIRECTORY) for n in range(1, len(parts))]
    clean = all(part not in (b"", b".", b"..") and b"\0" not in part and not part.startswith(b".jam-") for part in parts)
    accepted: Callable[[], bool] = lambda: refusals(*above, file(path)) == ()  # noqa: E731
    assert accepted() == clean
