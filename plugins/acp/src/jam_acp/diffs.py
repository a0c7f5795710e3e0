"""What a file's change looks like: its lines before and after, in time that grows with their number and no faster."""

from __future__ import annotations

from itertools import takewhile
from typing import Literal

from jamcore.api import text

Change = Literal["add", "update", "delete"]


def diff_of(old: str, new: str) -> str:
    """Return what differs as one hunk: the lines between the first and the last change, those before with a minus, those after with a plus.

    Two texts of millions of lines come from a guest as easily as two of three, so the smallest difference is not looked for.
    """
    before, after = old.splitlines(), new.splitlines()
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
    room = min(len(before), len(after)) - same
    tail = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], _ends(before, after, room)))
    removed, added = before[same : len(before) - tail], after[same : len(after) - tail]
    if not removed and not added:
        return ""
    head = f"@@ -{same + 1},{len(removed)} +{same + 1},{len(added)} @@"
    return text("\n".join([head, *(f"-{line}" for line in removed), *(f"+{line}" for line in added)]))


def change_of(kind: str, old: object, new: object) -> Change:
    """Return which kind of change it is; what cannot be known is an update."""
    if kind == "delete" or (isinstance(old, str) and old and new is None):
        return "delete"
    return "add" if isinstance(new, str) and not old else "update"


def _ends(before: list[str], after: list[str], room: int) -> zip[tuple[str, str]]:
    """Pair the lines from the end, at most ``room`` of them: none is counted twice."""
    return zip(reversed(before[len(before) - room :]), reversed(after[len(after) - room :]), strict=True)
