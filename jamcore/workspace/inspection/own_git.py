"""Git in a directory of Jam's own that borrows one repository's objects and nothing else (SEC-2).

No configuration, hook, filter or attribute driver of the repository is ever read by it. It is never let walk a work tree: what is there was
seen by Jam's own walk, and git is asked about names only.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from jamcore.domain.limits import INSPECTION_GIT_S, INSPECTION_OUTPUT_BYTES
from jamcore.system.git import run_git
from jamcore.system.process import Finished

_SETTINGS = ("core.commitGraph=false", "core.multiPackIndex=false")
"""Files beside the objects that could say something else than these."""
_HARMLESS = MappingProxyType(
    {
        "core.autocrlf": ("true", "false", "input"),
        "core.eol": ("lf", "crlf", "native"),
        "core.filemode": ("true", "false"),
    }
)
"""Settings of a repository that say how its files are to be compared, and the values that are taken over. Anything else is not."""


class UnansweredError(Exception):
    """Git failed, took too long, or said more than is taken; the words say what it was asked."""


class OwnGit:
    """Asks about one repository; made by :func:`make_own_git`."""

    def __init__(self, directory: Path, objects: Path, settings: tuple[str, ...]) -> None:
        self.directory = directory
        self._objects = objects
        self._settings = (*_SETTINGS, *settings)

    async def ask(
        self,
        question: str,
        *argv: str,
        stdin: bytes = b"",
        index: Path | None = None,
        tree: Path | None = None,
        codes: tuple[int, ...] = (0,),
    ) -> bytes:
        """Return the answer.

        Raises:
            UnansweredError: It ended with none of ``codes``, or its answer is not whole.
        """
        done = await _run(
            *argv,
            cwd=tree or self.directory,
            git_directory=self.directory,
            work_tree=tree,
            settings=self._settings,
            environment={
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(self._objects),
                "GIT_NO_LAZY_FETCH": "1",
                "GIT_NO_REPLACE_OBJECTS": "1",
                **({"GIT_INDEX_FILE": str(index)} if index else {}),
            },
            stdin=stdin,
        )
        return _whole(done, question, codes)


def make_own_git(
    directory: Path, objects: Path, config: Mapping[str, str], shallow: list[bytes], *, sha256: bool, exclude: bytes
) -> OwnGit:
    """Make the git directory, which does not exist yet.

    Args:
        directory: Where.
        objects: The repository's objects, which were looked at.
        config: Its configuration, of which a few words are taken.
        shallow: Where its history was cut off.
        sha256: Whether its ids are twice as long.
        exclude: Its own rules of what is ignored.
    """
    for name in ("objects", "refs", "info"):
        (directory / name).mkdir(parents=True)
    (directory / "HEAD").write_bytes(b"ref: refs/heads/none\n")
    extension = "[extensions]\n\tobjectformat = sha256\n" if sha256 else ""
    (directory / "config").write_text(f"[core]\n\trepositoryformatversion = {int(sha256)}\n{extension}")
    (directory / "info" / "exclude").write_bytes(exclude)
    if shallow:
        (directory / "shallow").write_bytes(b"\n".join(shallow) + b"\n")
    taken = (f"{key}={config[key]}" for key, values in _HARMLESS.items() if config.get(key) in values)
    return OwnGit(directory, objects, tuple(taken))


async def parse_config(raw: bytes, *, cwd: Path) -> dict[str, str]:
    """Return a configuration as git understands it, names in git's own form, without anything that it includes.

    Raises:
        UnansweredError: Git cannot read it.
    """
    if not raw.strip():
        return {}
    argv = ("config", "--file", "-", "--no-includes", "--null", "--list")
    done = await _run(*argv, cwd=cwd, stdin=raw)
    entries = _whole(done, "configuration", (0,)).decode(errors="surrogateescape").split("\0")
    return {key: value for key, _, value in (entry.partition("\n") for entry in entries) if key}


async def _run(
    *argv: str,
    cwd: Path,
    stdin: bytes,
    git_directory: Path | None = None,
    work_tree: Path | None = None,
    settings: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
) -> Finished:
    try:
        return await run_git(
            *argv,
            cwd=cwd,
            git_directory=git_directory,
            work_tree=work_tree,
            settings=settings,
            environment=environment,
            limit_bytes=INSPECTION_OUTPUT_BYTES,
            timeout_s=INSPECTION_GIT_S,
            stdin=stdin,
        )
    except OSError as error:
        raise UnansweredError(f"git could not be started: {error.strerror}") from error


def _whole(done: Finished, question: str, codes: tuple[int, ...]) -> bytes:
    if done.returncode not in codes or done.truncated or done.timed_out:
        raise UnansweredError(f"git could not answer about its {question}")
    return done.stdout


def _quoted(path: Path) -> str:
    """Write a path for a list of paths, in which a colon ends one."""
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'
