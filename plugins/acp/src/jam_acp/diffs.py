"""What a file's change looks like: its lines before and after, in time that grows with their number and no faster."""

from __future__ import annotations

import re
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


def leads_to(old: str, new: str, part: str | None, put: str | None) -> bool:
    """Whether ``put`` in the place of ``part`` makes ``new`` of ``old``: of the whole text, or of a part, once or everywhere.

    Where only one of them is said, it must be the whole text.
    """
    if part is None or put is None or (part, put) == (old, new):
        return part in (None, old) and put in (None, new)
    if not part or not (count := old.count(part)):
        return False
    # The length first: a text made of a guest's three texts may be too long to be made.
    grows = len(put) - len(part)
    return any(len(old) + times * grows == len(new) and old.replace(part, put, times) == new for times in {1, count})


def says_again(patch: str, path: str, old: str, new: str) -> bool:
    """Whether a patch of one file has no path but this and no line but those of its two texts.

    Blanks around a line do not count: agents cut what all lines begin with.
    """
    head, marked, body = patch.partition("\n@@ ")
    if not {*head.split("\n")} <= {"", f"Index: {path}", "=" * 67, f"--- {path}", f"+++ {path}"}:
        return False
    before, after = ({line.strip() for line in text.split("\n")} for text in (old, new))
    known = {"-": before, "+": after, " ": before & after, "": {""}}
    lines = f"@@ {body}".split("\n") if marked else []
    return all(line[1:].strip() in known.get(line[:1], ()) or _BETWEEN.fullmatch(line) for line in lines)


_BETWEEN = re.compile(r"@@ -\d+(,\d+)? \+\d+(,\d+)? @@|\\ No newline at end of file")


def _ends(before: list[str], after: list[str], room: int) -> zip[tuple[str, str]]:
    """Pair the lines from the end, at most ``room`` of them: none is counted twice."""
    return zip(reversed(before[len(before) - room :]), reversed(after[len(after) - room :]), strict=True)
