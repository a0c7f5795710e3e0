"""A reviewer is told what to look at twice, and no name or line can hide that (SEC-2, SEC-3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jamcore.domain.changes import ChangeFlag
from jamcore.runs.change_request import describe_all
from jamcore.runs.flags import describe, split_patch
from jamcore.system.names import show_path
from jamcore.workspace.review import RawChange

pytestmark = pytest.mark.unprivileged

CI = (
    ".github/workflows/x.yml",
    "sub/.github/workflows/x.yaml",
    ".github/actions/a/action.yml",
    ".GitHub/Workflows/x.yml",
    ".gitlab-ci.yml",
    ".gitlab/ci/x.yml",
    ".circleci/config.yml",
    ".buildkite/pipeline.yml",
    ".travis.yml",
    "Jenkinsfile",
    "deploy/Jenkinsfile.release",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    ".woodpecker/a.yml",
    ".ci/run",
)
HOOKS = (
    ".githooks/pre-commit",
    ".husky/pre-push",
    "hooks/post-checkout",
    ".pre-commit-config.yaml",
    "lefthook.yml",
    ".gitattributes",
    "deep/er/.gitattributes",
    ".gitmodules",
    ".envrc",
    ".vscode/tasks.json",
    ".devcontainer/devcontainer.json",
)
ORDINARY = (
    "src/main.py",
    "docs/github/workflows.md",
    "github/workflows/x.yml",
    "jenkinsfiles/a",
    "hooks/useState.ts",
    "vscode/tasks.json",
)


def flags(path: str, *, old: str = "000000", new: str = "100644", added: str = "", binary: bool = False) -> set[ChangeFlag]:
    status = "A" if old == "000000" else "M"
    return set(describe(RawChange(old, new, status, path.encode()), binary=binary, added=added).flags)


@pytest.mark.guarantee("SEC-2")
@pytest.mark.parametrize("path", CI)
def test_ci_definitions_are_flagged(path: str) -> None:
    """Wherever in the tree, in whatever case."""
    assert ChangeFlag.CI_DEFINITION in flags(path)


@pytest.mark.guarantee("SEC-2")
@pytest.mark.parametrize("path", HOOKS)
def test_what_runs_by_itself_is_flagged(path: str) -> None:
    """Hooks, and what git, an editor or a shell obeys when the change is checked out."""
    assert ChangeFlag.GIT_HOOK in flags(path)


@pytest.mark.parametrize("path", ORDINARY)
def test_ordinary_files_are_not(path: str) -> None:
    """A flag on everything would be a flag on nothing."""
    assert flags(path) == set()


@pytest.mark.guarantee("SEC-2")
def test_modes_are_flagged() -> None:
    """A file that becomes executable, a link, a nested repository; one that was executable before is no news."""
    assert flags("x", new="100755") == {ChangeFlag.EXECUTABLE}
    assert flags("x", old="100644", new="100755") == {ChangeFlag.EXECUTABLE}
    assert flags("x", old="100755", new="100755") == set()
    assert flags("x", new="120000") == {ChangeFlag.SYMLINK}
    assert flags("x", new="160000") == {ChangeFlag.SUBMODULE}
    assert flags("x", binary=True) == {ChangeFlag.BINARY}


@pytest.mark.guarantee("SEC-2", "SEC-3")
@pytest.mark.parametrize("character", ["\x1b[2J", "\x07", "\u202e", "\u2066", "\u200b", "\x9b", "\r", "\ufeff", "\x7f"])
def test_characters_that_hide_something_are_flagged(character: str) -> None:
    """In an added line or in a name; tabs, line ends and other languages are fine."""
    assert flags("x", added=f"a{character}b") == {ChangeFlag.CONTROL_CHARACTERS}
    assert ChangeFlag.CONTROL_CHARACTERS in flags(f"a{character}b")
    assert flags("ünï/日本.txt", added="\tübung\n日本語 🍓 العربية") == set()


@pytest.mark.guarantee("SEC-2")
def test_a_line_that_looks_like_a_header_is_looked_at() -> None:
    """``++ b/x`` in a file is ``+++ b/x`` in a patch; so is a whole header, with its sign in front."""
    patch = (
        b"diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -0,0 +1,3 @@\n"
        b"+++ \x1b[2J hidden\n+diff --git a/y b/y\n+@@ -1 +1 @@ \x07\n"
    )
    (section,) = split_patch(patch)
    assert section.added == "++ \x1b[2J hidden\ndiff --git a/y b/y\n@@ -1 +1 @@ \x07"
    assert not section.binary


def test_a_patch_is_joined_with_its_list() -> None:
    """A type change has two sections, a change of mode alone has one without lines; flags stay with their own path."""
    patch = (
        b"diff --git a/a b/a\ndeleted file mode 100644\n--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
        b"diff --git a/a b/a\nnew file mode 120000\n--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+/etc/passwd\n"
        b"diff --git a/b b/b\nold mode 100644\nnew mode 100755\n"
        b"diff --git a/c b/c\nnew file mode 100644\nindex 0..1\nGIT binary patch\nliteral 1\nabc\n\n"
        b"diff --git a/d b/d\n--- a/d\n+++ b/d\n@@ -1 +1 @@\n-x\n+\x1bx\n"
    )
    changes = (
        RawChange("100644", "120000", "T", b"a"),
        RawChange("100644", "100755", "M", b"b"),
        RawChange("000000", "100644", "A", b"c"),
        RawChange("100644", "100644", "M", b"d"),
    )
    found = {path.path: (path.change, path.flags) for path in describe_all(changes, patch)}
    assert found == {
        "a": ("type-changed", (ChangeFlag.SYMLINK,)),
        "b": ("modified", (ChangeFlag.EXECUTABLE,)),
        "c": ("added", (ChangeFlag.BINARY,)),
        "d": ("modified", (ChangeFlag.CONTROL_CHARACTERS,)),
    }


@pytest.mark.guarantee("SEC-3")
@given(st.binary(min_size=1, max_size=60))
def test_a_shown_path_can_be_printed_and_tells_every_byte(path: bytes) -> None:
    """Whatever a guest calls a file, what is shown is printable text."""
    assert show_path(path).isprintable()
    assert describe(RawChange("000000", "100644", "A", path), binary=False, added="").path == show_path(path)
