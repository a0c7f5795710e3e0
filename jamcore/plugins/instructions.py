"""What an agent is told of where it works, in the same words whichever provider runs it."""

from __future__ import annotations

UNREAD = (
    "The files of this workspace were not read for you: before you change anything, read {files} at the root of the repository, "
    "and in the directories you work in, where there is one, and follow it. "
)
SANDBOXED = "You run inside a sandbox whose only network is the model endpoint."
EXPOSED = (
    "No sandbox stands between you and this machine: you run as the person who uses it. Change nothing outside this workspace, and look at "
    "nothing there, unless the person asks for exactly that."
)


def surroundings(*, isolated: bool, unread: str = "") -> str:
    """Return the words for an agent's instructions.

    Args:
        isolated: Whether Jam's sandbox is around the program.
        unread: The repository's instructions that the program does not load by itself, so that the model has to read them.
    """
    return (UNREAD.format(files=unread) if unread else "") + (SANDBOXED if isolated else EXPOSED)
