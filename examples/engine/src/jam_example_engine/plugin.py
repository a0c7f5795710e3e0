"""What the entry point names: facts about the engine, and its opening."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from jamcore.api import Ability, Engine, EngineContext, Isolation

from jam_example_engine.engine import open_engine


class ExampleEnginePlugin:
    """The engine, before a daemon has opened it."""

    # The plugin interface that this was built for, in numbers: a core with another major number refuses it by name.
    api_version: tuple[int, int] = (1, 0)
    name: str = "example_engine"
    # What stands between a guest and the machine. Be honest: what only an isolated guest can keep is asked of stronger classes.
    isolation: Isolation = Isolation.NONE
    # What it can do beyond running programs. Each is a promise that the suite examines; claim fewer rather than more. These say
    # that guests see host directories at their host paths, have one as their home, and the host's network; that their files can
    # be read on the host; and that a removal leaves the home where it is.
    abilities: frozenset[Ability] = frozenset(
        {Ability.HOST_HOME, Ability.HOST_NETWORK, Ability.HOST_PATHS, Ability.HOST_VIEW, Ability.KEEPS_DISK}
    )

    def open(self, context: EngineContext) -> AbstractAsyncContextManager[Engine]:
        """Return the engine for a daemon. It never fails because the machine lacks something: `probe` says so."""
        return open_engine(context, self.name, self.isolation, self.abilities)
