"""The model's key reaches the model's server and nothing else: no file, no log, no event, no package, no process, no guest (ENV-4)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from jamcore.control.client import JamClient
from jamcore.domain import layout
from jamcore.domain.requests import EndpointChoice, RoomRequest
from jamcore.domain.sessions import TurnState
from jamcore.testing.daemon import DaemonChild, place_toolchain, running_daemon, victims
from jamcore.testing.rooms import ask, managed, new_id, running
from jamcore.testing.servers.history import ToolOutput, conversation
from jamcore.testing.servers.responses import HttpFault, Match, ResponsesServer, Rule, Script, say

pytestmark = [pytest.mark.anyio, pytest.mark.needs("codex", "bubblewrap", "git")]

FROM_ENVIRONMENT = "sk-real-7f3a" + "e1" * 16
KEPT = "sk-real-7f3a" + "c2" * 16
AMBIENT = "ambient-9d41" + "f0" * 8

# Everything that a guest can read, with a decoy in it that shows that the look would find what it looks for. The pattern is put together
# in the guest, so that the command itself is no hit.
LOOK = (
    "printf 'sk-real-%s' 7f3adecoy > /tmp/decoy; printf 'ambient-%s' 9d41decoy >> /tmp/decoy; echo >> /tmp/decoy; "
    "{ env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; "
    "find /home /jam /tmp /etc /run /var /dev/shm -xdev -type f ! -path '/jam/tools/*' -exec cat {} +; } 2>/dev/null "
    "| tr '\\000' '\\n' > /tmp/all; "
    'for p in sk-real ambient; do grep -aoc "$p-$(printf 7f3a; true)\\|$p-$(printf 9d41; true)" /tmp/all; done | tr "\\n" ";"'
)


def files_of(root: Path) -> Iterator[Path]:
    """Every file that a test could leave a secret in; the provider's own program is not Jam's."""
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.is_symlink() and layout.TOOLCHAINS not in path.relative_to(root).parts:
            yield path


def holding(root: Path, *secrets: str) -> list[str]:
    """Name the files that hold one of the secrets."""
    wanted = [secret.encode() for secret in secrets]
    return [str(path.relative_to(root)) for path in files_of(root) if any(s in path.read_bytes() for s in wanted)]


@pytest.mark.guarantee("ENV-1", "ENV-4", "SEC-4")
async def test_a_key_is_nowhere_but_at_the_model(tmp_path: Path) -> None:
    """Two keys, one from the daemon's environment and one kept by it; everything is looked at while it runs, and again afterwards."""
    app, private = tmp_path / "app", tmp_path / "private"
    await place_toolchain(app, "codex")
    environment = {"JAM_CREDENTIAL_TEST": FROM_ENVIRONMENT, "SOME_SETTING": AMBIENT, "JAM_LOG_LEVEL": "debug"}
    daemon = DaemonChild(app, environment=environment, private=private)
    echoing = (
        Rule(
            match=Match(last_user_contains=f"echo {name}"),
            fault=HttpFault(status=401, message=f"no such key: Bearer {secret}"),
        )
        for name, secret in (("test", FROM_ENVIRONMENT), ("kept", KEPT))
    )
    rules = (*running(LOOK, said="look around"), *echoing, say("Hello ", "there."))
    async with ResponsesServer(Script(rules=rules)) as model, running_daemon(daemon) as client:
        await client.set_credential("kept", KEPT)
        for name, secret in (("test", FROM_ENVIRONMENT), ("kept", KEPT)):
            room = await client.create_room(managed("codex", model.base_url, endpoint=endpoint(model, name)))
            looked = await ask(client, room, "look around")
            assert looked.state is TurnState.CAPTURED, looked
            last = model.model_requests[-1]
            assert {
                r.header("authorization") for r in model.model_requests if r.header("thread-id") == last.header("thread-id")
            } == {f"Bearer {secret}"}
            output = next(item.output for item in conversation(last.body) if isinstance(item, ToolOutput))
            counts = re.findall(r"(\d+);", output)
            assert counts == ["1", "1"], output  # the decoys, and they alone
            refused = await ask(client, room, f"echo {name}")
            assert refused.state is TurnState.FAILED
            assert FROM_ENVIRONMENT not in refused.detail
            assert KEPT not in refused.detail
            await client.build_change(str(room.room.id), new_id())
            assert not told(daemon), name
            said = [event.model_dump_json() async for event in client.events(str(room.room.id), after=0, follow=False)]
            assert said
            assert not [line for line in said if FROM_ENVIRONMENT in line or KEPT in line or AMBIENT in line]
        await everything_that_is_told(client)
    assert holding(app, FROM_ENVIRONMENT, AMBIENT) == []
    assert holding(app, KEPT) == [f"{layout.CREDENTIALS}/kept"]
    assert holding(private, FROM_ENVIRONMENT, KEPT, AMBIENT) == []
    kept = app / layout.CREDENTIALS / "kept"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.parent.stat().st_mode & 0o777 == 0o700


async def test_a_key_that_is_forgotten(client: JamClient, daemon: DaemonChild) -> None:
    """It is gone from the disk, and a name that is none or a value that is no secret is refused without being repeated."""
    await client.set_credential("mine", KEPT)
    assert {row.name for row in await client.credentials() if row.present} >= {"mine", "test"}
    await client.forget_credential("mine")
    assert holding(daemon.app, KEPT) == []
    for name, value in (
        ("Not A Name", KEPT),
        ("../../x", KEPT),
        ("mine", f"{KEPT} with words"),
        ("mine", f"{KEPT}\n"),
        ("mine", ""),
    ):
        with pytest.raises(Exception, match=r"input\.") as error:
            await client.set_credential(name, value)
        assert KEPT not in str(error.value)
    assert holding(daemon.app, KEPT) == []


def endpoint(model: ResponsesServer, credential: str) -> EndpointChoice:
    return EndpointChoice(origin=model.base_url, credential=credential)


def told(daemon: DaemonChild) -> list[str]:
    """Name every process of the daemon whose arguments or environment hold a secret; its own environment is where one comes from."""
    found = []
    assert victims(daemon.pid) is not None
    for process in daemon.family():
        for part in ("cmdline", "environ"):
            data = Path(f"/proc/{process.pid}/{part}").read_bytes()
            if any(secret.encode() in data for secret in (FROM_ENVIRONMENT, KEPT, AMBIENT)):
                found.append(f"{part} of {process.command}")
    own = Path(f"/proc/{daemon.pid}/cmdline").read_bytes()
    return [*found, *(["cmdline of the daemon"] if FROM_ENVIRONMENT.encode() in own or KEPT.encode() in own else [])]


async def everything_that_is_told(client: JamClient) -> None:
    """No answer of the daemon holds a key."""
    answers = [
        *(view.model_dump_json() for view in await client.rooms()),
        *(row.model_dump_json() for row in await client.credentials()),
        *(view.model_dump_json() for view in await client.providers()),
        *(change.model_dump_json() for change in await client.changes()),
        (await client.doctor()).model_dump_json(),
        *[(await client.inspect(str(view.room.id))).model_dump_json() for view in await client.rooms()],
    ]
    assert not [answer for answer in answers if FROM_ENVIRONMENT in answer or KEPT in answer or AMBIENT in answer]


def test_the_look_finds_a_decoy(tmp_path: Path) -> None:
    """The scan of files sees a secret in whatever file it is."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.bin").write_bytes(b"\0\1" + KEPT.encode() + b"\xff")
    assert holding(tmp_path, KEPT) == ["deep/a.bin"]
    assert RoomRequest(id=new_id(), provider="codex").endpoint is None
