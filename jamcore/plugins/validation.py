"""Does a plugin do what its cells promise (CAP-6)? Every hook is called with a probe for every cell, and every fault is listed."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

import pluggy

from jamcore.domain.cells import SHARED_CELL, Ability
from jamcore.domain.errors import JamError
from jamcore.domain.plugins import api_version_of, api_version_problem, fits, other_interface
from jamcore.domain.provider_rules import (
    capture_problems,
    contribution_problems,
    description_problems,
    plan_context,
    preparation_problems,
)
from jamcore.domain.providers import (
    CredentialView,
    PlacementRequest,
    PluginFailedError,
    ProviderDescription,
    RuntimeRequest,
)
from jamcore.domain.sandboxes import SandboxGoneError
from jamcore.plugins.hookspecs import PROJECT, ProviderSpecs
from jamcore.plugins.provider import ProviderHooks
from jamcore.system.guest import GuestProcess

if TYPE_CHECKING:
    from pluggy._hooks import HookSpec  # pluggy publishes what has this type, and not its name

T = TypeVar("T")
_VERSION = "1.0.0"
NOT_WRAPPED: Mapping[str, str] = MappingProxyType(
    {
        "jam_describe_provider": "what a provider says of itself is kept before there are policies",
        "jam_check_credentials": "it is asynchronous, and a wrapper gets values alone",
        "jam_open_runtime": "it is asynchronous, and a wrapper gets values alone",
    }
)
"""The hooks that no policy wraps, and why: a wrapper there would never be called, or could keep nothing."""


def new_manager(specs: type = ProviderSpecs) -> pluggy.PluginManager:
    """Return an empty plugin manager that knows the hooks."""
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(specs)
    return manager


@dataclass(frozen=True, slots=True)
class Form:
    """What can be seen of a plugin without calling a hook.

    Attributes:
        built_for: The version of the interface that it says.
        fits: Whether that is one that this core has; when it is not, nothing else was looked at.
        violations: What is wrong with it.
        warnings: What it uses that will go.
    """

    built_for: tuple[int, int] | None
    fits: bool
    violations: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def form_of(manager: pluggy.PluginManager, name: str, plugin: object, *, policy: bool = False) -> Form:
    """Register ``plugin`` in ``manager``, which is thrown away when it does not fit, and return what it looks like.

    Touches no hook. A policy may only wrap; a provider must answer. A plugin for another interface has other hooks: that it is one is
    all that is said of it.
    """
    said = getattr(plugin, "api_version", None)
    built_for = api_version_of(said)
    if built_for is not None and not fits(built_for):
        return Form(built_for, fits=False, violations=(other_interface(built_for),))
    problems = [problem for problem in (api_version_problem(said),) if problem]
    try:
        manager.register(plugin, name=name)
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        return Form(built_for, fits=True, violations=(*problems, " ".join(str(error).split())))
    problems += _unmarked(manager, plugin)
    if policy:
        problems += [f"{hook}: a policy may only wrap it" for hook, impl, _ in _answers(manager, plugin) if not _wraps(impl)]
        problems += [
            f"{hook}: no policy wraps it, since {NOT_WRAPPED[hook]}"
            for hook, *_ in _answers(manager, plugin)
            if hook in NOT_WRAPPED
        ]
    warnings = tuple(warning for hook, impl, spec in _answers(manager, plugin) for warning in _deprecated(hook, impl, spec))
    return Form(built_for, fits=True, violations=tuple(problems), warnings=warnings)


def _answers(manager: pluggy.PluginManager, plugin: object) -> Iterator[tuple[str, pluggy.HookImpl, HookSpec | None]]:
    """Yield each hook that a plugin implements or wraps, by name."""
    for caller in sorted(manager.get_hookcallers(plugin) or [], key=lambda each: each.name):
        yield from ((caller.name, impl, caller.spec) for impl in caller.get_hookimpls() if impl.plugin is plugin)


def _wraps(impl: pluggy.HookImpl) -> bool:
    return bool(impl.wrapper or impl.hookwrapper)


def _deprecated(hook: str, impl: pluggy.HookImpl, spec: HookSpec | None) -> Iterator[str]:
    """Say what pluggy warns of when it registers an implementation; its own warning goes to a log that few authors read."""
    if spec is None:
        return
    if spec.warn_on_impl is not None:
        yield f"{hook}: {spec.warn_on_impl}"
    for argument, warning in (spec.warn_on_impl_args or {}).items():
        if argument in impl.argnames:
            yield f"{hook}, argument {argument}: {warning}"


async def behavioural_violations(hooks: ProviderHooks) -> tuple[ProviderDescription | None, tuple[str, ...]]:
    """Call every hook with probes; return the description and everything that is wrong (CAP-6). Raises for no fault of the plugin."""
    probe = _Probe(hooks)
    description = await probe.ask(hooks.describe)
    if description is None:
        return None, tuple(probe.problems)
    if await probe.ask(hooks.describe) not in (None, description):
        probe.problems.append("jam_describe_provider: two calls gave different answers")
    probe.problems += description_problems(hooks.name, description)
    probe.problems += [
        f"{need.hook}: required {need.why}" for need in NEEDS if need.by(description) and not hooks.implements(need.hook)
    ]
    await _probe_plans(probe, description)
    await _probe_placement(probe)
    await _probe_continuity(probe)
    await _probe_effects(probe)
    return description, tuple(dict.fromkeys(probe.problems))


@dataclass(frozen=True, slots=True)
class Need:
    """When a plugin must implement a hook: what a violation says after "required", and by which description."""

    hook: str
    why: str
    by: Callable[[ProviderDescription], bool]


def _has_cells(description: ProviderDescription) -> bool:
    return bool(description.cells)


def _is_shared(description: ProviderDescription) -> bool:
    return SHARED_CELL in description.cells


def _continues(description: ProviderDescription) -> bool:
    return bool(description.cells) and description.continuity


def _has_credential(description: ProviderDescription) -> bool:
    return description.credential is not None


NEEDS: tuple[Need, ...] = (
    Need("jam_contribute_plan", "because it has cells", _has_cells),
    Need("jam_open_runtime", "because it has cells", _has_cells),
    Need("jam_place_session", "by the shared cell", _is_shared),
    *(
        Need(hook, "by sandboxed cells, unless the description declares no continuity", _continues)
        for hook in ("jam_declare_capture", "jam_declare_activation", "jam_accepts_version")
    ),
    Need("jam_check_credentials", "because a credential is described", _has_credential),
)
"""Which cells, and what else a description says, need which hook (CAP-6). ``jam_describe_provider`` is asked of everyone."""


class _Probe:
    """Calls hooks and collects what goes wrong."""

    def __init__(self, hooks: ProviderHooks) -> None:
        self.hooks = hooks
        self.problems: list[str] = []

    async def ask(self, call: Callable[[], Awaitable[T]], about: str = "") -> T | None:
        """Return the answer, or ``None`` when the plugin failed, which is noted."""
        try:
            return await call()
        except PluginFailedError as error:
            self.problems.append(f"{error.hook}{about}: {error.problem}")
        except JamError as error:
            self.problems.append(
                f"an asynchronous hook raised {error.code} for a probe; opening a runtime must not need a sandbox yet"
            )
        return None

    def note(self, hook: str, problems: tuple[str, ...], about: str = "") -> None:
        """Keep what a rule found in an answer."""
        self.problems += [f"{hook}{about}: {problem}" for problem in problems]


async def _probe_plans(probe: _Probe, description: ProviderDescription) -> None:
    hooks = probe.hooks
    if not hooks.implements("jam_contribute_plan"):
        return
    for cell in sorted(description.cells, key=str):
        about = f" for {cell}"
        for abilities in (cell.needs(), frozenset(Ability)):
            context = plan_context(hooks.name, cell, abilities)
            contribution = await probe.ask(partial(hooks.contribute_plan, context), about)
            if contribution is not None:
                probe.note("jam_contribute_plan", contribution_problems(contribution, context), about)
                again = await probe.ask(partial(hooks.contribute_plan, context), about)
                if again not in (None, contribution):
                    probe.problems.append(f"jam_contribute_plan{about}: two calls gave different answers")
            preparation = await probe.ask(partial(hooks.prepare, context), about)
            if preparation is not None:
                probe.note("jam_prepare", preparation_problems(preparation), about)


async def _probe_placement(probe: _Probe) -> None:
    if probe.hooks.implements("jam_place_session"):
        for seats in (0, 1, 64):
            request = PlacementRequest(seats=seats)
            await probe.ask(partial(probe.hooks.place_session, request))


async def _probe_continuity(probe: _Probe) -> None:
    hooks = probe.hooks
    if hooks.implements("jam_accepts_version"):
        await probe.ask(lambda: hooks.accepts_version(_VERSION, _VERSION))
    if not (hooks.implements("jam_declare_capture") and hooks.implements("jam_declare_activation")):
        return
    capture, activation = await probe.ask(hooks.declare_capture), await probe.ask(hooks.declare_activation)
    if capture is None or activation is None:
        return
    probe.note("jam_declare_capture", capture_problems(capture, activation))
    if await probe.ask(hooks.declare_capture) not in (None, capture):
        probe.problems.append("jam_declare_capture: two calls gave different answers")


async def _probe_effects(probe: _Probe) -> None:
    """The two asynchronous hooks. The runtime's context is made and never entered, so no program starts."""
    hooks = probe.hooks
    if hooks.implements("jam_check_credentials"):
        for view in (CredentialView(present=False, source=""), CredentialView(present=True, source="probe")):
            await probe.ask(partial(hooks.check_credentials, view))
    if hooks.implements("jam_open_runtime"):
        context = plan_context(hooks.name, SHARED_CELL, frozenset(Ability))
        request = RuntimeRequest(
            tools_root=context.tools_root,
            state_root=context.state_root,
            home=context.home,
            relay_url=context.relay_url,
            start_directory=context.home,
            expected_version=None,
        )
        await probe.ask(lambda: hooks.open_runtime(request, _NoGuest()))


class _NoGuest:
    """A launcher without a sandbox: opening a runtime must not need one yet."""

    async def start(self, argv: tuple[str, ...], *, cwd: str, environment: tuple[tuple[str, str], ...] = ()) -> GuestProcess:
        """Refuse."""
        raise SandboxGoneError(sandbox=f"probe for {argv[:1]} in {cwd} with {len(environment)} variables")

    async def run(
        self,
        argv: tuple[str, ...],
        *,
        cwd: str,
        timeout_s: float,
        limit: int = 65_536,
        environment: tuple[tuple[str, str], ...] = (),
    ) -> tuple[int | None, bytes]:
        """Refuse."""
        raise SandboxGoneError(
            sandbox=f"probe for {argv[:1]} in {cwd} within {timeout_s:g} s, {limit} bytes, {len(environment)} variables"
        )


def _unmarked(manager: pluggy.PluginManager, plugin: object) -> Iterator[str]:
    """A method that is named like a hook and is not marked would never be called, and nobody would notice."""
    for name in dir(type(plugin)):
        hook_like = name.startswith(f"{PROJECT}_") and inspect.isroutine(inspect.getattr_static(type(plugin), name))
        if hook_like and manager.parse_hookimpl_opts(plugin, name) is None:
            yield f"{name}: not marked with @hookimpl"
