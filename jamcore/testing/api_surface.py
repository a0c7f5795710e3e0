"""What ``jamcore.api`` and the hooks look like, line by line, and what a change of that does to the interface's version (PLUG-1).

Run ``python -m jamcore.testing.api_surface`` to write the snapshot that the contract test compares, after a change that is meant.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, get_args, get_origin

import jamcore.api
from jamcore.domain.errors import JamError
from jamcore.domain.plugins import API_VERSION, version_text
from jamcore.domain.records import Record
from jamcore.plugins.hookspecs import ProviderSpecs
from jamcore.testing.sources import workspace_root

SNAPSHOT = "tests/contract/data/api.txt"
"""The interface as it is."""
RELEASED = "tests/contract/data/api-released.txt"
"""The interface as it was in the last release of jamcore; without a version before the first one."""
GIVEN = frozenset(
    {
        "CloneSource",
        "CredentialView",
        "EngineContext",
        "ExecSpec",
        "GuestLauncher",
        "HostMount",
        "PlacementRequest",
        "PlanContext",
        "Resources",
        "RuntimeRequest",
        "SandboxSpec",
        "TerminalSize",
        "ThreadRequest",
    }
)
"""What the core makes and plugins get: a field or method more is no work for their authors."""

Lines = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Surface:
    """The interface: its version, absent before the first release, and each thing in it with its form, as ``Cell.placement: Placement``."""

    version: tuple[int, int] | None
    lines: Lines

    def text(self) -> str:
        """Return the snapshot."""
        head = "Nothing was released yet" if self.version is None else f"version {version_text(self.version)}"
        return "\n".join((f"# {head}", *(f"{name}{form}" for name, form in sorted(self.lines.items())), ""))

    @classmethod
    def read(cls, text: str) -> Surface:
        """Return what a snapshot says."""
        head, *lines = text.splitlines()
        said = head.rpartition(" ")[2].split(".")
        version = (int(said[0]), int(said[1])) if len(said) == 2 else None
        return cls(version, MappingProxyType(dict(_split(line) for line in lines if line)))


@dataclass(frozen=True, slots=True)
class Change:
    """What differs between two surfaces.

    Attributes:
        breaking: What is removed or has another form, and what authors must now bring: a field without a default, a method.
        added: What is there besides.
    """

    breaking: tuple[str, ...]
    added: tuple[str, ...]

    def least(self, before: tuple[int, int]) -> tuple[int, int]:
        """Return the least version that what changed may have."""
        if self.breaking:
            return before[0] + 1, 0
        return (before[0], before[1] + 1) if self.added else before


def change(before: Lines, after: Lines) -> Change:
    """Compare two surfaces."""
    breaking = [f"removed {name}{before[name]}" for name in before if name not in after]
    breaking += [
        f"{name}{before[name]} is now {name}{after[name]}" for name in before if name in after and before[name] != after[name]
    ]
    new = [name for name in after if name not in before]
    demanded = [name for name in new if _is_demanded(name, before, after)]
    breaking += [f"authors must bring {name}{after[name]}" for name in demanded]
    return Change(tuple(sorted(breaking)), tuple(sorted(f"{name}{after[name]}" for name in new if name not in demanded)))


def complaint(released: Surface, now: Surface) -> str | None:
    """Say which version what changed since the last release must have, and why; ``None``: the version is high enough."""
    if released.version is None or now.version is None:
        return None
    found = change(released.lines, now.lines)
    if (least := found.least(released.version)) <= now.version:
        return None
    why = "\n".join(f"  {each}" for each in (found.breaking or found.added))
    return (
        f"since the release with plugin interface {version_text(released.version)}:\n{why}\n"
        f"API_VERSION in jamcore/domain/plugins.py must be at least {least}, and is {now.version}:"
        " a major number for what breaks plugins, a minor one for what is added"
    )


def current() -> Surface:
    """Return the interface that is imported."""
    lines = dict[str, str]()
    for name in jamcore.api.__all__:
        thing = getattr(jamcore.api, name)
        lines[name] = _form(thing)
        lines |= {f"{name}.{member}": form for member, form in members(thing)}
    for name in (name for name in vars(ProviderSpecs) if name.startswith("jam_")):
        signature = inspect.signature(getattr(ProviderSpecs, name))
        lines[f"hook {name}"] = f" -> {signature.return_annotation}"
        lines |= {
            f"hook {name}.{argument.name}": f": {argument.annotation}"
            for argument in signature.parameters.values()
            if argument.name != "self"
        }
    return Surface(API_VERSION, MappingProxyType(lines))


def members(thing: object) -> Iterator[tuple[str, str]]:
    """Yield what a published thing is made of, by name, each with its form: fields, values, methods, or the types that it may be."""
    if not inspect.isclass(thing):
        inner = get_args(thing)[0] if get_origin(thing) is Annotated else thing
        yield from ((each.__name__, "") for each in get_args(inner))
    elif issubclass(thing, Enum):
        yield from ((each.name, f" = {each.value!r}") for each in thing)
    else:
        yield from _fields(thing)
        yield from _methods(thing)


def _fields(kind: type) -> Iterator[tuple[str, str]]:
    written = {name: str(text) for base in reversed(kind.__mro__) for name, text in inspect.get_annotations(base).items()}
    if issubclass(kind, Record):
        for name, field in kind.model_fields.items():
            default = "" if field.is_required() else f" = {_value(field.get_default(call_default_factory=True))}"
            yield name, f": {written[name]}{default}"
    elif is_dataclass(kind):
        if issubclass(kind, JamError):
            yield "code", f" = {kind.code!r}"
        for each in fields(kind):
            made: Any = each.default_factory() if each.default_factory is not MISSING else each.default
            yield each.name, f": {written[each.name]}" + ("" if made is MISSING else f" = {_value(made)}")
    else:
        yield from ((name, f": {text}") for name, text in inspect.get_annotations(kind).items() if not name.startswith("_"))


def _methods(kind: type) -> Iterator[tuple[str, str]]:
    """Yield the methods and properties of a class, and of bases that are not published themselves."""
    published = {id(getattr(jamcore.api, name)) for name in jamcore.api.__all__}
    bases = [base for base in kind.__mro__ if base.__module__.startswith("jamcore.")]
    found = dict[str, Any]()
    for base in reversed([base for base in bases if base is kind or id(base) not in published]):
        found |= {name: member for name, member in vars(base).items() if not name.startswith("_") or name == "__init__"}
    for name, member in found.items():
        if isinstance(member, property):
            yield name, f" -> {inspect.signature(member.fget).return_annotation}" if member.fget else ""
        elif inspect.isfunction(member) and not (name == "__init__" and (is_dataclass(kind) or _is_protocol(kind))):
            yield name, signature_text(member)


def signature_text(call: Any) -> str:  # noqa: ANN401 - whatever inspect takes
    """Return a signature as it is written, without ``self``."""
    signature = inspect.signature(call)
    kept = [each for each in signature.parameters.values() if each.name not in ("self", "cls")]
    shown = [
        each.replace(
            annotation=each.annotation if each.annotation is each.empty else _Written(str(each.annotation)),
            default=each.default if each.default is each.empty else _Written(_value(each.default)),
        )
        for each in kept
    ]
    answer = signature.return_annotation
    written = signature.replace(parameters=shown, return_annotation=answer if answer is signature.empty else _Written(str(answer)))
    return f"{written}{', asynchronous' if inspect.iscoroutinefunction(call) else ''}"


class _Written:
    """A piece of a signature that is shown as it is written."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _form(thing: object) -> str:
    if inspect.isclass(thing):
        return ": protocol" if _is_protocol(thing) else ": class"
    if inspect.isfunction(thing):
        return signature_text(thing)
    if supertype := getattr(thing, "__supertype__", None):
        return f": NewType of {supertype.__name__}"
    return ": union" if get_args(thing) else f": {type(thing).__name__}"


def _is_protocol(kind: type) -> bool:
    return bool(getattr(kind, "_is_protocol", False))


def _value(value: object) -> str:
    """Return a default as code: the same on every release of Python, and in every process."""
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if value is None or isinstance(value, str | int | float | tuple):
        return repr(value)
    return getattr(value, "__name__", f"{type(value).__name__}()")


def _split(line: str) -> tuple[str, str]:
    """Return a line's name and its form, which begins with the first mark behind the name."""
    start = len("hook ") if line.startswith("hook ") else 0
    end = next((at for at in range(start, len(line)) if line[at] in ": ("), len(line))
    return line[:end], line[end:]


def _is_demanded(name: str, before: Lines, after: Lines) -> bool:
    """Whether authors of a plugin that exists must bring something that is new: a field of what they make, a method of what they are."""
    owner, dot, _ = name.partition(".")
    if not dot or owner not in before or owner in GIVEN or owner.startswith("hook "):
        return False
    form = after[name]
    return after[owner] == ": protocol" or (form.startswith(": ") and " = " not in form)


def main(arguments: list[str] | None = None) -> int:
    """Write the snapshot."""
    parser = argparse.ArgumentParser(prog="python -m jamcore.testing.api_surface", description=f"Write {SNAPSHOT}.")
    parser.add_argument("--release", action="store_true", help=f"also write {RELEASED}: jamcore is released with this interface")
    chosen = parser.parse_args(arguments)
    root, text = workspace_root(Path.cwd()), current().text()
    for name in (SNAPSHOT, RELEASED) if chosen.release else (SNAPSHOT,):
        (root / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
