"""What the repositories answer: finding, ordering, uniqueness, numbering."""

from __future__ import annotations

from uuid import UUID

import pytest

from jamcore.domain.cells import Placement
from jamcore.domain.continuity import ObservationOutcome
from jamcore.domain.errors import ConflictError, InvalidInputError, NotFoundError
from jamcore.domain.events import CommandOutput, RoomPayload, SessionNotice, TextDelta, ToolCall, TurnEnded, TurnOutcome, UserSaid
from jamcore.domain.sessions import HostState, RuntimeHost, TurnState
from jamcore.store import Repos, Store
from jamcore.testing.store.base import StoreTests
from jamcore.testing.store.records import Records, Seed

FIRST = UUID("01910000-aaaa-7000-8000-000000000001")
SECOND = UUID("01910000-aaaa-7000-8000-00000000beef")


class RowTests(StoreTests):
    """What the repositories answer."""

    @pytest.mark.guarantee("SHARE-1")
    async def test_an_agent_has_one_live_shared_host(self, store: Store, seeded: Seed, make: Records) -> None:
        """The second insert is a conflict that leaves its transaction usable, so the loser reads the winner and goes on with it.

        A loser that cannot go on in its transaction makes a second host, and the agent's sessions are in two places.
        """
        winner = await store.transact(lambda repos: repos.hosts.insert(make.host(seeded.agent, placement=Placement.SHARED)))
        loser = make.host(seeded.agent, placement=Placement.SHARED)

        def converge(repos: Repos) -> RuntimeHost | None:
            try:
                return repos.hosts.insert(loser)
            except ConflictError:
                repos.agents.insert(make.agent("written after the conflict"))
                return repos.hosts.live_shared(seeded.agent.id)

        assert await store.transact(converge) == winner
        assert len(await store.read(lambda repos: repos.agents.list())) == 2
        other = await store.transact(lambda repos: repos.agents.insert(make.agent("other")))
        await store.transact(lambda repos: repos.hosts.insert(make.host(other, placement=Placement.SHARED)))
        for _ in range(2):
            await store.transact(lambda repos: repos.hosts.insert(make.host(seeded.agent)))

    @pytest.mark.guarantee("SHARE-1")
    @pytest.mark.parametrize("gone", [HostState.ARCHIVED, HostState.REMOVED])
    async def test_a_host_that_is_gone_does_not_count(self, store: Store, seeded: Seed, make: Records, gone: HostState) -> None:
        """After the first was archived or removed a new Shared host may live; the archived one cannot come back beside it.

        An agent whose host was archived could never have one again, or had two of them after a restore.
        """
        old = make.host(seeded.agent, placement=Placement.SHARED, state=HostState.PARKED)
        await store.transact(lambda repos: repos.hosts.insert(old))
        await store.transact(lambda repos: repos.hosts.move(old.id, gone))
        assert await store.read(lambda repos: repos.hosts.live_shared(seeded.agent.id)) is None
        new = await store.transact(lambda repos: repos.hosts.insert(make.host(seeded.agent, placement=Placement.SHARED)))
        assert await store.read(lambda repos: repos.hosts.live_shared(seeded.agent.id)) == new
        if gone is HostState.ARCHIVED:
            with pytest.raises(ConflictError):
                await store.transact(lambda repos: repos.hosts.move(old.id, HostState.PARKED))

    async def test_an_identity_is_bound_once(self, store: Store, seeded: Seed) -> None:
        """The same again is fine, another is refused and the first stays (CONT-1).

        A session that takes another identity resumes somebody else's conversation.
        """
        for _ in range(2):
            bound = await store.transact(lambda repos: repos.sessions.bind_identity(seeded.session.id, "thread-1"))
            assert bound.provider_identity == "thread-1"
        with pytest.raises(ConflictError):
            await store.transact(lambda repos: repos.sessions.bind_identity(seeded.session.id, "thread-2"))
        assert (await store.read(lambda repos: repos.sessions.get(seeded.session.id))).provider_identity == "thread-1"

    async def test_a_room_has_one_live_binding(self, store: Store, seeded: Seed, make: Records) -> None:
        """A second live binding is refused, ended ones may be many.

        With two of them a message goes to one session, and the answer is looked for in the other.
        """
        with pytest.raises(ConflictError):
            await store.transact(lambda repos: repos.bindings.insert(make.binding(seeded.room, seeded.session)))
        for _ in range(2):
            await store.transact(lambda repos: repos.bindings.insert(make.binding(seeded.room, seeded.session, live=False)))
        assert (await store.read(lambda repos: repos.bindings.live_of_room(seeded.room.id))).live

    async def test_what_a_room_is_bound_to_is_one_look(self, store: Store, seeded: Seed, make: Records) -> None:
        """The same three records that are read one by one; an ended binding leads nowhere.

        A look that sees an ended binding starts a conversation that its owner has given up.
        """

        def read(repos: Repos) -> tuple[object, object]:
            session = repos.sessions.get(repos.bindings.live_of_room(seeded.room.id).session_id)
            one_by_one = session, repos.hosts.get(session.host_id), repos.workspaces.of_session(session.id)
            return repos.sessions.bound_to(seeded.room.id), one_by_one

        joined, one_by_one = await store.read(read)
        assert joined == one_by_one
        other = await store.transact(lambda repos: repos.rooms.insert(make.room(seeded.agent, "unbound")))
        await store.transact(lambda repos: repos.bindings.insert(make.binding(other, seeded.session, live=False)))
        with pytest.raises(NotFoundError):
            await store.read(lambda repos: repos.sessions.bound_to(other.id))

    async def test_names_of_rooms_are_unique(self, store: Store, seeded: Seed, make: Records) -> None:
        """The refusal names the name.

        A person who is told only that something is taken cannot choose another name.
        """
        with pytest.raises(ConflictError) as refused:
            await store.transact(lambda repos: repos.rooms.insert(make.room(seeded.agent, seeded.room.name)))
        assert seeded.room.name in refused.value.problem

    async def test_a_room_is_found_by_what_a_person_has(self, store: Store, seeded: Seed, make: Records) -> None:
        """Its id in any case, eight or more characters of its beginning or end, or its name; never by less, and never one of several.

        A removal that takes the wrong one of two rooms cannot be undone.
        """

        def add(repos: Repos) -> None:
            repos.rooms.insert(make.room(seeded.agent, "one", identifier=FIRST))
            repos.rooms.insert(make.room(seeded.agent, "two", identifier=SECOND))
            repos.rooms.insert(make.room(seeded.agent, str(FIRST)))  # a name that looks like another room's id
            repos.rooms.insert(make.room(seeded.agent, "%_odd"))

        await store.transact(add)

        async def find(ref: str) -> str:
            return (await store.read(lambda repos: repos.rooms.find(ref))).name

        assert [await find(ref) for ref in (str(FIRST), str(FIRST).upper(), "one", "00000001", "0000beef", "%_odd")] == [
            *["one"] * 4,
            "two",
            "%_odd",
        ]
        for ref in ("%%%%%%%%", "________", "none", "", "0" * 36, "-" * 36, str(make.ids.uuid())):
            with pytest.raises(NotFoundError):
                await find(ref)
        for ref in ("0191000", "01910000", "01910000-aaaa"):
            with pytest.raises(InvalidInputError):
                await find(ref)

    async def test_rooms_and_changes_come_newest_first(self, store: Store, seeded: Seed, make: Records) -> None:
        """The list begins with what a person made last.

        Whoever takes the first line of a list takes the oldest, and accepts another change than was meant.
        """
        for name in ("a", "b"):
            make.clock.turn(1)
            room = await store.transact(lambda repos, name=name: repos.rooms.insert(make.room(seeded.agent, name)))  # type: ignore[misc]
            await store.transact(lambda repos, room=room: repos.changes.insert(make.change(room, seeded.session, room.name)))  # type: ignore[misc]
        assert [room.name for room in await store.read(lambda repos: repos.rooms.list())] == ["b", "a", seeded.room.name]
        assert [change.objective for change in await store.read(lambda repos: repos.changes.list())] == ["b", "a"]

    async def test_turns_keep_their_order_when_the_clock_goes_back(self, store: Store, seeded: Seed, make: Records) -> None:
        """The order of a conversation is the order in which its turns were accepted, whatever the time was.

        What is compared with the provider's memory is a sequence: two turns in the wrong order read as a lost conversation.
        """
        for text in ("first", "second", "third"):
            turn = make.turn(seeded.room, seeded.session, text)
            await store.transact(lambda repos, turn=turn: repos.turns.accept(turn))  # type: ignore[misc]
            make.clock.turn(-60)
        stored = await store.read(lambda repos: repos.turns.of_session(seeded.session.id))
        assert [turn.text for turn in stored] == ["first", "second", "third"]

    async def test_unfinished_turns_are_those_that_are_not_safe_yet(self, store: Store, seeded: Seed, make: Records) -> None:
        """Accepted, running and completed are unfinished; captured and every other end are not.

        A turn that is left out here is never captured, and lost with the sandbox.
        """
        for state in TurnState:
            turn = make.turn(seeded.room, seeded.session, state.value, state=state)
            await store.transact(lambda repos, turn=turn: repos.turns.accept(turn))  # type: ignore[misc]
        expected = ["accepted", "running", "completed"]
        assert [turn.text for turn in await store.read(lambda repos: repos.turns.unfinished_of(seeded.session.id))] == expected

    async def test_a_turn_remembers_what_became_known(self, store: Store, seeded: Seed, make: Records) -> None:
        """Each step adds its knowledge and keeps what was there.

        A step that forgets the provider's own name of a turn leaves nothing to compare after a crash.
        """
        turn, checkpoint = make.turn(seeded.room, seeded.session), make.ids.uuid()

        def live(repos: Repos) -> None:
            repos.turns.accept(turn)
            repos.turns.move(turn.id, TurnState.RUNNING, provider_turn="t1")
            repos.turns.move(turn.id, TurnState.COMPLETED, detail="ok", ended_at=make.clock.now(), workspace_digest="w1")
            repos.turns.move(turn.id, TurnState.CAPTURED, checkpoint_id=checkpoint)
            repos.turns.note_workspace(turn.id, "w2")

        await store.transact(live)
        assert await store.read(lambda repos: repos.turns.get(turn.id)) == turn.model_copy(
            update={
                "state": TurnState.CAPTURED,
                "provider_turn": "t1",
                "detail": "ok",
                "ended_at": make.clock.now(),
                "workspace_digest": "w2",
                "checkpoint_id": checkpoint,
            }
        )
        with pytest.raises(NotFoundError):
            await store.transact(lambda repos: repos.turns.note_workspace(make.ids.uuid(), "w3"))

    async def test_events_come_back_as_they_went_in(self, store: Store, seeded: Seed, make: Records) -> None:
        """Each kind of payload survives, also text that no encoding likes; rooms count for themselves; a page can be asked for.

        They are the evidence of what an agent did; and a client that gets more than it asked for counts wrong.
        """
        turn = make.ids.uuid()
        payloads: list[RoomPayload] = [
            UserSaid(text="h\u00e9 \x00 \x1b[31m \U0001f600"),
            TextDelta(item="i", text=""),
            ToolCall(item="i", name="n", arguments='{"a": "\\u0000"}', ok=False),
            CommandOutput(item="i", text="x" * 100_000),
            TurnEnded(outcome=TurnOutcome.FAILED, code="c", detail="d"),
        ]
        other = await store.transact(lambda repos: repos.rooms.insert(make.room(seeded.agent, "other")))
        written = await store.transact(lambda repos: repos.events.append(seeded.room.id, turn, payloads))
        assert [event.payload for event in written] == payloads
        assert await store.read(lambda repos: repos.events.after(seeded.room.id, 0, 10)) == written
        assert await store.read(lambda repos: repos.events.after(seeded.room.id, 2, 2)) == written[2:4]
        assert await store.transact(lambda repos: repos.events.append(seeded.room.id, None, [])) == ()
        notice = await store.transact(lambda repos: repos.events.append(other.id, None, [SessionNotice(code="c", detail="")]))
        assert notice[0].seq == 1
        last = await store.read(lambda repos: [repos.events.last_seq(room) for room in (seeded.room.id, other.id, make.ids.uuid())])
        assert last == [5, 1, 0]

    async def test_numbers_of_a_failed_transaction_are_used_again(self, store: Store, seeded: Seed) -> None:
        """A rollback leaves no gap.

        A client takes a gap for events that it has missed, and waits for them for ever.
        """

        def fail(repos: Repos) -> None:
            repos.events.append(seeded.room.id, None, [SessionNotice(code="lost", detail="")])
            raise NotFoundError(kind="k", ref="r")

        with pytest.raises(NotFoundError):
            await store.transact(fail)
        kept = await store.transact(
            lambda repos: repos.events.append(seeded.room.id, None, [SessionNotice(code="kept", detail="")])
        )
        assert [event.seq for event in kept] == [1]

    @pytest.mark.guarantee("CONT-4")
    async def test_generations_are_numbered_within_their_host(self, store: Store, seeded: Seed, make: Records) -> None:
        """The newest is the one with the highest number; a retry gets the number that it had.

        The newest generation is the one that is restored, and a person names it by its number.
        """
        other = await store.transact(lambda repos: repos.hosts.insert(make.host(seeded.agent)))
        rows = [make.checkpoint(seeded.host), make.checkpoint(seeded.host), make.checkpoint(other)]
        numbered = await store.transact(lambda repos: [repos.checkpoints.insert(row) for row in [*rows, rows[0]]])
        assert [row.generation for row in numbered] == [1, 2, 1, 1]
        assert (await store.read(lambda repos: repos.checkpoints.latest_of_host(seeded.host.id))) == numbered[1]
        assert (await store.read(lambda repos: repos.checkpoints.of_host(seeded.host.id))) == tuple(numbered[:2])
        assert await store.read(lambda repos: repos.checkpoints.latest_of_host(make.ids.uuid())) is None

    @pytest.mark.guarantee("CONT-12")
    async def test_the_latest_observation_is_the_last_recorded(self, store: Store, seeded: Seed, make: Records) -> None:
        """A later success supersedes a failure without deleting it, also when the clock was set back in between.

        Ordered by time, a clock that was set back makes an old failure the newest word on a generation that resumes.
        """
        checkpoint = make.ids.uuid()
        failed = make.observation(seeded.session, checkpoint, outcome=ObservationOutcome.FAILED)
        elsewhere = make.observation(seeded.session, make.ids.uuid(), outcome=ObservationOutcome.FAILED)
        make.clock.turn(-3600)
        succeeded = make.observation(seeded.session, checkpoint, outcome=ObservationOutcome.SUCCEEDED)
        for row in (failed, succeeded, elsewhere):
            await store.transact(lambda repos, row=row: repos.observations.insert(row))  # type: ignore[misc]
        assert await store.read(lambda repos: repos.observations.latest(checkpoint, seeded.session.id)) == succeeded
        assert await store.read(lambda repos: repos.observations.of_session(seeded.session.id)) == (failed, succeeded, elsewhere)

    @pytest.mark.guarantee("CONT-7")
    async def test_the_latest_decision_is_the_last_recorded(self, store: Store, seeded: Seed, make: Records) -> None:
        """What was decided before the last start can be read back whole, with its evidence.

        A start that goes by an older decision resumes what was given up since.
        """
        for decision in (make.decision(), make.decision("thread")):
            make.clock.turn(-60)
            now = make.clock.now()
            await store.transact(
                lambda repos, decision=decision, now=now: repos.activations.record(  # type: ignore[misc]
                    make.ids.uuid(), seeded.session.id, decision, now
                )
            )
        latest = await store.read(lambda repos: repos.activations.latest_of_session(seeded.session.id))
        assert latest == make.decision("thread")

    async def test_a_run_is_unfinished_until_its_change_request_is_there(self, store: Store, seeded: Seed, make: Records) -> None:
        """The row of the change request is what ends a run.

        A run that counts as unfinished for ever builds its change request anew at each start.
        """
        run = make.run(seeded.room)
        await store.transact(lambda repos: repos.runs.insert(run))
        assert await store.read(lambda repos: repos.runs.unfinished_rooms()) == (run.room_id,)
        change = make.change(seeded.room, seeded.session).model_copy(update={"id": run.change_id})
        await store.transact(lambda repos: repos.changes.insert(change))
        assert await store.read(lambda repos: repos.runs.unfinished_rooms()) == ()
        assert await store.read(lambda repos: repos.changes.find(str(change.id)[:23])) == change

    async def test_a_lease_is_taken_once_and_given_back_once(self, store: Store, seeded: Seed, make: Records) -> None:
        """Taking or giving again changes nothing; a host that is not there cannot be held.

        After a crash nobody knows which of the two was done: both are done again, and an error there keeps a host up for ever.
        """
        for _ in range(2):
            await store.transact(lambda repos: repos.leases.acquire(seeded.host.id, seeded.session.id))
        assert await store.read(lambda repos: repos.leases.live_of_host(seeded.host.id)) == (seeded.session.id,)
        for _ in range(2):
            await store.transact(lambda repos: repos.leases.release(seeded.host.id, seeded.session.id))
        assert await store.read(lambda repos: repos.leases.live_of_host(seeded.host.id)) == ()
        with pytest.raises(NotFoundError):
            await store.transact(lambda repos: repos.leases.acquire(make.ids.uuid(), seeded.session.id))
