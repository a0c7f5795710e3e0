"""Policies and families of which each breaks one promise, and one of each that keeps all: a module of a made-up distribution."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping
from itertools import count
from typing import ClassVar

from promise_breakers import Healthy  # type: ignore[import-not-found]  # beside it where both are installed

from jamcore.api import (
    Access,
    ExtraMount,
    InvalidInputError,
    PlacementAnswer,
    PlacementRequest,
    PlanContext,
    PlanContribution,
    Preparation,
    PreparedFile,
    hookimpl,
)

Plan = Generator[None, PlanContribution, PlanContribution]
DENIED = "/v1/files"


class Keeper:
    """Keeps every promise: a mount, a file and a denial."""

    api_version: ClassVar[tuple[int, int]] = (1, 0)
    directory = "house"
    access = Access.READ_ONLY
    outside = ""

    @hookimpl(wrapper=True)
    def jam_contribute_plan(self, context: PlanContext) -> Plan:
        """Add the mount and take away the requests."""
        answer = yield
        return self.changed(context, answer)

    def changed(self, context: PlanContext, answer: PlanContribution) -> PlanContribution:
        """Return what it makes of an answer."""
        place = self.outside or f"{context.state_root}/{self.directory}"
        mount = ExtraMount(subdirectory=self.directory, guest_path=place, access=self.access)
        kept = tuple(pair for pair in answer.endpoint_paths if DENIED not in pair)
        return answer.model_copy(update={"extra_mounts": (*answer.extra_mounts, mount), "endpoint_paths": kept})

    @hookimpl(wrapper=True)
    def jam_prepare(self) -> Generator[None, Preparation, Preparation]:
        """Add the file."""
        answer = yield
        return Preparation(files=(*answer.files, PreparedFile(path="house/rules.md", content="be kind")))


class Answering(Keeper):
    """Answers where it may only wrap."""

    @hookimpl
    def jam_accepts_version(self) -> bool:
        """Answer for everybody."""
        return False


class Idle:
    """Wraps nothing."""

    api_version: ClassVar[tuple[int, int]] = (1, 0)


class Watching(Keeper):
    """Reads the environment when it is asked."""

    def changed(self, context: PlanContext, answer: PlanContribution) -> PlanContribution:
        """Look first."""
        assert os.environ.get("HOUSE_IS_CLOSED") is None
        return super().changed(context, answer)


class Moody(Keeper):
    """Makes something else of the same answer each time."""

    times = count()

    def changed(self, context: PlanContext, answer: PlanContribution) -> PlanContribution:
        """Say how often it was asked."""
        return super().changed(context, answer.model_copy(update={"environment": (("HOUSE_COUNT", str(next(self.times))),)}))


class Doubting(Keeper):
    """Asks the provider twice, which nobody may."""

    @hookimpl(wrapper=True)
    def jam_contribute_plan(self, context: PlanContext) -> Plan:
        """Ask, and ask again."""
        yield
        return (yield)


class Mute(Keeper):
    """Forgets to return the answer."""

    @hookimpl(wrapper=True)
    def jam_prepare(self) -> Generator[None, Preparation, None]:  # type: ignore[override]
        """Wrap it, and that is all."""
        yield


class Swallowing(Keeper):
    """Answers when the provider failed."""

    @hookimpl(wrapper=True)
    def jam_prepare(self) -> Generator[None, Preparation, Preparation]:
        """Prepare nothing, then."""
        try:
            return (yield)
        except Exception:  # noqa: BLE001 - that is its fault
            return Preparation()


class Hiding(Keeper):
    """Raises an error of its own when the provider failed, and keeps the provider's to itself."""

    @hookimpl(wrapper=True)
    def jam_prepare(self) -> Generator[None, Preparation, Preparation]:
        """Complain about something else."""
        try:
            return (yield)
        except Exception:  # noqa: BLE001 - that is its fault
            raise LookupError("house") from None


class Trespassing(Keeper):
    """Puts one of its variables where none may be."""

    def changed(self, context: PlanContext, answer: PlanContribution) -> PlanContribution:
        """Add it to what is in order."""
        made = super().changed(context, answer)
        return made.model_copy(update={"environment": (*made.environment, ("not a name", "1"))})


class Repeating(Keeper):
    """Prepares a file beside another one of its path."""

    @hookimpl(wrapper=True)
    def jam_prepare(self) -> Generator[None, Preparation, Preparation]:
        """Add it twice."""
        answer = yield
        files = [PreparedFile(path="house/rules.md", content=text) for text in ("be kind", "be quick")]
        return Preparation(files=(*answer.files, *files))


class Widening(Keeper):
    """Allows a request that the provider does not make."""

    def changed(self, context: PlanContext, answer: PlanContribution) -> PlanContribution:
        """Allow it."""
        return answer.model_copy(update={"endpoint_paths": (*answer.endpoint_paths, "POST /v1/house")})


class Forgiving(Keeper):
    """Allows a host that another policy denied."""

    def changed(self, context: PlanContext, answer: PlanContribution) -> PlanContribution:
        """Allow it."""
        return answer.model_copy(update={"denied_hosts": ()})


class Writable(Keeper):
    """Adds a directory that the guest may write."""

    access = Access.READ_WRITE


class Replacing(Keeper):
    """Replaces what the provider prepared."""

    @hookimpl(wrapper=True)
    def jam_prepare(self) -> Generator[None, Preparation, Preparation]:
        """Put its own in the place."""
        answer = yield
        return Preparation(files=tuple(file.model_copy(update={"content": "{}"}) for file in answer.files))


class Inviting(Keeper):
    """Accepts a session for which the provider has no seat."""

    @hookimpl(wrapper=True)
    def jam_place_session(self, request: PlacementRequest) -> Generator[None, PlacementAnswer, PlacementAnswer]:
        """Accept it."""
        answer = yield
        return PlacementAnswer(accepted=True, own_process=answer.own_process)


class Trusting(Keeper):
    """Accepts every version."""

    @hookimpl(wrapper=True)
    def jam_accepts_version(self) -> Generator[None, bool, bool]:
        """Accept it."""
        yield
        return True


class Pretending(Keeper):
    """Shows a directory read-only that can be written where it lies."""

    def changed(self, context: PlanContext, answer: PlanContribution) -> PlanContribution:
        """Show it in the home."""
        self.outside = f"{context.home}/house"
        return super().changed(context, answer)


class Family:
    """A family that keeps every promise."""

    least: ClassVar[Mapping[str, object]] = {"title": "House"}

    def jam_family(self) -> str:
        """Return the name."""
        return "family"

    def least_table(self) -> Mapping[str, object]:
        """Return the table."""
        return self.least

    def provider(self, name: str, table: Mapping[str, object]) -> object:
        """Make it."""
        for problem in self.problems(table):
            raise InvalidInputError(field=problem, problem="is wrong")
        return type("Provider", (Healthy,), {"name": name})()

    def problems(self, table: Mapping[str, object]) -> Iterator[str]:
        """Yield each key that is wrong."""
        yield from sorted(table.keys() - {"title"})
        if not isinstance(table.get("title"), str):
            yield "title"


class Renamed(Family):
    """Calls itself by another name."""


class Helpless(Family):
    """Its least table makes nothing."""

    least: ClassVar[Mapping[str, object]] = {}

    def jam_family(self) -> str:
        """Return the name."""
        return "helpless"


class Lenient(Family):
    """Passes over a key that it does not know."""

    def jam_family(self) -> str:
        """Return the name."""
        return "lenient"

    def problems(self, table: Mapping[str, object]) -> Iterator[str]:
        """Look at its own key alone."""
        if not isinstance(table.get("title"), str):
            yield "title"


class Blunt(Family):
    """Fails where a key is missing."""

    def jam_family(self) -> str:
        """Return the name."""
        return "blunt"

    def problems(self, table: Mapping[str, object]) -> Iterator[str]:
        """Take the key for granted."""
        if not isinstance(table["title"], str):
            yield "title"
        yield from sorted(table.keys() - {"title"})


class Fickle(Family):
    """Makes another provider each time."""

    times = count()

    def jam_family(self) -> str:
        """Return the name."""
        return "fickle"

    def provider(self, name: str, table: Mapping[str, object]) -> object:
        """Make another one."""
        super().provider(name, table)
        contribution = Healthy.contribution.model_copy(update={"environment": (("COUNT", str(next(self.times))),)})
        return type("Provider", (Healthy,), {"name": name, "contribution": contribution})()


class Nosy(Family):
    """Reads the environment to make a provider."""

    def jam_family(self) -> str:
        """Return the name."""
        return "nosy"

    def provider(self, name: str, table: Mapping[str, object]) -> object:
        """Look first."""
        assert os.environ.get("HOUSE_IS_CLOSED") is None
        return super().provider(name, table)


class Careless(Family):
    """Makes a provider that breaks a promise of providers."""

    def jam_family(self) -> str:
        """Return the name."""
        return "careless"

    def provider(self, name: str, table: Mapping[str, object]) -> object:
        """Make one that takes sessions without end."""
        super().provider(name, table)
        return type("Provider", (Healthy,), {"name": name, "seats": 10**9})()
