"""The turns that a session remembers, from its own journal of events: what a resume is proven by (CONT-7, CONT-11)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256

from jam_copilot.protocol import Ask, Event, Told, event_of, nonsense
from jamcore.api import ProviderTurn, TurnOutcome, identifier, member, number

KINDS = (
    Told.USER_MESSAGE,
    Told.MESSAGE,
    Told.TURN_START,
    Told.TURN_END,
    Told.ABORT,
    Told.ERROR,
    Told.RESUMED,
)
PAGE, SMALL_PAGE = 200, 4
"""Events that are asked for at once: many, where the whole journal is smaller than one answer may be; else so few that what a person
and a model can say in them fits."""
SMALL_JOURNAL = 16 << 20
PAGES = 100_000

AskProgram = Callable[[Ask, dict[str, object]], Awaitable[object]]


@dataclass
class Remembered:
    """What a journal holds.

    ``in_use``: at the last resume another program had it open.
    """

    turns: tuple[ProviderTurn, ...] = ()
    in_use: bool = False


async def remembered(ask: AskProgram, identity: str) -> Remembered:
    """Read the journal of a session that is loaded.

    Raises:
        ProviderProtocolError: What the program gives is no journal, or has no end.
    """
    last = await _events(ask, identity, {"types": [Told.RESUMED.value], "max": 1, "direction": "backward"})
    size = number(last[0][-1].data.get("eventsFileSizeBytes")) if last[0] else SMALL_JOURNAL
    page = PAGE if size < SMALL_JOURNAL else SMALL_PAGE
    found: list[Event] = []
    cursor: dict[str, object] = {}
    for _ in range(PAGES):
        events, following = await _events(ask, identity, {"types": [kind.value for kind in KINDS], "max": page, **cursor})
        found += (_lightened(event) for event in events)
        if following is None:
            return read(found)
        cursor = {"cursor": following}
    raise nonsense(f"a journal of more than {PAGES} pages")


async def _events(ask: AskProgram, identity: str, how: dict[str, object]) -> tuple[list[Event], str | None]:
    answer = await ask(Ask.READ_EVENTS, {"sessionId": identity, **how})
    events, cursor = member(answer, "events"), member(answer, "cursor")
    if not isinstance(events, list) or member(answer, "cursorStatus") == "expired":
        raise nonsense("an answer without a session's events")
    following = cursor if member(answer, "hasMore") is True and isinstance(cursor, str) else None
    return [event for event in map(event_of, events) if event is not None], following


def _lightened(event: Event) -> Event:
    """Return the event without what is not looked at: a journal may hold megabytes of text."""
    match event.kind:
        case Told.MESSAGE:
            return Event(event.kind, {"toolRequests": bool(event.data.get("toolRequests"))})
        case Told.USER_MESSAGE:
            content = event.data.get("content")
            digest = sha256(content.encode(errors="surrogatepass")).hexdigest() if isinstance(content, str) else None
            return Event(event.kind, {"messageId": event.data.get("messageId"), "digest": digest})
        case _:
            return event


@dataclass
class _Turn:
    """One turn while its events are read."""

    identity: str
    digest: str | None
    asked_for_tools: bool | None = None
    """Whether the model's last message wants more to be done; ``None``: it has said nothing since it was asked."""
    outcome: TurnOutcome = TurnOutcome.INTERRUPTED
    decided: bool = False

    def take(self, event: Event) -> None:
        """Learn from the next event. Once a turn came to its end nothing later changes it, as what the agent does by itself after it."""
        if self.decided:
            return
        match event.kind:
            case Told.TURN_START:
                self.asked_for_tools = None
            case Told.MESSAGE:
                self.asked_for_tools = bool(event.data.get("toolRequests"))
            case Told.ERROR:
                self.outcome, self.decided = TurnOutcome.FAILED, True
            case Told.ABORT:
                self.decided = True
            case Told.TURN_END if self.asked_for_tools is False:
                self.outcome, self.decided = TurnOutcome.COMPLETED, True
            case _:
                pass


def read(events: Iterable[Event]) -> Remembered:
    """Return what a session's events say of its turns, oldest first.

    A turn is the person's message and all that follows. It was completed when the model, asked for the last time, answered and wanted
    nothing more to be done; a program that was killed in between leaves it interrupted.
    """
    turns: list[_Turn] = []
    found = Remembered()
    for event in events:
        match event.kind:
            case Told.USER_MESSAGE if message := identifier(event.data.get("messageId")):
                digest = event.data.get("digest")
                turns.append(_Turn(message, digest if isinstance(digest, str) else None))
            case Told.RESUMED:
                found.in_use = event.data.get("alreadyInUse") is True
            case _ if turns:
                turns[-1].take(event)
            case _:
                pass
    last = len(turns) - 1
    found.turns = tuple(
        ProviderTurn(provider_turn=turn.identity, outcome=turn.outcome, text_digest=turn.digest if place == last else None)
        for place, turn in enumerate(turns)
    )
    return found
