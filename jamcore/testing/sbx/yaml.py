"""A small part of YAML, enough for the files of environments and kits: maps and lists by indentation, scalars, JSON in one line.

What it does not know is refused, never guessed: anchors, tags, block texts, several documents.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_KEY = re.compile(r"""("(?:[^"\\]|\\.)*"|'[^']*'|[^\s#'"\[\]{}&*!|>%@`-][^:#]*?|-[^\s:][^:]*?)\s*:(?:\s+(.*))?$""")


class YamlError(Exception):
    """A text is not in the part of YAML that is known; the line is in the message."""


def load(text: str) -> Any:  # noqa: ANN401 - a document
    """Read one document.

    Raises:
        YamlError: It is none, or is written in a way that is not known.
    """
    if text.lstrip().startswith(("{", "[")):
        try:
            return json.loads(text)
        except ValueError as error:
            raise YamlError(f"yaml: {error}") from error
    lines = [(number, line.rstrip()) for number, line in enumerate(text.splitlines(), 1)]
    kept = [(number, line) for number, line in lines if line.strip() and not line.lstrip().startswith("#") and line != "---"]
    if not kept:
        return None
    value, rest = _block(kept, _indent(kept[0][1]))
    if rest:
        raise YamlError(f"yaml: line {rest[0][0]}: did not find expected key")
    return value


Lines = list[tuple[int, str]]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _block(lines: Lines, indent: int) -> tuple[Any, Lines]:
    return (
        _list(lines, indent)
        if lines[0][1].lstrip().startswith(("- ", "-\n")) or lines[0][1].strip() == "-"
        else _map(lines, indent)
    )


def _list(lines: Lines, indent: int) -> tuple[list[Any], Lines]:
    found: list[Any] = []
    while lines and _indent(lines[0][1]) == indent and lines[0][1].strip().startswith("-"):
        number, line = lines[0]
        inside = line.strip()[1:]
        if not inside.strip():
            value, lines = _deeper(lines[1:], indent)
        elif _KEY.match(inside.strip()) and not inside.strip().startswith(("{", "[")):
            first = (number, " " * (indent + 1 + len(inside) - len(inside.lstrip())) + inside.strip())
            value, lines = _map([first, *lines[1:]], _indent(first[1]))
        else:
            value, lines = _scalar(inside.strip(), number), lines[1:]
        found.append(value)
    return found, lines


def _map(lines: Lines, indent: int) -> tuple[dict[str, Any], Lines]:
    found: dict[str, Any] = {}
    while lines and _indent(lines[0][1]) == indent:
        number, line = lines[0]
        matched = _KEY.match(line.strip())
        if matched is None:
            raise YamlError(f"yaml: line {number}: could not find expected ':'")
        key = str(_scalar(matched[1].strip(), number))
        if key in found:
            raise YamlError(f'yaml: line {number}: mapping key "{key}" already defined')
        rest = _uncommented(matched[2] or "")
        if rest:
            found[key], lines = _scalar(rest, number), lines[1:]
        elif len(lines) > 1 and _indent(lines[1][1]) == indent and lines[1][1].strip().startswith("- "):
            found[key], lines = _list(lines[1:], indent)
        else:
            found[key], lines = _deeper(lines[1:], indent)
    if lines and _indent(lines[0][1]) > indent:
        raise YamlError(f"yaml: line {lines[0][0]}: mapping values are not allowed in this context")
    return found, lines


def _deeper(lines: Lines, indent: int) -> tuple[Any, Lines]:
    if not lines or _indent(lines[0][1]) <= indent:
        return None, lines
    return _block(lines, _indent(lines[0][1]))


def _uncommented(text: str) -> str:
    return "" if text.startswith("#") else re.sub(r"""\s+#[^'"]*$""", "", text).strip()


_WORDS: Mapping[str, object] = {"true": True, "false": False, "null": None, "~": None}


def _scalar(text: str, number: int) -> Any:  # noqa: ANN401 - a scalar, or JSON in one line
    text = _uncommented(text)
    if text[:1] in ("{", "[") or text.startswith('"'):
        try:
            return json.loads(text)
        except ValueError:
            if text.startswith("[") and text.endswith("]"):
                return [_scalar(part.strip(), number) for part in text[1:-1].split(",") if part.strip()]
            raise YamlError(f"yaml: line {number}: not in the part of YAML that the simulator knows") from None
    if text.startswith("'") and text.endswith("'") and len(text) > 1:
        return text[1:-1].replace("''", "'")
    if text[:1] in ("&", "*", "!", "|", ">", "%", "@", "`"):
        raise YamlError(f"yaml: line {number}: not in the part of YAML that the simulator knows")
    if text in _WORDS:
        return _WORDS[text]
    return int(text) if re.fullmatch(r"-?\d+", text) else text
