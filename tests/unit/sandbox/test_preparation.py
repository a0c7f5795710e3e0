"""One path prepares every sandbox, in one order; whatever fails, the sandbox ends parked (PREP-1 to PREP-4, ENV-1, ENV-2)."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from jamcore.cli.hints import hint_of
from jamcore.domain import layout
from jamcore.domain.cells import Ability, EngineLacksAbilityError
from jamcore.domain.errors import FaultError, InvalidInputError
from jamcore.domain.ownership import OwnershipMismatchError
from jamcore.domain.plan import ModelEndpoint, Plan
from jamcore.domain.providers import Preparation, PreparedFile
from jamcore.domain.sandboxes import EngineFailedError, ExecRefusedError, Presence, SandboxGoneError
from jamcore.sandbox.ensure import Ensured
from jamcore.sandbox.environment import EnvironmentRefusedError
from jamcore.sandbox.ownership import Ownership
from jamcore.sandbox.planning import ReferenceFolder
from jamcore.sandbox.prepare import STEPS, PreparationFailedError, PreparationRequest, Preparer, ReferenceNotReadyError
from jamcore.sandbox.prepared import NetworkPolicy, PreparationMismatchError, PreparedExec
from jamcore.sandbox.specification import UnsafePathError
from jamcore.sandbox.state_files import StateTree
from jamcore.system.files import Files
from jamcore.system.ids import SystemIds
from jamcore.testing.doubles import plans, providers
from jamcore.testing.doubles.engines import DirectoryEngine
from jamcore.testing.doubles.world import World

pytestmark = pytest.mark.anyio

FILES = Preparation(files=(PreparedFile(path="home/config.toml", content="quiet = true\n"),))
ORDER = (
    "environment-overlay",
    "provider-directories",
    "endpoint-gate",
    "ensure-created",
    "cancellation-check",
    "reference-readiness",
    "guest-directories",
    "network-policy",
)


class Route:
    """Remembers the connections that it was given."""

    def __init__(self, endpoint: ModelEndpoint) -> None:
        self.endpoint = endpoint
        self.accepted: list[socket.socket] = []

    def accept(self, connection: socket.socket) -> None:
        """Keep it."""
        self.accepted.append(connection)


class InjectedError(FaultError):
    """Raised by a test after a step."""


def route_of(plan: Plan) -> Route:
    assert plan.endpoint is not None
    return Route(plan.endpoint)


def request(plan: Plan, **changes: Any) -> PreparationRequest:
    fields: dict[str, Any] = {
        "plan": plan,
        "policy": NetworkPolicy(endpoint=plan.endpoint),
        "contribution": providers.CONTRIBUTION,
        "preparation": FILES,
        **changes,
    }
    return PreparationRequest(**fields)


def preparer(world: World, reached: Callable[[str], None] = lambda _step: None) -> Preparer:
    return Preparer(world.app, ownership=world.ownership, files=world.files, ids=SystemIds(), reached=reached)


def state_root(world: World) -> Path:
    return world.app / layout.provider_state(plans.HOST, "good")


@pytest.mark.guarantee("PREP-1")
async def test_the_steps_have_one_order(world: World, plan: Plan) -> None:
    """The order is written twice: in the code that runs and here."""
    seen: list[str] = []
    prepared = await preparer(world, seen.append).prepare(request(plan), route=route_of(plan))
    assert tuple(seen) == tuple(name for name, _ in STEPS) == ORDER
    assert isinstance(prepared, PreparedExec)
    assert prepared.outcome is Ensured.CREATED
    assert await world.engine.presence(plan.name) is Presence.RUNNING


@pytest.mark.guarantee("PREP-3")
async def test_the_providers_directories_exist_before_the_sandbox(
    world: World, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the engine is asked to create is complete by then: state directories, prepared files, all private."""
    found: list[str] = []
    original = world.engine.create

    async def look_first(spec: Any) -> None:  # noqa: ANN401 - passed on
        found.extend(sorted(str(path.relative_to(state_root(world))) for path in state_root(world).rglob("*")))
        await original(spec)

    monkeypatch.setattr(world.engine, "create", look_first)
    await preparer(world).prepare(request(plan), route=route_of(plan))
    assert found == ["home", "home/config.toml", "home/logs"]
    modes = [stat.S_IMODE(path.stat().st_mode) for path in sorted(state_root(world).rglob("*"))]
    assert modes == [0o700, 0o600, 0o700]
    assert (world.guest(plan.name) / ".good/scratch").is_dir()


@pytest.mark.guarantee("PREP-1", "PREP-4")
@pytest.mark.parametrize("step", ORDER)
@pytest.mark.parametrize("again", [False, True], ids=["first", "resumed"])
async def test_a_failure_after_any_step_ends_parked(world: World, plan: Plan, step: str, again: bool) -> None:
    """Also when the sandbox existed before: it is stopped, its disk stays, the endpoint is shut, and the next attempt works."""
    if again:
        (await preparer(world).prepare(request(plan), route=route_of(plan))).shut()
        await world.engine.stop(plan.name)

    def fail(reached: str) -> None:
        if reached == step:
            raise InjectedError

    route = route_of(plan)
    with pytest.raises(InjectedError):
        await preparer(world, fail).prepare(request(plan), route=route)
    made = again or ORDER.index(step) >= ORDER.index("ensure-created")
    assert await world.engine.presence(plan.name) is (Presence.STOPPED if made else Presence.ABSENT)
    assert not world.pending(plan.name).exists()
    if (plan.name, 8790) in world.engine.routes:
        with world.engine.connect(plan.name, 8790) as connection:
            assert connection.recv(1) == b""
    assert route.accepted == []
    prepared = await preparer(world).prepare(request(plan), route=route)
    assert prepared.outcome is (Ensured.STARTED if made else Ensured.CREATED)


@pytest.mark.guarantee("PREP-1", "PREP-4")
@pytest.mark.parametrize("step", ORDER)
async def test_a_cancellation_after_any_step_ends_parked(world: World, plan: Plan, step: str) -> None:
    """The caller goes away: what exists by then is stopped within its bound."""
    with anyio.CancelScope() as scope:
        await preparer(world, lambda reached: scope.cancel() if reached == step else None).prepare(
            request(plan), route=route_of(plan)
        )
    made = ORDER.index(step) >= ORDER.index("ensure-created")
    if step != ORDER[-1]:  # after the last step there is nothing left to cancel
        assert scope.cancelled_caught
        assert await world.engine.presence(plan.name) in ({Presence.STOPPED} if made else {Presence.STOPPED, Presence.ABSENT})


@pytest.mark.guarantee("PREP-4", "START-5")
async def test_a_park_that_fails_is_tried_again(world: World, plan: Plan) -> None:
    """The engine cannot stop at once; the failure is reported only when it could."""
    attempts: list[str] = []

    async def park(sandbox: str) -> None:
        attempts.append(sandbox)
        await world.engine.stop(sandbox)

    failing = Preparer(
        world.app, ownership=world.ownership, files=world.files, ids=SystemIds(), park_sandbox=park, reached=fail_at_end
    )
    with pytest.raises(InjectedError):
        await failing.prepare(request(plan), route=route_of(plan))
    assert attempts == [plan.name]


def fail_at_end(step: str) -> None:
    if step == ORDER[-1]:
        raise InjectedError


async def test_a_sandbox_that_is_not_ours_is_not_even_parked(world: World, plan: Plan) -> None:
    """The proof failed, so nothing may be done to it."""
    await preparer(world).prepare(request(plan), route=route_of(plan))
    world.marker(plan.name).unlink()
    with pytest.raises(OwnershipMismatchError):
        await preparer(world).prepare(request(plan), route=route_of(plan))
    assert await world.engine.presence(plan.name) is Presence.RUNNING


async def test_failures_of_single_steps_are_typed(world: World, plan: Plan) -> None:
    """A disk that fails, a guest that cannot make its directories, an engine that was not planned for."""
    full = Preparer(world.app, ownership=world.ownership, files=FullDisk(), ids=SystemIds())
    with pytest.raises(PreparationFailedError, match=r"provider-directories.*No space"):
        await full.prepare(request(plan), route=route_of(plan))
    with pytest.raises(InvalidInputError, match=r"plan\.engine"):
        await preparer(world).prepare(request(plan.model_copy(update={"engine": "other"})), route=route_of(plan))
    await preparer(world).prepare(request(plan), route=route_of(plan))
    (world.guest(plan.name) / ".good/scratch").rmdir()
    (world.guest(plan.name) / ".good/scratch").touch()
    with pytest.raises(PreparationFailedError, match="guest-directories"):
        await preparer(world).prepare(request(plan), route=route_of(plan))
    assert await world.engine.presence(plan.name) is Presence.STOPPED


class FullDisk(Files):
    """No byte can be made durable."""

    def sync(self, descriptor: int) -> None:
        """Fail."""
        raise OSError(28, "No space left on device")


@pytest.mark.guarantee("PREP-2")
async def test_only_what_was_prepared_can_be_configured(world: World, plan: Plan) -> None:
    """Another plan, even one that differs in a single variable, or another policy is refused."""
    prepared = await preparer(world).prepare(request(plan), route=route_of(plan))
    policy = NetworkPolicy(endpoint=plan.endpoint)
    prepared.configure_environment(plan, policy, (("GOOD_LOG", "quiet"),))
    other = plan.model_copy(update={"environment": (*plan.environment, ("A", "b"))})
    with pytest.raises(PreparationMismatchError, match="plan"):
        prepared.configure_environment(other, policy, ())
    for wrong in (NetworkPolicy(endpoint=None), NetworkPolicy(endpoint=route_of(plan).endpoint.model_copy(update={"paths": ()}))):
        with pytest.raises(PreparationMismatchError, match="policy"):
            prepared.configure_environment(plan, wrong, ())
    code, output = await prepared.run(("/bin/sh", "-c", 'printf %s "$GOOD_LOG"'), cwd="/", timeout_s=5)
    assert (code, output) == (0, b"quiet")


@pytest.mark.guarantee("PREP-2", "SEC-4")
async def test_endpoint_policy_and_route_must_be_the_plans(world: World, plan: Plan) -> None:
    """Before the sandbox exists: no route, a route to somewhere else, or a policy that says otherwise."""
    elsewhere = Route(route_of(plan).endpoint.model_copy(update={"origin": "https://other.example"}))
    with pytest.raises(PreparationMismatchError):
        await preparer(world).prepare(request(plan), route=None)
    with pytest.raises(PreparationMismatchError):
        await preparer(world).prepare(request(plan), route=elsewhere)
    with pytest.raises(PreparationMismatchError):
        await preparer(world).prepare(request(plan, policy=NetworkPolicy(endpoint=None)), route=route_of(plan))
    assert "create" not in world.engine.calls


async def test_an_engine_that_cannot_reach_is_refused(plan: Plan, tmp_path: Path) -> None:
    """An endpoint needs the ability, said by type and before anything is made."""
    engine = DirectoryEngine(frozenset({Ability.CLONE}))
    world = World.over(tmp_path / "app", engine)
    with pytest.raises(EngineLacksAbilityError):
        await preparer(world).prepare(request(plan), route=route_of(plan))
    assert "create" not in engine.calls


@pytest.mark.guarantee("SEC-4")
async def test_the_endpoint_is_shut_until_the_policy_holds_and_after_the_end(world: World, plan: Plan) -> None:
    """A guest that connects while it is prepared is turned away; later it reaches the route; once shut, no more."""
    route = route_of(plan)
    early: list[bytes] = []

    def connect(step: str) -> None:
        if step in ORDER[3:-1]:
            with world.engine.connect(plan.name, 8790) as guest:
                early.append(guest.recv(1))

    prepared = await preparer(world, connect).prepare(request(plan), route=route)
    assert early == [b""] * len(ORDER[3:-1])
    assert route.accepted == []
    with world.engine.connect(plan.name, 8790):
        assert len(route.accepted) == 1
    prepared.shut()
    with world.engine.connect(plan.name, 8790) as guest:
        assert guest.recv(1) == b""
    assert len(route.accepted) == 1
    route.accepted[0].close()


async def test_reference_folders_must_be_readable_in_the_guest(world: World, tmp_path: Path) -> None:
    """A folder that is not there for the guest parks the sandbox with a typed refusal."""
    folder = tmp_path / "reference"
    folder.mkdir()
    plan = plans.plan(plans.inputs(references=(ReferenceFolder(name="docs", path=str(folder)),)))
    prepared = await preparer(world).prepare(request(plan), route=route_of(plan))
    assert prepared.outcome is Ensured.CREATED

    def unmount(step: str) -> None:
        if step == "cancellation-check":
            folder.rmdir()

    with pytest.raises(ReferenceNotReadyError):
        await preparer(world, unmount).prepare(request(plan), route=route_of(plan))
    assert await world.engine.presence(plan.name) is Presence.STOPPED


@pytest.mark.guarantee("ENV-1", "ENV-4")
async def test_nothing_of_the_hosts_environment_reaches_a_guest(world: World, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret in the daemon's environment is in no guest process, no guest file and no argument; no environment file exists (PREP-4)."""
    secret = "sk-this-is-the-real-one-0123456789"
    monkeypatch.setenv("GOOD_KEY", secret)
    prepared = await preparer(world).prepare(request(plan), route=route_of(plan))
    prepared.configure_environment(plan, prepared.policy, (("GOOD_LOG", "quiet"),))
    script = "tr '\\0' '\\n' < /proc/self/environ; tr '\\0' '\\n' < /proc/$$/cmdline"
    code, output = await prepared.run(("/bin/sh", "-c", script), cwd="/", timeout_s=5)
    assert code == 0
    names = {line.partition("=")[0] for line in output.decode().splitlines() if "=" in line}
    assert names <= {"PATH", "HOME", "GOOD_HOME", "GOOD_LOG", "PWD", "OLDPWD", "SHLVL", "_"}
    assert secret.encode() not in output
    everything = [path for path in world.app.rglob("*") if path.is_file()]
    assert everything
    assert not [path for path in everything if secret.encode() in path.read_bytes() or b"GOOD_LOG" in path.read_bytes()]


REFUSED = [
    "BAND_AGENT_KEY", "band_user_key", "MY_BAND_AGENT_KEY", "BAND_USER_KEY_2", "X_Band_Agent_Key_Y", "OPENAI_API_KEY", "GITHUB_TOKEN",
    "MY_SECRET", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "NPM_AUTH", "APIKEY", "accesstoken", "SSH_AUTH_SOCK", "LD_PRELOAD", "A=B", "",
    "1A", "A B", "A" * 129,
]  # fmt: skip
ALLOWED = ["GOOD_HOME", "GIT_AUTHOR_NAME", "TOKENIZERS_PARALLELISM", "KEYMAP", "MONKEY", "_", "PATHS", "BAND", "AGENT_NAME", "a1"]


@pytest.mark.guarantee("ENV-2")
@pytest.mark.parametrize("name", REFUSED)
async def test_names_that_never_enter_a_guest(world: World, plan: Plan, name: str) -> None:
    """At configuration and at each start; the error names the variable and never its value."""
    prepared = await preparer(world).prepare(request(plan), route=route_of(plan))
    pairs = ((name, "value-4711"),)
    with pytest.raises(EnvironmentRefusedError) as refused:
        prepared.configure_environment(plan, prepared.policy, pairs)
    assert "value-4711" not in str(refused.value)
    with pytest.raises(EnvironmentRefusedError):
        await prepared.start(("/bin/true",), cwd="/", environment=pairs)


@pytest.mark.guarantee("ENV-2")
async def test_names_that_may_enter_a_guest(world: World, plan: Plan) -> None:
    """Ordinary names; a secret-like one only with a sentinel that is worth nothing; a custody name not even then."""
    prepared = await preparer(world).prepare(request(plan), route=route_of(plan))
    pairs = tuple((name, "v") for name in ALLOWED if name != "GOOD_HOME")
    prepared.configure_environment(plan, prepared.policy, (*pairs, ("OPENAI_API_KEY", "proxy-managed")))
    with pytest.raises(EnvironmentRefusedError):
        prepared.configure_environment(plan, prepared.policy, (("BAND_AGENT_KEY", "proxy-managed"),))
    for bad in ((("A", "x\0y"),), (("A", "x" * 40_000),), tuple((f"A{n}", "") for n in range(300)), (("GOOD_HOME", "/elsewhere"),)):
        with pytest.raises(EnvironmentRefusedError):
            prepared.configure_environment(plan, prepared.policy, bad)


async def test_the_launcher_runs_bounded_commands_and_long_ones(world: World, plan: Plan) -> None:
    """Output beyond the limit is dropped, a command that hangs is ended with its children, a process is the caller's."""
    prepared = await preparer(world).prepare(request(plan), route=route_of(plan))
    code, output = await prepared.run(("/bin/sh", "-c", "yes | head -c 1000000; exit 7"), cwd="/", timeout_s=20, limit=100)
    assert (code, len(output)) == (7, 100)
    began = anyio.current_time()
    assert (await prepared.run(("/bin/sh", "-c", "sleep 60 & sleep 60"), cwd="/", timeout_s=0.3))[0] is None
    assert anyio.current_time() - began < 5
    process = await prepared.start(("/bin/cat",), cwd="/home/agent")
    await process.stdin.send(b"hello")
    await process.stdin.aclose()
    assert await process.stdout.receive() == b"hello"
    assert (await process.wait()).code == 0
    await process.aclose()
    await world.engine.stop(plan.name)
    with pytest.raises(SandboxGoneError):
        await prepared.run(("/bin/true",), cwd="/", timeout_s=1)


@pytest.mark.parametrize("way", ["start", "run"])
async def test_a_program_that_cannot_be_started_is_refused_with_its_provider(world: World, plan: Plan, way: str) -> None:
    """What to do about it names the provider, whom the engine does not know."""
    prepared = await preparer(world).prepare(request(plan), route=route_of(plan))
    world.engine.fail("exec", ExecRefusedError(sandbox=plan.name, program="/tools/program", reason="Exec format error"))
    asked = prepared.start if way == "start" else partial(prepared.run, timeout_s=20)
    with pytest.raises(ExecRefusedError) as refused:
        await asked(("/tools/program",), cwd="/")
    assert f"`jam provider install {plan.provider}`" in hint_of(refused.value)


async def test_an_engine_failure_inside_a_step_keeps_its_type(world: World, plan: Plan) -> None:
    """The engine's own error reaches the caller, and the sandbox is parked."""
    await preparer(world).prepare(request(plan), route=route_of(plan))
    world.engine.fail("exec", EngineFailedError(engine="directory", operation="exec", detail="busy"))
    with pytest.raises(EngineFailedError):
        await preparer(world).prepare(request(plan), route=route_of(plan))


@pytest.mark.guarantee("PREP-3")
@pytest.mark.parametrize("where", ["home", "home/config.toml"])
async def test_a_guest_cannot_lead_the_host_astray(world: World, plan: Plan, tmp_path: Path, where: str) -> None:
    """The guest replaced a directory or the file by a link to the host's files: nothing outside is written, made or changed."""
    await preparer(world).prepare(request(plan), route=route_of(plan))
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "victim").write_text("untouched")
    place = state_root(world) / where
    place.rename(state_root(world) / "aside")
    place.symlink_to(outside if where == "home" else outside / "victim")
    if where == "home":
        with pytest.raises(UnsafePathError):
            await preparer(world).prepare(request(plan), route=route_of(plan))
    else:
        await preparer(world).prepare(request(plan), route=route_of(plan))
        assert not place.is_symlink()
        assert place.read_text() == "quiet = true\n"
    assert [path.name for path in outside.iterdir()] == ["victim"]
    assert (outside / "victim").read_text() == "untouched"


@pytest.mark.needs("root")
def test_as_root_what_is_made_belongs_to_whom_the_tree_belongs(tmp_path: Path) -> None:
    """The guest's user must be able to use it."""
    os.chown(tmp_path, 12345, 12346)
    tree = StateTree(tmp_path, files=Files())
    tree.write_file("a/b/c.toml", b"x")
    for path in ("a", "a/b", "a/b/c.toml"):
        found = (tmp_path / path).stat()
        assert (found.st_uid, found.st_gid) == (12345, 12346)


def test_state_files_stay_below_their_root(tmp_path: Path) -> None:
    """Names that climb, and a directory where a file should be."""
    tree = StateTree(tmp_path, files=Files())
    for name in ("../x", "/x", "a//b", "a/../../x", "."):
        with pytest.raises(UnsafePathError):
            tree.make_directory(name)
    tree.make_directory("taken")
    with pytest.raises(UnsafePathError, match="directory has this name"):
        tree.write_file("taken", b"")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["taken"]
    with pytest.raises(UnsafePathError):
        StateTree(tmp_path / "absent", files=Files()).write_file("x", b"")


async def test_proofs_and_preparation_share_one_engine(world: World) -> None:
    """The preparer has no engine of its own."""
    other = Ownership(world.ownership.records, DirectoryEngine())
    assert Preparer(world.app, ownership=other, files=world.files, ids=SystemIds()).engine is other.engine
