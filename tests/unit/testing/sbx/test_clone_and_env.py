"""Clone mode with the real git, kits, images, and environments with their question on a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from jamcore.testing.sbx import yaml
from jamcore.testing.sbx.simulator import Image, Simulator

Make = Callable[..., Simulator]
IDENTITY = ("-c", "user.name=n", "-c", "user.email=e@example.com")


def git(place: Path, *words: str) -> str:
    """Run git on the host."""
    done = subprocess.run(("git", "-C", str(place), *IDENTITY, *words), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def repository(workspace: Path) -> Path:
    """A repository with a commit, and a change that is not committed."""
    git(workspace, "init", "-q", "-b", "main")
    git(workspace, "add", ".")
    git(workspace, "commit", "-q", "-m", "one")
    (workspace / "uncommitted").write_text("x")
    return workspace


@pytest.mark.needs("bubblewrap", "git")
def test_clone_mode(make: Make, repository: Path) -> None:
    """Committed content at the same path, the source read-only, a remote whose git daemon answers, refs that survive rm [M, DEN, CAP]."""
    sbx = make()
    made = sbx.said("create", "--name", "one", "--clone", "shell", str(repository))
    assert f"✓ Git repository detected: {repository}\n" in made
    assert "  Remote: sandbox-one\n" in made
    assert f"  mount  {repository} → /run/sandbox/source (ro, source)\n" in made
    shell = ("exec", "one", "sh", "-c")
    assert sbx.said(*shell, "pwd; ls; git remote get-url origin") == f"{repository}\nfile.txt\n/run/sandbox/source\n"
    assert "Read-only file system" in sbx.run(*shell, "touch /run/sandbox/source/x").stderr.decode()
    identity = " ".join(IDENTITY)
    sbx.said(*shell, f"git checkout -q -b work && echo new >made && git add made && git {identity} commit -q -m two")
    assert not (repository / "made").exists()
    port = sbx.json("ports", "one", "--json")[0]
    assert port["sandbox_port"] == 9418
    assert git(repository, "remote", "get-url", "sandbox-one") == f"git://127.0.0.1:{port['host_port']}/proj"
    git(repository, "fetch", "-q", "sandbox-one")
    assert git(repository, "show", "refs/remotes/sandbox-one/work:made") == "new"
    assert git(repository, "show", "refs/sandboxes/one/work:made") == "new"
    assert "git branch <local-name> refs/sandboxes/one/<branch>\n" in sbx.said("rm", "-f", "one")
    assert git(repository, "remote") == ""
    assert git(repository, "show", "refs/sandboxes/one/work:made") == "new"
    git(repository, "worktree", "add", "-q", str(repository.with_name("tree")))
    assert "run from the main repository instead" in sbx.failed("create", "--clone", "shell", str(repository.with_name("tree")))


@pytest.mark.needs("bubblewrap")
def test_an_image_has_what_the_simulator_was_told(make: Make, workspace: Path, tmp_path: Path) -> None:
    """Programs of an image are directories of the host, also below /usr; `template ls` has 12 hex digits [HURA, DCA]."""
    program = tmp_path / "program"
    program.mkdir()
    (program / "agent").write_text("#!/bin/sh\necho an agent\n")
    (program / "agent").chmod(0o755)
    binds = {"/usr/local/share/npm-global/bin": str(program)}
    sbx = make(images=(Image("docker/sandbox-templates:codex", binds), Image("own:1", {"/opt/own": str(program)}, ("/opt/own",))))
    sbx.said("create", "--name", "one", "codex", str(workspace))
    assert sbx.said("exec", "one", "agent") == "an agent\n"
    assert sbx.said("exec", "one", "sh", "-c", "ls /usr/local/bin >/dev/null; ls /usr/local/share/npm-global/bin") == "agent\n"
    sbx.said("create", "--name", "two", "--pull", "never", "-t", "own:1", "shell", str(workspace))
    assert sbx.said("exec", "two", "agent") == "an agent\n"
    assert "template 'other:1' not found" in sbx.failed("create", "--pull", "never", "-t", "other:1", "shell", str(workspace))
    images = sbx.json("template", "ls", "--json")["images"]
    assert [len(image["id"]) for image in images] == [12, 12]
    assert images[0]["repository"] == "docker.io/docker/sandbox-templates"


@pytest.mark.needs("bubblewrap")
def test_a_kit_allows_its_hosts_and_sets_its_variables(make: Make, workspace: Path, tmp_path: Path) -> None:
    """Kits add per-sandbox allows, even under deny-all [ISS #72]; a local one may be switched off [KT]."""
    kit = tmp_path / "kit"
    kit.mkdir()
    (kit / "spec.yaml").write_text(
        'schemaVersion: "2"\nkind: mixin\nname: mine\npermissions:\n  network:\n    allow:\n      - kit.example\n'
        "environment:\n  variables:\n    FROM_KIT: yes-it-is\n"
    )
    sbx = make(policy="deny-all")
    sbx.said("ls")
    assert sbx.said("kit", "validate", str(kit)).startswith("VALID")
    assert sbx.run("kit", "validate", str(tmp_path)).stderr.startswith(b"INVALID: ")
    sbx.said("create", "--name", "one", "--kit", str(kit), "shell", str(workspace))
    assert sbx.said("exec", "one", "sh", "-c", "echo $FROM_KIT") == "yes-it-is\n"
    (rule,) = [each for each in sbx.json("policy", "ls", "one", "--json")["rules"] if each["origin"] == "kit"]
    assert rule["resources"] == ["kit.example"]
    sbx.said("settings", "set", "kit.allowLocalKits", "false")
    assert sbx.failed("create", "--kit", str(kit), "shell", str(workspace)).endswith(
        "local kit sources are disabled (kit.allowLocalKits=false)\n  try: sbx settings set kit.allowLocalKits true\n"
    )


# ---------------------------------------------------------------------------------------------------- environments

FILE = """\
schemaVersion: "1"
agent: shell
name: from-file
workspace: .
env:
  GREETING: "hello: you"
lifecycle:
  initialize:
    - name: before
      command: printenv SBX_LIFECYCLE_PHASE SBX_SANDBOX_NAME >>host.log
  postCreate:
    - command: printenv SBX_LIFECYCLE_PHASE >>host.log
  preRemove:
    - command: printenv SBX_LIFECYCLE_PHASE >>host.log
"""


def on_terminal(sbx: Simulator, answer: bytes, *words: str) -> tuple[int, str]:
    """Run a command on a terminal, and answer its question."""
    master, slave = pty.openpty()
    process = sbx.popen(*words, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    seen = b""
    try:
        while chunk := os.read(master, 4096):
            seen += chunk
            if b"[y/N] " in seen and answer:
                os.write(master, answer)
                answer = b""
    except OSError:
        pass  # the other side is closed
    os.close(master)
    return process.wait(), seen.decode().replace("\r\n", "\n")


@pytest.mark.needs("bubblewrap")
def test_an_environment_is_planned_approved_made_and_removed(make: Make, workspace: Path) -> None:
    """The plan's marks and totals, the question on a terminal [CAP, ISS #562], host commands with their variables [M]."""
    (workspace / "sbxenv.yaml").write_text(FILE)
    sbx = make()
    sbx.said("ls")
    plan = sbx.said("env", "plan", str(workspace))
    assert "── ENVIRONMENT PLAN\n+  sandbox from-file (shell)\n" in plan
    assert "   Plan: + 1 to add, ~ 0 to change, - 0 to destroy.\n" in plan
    assert "   this plan runs commands on this machine, outside the sandbox, with your own privileges\n" in plan
    assert plan.endswith("   ✓ not approved yet; applying asks once\n")
    assert "stdin is not a terminal" in sbx.failed("env", "create", str(workspace))
    code, seen = on_terminal(sbx, b"n\n", "env", "create", str(workspace))
    assert code == 1
    assert "   Approve this plan? [y/N] " in seen
    assert not (workspace / "host.log").exists()
    code, _ = on_terminal(sbx, b"y\n", "env", "create", str(workspace))
    assert code == 0
    assert (workspace / "host.log").read_text() == "initialize\nfrom-file\npostCreate\n"
    assert sbx.said("env", "exec", str(workspace), "--", "sh", "-c", "echo $GREETING; pwd") == f"hello: you\n{workspace}\n"
    assert "Plan: + 0 to add, ~ 0 to change, - 1 to destroy." in sbx.said("env", "rm", "--force", str(workspace))
    assert (workspace / "host.log").read_text().endswith("preRemove\n")
    assert sbx.json("ls", "--json") == {"sandboxes": []}


@pytest.mark.needs("bubblewrap")
def test_what_is_remembered_is_asked_once(make: Make, workspace: Path) -> None:
    """Approval each run unless `env.rememberHostCommands=true` [M]; `-y` skips the question [D]."""
    (workspace / "sbxenv.yaml").write_text(FILE)
    sbx = make()
    sbx.said("ls")
    sbx.said("settings", "set", "env.rememberHostCommands", "true")
    assert on_terminal(sbx, b"y\n", "env", "create", str(workspace))[0] == 0
    sbx.said("rm", "-f", "from-file")
    sbx.said("env", "create", str(workspace))
    (workspace / "sbxenv.yaml").write_text(FILE.replace("before", "changed"))
    sbx.failed("env", "create", str(workspace))
    sbx.said("env", "create", "-y", "--skip-host-commands", str(workspace))


@pytest.mark.needs("bubblewrap")
def test_a_failed_create_leaves_the_secrets_behind(make: Make, workspace: Path) -> None:
    """A failed create leaves scoped secrets behind [M, RN]; a command that fails later leaves the sandbox, too."""
    secrets = 'secrets: {"openai": {"command": "pwd >>/dev/null; echo sk-1"}}\n'
    (workspace / "sbxenv.yaml").write_text(FILE + secrets + "sandboxOptions:\n  template: missing:1\n")
    sbx = make()
    sbx.said("ls")
    assert "pull failed" in sbx.failed("env", "create", "-y", "--skip-host-commands", str(workspace))
    (left,) = sbx.json("secret", "ls", "--json")["secrets"]
    assert (left["scope"], left["name"]) == ("from-file", "openai")
    assert sbx.json("ls", "--json") == {"sandboxes": []}
    (workspace / "sbxenv.yaml").write_text(
        FILE.replace("- command: printenv SBX_LIFECYCLE_PHASE >>host.log", "- command: exit 3", 1)
    )
    assert "lifecycle postCreate" in sbx.failed("env", "create", "-y", str(workspace))
    assert sbx.said("ls", "-q") == "from-file\n"


def test_the_file_has_another_name_in_0_39(make: Make, workspace: Path) -> None:
    """0.39 `.sbxenv.yaml`, 0.42+ `sbxenv.yaml` [M, RN]."""
    (workspace / ".sbxenv.yaml").write_text(FILE)
    old, new = make("0.39"), make("0.43")
    for sbx in (old, new):
        sbx.said("ls")
    assert "from-file" in old.said("env", "plan", str(workspace))
    assert "no environment file found" in new.failed("env", "plan", str(workspace))


@pytest.mark.parametrize(("text", "value"), [
    ("a: 1\nb: [x, 'y']\n", {"a": 1, "b": ["x", "y"]}),
    ("c:\n  - d: e # comment\n    f: true\n  - plain\n", {"c": [{"d": "e", "f": True}, "plain"]}),
    ('{"a": {"b": []}}', {"a": {"b": []}}),
    ("a:\n- x\n- y\nb: \"c: d\"\n", {"a": ["x", "y"], "b": "c: d"}),
    ("a: http://x/y#z\n", {"a": "http://x/y#z"}),
    ("a:\nb: ~\n", {"a": None, "b": None}),
])  # fmt: skip
def test_the_small_part_of_yaml(text: str, value: object) -> None:
    """What files of environments and kits need."""
    assert yaml.load(text) == value
    assert yaml.load(json.dumps(value)) == value


@pytest.mark.parametrize("text", ["a: |\n  text\n", "a: &x 1\n", "a: *x\n", "a: 1\na: 2\n", "just words", "a: 1\n   b: 2\n"])
def test_what_is_not_known_of_yaml_is_refused(text: str) -> None:
    """And never read as something else."""
    with pytest.raises(yaml.YamlError):
        yaml.load(text)
