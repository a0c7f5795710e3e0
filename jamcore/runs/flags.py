"""What a reviewer must look at twice, decided from paths, modes and added lines alone (SEC-2)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from jamcore.domain.changes import ChangedPath, ChangeFlag
from jamcore.system.names import show_path
from jamcore.workspace.review import RawChange

_STATUS: Mapping[str, str] = MappingProxyType({"A": "added", "M": "modified", "D": "deleted", "T": "type-changed"})

_CI = re.compile(
    r"""(?ix) ^(?:.*/)?(?:
        \.github/(?:workflows|actions)/.* | \.gitlab-ci\.yml | \.gitlab/ci/.* | \.circleci/.* | \.buildkite/.* | \.travis\.yml
      | \.drone\.yml | \.woodpecker(?:/.*|\.ya?ml) | \.ci/.* | Jenkinsfile[^/]* | azure-pipelines[^/]*\.ya?ml
      | bitbucket-pipelines\.yml | appveyor\.yml | \.teamcity/.* | \.forgejo/.* | \.gitea/.* | cloudbuild\.ya?ml
    )$"""
)
"""Definitions that a hosted or own CI executes."""

_HOOK = re.compile(
    r"""(?ix) ^(?:.*/)?(?:
        \.githooks/.* | \.husky/.* | \.lefthook(?:/.*|[^/]*\.ya?ml) | lefthook\.ya?ml | \.pre-commit-config\.yaml
      | hooks/(?:pre|post|update|commit-msg)[^/]* | \.gitattributes | \.gitmodules | \.gitconfig | \.envrc
      | \.vscode/(?:tasks|settings|launch)\.json | \.idea/.*\.xml | \.devcontainer(?:/.*|\.json)
    )$"""
)
"""What git, an editor or a shell executes or obeys by itself when the change is checked out."""

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
"""Control, zero-width and direction-changing characters: what is read differs from what is run. Tab and newline are fine."""


def describe(change: RawChange, *, binary: bool, added: str) -> ChangedPath:
    """Return one changed path with its flags.

    Args:
        change: What git reported.
        binary: Whether the patch holds it as binary.
        added: The added lines of its patch, decoded with replacement.
    """
    shown = show_path(change.path)
    flags = [
        (ChangeFlag.CI_DEFINITION, _CI.match(shown)),
        (ChangeFlag.GIT_HOOK, _HOOK.match(shown)),
        (ChangeFlag.EXECUTABLE, change.new_mode == "100755" and change.old_mode != "100755"),
        (ChangeFlag.SYMLINK, change.new_mode == "120000"),
        (ChangeFlag.SUBMODULE, change.new_mode == "160000"),
        (ChangeFlag.BINARY, binary),
        (ChangeFlag.CONTROL_CHARACTERS, _CONTROL.search(added) or _CONTROL.search(change.path.decode(errors="replace"))),
    ]
    status = _STATUS.get(change.status, "modified")
    return ChangedPath.model_validate({"path": shown, "change": status, "flags": tuple(flag for flag, found in flags if found)})


@dataclass(frozen=True, slots=True)
class Section:
    """One file's part of a patch: whether it is binary, and its added lines, decoded with replacement."""

    binary: bool
    added: str


def split_patch(patch: bytes) -> Iterator[Section]:
    """Yield the sections of a patch in order. Hunk lines never begin with ``diff --git``: they have a sign in front.

    What stands before a section's first hunk names files; an added line may look just like that, so the place decides, not the look.
    """
    for section in re.split(rb"(?m)^(?=diff --git )", patch):
        if section.startswith(b"diff --git "):
            _names, _, hunks = section.partition(b"\n@@ ")
            added = (line[1:] for line in hunks.split(b"\n") if line.startswith(b"+"))
            yield Section(b"\nGIT binary patch\n" in section, b"\n".join(added).decode("utf-8", errors="replace"))
