"""Plugins that misbehave, under a real daemon: named with the distribution to blame, and everything else goes on (PLUG-1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from jamcore.control.client import JamClient
from jamcore.domain.requests import FindingView
from jamcore.domain.sessions import TurnState
from jamcore.testing.daemon import DaemonChild, running_daemon
from jamcore.testing.rooms import ask, managed, new_id, refused
from jamcore.testing.servers.responses import ResponsesServer

pytestmark = [pytest.mark.anyio, pytest.mark.needs("bubblewrap", "codex"), pytest.mark.guarantee("PLUG-1", "CAP-6")]

GOOD = """
from jamcore.testing.doubles import providers as doubles

class Plugin(doubles.{base}):
    {body}
"""
BROKEN = {
    "imports": ("import a_module_that_nobody_has", "ModuleNotFoundError"),
    "exits": ("raise SystemExit(3)", "SystemExit"),
    "newer": (GOOD.format(base="GoodProvider", body="api_version = (9, 0)"), "plugin interface 9.0"),
    "signature": (
        GOOD.format(
            base="GoodProvider",
            body="from jamcore.api import hookimpl\n    @hookimpl\n    def jam_prepare(self, context, host): ...",
        ),
        "host",
    ),
    "raises": (GOOD.format(base="RaisingProvider", body="pass"), "raised"),
    "type": (
        GOOD.format(
            base="GoodProvider",
            body="from jamcore.api import hookimpl\n    @hookimpl\n    def jam_describe_provider(self): return 'x'",
        ),
        "returned str",
    ),
    "hangs": (GOOD.format(base="HangingProvider", body="pass"), "did not come back"),
}


def install(site: Path, distribution: str, version: str, group: str, modules: dict[str, str]) -> None:
    """Write a distribution as an installer would."""
    package = distribution.replace("-", "_") + "_fake"
    (site / package).mkdir(parents=True)
    (site / package / "__init__.py").write_text("")
    for name, text in modules.items():
        (site / package / f"{name}.py").write_text(text)
    info = site / f"{distribution.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
    lines = "".join(f"{name} = {package}.{name}:Plugin\n" for name in modules)
    (info / "entry_points.txt").write_text(f"[{group}]\n{lines}")


def about(findings: tuple[FindingView, ...], name: str) -> FindingView:
    """Return the doctor's line about a plugin."""
    (found,) = [each for each in findings if each.subject.startswith(f"plugin {name} ")]
    return found


async def test_broken_plugins_are_named_and_a_room_works(daemon: DaemonChild, tmp_path: Path, model: ResponsesServer) -> None:
    """Each fault is one line of `jam doctor` with its distribution and version; the agent beside them runs a turn."""
    site = tmp_path / "site"
    install(site, "odd-agents", "1.5", "jam.providers", {name: text for name, (text, _) in BROKEN.items()})
    install(site, "one-of-two", "1.0", "jam.providers", {"claimed": ""})
    install(site, "two-of-two", "2.0", "jam.providers", {"claimed": ""})
    install(site, "odd-engine", "0.7", "jam.engines", {"sick": "raise SystemExit('no')"})
    install(site, "unwanted", "3.0", "jam.providers", {"unwanted": f"open({str(tmp_path / 'ran')!r}, 'w')"})
    async with running_daemon(daemon, PYTHONPATH=str(site), JAM_BLOCKED_PLUGINS="unwanted") as client:
        report = await client.doctor()
        assert report.healthy
        for name, (_, words) in BROKEN.items():
            line = about(report.findings, name)
            assert not line.ok
            assert "odd-agents 1.5" in line.subject
            assert words in line.detail, line
            assert "odd-agents" in line.hint
        for line in [each for each in report.findings if each.subject.startswith("plugin claimed ")]:
            assert "one-of-two 1.0" in line.detail
            assert "two-of-two 2.0" in line.detail
        assert "SystemExit" in about(report.findings, "sick (engine)").detail
        assert about(report.findings, "unwanted").detail == "blocked"
        assert not (tmp_path / "ran").exists()
        states = {view.name: view.state for view in await client.providers()}
        assert states["codex"] == "loaded"
        assert states["unwanted"] == "blocked"
        room = await client.create_room(managed("codex", model.base_url))
        assert (await ask(client, room, "Write the file")).state is TurnState.CAPTURED
        with refused("capability.unknown_provider"):
            await client.create_room(managed("exits", model.base_url))


@pytest.mark.guarantee("CONT-1")
async def test_a_plugin_that_is_gone_while_its_sessions_exist(daemon: DaemonChild, tmp_path: Path, model: ResponsesServer) -> None:
    """Its rooms are listed, their words and changes shown, nothing of them is touched; once it is back they go on exactly."""
    async with running_daemon(daemon) as client:
        room = await client.create_room(managed("codex", model.base_url))
        ref = str(room.room.id)
        await ask(client, room, "Write the file")
        change = await client.build_change(ref, new_id())
        await client.stop(ref)
        before = await client.inspect(ref)

    site = tmp_path / "site"
    site.mkdir()
    install(site, "jam-codex", "99.0", "jam.providers", {"gone": ""})
    entries = site / "jam_codex-99.0.dist-info" / "entry_points.txt"
    entries.write_text("[jam.providers]\ncodex = jam_codex_that_was_removed:Plugin\n")
    async with running_daemon(daemon, PYTHONPATH=str(site)) as client:
        await without_the_plugin(client, ref, "capability.unknown_provider")
        assert (await client.change(str(change.id))).change == change
        assert "jam-codex 99.0" in about((await client.doctor()).findings, "codex").subject

    async with running_daemon(daemon) as client:
        assert (await ask(client, room, "and then")).state is TurnState.CAPTURED
        after = await client.inspect(ref)
    assert after.room.session.provider_identity == before.room.session.provider_identity
    assert [turn.id for turn in after.turns][: len(before.turns)] == [turn.id for turn in before.turns]


async def test_a_plugin_that_is_blocked_while_its_sessions_exist(daemon: DaemonChild, model: ResponsesServer) -> None:
    """Until the next start it works; then its rooms are refused with what unblocks it, and all lists agree; unblocked, all is back."""
    async with running_daemon(daemon) as client:
        room = await client.create_room(managed("codex", model.base_url))
        ref = str(room.room.id)
        (said,) = await client.plugins.block("codex", why="its vendor was sold")
        assert (said.state, said.at_next_start) == ("loaded", "blocked")
        assert (await ask(client, room, "Write the file")).state is TurnState.CAPTURED
        await client.stop(ref)

    async with running_daemon(daemon) as client:
        await without_the_plugin(client, ref, "plugin.blocked")
        with refused("plugin.blocked") as stopped:
            await client.resume(ref)
        assert stopped.value.context()["unblock"] == "jam plugin unblock codex"
        assert about((await client.doctor()).findings, "codex").detail == "blocked"
        assert {view.name: view.state for view in await client.providers()}["codex"] == "blocked"
        assert {view.name: view.state for view in await client.plugins.list()}["codex"] == "blocked"
        await client.plugins.unblock("codex")

    async with running_daemon(daemon) as client:
        assert (await ask(client, room, "and then")).state is TurnState.CAPTURED
        assert len(await client.turns(ref)) == 2


async def without_the_plugin(client: JamClient, ref: str, code: str) -> None:
    """Everything that can be done with a room whose plugin is not there."""
    assert [str(view.room.id) for view in await client.rooms()] == [ref]
    assert len(await client.turns(ref)) == 1
    assert [event async for event in client.events(ref, follow=False)]
    with refused(code):
        await client.resume(ref)
    assert (await client.stop(ref)).outcome == "already-parked"
