"""The typed facade in front of one provider plugin: nobody else touches a hook.

pluggy dispatches and checks nothing. Here each hook is called for exactly one provider's plugin plus the wrappers of policies, under a
time limit, and its answer is validated as if it had come over a wire: what callers get is the core's own record, never the plugin's object.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TypeVar

import anyio
import pluggy
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from jamcore.domain.continuity import ActivationPlan, CaptureList
from jamcore.domain.errors import JamError
from jamcore.domain.limits import HOOK_ASYNC_S, HOOK_S
from jamcore.domain.plan import PlanContext, PlanContribution
from jamcore.domain.providers import (
    CredentialReport,
    CredentialView,
    PlacementAnswer,
    PlacementRequest,
    PluginFailedError,
    Preparation,
    ProviderDescription,
    RuntimeRequest,
)
from jamcore.domain.records import Record
from jamcore.plugins.hookspecs import hookimpl
from jamcore.plugins.runtime import GuestLauncher, ProviderRuntime
from jamcore.system.foreign import Raised, call_bounded, describe

R = TypeVar("R", bound=Record)
A = TypeVar("A")


def _nobody() -> tuple[object, ...]:
    return ()


def _unheard(_problem: str) -> None:
    return None


def _none_is_missing() -> None:
    return None


class PreparesNothing:
    """Answers ``jam_prepare`` for a provider that does not, so that a policy has something to wrap there too."""

    @hookimpl
    def jam_prepare(self) -> Preparation:
        """Prepare nothing."""
        return Preparation()


class ProviderHooks:
    """One provider's decisions, as typed coroutines. Raises :class:`PluginFailedError` for everything that the plugin does wrong.

    A hook that does not come back is left behind in its thread and disables the provider: every later call is refused at once.
    """

    def __init__(
        self,
        name: str,
        plugin: object,
        manager: pluggy.PluginManager,
        *,
        others: Callable[[], Iterable[object]] = _nobody,
        policies: Callable[[], Iterable[object]] = _nobody,
        nothing: PreparesNothing | None = None,
        require_policies: Callable[[], None] = _none_is_missing,
        on_disabled: Callable[[str], None] = _unheard,
        description: ProviderDescription | None = None,
        limit_s: float = HOOK_S,
        async_limit_s: float = HOOK_ASYNC_S,
    ) -> None:
        self.name = name
        self._plugin = plugin
        self._manager = manager
        self._others = others
        self._policies = policies
        self._nothing = nothing
        self.require_policies = require_policies
        """Raises :class:`PolicyNotLoadedError` while an installed policy that nobody blocked is not loaded."""
        self._on_disabled = on_disabled
        self._limit_s = limit_s
        self._async_limit_s = async_limit_s
        self._disabled: str | None = None
        self._description = description

    @property
    def description(self) -> ProviderDescription:
        """What the plugin said of itself when it was loaded."""
        if self._description is None:
            raise self._failed("jam_describe_provider", "was not asked yet")
        return self._description

    @property
    def disabled(self) -> str | None:
        """Why the provider is no longer called, or ``None``."""
        return self._disabled

    def implements(self, hook: str) -> bool:
        """Whether the plugin itself answers a hook; a policy's wrapper is no answer."""
        found = getattr(self._manager.hook, hook).get_hookimpls()
        return any(impl.plugin is self._plugin and not (impl.wrapper or impl.hookwrapper) for impl in found)

    def wrapped_by(self, hook: str) -> tuple[str, ...]:
        """Return the names of the policies that wrap a hook."""
        policies = tuple(self._policies())
        found = (
            impl for impl in getattr(self._manager.hook, hook).get_hookimpls() if any(impl.plugin is each for each in policies)
        )
        return tuple(sorted(impl.plugin_name for impl in found))

    async def describe(self) -> ProviderDescription:
        """See :meth:`ProviderSpecs.jam_describe_provider`. Callers want :attr:`description`, which never changes."""
        return await self._decide("jam_describe_provider", ProviderDescription)

    async def contribute_plan(self, context: PlanContext) -> PlanContribution:
        """See :meth:`ProviderSpecs.jam_contribute_plan`.

        Raises:
            PolicyNotLoadedError: What is mandatory could be missing from the answer.
        """
        self.require_policies()
        return await self._decide("jam_contribute_plan", PlanContribution, context=context)

    async def contribute_alone(self, context: PlanContext) -> PlanContribution:
        """Return the provider's own contribution, as it is before any policy wraps it: to tell what is the policies' part."""
        arguments: dict[str, object] = {"context": context}
        return await self._call("jam_contribute_plan", partial(_record, PlanContribution), arguments, without=self._policies())

    async def prepare(self, context: PlanContext) -> Preparation:
        """See :meth:`ProviderSpecs.jam_prepare`. A plugin without this hook prepares nothing, and policies wrap that.

        Raises:
            PolicyNotLoadedError: What is mandatory could be missing from the answer.
        """
        self.require_policies()
        if self.implements("jam_prepare"):
            return await self._decide("jam_prepare", Preparation, context=context)
        if not self.wrapped_by("jam_prepare"):
            return Preparation()
        return await self._call("jam_prepare", partial(_record, Preparation), {"context": context}, instead=self._nothing)

    async def place_session(self, request: PlacementRequest) -> PlacementAnswer:
        """See :meth:`ProviderSpecs.jam_place_session`."""
        return await self._decide("jam_place_session", PlacementAnswer, request=request)

    async def declare_capture(self) -> CaptureList:
        """See :meth:`ProviderSpecs.jam_declare_capture`. Of a plugin without continuity nothing is captured."""
        if not self.implements("jam_declare_capture"):
            return CaptureList(entries=())
        return await self._decide("jam_declare_capture", CaptureList)

    async def declare_activation(self) -> ActivationPlan:
        """See :meth:`ProviderSpecs.jam_declare_activation`. A plugin without continuity has nothing to say here."""
        if not self.implements("jam_declare_activation"):
            return ActivationPlan()
        return await self._decide("jam_declare_activation", ActivationPlan)

    async def accepts_version(self, captured: str, current: str) -> bool:
        """See :meth:`ProviderSpecs.jam_accepts_version`. A plugin without continuity resumes nothing, whatever was captured before."""
        hook = "jam_accepts_version"
        if not self.implements(hook):
            return False
        return await self._call(hook, _exactly_bool, {"captured": captured, "current": current})

    async def check_credentials(self, view: CredentialView) -> CredentialReport:
        """See :meth:`ProviderSpecs.jam_check_credentials`."""
        answer = await self._ask("jam_check_credentials", view=view)
        return self._require("jam_check_credentials", partial(_record, CredentialReport), answer)

    async def open_runtime(self, request: RuntimeRequest, launcher: GuestLauncher) -> AbstractAsyncContextManager[ProviderRuntime]:
        """See :meth:`ProviderSpecs.jam_open_runtime`. Errors of Jam's own, such as a sandbox that is gone, pass through."""
        answer = await self._ask("jam_open_runtime", request=request, launcher=launcher)
        return self._require("jam_open_runtime", _context_manager, answer)

    async def _decide(self, hook: str, expected: type[R], **arguments: object) -> R:
        return await self._call(hook, partial(_record, expected), arguments)

    async def _call(
        self,
        hook: str,
        check: Callable[[object], A],
        arguments: dict[str, object],
        *,
        without: Iterable[object] = (),
        instead: object | None = None,
    ) -> A:
        """Call a hook and check its answer in one thread: also a record's own code may hang.

        ``without`` are policies that do not wrap this call; ``instead`` answers where the plugin does not implement the hook.
        """
        if self._disabled is not None:
            raise self._failed(hook, f"not called, because the provider is disabled: {self._disabled}")
        if instead is None and not self.implements(hook):
            raise self._failed(hook, "the plugin does not implement it")
        left_out = [*self._others(), *without, *([] if self._nothing is None or instead is not None else [self._nothing])]
        caller = self._manager.subset_hook_caller(hook, remove_plugins=left_out)
        try:
            answer = await call_bounded(lambda: check(caller(**arguments)), limit_s=self._limit_s)
        except TimeoutError as error:
            self._disabled = f"{hook} did not come back within {self._limit_s:g} s"
            self._on_disabled(self._disabled)
            raise self._failed(hook, self._disabled) from error
        if isinstance(answer, Raised):
            problem = str(answer.error) if isinstance(answer.error, _WrongAnswerError) else str(answer)
            raise self._failed(hook, problem) from answer.error
        return answer

    async def _ask(self, hook: str, **arguments: object) -> object:
        waiting = await self._call(hook, _awaitable, arguments)
        answer: object = None
        with anyio.move_on_after(self._async_limit_s) as scope:
            try:
                answer = await waiting
            except JamError:
                raise
            except (Exception, SystemExit) as error:
                raise self._failed(hook, describe(error)) from error
        if scope.cancelled_caught:
            raise self._failed(hook, f"did not come back within {self._async_limit_s:g} s")
        return answer

    def _require(self, hook: str, check: Callable[[object], A], answer: object) -> A:
        try:
            return check(answer)
        except Exception as error:
            problem = str(error) if isinstance(error, _WrongAnswerError) else describe(error)
            raise self._failed(hook, problem) from error

    def _failed(self, hook: str, problem: str) -> PluginFailedError:
        # pluggy does not say whose frame failed: the policies that took part are named, so that nobody looks at the provider alone.
        policies = ", ".join(self.wrapped_by(hook))
        return PluginFailedError(plugin=self.name, hook=hook, problem=f"{problem} (wrapped by {policies})" if policies else problem)


class _WrongAnswerError(Exception):
    """The hook answered, and the answer is none."""


def _record(expected: type[R], value: object) -> R:
    """Return ``value`` as the core's own record: dumped and validated again, so that nothing unchecked hides in it."""
    if not isinstance(value, expected):
        raise _WrongAnswerError(_wrong_type(value, expected.__name__))
    try:
        return expected.model_validate_json(value.model_dump_json(warnings="error"))
    except (ValidationError, PydanticSerializationError, ValueError) as error:
        raise _WrongAnswerError(
            f"returned a {expected.__name__} that is not valid: {' '.join(str(error).split())[:200]}"
        ) from error


def _exactly_bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise _WrongAnswerError(_wrong_type(value, "bool"))
    return value


def _awaitable(value: object) -> Awaitable[object]:
    if not inspect.isawaitable(value):
        raise _WrongAnswerError(_wrong_type(value, "an awaitable"))
    return value


def _context_manager(value: object) -> AbstractAsyncContextManager[ProviderRuntime]:
    if not isinstance(value, AbstractAsyncContextManager):
        raise _WrongAnswerError(_wrong_type(value, "an asynchronous context manager"))
    return value


def _wrong_type(value: object, wanted: str) -> str:
    if inspect.iscoroutine(value):
        value.close()  # nobody will await it, and a warning about that would blame the core
    return f"returned {type(value).__name__}, not {wanted}"
