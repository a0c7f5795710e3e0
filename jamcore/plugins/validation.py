"""Does a plugin do what its cells promise (CAP-6)? Every hook is called with a probe for every cell, and every fault is listed."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import TypeVar

import pluggy

from jamcore.domain.cells import SHARED_CELL, Ability
from jamcore.domain.errors import JamError
from jamcore.domain.provider_rules import (
    capture_problems,
    contribution_problems,
    description_problems,
    plan_context,
    preparation_problems,
)
from jamcore.domain.providers import (
    API_VERSION,
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

T = TypeVar("T")
_VERSION = "1.0.0"


def new_manager() -> pluggy.PluginManager:
    """Return an empty plugin manager that knows the hooks."""
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(ProviderSpecs)
    return manager


def structural_violations(manager: pluggy.PluginManager, name: str, plugin: object, *, policy: bool = False) -> tuple[str, ...]:
    """Register ``plugin`` in ``manager``, which is thrown away when it does not fit, and return what is wrong with its form.

    Touches no hook. A policy may only wrap; a provider must answer.
    """
    problems = list(_version_problems(plugin))
    try:
        manager.register(plugin, name=name)
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        return (*problems, " ".join(str(error).split()))
    problems += _unmarked(manager, plugin)
    if policy:
        callers = manager.get_hookcallers(plugin) or []
        found = [(caller.name, impl) for caller in callers for impl in caller.get_hookimpls() if impl.plugin is plugin]
        problems += [f"{hook}: a policy may only wrap it" for hook, impl in found if not (impl.wrapper or impl.hookwrapper)]
    return tuple(problems)


async def behavioural_violations(hooks: ProviderHooks) -> tuple[ProviderDescription | None, tuple[str, ...]]:
    """Call every hook with probes; return the description and everything that is wrong (CAP-6). Raises for no fault of the plugin."""
    probe = _Probe(hooks)
    description = await probe.ask(hooks.describe)
    if description is None:
        return None, tuple(probe.problems)
    if await probe.ask(hooks.describe) not in (None, description):
        probe.problems.append("jam_describe_provider: two calls gave different answers")
    probe.problems += description_problems(hooks.name, description)
    probe.problems += [f"{hook}: required {why}" for hook, why in _required(description) if not hooks.implements(hook)]
    await _probe_plans(probe, description)
    await _probe_placement(probe)
    await _probe_continuity(probe)
    await _probe_effects(probe)
    return description, tuple(dict.fromkeys(probe.problems))


def _required(description: ProviderDescription) -> Iterator[tuple[str, str]]:
    if description.cells:
        yield "jam_contribute_plan", "because it has cells"
        yield "jam_open_runtime", "because it has cells"
    if SHARED_CELL in description.cells:
        yield "jam_place_session", "by the shared cell"
    if description.cells and description.continuity:
        for hook in ("jam_declare_capture", "jam_declare_activation", "jam_accepts_version"):
            yield hook, "by sandboxed cells, unless the description declares no continuity"
    if description.credential is not None:
        yield "jam_check_credentials", "because a credential is described"


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

    async def run(self, argv: tuple[str, ...], *, cwd: str, timeout_s: float, limit: int = 65_536) -> tuple[int | None, bytes]:
        """Refuse."""
        raise SandboxGoneError(sandbox=f"probe for {argv[:1]} in {cwd} within {timeout_s:g} s and {limit} bytes")


def _version_problems(plugin: object) -> Iterator[str]:
    version = getattr(plugin, "api_version", None)
    if not (isinstance(version, tuple) and len(version) == 2 and all(type(part) is int for part in version)):
        yield "has no api_version (a tuple of two numbers)"
    elif version[0] != API_VERSION[0]:
        yield f"written for plugin interface {version[0]}.x, this core has {API_VERSION[0]}.x"


def _unmarked(manager: pluggy.PluginManager, plugin: object) -> Iterator[str]:
    """A method that is named like a hook and is not marked would never be called, and nobody would notice."""
    for name in dir(type(plugin)):
        hook_like = name.startswith(f"{PROJECT}_") and inspect.isroutine(inspect.getattr_static(type(plugin), name))
        if hook_like and manager.parse_hookimpl_opts(plugin, name) is None:
            yield f"{name}: not marked with @hookimpl"
