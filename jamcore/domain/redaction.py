"""Takes what looks like a secret out of a text before it is stored and shown. A second line: secrets never enter a guest (ENV-4)."""

from __future__ import annotations

import re

from jamcore.domain.environment import is_secret_like

REDACTED = "[redacted]"

_TOKENS = re.compile(
    r"(?<![\w-])(?:sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abeprs]-[A-Za-z0-9-]{10,}"
    r"|AKIA[A-Z0-9]{16}|eyJ[\w-]{8,1024}\.[\w-]{8,4096}\.[\w-]{8,})"
)
"""Forms that the issuers gave their tokens so that they can be found."""
_BEARER = re.compile(r"(?i)\b(bearer|basic|token)(\s{1,3})[A-Za-z0-9._~+/=-]{8,}")
_VALUE = r"(?P<value>\"[^\"]{0,1024}\"|'[^']{0,1024}'|[^\s\"'&;|]+)"
_ASSIGNED = re.compile(rf"(?<![\w-])(?P<name>-{{0,2}}[A-Za-z_][A-Za-z0-9_-]{{0,63}})(?P<is>\s{{0,3}}[=:]\s{{0,3}}){_VALUE}")
_OPTION = re.compile(rf"(?<![\w-])(?P<name>--[A-Za-z][A-Za-z0-9-]{{0,63}})(?P<is>\s{{1,3}}){_VALUE}")
"""Every repetition is bounded and begins at a word's beginning: a guest chose the text, and must not choose how long this takes."""
_SCHEMES = frozenset({"bearer", "basic", "token"})


def redacted(text: str) -> str:
    """Return ``text`` with every value that looks like a secret replaced by :data:`REDACTED`; everything else is as it was."""
    text = _BEARER.sub(rf"\1\2{REDACTED}", _TOKENS.sub(REDACTED, text))
    return _OPTION.sub(_named, _ASSIGNED.sub(_named, text))


def _named(found: re.Match[str]) -> str:
    """Replace the value of a name that looks like a secret's; the scheme of a header stays, for what follows it is gone already."""
    if not is_secret_like(found["name"]) or found["value"] == REDACTED or found["value"].casefold() in _SCHEMES:
        return found.group()
    return f"{found['name']}{found['is']}{REDACTED}"
