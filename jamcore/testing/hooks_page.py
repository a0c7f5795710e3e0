"""Makes docs/hooks.md: every hook with its arguments, its answer, its callers and the cells that need it.

Run ``python -m jamcore.testing.hooks_page``.
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import jamcore.api
from jamcore.domain.plugins import API_VERSION, version_text
from jamcore.engines.registry import GROUP
from jamcore.plugins.families import FAMILIES
from jamcore.plugins.hookspecs import ProviderSpecs
from jamcore.plugins.manager import POLICIES, PROVIDERS
from jamcore.plugins.validation import NEEDS, NOT_WRAPPED, new_manager
from jamcore.testing.api_surface import members
from jamcore.testing.sources import workspace_root

PAGE = "docs/hooks.md"
_HEAD = f"""\
# Hooks of provider plugins

Made by `python -m jamcore.testing.hooks_page` from `jamcore/plugins/hookspecs.py`; do not edit. This is version
{version_text(API_VERSION)} of the plugin interface; a plugin says in `api_version` which one it was built for
([decision 0022](decisions/0022-interface-version.md)).

A plugin is a class with methods of these names, each marked with `@hookimpl` of `jamcore.api`. A method takes those arguments that it
names, by exactly these names, and leaves out the others. What it returns is validated as if it had come over a wire. Every hook is called
for one provider's plugin, under a time limit, in a thread; one that does not come back disables its plugin. When a plugin is loaded each of
its hooks is called with probes for each of its cells, and everything that is wrong is listed at once (CAP-6): `jam plugin ls`.
No argument names a host, a session, a checkpoint, an operation or another session's thread (PLUG-3).

A later version of the interface may give a hook an argument more: an implementation that does not name it goes on working. A hook or an
argument that will go is marked in its specification, its entry here says so, and `jam plugin ls` shows a warning for each plugin that still
uses it, for one minor version at least before a major one takes it away.

Plugins come by entry point, a class that is constructed without arguments once per daemon:

| group | what it brings |
|---|---|
| `{PROVIDERS}` | a provider, named as its entry point: the hooks below |
| `{POLICIES}` | a policy: hooks that wrap those of every provider (`@hookimpl(wrapper=True)`), and answer none |
| `{FAMILIES}` | a family, which makes providers of tables of the configuration (`ProviderFamily`) |
| `{GROUP}` | an engine (`EnginePlugin`); it has no hooks, and what it must do is in [engine-suite.md](engine-suite.md) |

A policy's wrapper ([policy-authors.md](policy-authors.md)) is called around the provider's implementation, in the same thread and under the
same time limit. It gets the arguments that it names, asks once (`answer = yield`), and returns an answer of the same type, which is
validated as the provider's own is. It lets the provider's errors through, and only tightens what it gets. While a policy that is installed
is neither loaded nor blocked, no plan is made and no room starts ([decision 0024](decisions/0024-mandatory-policies.md)). What a policy may
do with each hook:

| hook | a policy may |
|---|---|
{{wrapped}}
"""
TIGHTENS: Mapping[str, str] = MappingProxyType(
    {
        "jam_contribute_plan": "add read-only mounts, variables and denied hosts; take requests away",
        "jam_prepare": "add files; those of the provider stay as they are. It is asked also where the provider prepares nothing",
        "jam_place_session": "refuse a session that the provider would accept",
        "jam_declare_capture": "add what is never captured, and what counts as a credential",
        "jam_declare_activation": "add what is deleted and what is checked when a conversation is brought back",
        "jam_accepts_version": "refuse a version that the provider would accept",
    }
)
"""What a wrapper of each hook may do; all others are wrapped by nobody."""
_SECTION = re.compile(r"^(Args|Returns|Called):$", re.MULTILINE)
_ARGUMENT = re.compile(r"^(\w+): ", re.MULTILINE)
_ROLE = re.compile(r":\w+:`~?([^`]+)`")
_NAME = re.compile(r"\b[A-Z]\w+")
_SINCE = re.compile(r"^\.\. versionadded:: (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Hook:
    """One hook, as its specification says it.

    Attributes:
        name: Its name.
        signature: Its arguments and its answer, with their types.
        summary: What it is for.
        arguments: What each argument is, by name.
        returns: What the answer is.
        called: By whom, and when.
        since: The version of the interface that brought it.
        needed: Who must implement it.
        deprecated: What its authors are warned of.
    """

    name: str
    signature: inspect.Signature
    summary: str
    arguments: dict[str, str]
    returns: str
    called: str
    since: str
    needed: tuple[str, ...]
    deprecated: tuple[str, ...]


def hooks(specs: type[ProviderSpecs] = ProviderSpecs) -> tuple[Hook, ...]:
    """Return the hooks, in the order of their specifications."""
    return tuple(_hook(specs, name) for name in vars(ProviderSpecs) if name.startswith("jam_"))


def render(specs: type[ProviderSpecs] = ProviderSpecs) -> str:
    """Return the page."""
    found = hooks(specs)
    rows = (f"| [`{hook.name}`](#{hook.name}) | {_required(hook)} | {hook.since} |" for hook in found)
    index = "\n".join(("| hook | required | since |", "|---|---|---|", *rows))
    head = _HEAD.replace("{wrapped}", "\n".join(f"| `{hook.name}` | {_wrapped(hook.name)} |" for hook in found))
    return "\n".join((head, index, "", *map(_section, found), "## What they take and return\n", *_types(found)))


def _wrapped(hook: str) -> str:
    return TIGHTENS[hook] if hook in TIGHTENS else f"not wrap it: {NOT_WRAPPED[hook]}"


def _hook(specs: type[ProviderSpecs], name: str) -> Hook:
    spec = getattr(new_manager(specs).hook, name).spec
    text = inspect.cleandoc(getattr(specs, name).__doc__ or "")
    since = _SINCE.search(text)
    parts = _SECTION.split(_SINCE.sub("", text))
    sections = {title: inspect.cleandoc(body) for title, body in zip(parts[1::2], parts[2::2], strict=True)}
    arguments = _ARGUMENT.split(sections.get("Args", ""))
    signature = inspect.signature(getattr(specs, name))
    warned = [f"argument `{argument}`: {warning}" for argument, warning in (spec.warn_on_impl_args or {}).items()]
    return Hook(
        name=name,
        signature=signature.replace(parameters=[each for each in signature.parameters.values() if each.name != "self"]),
        summary=parts[0].strip(),
        arguments={key: _line(value) for key, value in zip(arguments[1::2], arguments[2::2], strict=True)},
        returns=_line(sections.get("Returns", "")),
        called=_line(sections.get("Called", "")),
        since=since[1] if since else "",
        needed=tuple(need.why for need in NEEDS if need.hook == name),
        deprecated=(*([str(spec.warn_on_impl)] if spec.warn_on_impl else []), *warned),
    )


def _section(hook: Hook) -> str:
    lines = [f"## {hook.name}\n", f"    {hook.name}{_shown(hook.signature)}\n", f"{hook.summary}\n"]
    if hook.signature.parameters:
        lines += ["| argument | type | what it is |", "|---|---|---|"]
        lines += [
            f"| `{name}` | `{argument.annotation}` | {hook.arguments.get(name, '')} |"
            for name, argument in hook.signature.parameters.items()
        ]
        lines.append("")
    lines += [
        f"- Returns: {hook.returns}",
        f"- Called: {hook.called}",
        f"- Required: {_required(hook)}",
        f"- Since: {hook.since}",
        *(f"- Deprecated: {each}" for each in hook.deprecated),
        "",
    ]
    return "\n".join(lines)


def _required(hook: Hook) -> str:
    if hook.name == "jam_describe_provider":
        return "always"
    return "; ".join(hook.needed) or "never"


def _shown(signature: inspect.Signature) -> str:
    arguments = ", ".join(f"{name}: {each.annotation}" for name, each in signature.parameters.items())
    return f"({arguments}) -> {signature.return_annotation}"


def _types(found: tuple[Hook, ...]) -> Iterator[str]:
    """Yield a section for each published type that a signature names, and for those that these are made of."""
    waiting = [name for hook in found for name in _NAME.findall(_shown(hook.signature))]
    seen = set[str]()
    while waiting:
        name = waiting.pop(0)
        kind = getattr(jamcore.api, name, None)
        if name in seen or kind is None:
            continue
        seen.add(name)
        made_of = _members(kind)
        waiting += [each for member in made_of for each in _NAME.findall(member)]
        said = _ROLE.sub(r"``\1``", inspect.cleandoc(kind.__doc__ or "")) if inspect.isclass(kind) else _other(kind)
        yield f"### {name}\n\n{said}\n"
        if made_of:
            yield "\n".join(f"- {member}" for member in made_of) + "\n"


def _other(kind: object) -> str:
    return (
        f"A `{name}` of its own kind."
        if (name := getattr(getattr(kind, "__supertype__", None), "__name__", ""))
        else "One of these:"
    )


def _members(kind: object) -> list[str]:
    """Return what a type is made of: fields and values as they are, methods with the first line of what they say."""
    return [f"`{name}{form}`{_said(getattr(kind, name, None))}" for name, form in members(kind)]


def _said(member: object) -> str:
    if not (inspect.isfunction(member) or isinstance(member, property)):
        return ""
    return f": {inspect.cleandoc(member.__doc__ or '').partition(chr(10))[0]}"


def _line(text: str) -> str:
    return " ".join(text.split())


def main(arguments: list[str] | None = None) -> int:
    """Write the page."""
    argparse.ArgumentParser(prog="python -m jamcore.testing.hooks_page", description="Make docs/hooks.md.").parse_args(arguments)
    (workspace_root(Path.cwd()) / PAGE).write_text(render(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
