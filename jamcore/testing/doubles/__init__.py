"""Deliberately bad providers and well-behaved stand-ins, by name, for the tests of anybody who loads plugins or drives engines.

Providers (:mod:`jamcore.testing.doubles.providers`); each bad one differs from ``GoodProvider`` in one thing:

- ``GoodProvider``: all seven cells, every hook right. ``ManagedOnlyProvider``: three Dedicated cells, no continuity.
- ``OtherInterfaceProvider``: written for another major version. ``NoInterfaceProvider``: does not say for which.
- ``MisspeltHookProvider``: a marked hook that does not exist. ``UnmarkedHookProvider``: a hook that nobody marked.
- ``WrongSignatureProvider``: a hook with an argument that is never given.
- ``WrongTypeProvider``: answers a dictionary. ``HiddenTypeProvider``: answers a record that holds a wrong type inside.
- ``CoroutineProvider``: answers a synchronous hook with a coroutine. ``NotAwaitableProvider``: the reverse.
- ``RaisingProvider``: raises. ``ExitingProvider``: raises SystemExit in a hook. ``CancellingProvider``: raises CancelledError.
- ``HangingProvider``: a hook never comes back. ``AsyncHangingProvider``: an asynchronous hook never comes back.
- ``MoodyProvider``: describes itself differently at each call. ``WrongNameProvider``: says it is somebody else.
- ``BadSharedProvider``: a shared cell that cannot exist. ``NoPlacementProvider``: a shared cell without the hook for it.
- ``NoContinuityHooksProvider``: promises continuity without declaring it. ``NoCredentialHookProvider``: a credential without its hook.
- ``EscapingProvider``: paths that leave their roots. ``LeakingProvider``: puts a secret-like name into the guest's environment.

- ``NotebookProvider`` (:mod:`jamcore.testing.doubles.notebook`): a real one, whose program keeps its conversations in a database.
- ``ColdProvider``: needs a sandbox before its runtime's context is entered.

Policies (:mod:`jamcore.testing.doubles.policies`): ``CountingPolicy`` wraps every contribution, ``AnsweringPolicy`` answers instead.

Engines (:mod:`jamcore.testing.doubles.engines`): ``DirectoryEngine`` runs guests as plain processes over real directories (no isolation
whatever) and can be told to fail at any operation. ``World`` (:mod:`jamcore.testing.doubles.world`) is one daemon's view over it, and
:mod:`jamcore.testing.doubles.plans` builds complete plans.
"""
