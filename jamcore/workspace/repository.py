"""Looks at the repository that a person named, before any plan exists (CAP-7). Read-only, and nothing in the repository is executed.

A repository's own configuration may name programs (filters, hooks, monitors). Jam's git runs none: hooks, monitors and transports are
off (:mod:`jamcore.system.git`), and each filter that the configuration declares is overruled for the question.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from jamcore.domain.errors import FaultError, RefusalError
from jamcore.system.git import run_git
from jamcore.system.process import Finished

LOOK_TIMEOUT_S = 60.0
"""One question about a repository: comparing 100,000 files with the index takes seconds on a slow disk."""
SHOWN_CHANGES = 5
"""How many uncommitted paths a refusal names."""
_OUTPUT_BYTES = 1 << 20


@dataclass(eq=False)
class RepositoryRefusedError(RefusalError):
    """The named path cannot be the source of a private clone."""

    code: ClassVar[str] = "repository.refused"
    hint: ClassVar[str] = "Name the directory of an ordinary Git checkout."

    path: str
    detail: str


@dataclass(eq=False)
class RepositoryMissingError(RepositoryRefusedError):
    """There is no such directory, or it cannot be entered."""

    code: ClassVar[str] = "repository.missing"
    hint: ClassVar[str] = "Check the path and its permissions."


@dataclass(eq=False)
class NotARepositoryError(RepositoryRefusedError):
    """The directory belongs to no Git checkout."""

    code: ClassVar[str] = "repository.not_a_repository"
    hint: ClassVar[str] = "Run `git init` there and commit, or leave the repository out."


@dataclass(eq=False)
class LinkedWorktreeError(RepositoryRefusedError):
    """The directory is a linked worktree; a private clone needs the primary checkout."""

    code: ClassVar[str] = "repository.linked_worktree"
    hint: ClassVar[str] = "Name the primary checkout, which `git worktree list` shows first."


@dataclass(eq=False)
class SubmoduleError(RepositoryRefusedError):
    """The directory is a submodule of another checkout; its history lies in that one."""

    code: ClassVar[str] = "repository.submodule"
    hint: ClassVar[str] = "Name the outer checkout, or clone the submodule's repository on its own."


@dataclass(eq=False)
class BareRepositoryError(RepositoryRefusedError):
    """The repository has no work tree there."""

    code: ClassVar[str] = "repository.bare"
    hint: ClassVar[str] = "Name a checkout: `git clone` makes one from a bare repository."


@dataclass(eq=False)
class NoCommitError(RepositoryRefusedError):
    """The repository has no commit yet, so there is nothing to clone."""

    code: ClassVar[str] = "repository.no_commit"
    hint: ClassVar[str] = "Commit something first: `git commit --allow-empty -m start` is enough."


@dataclass(eq=False)
class DirtyRepositoryError(RepositoryRefusedError):
    """There are changes that are not committed; a private clone would not hold them."""

    code: ClassVar[str] = "repository.dirty"
    hint: ClassVar[str] = "Commit or stash them, or say that the clone may go without them with `--allow-dirty`."


@dataclass(eq=False)
class UnreadableRepositoryError(FaultError):
    """Git could not answer a question about the repository; its words are in the context."""

    code: ClassVar[str] = "repository.unreadable"
    hint: ClassVar[str] = "Run `git status` in the repository: it has the same trouble. Nothing was changed."

    path: str
    question: str
    detail: str


@dataclass(eq=False)
class GitMissingError(RefusalError):
    """There is no git on this machine."""

    code: ClassVar[str] = "repository.git_missing"
    hint: ClassVar[str] = "Install git, for example with `apt-get install git`."

    path: str


@dataclass(frozen=True, slots=True)
class RepositoryFacts:
    """A primary checkout: its resolved top directory, the commit of HEAD, its branch (``None``: detached), and whether it is dirty."""

    root: Path
    commit: str
    branch: str | None
    dirty: bool


async def inspect_repository(path: Path, *, allow_dirty: bool = False) -> RepositoryFacts:
    """Look at the checkout that holds ``path``, which may be a directory inside it.

    Raises:
        RepositoryRefusedError: One of its kinds says what a person can change.
        UnreadableRepositoryError, GitMissingError: Git could not say.
    """
    directory = _directory(path)
    look = _Look(directory)
    await _require_primary_checkout(look)
    root = await _root(look)
    commit = await look.ask("commit", "rev-parse", "--verify", "--quiet", "HEAD^{commit}", absent=b"")
    if not commit:
        raise NoCommitError(path=str(path), detail="HEAD names no commit")
    branch = await look.ask("branch", "symbolic-ref", "--quiet", "--short", "HEAD", absent=b"")
    changes = await _changes(_Look(root))
    if changes and not allow_dirty:
        raise DirtyRepositoryError(path=str(path), detail=_shown(changes))
    return RepositoryFacts(root=root, commit=commit.decode(), branch=_text(branch) or None, dirty=bool(changes))


class _Look:
    """Asks git about one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    async def run(self, *argv: str, environment: dict[str, str] | None = None, limit: int = _OUTPUT_BYTES) -> Finished:
        """Run one read-only command."""
        fixed = {"GIT_NO_LAZY_FETCH": "1"}
        try:
            return await run_git(
                *argv,
                cwd=self.directory,
                # Whoever runs Jam named it; nothing in it is executed, so that its owner does not matter.
                settings=("safe.directory=*",),
                environment=fixed | (environment or {}),
                limit_bytes=limit,
                timeout_s=LOOK_TIMEOUT_S,
            )
        except FileNotFoundError as error:
            raise GitMissingError(path=str(self.directory)) from error

    async def ask(self, question: str, *argv: str, absent: bytes | None = None) -> bytes:
        """Return a command's answer without its line end; ``absent`` when git says by code 1 that there is none."""
        done = await self.run(*argv)
        if done.ok:
            return done.stdout.removesuffix(b"\n")
        if absent is not None and done.returncode == 1:
            return absent
        raise self.unreadable(question, done)

    def unreadable(self, question: str, done: Finished) -> UnreadableRepositoryError:
        """Return the error for a command that failed."""
        words = "took too long" if done.timed_out else _text(done.stderr).strip()[-300:]
        return UnreadableRepositoryError(path=str(self.directory), question=question, detail=words)


def _directory(path: Path) -> Path:
    try:
        found = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise RepositoryMissingError(path=str(path), detail=getattr(error, "strerror", None) or str(error)) from error
    if not found.is_dir():
        raise RepositoryMissingError(path=str(path), detail="not a directory")
    try:
        str(found).encode()
    except UnicodeEncodeError as error:
        # A plan is JSON: a name that is no text cannot be recorded exactly, so it is refused rather than changed.
        raise RepositoryRefusedError(path=_text(bytes(found)), detail="the path is not valid UTF-8") from error
    return found


async def _require_primary_checkout(look: _Look) -> None:
    path = str(look.directory)
    done = await look.run("rev-parse", "--is-bare-repository", "--is-inside-git-dir", "--is-inside-work-tree")
    if not done.ok:
        # Only a directory without any repository above is "not a repository"; a refusal of git itself (ownership, a damaged
        # configuration) must not read as one.
        if done.returncode == 128 and b"not a git repository" in done.stderr:
            raise NotARepositoryError(path=path, detail="no Git repository here or above")
        raise look.unreadable("kind", done)
    bare, inside_git, inside_tree = done.stdout.split()
    if bare == b"true" or inside_git == b"true" or inside_tree != b"true":
        raise BareRepositoryError(path=path, detail="a repository without a work tree, or a git directory")
    if await look.ask("superproject", "rev-parse", "--show-superproject-working-tree"):
        raise SubmoduleError(path=path, detail="a submodule of another checkout")
    own = await look.ask("git directory", "rev-parse", "--absolute-git-dir")
    common = await look.ask("common directory", "rev-parse", "--path-format=absolute", "--git-common-dir")
    if Path(_path(own)).resolve() != Path(_path(common)).resolve():
        raise LinkedWorktreeError(path=path, detail="a linked worktree")


async def _root(look: _Look) -> Path:
    """Return the top of the work tree that holds the directory; a setting may have put the tree elsewhere."""
    root = Path(_path(await look.ask("top directory", "rev-parse", "--show-toplevel"))).resolve()
    if not look.directory.is_relative_to(root) or not (root / ".git").exists():
        raise RepositoryRefusedError(path=str(look.directory), detail="the repository's work tree lies elsewhere (core.worktree)")
    return root


async def _changes(look: _Look) -> list[bytes]:
    """List uncommitted paths, untracked ones too, with every filter of the repository's configuration overruled."""
    pattern = r"^filter\..*\.(clean|smudge|process|required)$"
    declared = await look.ask("filters", "config", "--null", "--name-only", "--get-regexp", pattern, absent=b"")
    names = sorted(set(filter(None, declared.split(b"\0"))))
    environment = {"GIT_CONFIG_COUNT": str(len(names))}
    for number, name in enumerate(names):
        environment[f"GIT_CONFIG_KEY_{number}"] = _path(name)
        environment[f"GIT_CONFIG_VALUE_{number}"] = "false" if name.endswith(b".required") else ""
    # A submodule's own changes are not looked at: that would run git inside it, with its own configuration.
    argv = ("status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=normal", "--ignore-submodules=all")
    done = await look.run(*argv, environment=environment)
    if done.returncode != 0 or done.timed_out:
        raise look.unreadable("changes", done)
    return [entry[3:] for entry in done.stdout.split(b"\0") if len(entry) > 3]


def _shown(changes: list[bytes]) -> str:
    names = ", ".join(_text(name) for name in changes[:SHOWN_CHANGES])
    more = len(changes) - SHOWN_CHANGES
    return f"{names} and {more} more" if more > 0 else names


def _path(raw: bytes) -> str:
    """Return a path as Python's file functions take it: bytes that are no text are kept."""
    return raw.decode(errors="surrogateescape")


def _text(raw: bytes) -> str:
    """Return bytes as text that can be shown: what is no text, and control characters, are escaped."""
    text = raw.decode(errors="backslashreplace")
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
