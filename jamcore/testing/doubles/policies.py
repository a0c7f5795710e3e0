"""Policies for tests: plugins that wrap every provider's hooks. The package's docstring is their index."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, ClassVar

from jamcore.api import Cell, PlanContext, PlanContribution, hookimpl


class CountingPolicy:
    """Wraps every contribution and counts them; changes nothing."""

    api_version: ClassVar[Any] = (1, 0)

    def __init__(self) -> None:
        self.seen: list[Cell] = []

    @hookimpl(wrapper=True)
    def jam_contribute_plan(self, context: PlanContext) -> Generator[None, PlanContribution, PlanContribution]:
        """Count."""
        answer = yield
        self.seen.append(context.cell)
        return answer


class AnsweringPolicy:
    """Answers where it may only wrap."""

    api_version: ClassVar[Any] = (1, 0)

    @hookimpl
    def jam_contribute_plan(self) -> PlanContribution:
        """Answer for everybody."""
        return PlanContribution(agent_image="mine")
