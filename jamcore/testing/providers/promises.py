"""What every plugin of a provider promises, whatever it is: checks that need no program, no model and nothing that its author has to say.

An author subclasses them beside the other parts of the suite, and ``jam plugin check`` puts them to each installed plugin. The first line
of a check's docstring is its rule, the rest says why it is one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import requires
from typing import Any, Protocol

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from jamcore.continuity.tree.patterns import CaptureRules, Glob
from jamcore.domain.cells import FULL_CELLS, Ability, CellTable, NoSuchCellError, Placement
from jamcore.domain.continuity import CONVERSATION, CaptureKind
from jamcore.domain.plugins import PluginReport
from jamcore.domain.provider_rules import plan_context
from jamcore.domain.providers import CredentialView, PlacementRequest
from jamcore.plugins.manager import ProviderManager
from jamcore.plugins.provider import ProviderHooks
from jamcore.plugins.validation import new_manager
from jamcore.testing.proof import NOT_CLAIMED
from jamcore.testing.untouched import Untouched

MOST_SEATS = 1_000
IDENTITY = "01a2f000-0000-4000-8000-000000000000"
ABSENT, PRESENT = CredentialView(present=False, source=""), CredentialView(present=True, source="environment")
SECRETS = ("auth.json", ".credentials.json", "credentials.json", "token", "id_ed25519", ".netrc", "oauth_creds.json", "hosts.yml")
"""Names under which programs are known to keep a login."""
NEWER = "999999.0.0"


class Promising(Protocol):
    """A plugin that promises something."""

    @property
    def name(self) -> str:
        """The provider's name."""

    @property
    def distribution(self) -> str:
        """The name of its distribution."""

    @property
    def plugin(self) -> Callable[[], object]:
        """Makes the plugin."""


@pytest.mark.anyio
class ProviderPromises:
    """What is promised."""

    @pytest.fixture
    async def admission(self, provider: Promising) -> tuple[PluginReport, ProviderManager]:
        """What a daemon would say of the plugin, and the manager that has it, if it would be loaded."""
        manager = ProviderManager()
        return await manager.add(provider.name, provider.plugin()), manager

    @pytest.fixture
    def hooks(self, provider: Promising, admission: tuple[PluginReport, ProviderManager]) -> ProviderHooks:
        """The plugin's hooks, as a daemon has them."""
        report, manager = admission
        if report.violations:
            pytest.skip("it would not be loaded, and is asked nothing more")
        return manager.provider(provider.name)

    @pytest.mark.guarantee("CAP-6", "PLUG-1")
    async def test_it_would_be_loaded(self, admission: tuple[PluginReport, ProviderManager]) -> None:
        """A daemon loads the plugin: its interface version, its hooks' marks and signatures, and each answer for each cell are in order.

        One that is not is disabled when the daemon starts, and `jam plugin ls` says why; here its author is the first to know.
        """
        assert list(admission[0].violations) == []

    @pytest.mark.guarantee("PLUG-1")
    async def test_it_uses_nothing_that_will_go(self, admission: tuple[PluginReport, ProviderManager]) -> None:
        """No hook and no argument that it takes is deprecated.

        A deprecated one works until the next major version of the interface, and is gone with it.
        """
        assert list(admission[0].warnings) == []

    @pytest.mark.guarantee("KIT-2")
    async def test_its_distribution_says_which_core_it_needs(self, provider: Promising) -> None:
        """It requires jamcore, and not any that will ever be.

        An installer then refuses what cannot work, before anything of it is loaded; without an upper bound every future core seems right.
        """
        needs = [Requirement(need) for need in requires(provider.distribution) or ()]
        core = [need for need in needs if canonicalize_name(need.name) == "jamcore" and need.marker is None]
        assert core, "it does not require jamcore"
        assert not all(need.specifier.contains(NEWER) for need in core), f"{core[0]} is right with every core to come"

    @pytest.mark.guarantee("CAP-6")
    async def test_its_decisions_touch_nothing(self, provider: Promising, hooks: ProviderHooks) -> None:
        """A hook that decides reads no file, no environment and no network, starts nothing, and gives the same answer to the same question.

        The core asks when it likes and as often, in a thread, and keeps the answer: one that depends on anything else is wrong later.
        """
        told = {name: [ask(provider.plugin()) for _ in range(2)] for name, ask in _decisions(hooks)}
        assert [name for name, (first, second) in told.items() if first != second] == []
        touched = {}
        for name, ask in _decisions(hooks):
            plugin = provider.plugin()
            ask(plugin)  # what is imported late is imported now
            with Untouched() as watch:
                ask(plugin)
            touched[name] = watch.touched
        assert {name: what for name, what in touched.items() if what} == {}

    @pytest.mark.guarantee("CAP-4")
    async def test_a_cell_that_it_does_not_have_is_refused(self, provider: Promising, hooks: ProviderHooks) -> None:
        """Every other combination is refused by name, with the nearest that the plugin has.

        Somebody who asks for a combination that was never tried learns what there is instead of a failure in the middle.
        """
        others = sorted(FULL_CELLS - hooks.description.cells, key=str)
        if not others:
            pytest.skip(f"{NOT_CLAIMED}{provider.name} has every cell")
        table = CellTable({provider.name: hooks.description.cells})
        for cell in others:
            with pytest.raises(NoSuchCellError) as caught:
                table.require(provider.name, cell, engine="any", abilities=frozenset(Ability))
            assert bool(caught.value.nearest) is bool(hooks.description.cells)

    @pytest.mark.guarantee("ENV-3", "SEC-7")
    async def test_no_secret_is_in_its_plan(self, hooks: ProviderHooks) -> None:
        """Neither a variable of the contribution nor a prepared file is, or names, the credential.

        Whatever is in the guest the agent can read and send; the relay adds the credential outside.
        """
        spec = hooks.description.credential
        names = spec.environment_names if spec else ()
        for cell in sorted(hooks.description.cells, key=str):
            context = plan_context(hooks.name, cell, frozenset(Ability))
            contribution, preparation = await hooks.contribute_plan(context), await hooks.prepare(context)
            assert not set(names) & {name for name, _ in contribution.environment}
            assert [file.path for file in preparation.files if any(name in file.content for name in names)] == []

    @pytest.mark.guarantee("PREP-3")
    async def test_what_is_prepared_overwrites_no_conversation(self, hooks: ProviderHooks) -> None:
        """No prepared file is captured, and none is prepared twice.

        Prepared files are written before each start, over what lies there: one that is a part of a conversation would be lost each time.
        """
        captured = CaptureRules(await hooks.declare_capture()) if hooks.description.continuity else None
        for cell in sorted(hooks.description.cells, key=str):
            files = (await hooks.prepare(plan_context(hooks.name, cell, frozenset(Ability)))).files
            paths = [file.path for file in files]
            assert len(set(paths)) == len(paths)
            assert [path for path in paths if captured and captured.kind_of(_names(path)) is not CaptureKind.NEVER] == []

    @pytest.mark.guarantee("SHARE-5")
    async def test_a_shared_host_fills_up_once(self, provider: Promising, hooks: ProviderHooks) -> None:
        """The first session is accepted, a number of them later the next is refused with a reason, and so is every one after it.

        Which process a session gets is what the description says. Without a bound one host takes sessions until its memory ends.
        """
        if not any(cell.placement is Placement.SHARED for cell in hooks.description.cells):
            pytest.skip(f"{NOT_CLAIMED}{provider.name} has no shared cell")
        answers = [await hooks.place_session(PlacementRequest(seats=seats)) for seats in (0, 1, 2, 4, 8, 16, 64, 256, MOST_SEATS)]
        assert {answer.own_process for answer in answers} == {not hooks.description.threads_share_process}
        accepted = [answer.accepted for answer in answers]
        assert accepted[0]
        assert not accepted[-1]
        assert accepted == sorted(accepted, reverse=True), "refused, and then accepted again"
        assert all(answer.reason for answer in answers if not answer.accepted)

    @pytest.mark.guarantee("ENV-3")
    async def test_readiness_is_about_the_key_alone(self, provider: Promising, hooks: ProviderHooks) -> None:
        """Ready with the credential; without it not, with a reason and a hint that names what to set.

        Somebody without a key reads the hint before anything starts, instead of a refusal of the model's endpoint in a first turn.
        """
        if not hooks.implements("jam_check_credentials"):
            pytest.skip(f"{NOT_CLAIMED}{provider.name} needs no credential")
        assert (await hooks.check_credentials(PRESENT)).ready
        missing, spec = await hooks.check_credentials(ABSENT), hooks.description.credential
        assert missing.ready is (spec is None)
        if spec is not None:
            assert missing.reason
            assert any(word in missing.hint for word in (spec.name, *spec.environment_names))

    @pytest.mark.guarantee("ENV-4")
    async def test_the_credential_is_for_the_endpoint_that_it_has(self, provider: Promising, hooks: ProviderHooks) -> None:
        """The credential's origin is the default origin, and it can be set by the daemon's environment.

        It is sent to its own origin alone: with another default every request would be refused, and nobody could see why.
        """
        spec = hooks.description.credential
        if spec is None:
            pytest.skip(f"{NOT_CLAIMED}{provider.name} needs no credential")
        assert spec.origin == hooks.description.default_origin
        assert spec.environment_names

    @pytest.mark.guarantee("SEC-4")
    async def test_it_says_what_it_asks_its_endpoint(self, hooks: ProviderHooks) -> None:
        """A provider with an endpoint of its own names the requests that it makes.

        The relay lets exactly these through: a provider that names none never reaches its model.
        """
        if hooks.description.default_origin is None:
            pytest.skip(f"{NOT_CLAIMED}{hooks.name} has no endpoint of its own")
        for cell in sorted(hooks.description.cells, key=str):
            assert (await hooks.contribute_plan(plan_context(hooks.name, cell, frozenset(Ability)))).endpoint_paths

    @pytest.mark.guarantee("CONT-7")
    async def test_no_version_resumes_by_guess(self, hooks: ProviderHooks) -> None:
        """A version resumes its own conversations, and never those of a newer one, of none, or of something that is no version.

        An older program that reads a newer one's files leaves out what it does not know, and says nothing.
        """
        self._continues(hooks)
        toolchain = hooks.description.toolchain
        own = toolchain.version if toolchain else "1.0.0"
        assert await hooks.accepts_version(own, own)
        wrong = [(NEWER, own), ("", own), (own, ""), ("", ""), ("nonsense", own)]
        assert [pair for pair in wrong if await hooks.accepts_version(*pair)] == []

    @pytest.mark.guarantee("CONT-3", "SEC-7")
    async def test_no_login_is_in_what_is_captured(self, hooks: ProviderHooks) -> None:
        """A file that is called as logins are, where programs keep theirs, is not captured, or refuses the checkpoint.

        That is the state root, and the directories with which the captured patterns begin. A checkpoint goes wherever an export goes.
        """
        self._continues(hooks)
        capture = await hooks.declare_capture()
        rules = CaptureRules(capture)
        places = {place for entry in capture.entries for place in homes(entry.pattern)}
        reached = {"/".join(filter(None, (place, name))) for place in places for name in SECRETS}
        kept = {path for path in reached if rules.kind_of(_names(path)) in {CaptureKind.APPEND_ONLY, CaptureKind.WHOLE}}
        assert sorted(path for path in kept if not rules.credentials.matches(_names(path))) == []

    @pytest.mark.guarantee("CONT-5")
    async def test_a_restore_deletes_nothing_that_it_restored(self, hooks: ProviderHooks) -> None:
        """What is deleted has nothing in common with what is captured, and what is checked afterwards is captured or prepared.

        Deleting comes with the restore: a pattern that reaches too far takes the conversation with it.
        """
        self._continues(hooks)
        capture, activation = await hooks.declare_capture(), await hooks.declare_activation()
        rules = CaptureRules(capture)
        kept = {path for entry in capture.entries if entry.kind in _IN_STATE for path in samples(entry.pattern)}
        kept |= {path for pattern in activation.delete for path in samples(pattern)}
        kept = {path for path in kept if rules.kind_of(_names(path)) in _IN_STATE}
        delete = [Glob(pattern) for pattern in activation.delete]
        assert sorted(path for path in kept if any(glob.matches(_names(path)) for glob in delete)) == []
        context = plan_context(hooks.name, min(hooks.description.cells, key=str), frozenset(Ability))
        prepared = {file.path for file in (await hooks.prepare(context)).files}
        for pattern in activation.check:
            there = prepared | {path for path in samples(pattern) if rules.kind_of(_names(path)) in _IN_STATE}
            assert any(Glob(pattern).matches(_names(path)) for path in there), pattern

    @pytest.mark.guarantee("WS-5")
    async def test_the_files_of_one_conversation_are_captured(self, provider: Promising, hooks: ProviderHooks) -> None:
        """What the patterns of a conversation match is captured.

        One session of a shared host is exported by them, from its checkpoint: what that does not hold cannot be in the export.
        """
        self._continues(hooks)
        capture = await hooks.declare_capture()
        if not capture.conversation_patterns:
            pytest.skip(f"{NOT_CLAIMED}{provider.name} does not say which files are of one conversation")
        rules = CaptureRules(capture)
        for pattern in capture.conversation_patterns:
            paths = samples(pattern.replace(CONVERSATION, IDENTITY))
            assert any(rules.kind_of(_names(path)) is not CaptureKind.NEVER for path in paths), pattern

    def _continues(self, hooks: ProviderHooks) -> None:
        if not hooks.description.continuity:
            pytest.skip(f"{NOT_CLAIMED}{hooks.name} does not bring conversations back")


_IN_STATE = frozenset({CaptureKind.APPEND_ONLY, CaptureKind.WHOLE})


def samples(pattern: str) -> Iterable[str]:
    """Return paths that a glob matches: ``**`` as nothing and as two directories, other wildcards as a letter."""
    found = [""]
    for segment in pattern.split("/"):
        ways = ("", "x/y") if segment == "**" else (segment.replace("*", "x").replace("?", "x"),)
        found = ["/".join(filter(None, (before, way))) for before in found for way in ways]
    return [path or "x" for path in found]


def homes(pattern: str) -> Iterable[str]:
    """Return the directories that may be a program's home, by a glob of what it keeps: those with fixed names, and one for each session."""
    *directories, _ = pattern.split("/")
    fixed = len(list(itertools.takewhile(lambda name: not set(name) & set("*?["), directories)))
    return ["/".join(segment.replace("*", "x").replace("?", "x") for segment in directories[:depth]) for depth in range(fixed + 2)]


def _names(path: str) -> tuple[bytes, ...]:
    return tuple(part.encode() for part in path.split("/"))


def _decisions(hooks: ProviderHooks) -> Iterator[tuple[str, Callable[[object], object]]]:
    """Yield every hook of the plugin's own that decides, with a call of it on a plugin object: in this thread, and unchecked."""

    def call(hook: str, **arguments: Any) -> Callable[[object], object]:
        def ask(plugin: object) -> object:
            manager = new_manager()
            manager.register(plugin)
            return getattr(manager.hook, hook)(**arguments)

        return ask

    asked: list[tuple[str, str, dict[str, Any]]] = [("jam_describe_provider", "", {})]
    for cell in sorted(hooks.description.cells, key=str):
        context = plan_context(hooks.name, cell, frozenset(Ability))
        asked += [(hook, f" for {cell}", {"context": context}) for hook in ("jam_contribute_plan", "jam_prepare")]
    asked.append(("jam_place_session", "", {"request": PlacementRequest(seats=1)}))
    asked += [(hook, "", {}) for hook in ("jam_declare_capture", "jam_declare_activation")]
    asked.append(("jam_accepts_version", "", {"captured": "1.0.0", "current": "1.0.0"}))
    yield from ((f"{hook}{about}", call(hook, **arguments)) for hook, about, arguments in asked if hooks.implements(hook))
