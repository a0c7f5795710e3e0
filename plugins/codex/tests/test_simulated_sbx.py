"""The real Codex in a simulated sandbox of sbx: its model is behind the proxy, and its conversation outlives the sandbox."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from anyio import to_thread

from jam_codex.pins import TOOLCHAIN
from jamcore.testing.sbx.simulator import Image, Simulator
from jamcore.testing.servers.responses import Call, Match, ResponsesServer, Rule, Script, Text
from jamcore.testing.toolchains import pinned_toolchain

pytestmark = [pytest.mark.anyio, pytest.mark.needs("codex", "bubblewrap")]

PROGRAMS = "/usr/local/share/npm-global/bin"
CALL = Call(name="exec_command", arguments={"cmd": "id -un >made.txt"}, call_id="call_write")
SCRIPT = Script(
    rules=(
        Rule(match=Match(last_user_contains="recall", body_regex="quetzal"), answer=(Text(deltas=("it was quetzal",)),)),
        Rule(match=Match(last_is_tool_output=True), answer=(Text(deltas=("done",)),)),
        Rule(match=Match(last_user_contains="remember quetzal"), answer=(CALL,)),
    )
)


async def test_a_turn_and_an_exact_resume_after_the_sandbox_was_removed(tmp_path: Path) -> None:
    """What it runs, runs as the guest's user in the workspace; the state in a directory of its own is enough to go on elsewhere."""
    workspace, state = tmp_path / "ws", tmp_path / "state"
    workspace.mkdir()
    state.mkdir()
    image = Image("docker/sandbox-templates:codex", {PROGRAMS: str(pinned_toolchain(TOOLCHAIN) / "bin")})
    async with ResponsesServer(SCRIPT) as model:
        with Simulator(tmp_path / "sbx", images=(image,), policy="deny-all", rule_delay_s=0.0) as sbx:
            sbx.said("ls")

            def turn(*words: str) -> list[dict[str, str]]:
                port = urlsplit(model.api_url).port
                provider = f'{{name="t",base_url="http://host.docker.internal:{port}/v1",wire_api="responses"}}'
                settings = ("-c", f"model_providers.t={provider}", "-c", 'model_provider="t"', "-m", "mock-model")
                made = ("create", "--name", "one", "-e", f"CODEX_HOME={state}", "codex", str(workspace), str(state))
                sbx.said(*made)
                sbx.said("policy", "allow", "network", "--sandbox", "one", f"localhost:{port}")
                run = ("codex", "exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", *settings)
                lines = sbx.said("exec", "one", *run, *words).splitlines()
                sbx.said("rm", "--force", "one")
                return [json.loads(line) for line in lines]

            begun = await to_thread.run_sync(turn, "remember quetzal")
            (thread,) = [event["thread_id"] for event in begun if event["type"] == "thread.started"]
            assert (workspace / "made.txt").read_text() == "agent\n"
            resumed = await to_thread.run_sync(turn, "resume", thread, "recall")
    assert "it was quetzal" in json.dumps(resumed)
