"""What the history of one repository holds that lies nowhere else, as far as its references say."""

from __future__ import annotations

import re
from collections.abc import Mapping

from jamcore.domain.limits import INSPECTION_COMMITS
from jamcore.domain.removal import Listing
from jamcore.workspace.git_files import GitFiles
from jamcore.workspace.inspection.contents import Contents
from jamcore.workspace.inspection.own_git import OwnGit
from jamcore.workspace.inspection.shown import listing

REMOTES, TAGS, STASH, HEADS = b"refs/remotes/", b"refs/tags/", b"stash@", b"refs/heads/"
_HEX = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_SHORT = 12
_ENTRY = re.compile(rb"stash@[0-9]+")
_NOTHING = (b"0" * 40, b"0" * 64)


class History:
    """Asks about the commits of one repository."""

    def __init__(self, git: OwnGit, contents: Contents, kept: tuple[str, ...]) -> None:
        self._git = git
        self._files = contents.files
        self._logged = contents.logged
        self._remote, self._tags, self._stash, self._local = _sorted(contents.files)
        self._kept = kept

    async def unpushed(self) -> Listing:
        """Commits of branches, detached heads and whatever else is neither a tag nor a remote's.

        Raises:
            UnansweredError: A reference names what is not there, too.
        """
        safe = [*self._remote, *await self._present()]
        return await self._beyond("commits", self._local, safe)

    async def tagged(self) -> int:
        """Commits that only tags hold."""
        return (await self._beyond("tags", self._tags, [*self._remote, *self._local])).count

    async def forgotten(self) -> int:
        """Commits that only the logs of HEADs name, and that are still there."""
        lost = [commit for commit in dict.fromkeys(self._logged) if _HEX.fullmatch(commit) and commit not in _NOTHING]
        rest = [*self._remote, *self._local, *self._tags]
        return (await self._beyond("log", lost, rest, "--ignore-missing")).count

    async def stashes(self) -> Listing:
        """Subjects of the stash, newest first."""
        if not self._stash:
            return Listing()
        newest = self._stash[::-1]
        shown = await self._subjects("stash", newest[:INSPECTION_COMMITS], "--no-walk=unsorted")
        return listing((subject.partition(b" ")[2] for subject in shown), count=len(newest))

    async def _present(self) -> list[bytes]:
        """Return the commits that the caller knows to lie elsewhere, and that this repository has."""
        if not self._kept:
            return []
        asked = "".join(f"{commit}^{{commit}}\n" for commit in self._kept).encode()
        answer = await self._git.ask("commits", "cat-file", "--batch-check=%(objectname)", stdin=asked)
        return [line for line in answer.splitlines() if _HEX.fullmatch(line)]

    async def _beyond(self, question: str, tips: list[bytes], safe: list[bytes], *options: str) -> Listing:
        wanted = sorted(set(tips) - set(safe))
        if not wanted:
            return Listing()
        asked = [*wanted, *(b"^" + commit for commit in sorted(set(safe)))]
        return listing(await self._subjects(question, asked, f"--max-count={INSPECTION_COMMITS + 1}", *options))

    async def _subjects(self, question: str, asked: list[bytes], *options: str) -> list[bytes]:
        """Return short ids and subjects; git says each id in a line of its own before."""
        argv = ("rev-list", "--encoding=UTF-8", "--format=%H %s", *options, "--stdin")
        answer = await self._git.ask(question, *argv, stdin=b"\n".join(asked) + b"\n")
        lines = (line.partition(b" ") for line in answer.split(b"\n")[1::2])
        return [commit[:_SHORT] + b" " + subject for commit, _, subject in lines]


def without_upstream(files: GitFiles, config: Mapping[str, str]) -> Listing:
    """Return the branches that follow none."""
    names = sorted(name[len(HEADS) :] for name in files.tips if name.startswith(HEADS))
    return listing(name for name in names if f"branch.{name.decode(errors='surrogateescape')}.merge" not in config)


def _sorted(files: GitFiles) -> tuple[list[bytes], list[bytes], list[bytes], list[bytes]]:
    """Divide the references: remotes', tags, entries of the stash from the oldest, and everything else."""
    kinds: tuple[list[bytes], list[bytes], list[bytes], list[bytes]] = ([], [], [], [])
    for name, commit in files.tips.items():
        if _ENTRY.fullmatch(name):
            kinds[2].append(commit)
        elif name != b"refs/stash":
            kinds[0 if name.startswith(REMOTES) else 1 if name.startswith(TAGS) else 3].append(commit)
    if not kinds[2] and (stash := files.tips.get(b"refs/stash")) is not None:
        kinds[2].append(stash)
    return kinds
