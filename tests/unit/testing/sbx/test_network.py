"""Policy and the proxy: rules, when they are honoured, what a guest gets, and secrets on the way."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from jamcore.testing.sbx.simulator import Governance, Simulator

Make = Callable[..., Simulator]
UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
KEYS = {
    "id",
    "name",
    "policy_id",
    "scope",
    "applies_to",
    "resource_type",
    "decision",
    "resources",
    "origin",
    "layer",
    "status",
    "editable",
}


def added(text: str) -> str:
    r"""Return the id out of what `policy allow` printed, as a driver reads it: `^Rule added.*\): (\S+)` [HURA]."""
    found = re.search(r"^Rule added.*\): (\S+)", text, re.MULTILINE)
    assert found, text
    return found[1]


# ---------------------------------------------------------------------------------------------------- rules


def test_a_rule_is_added_listed_and_removed(make: Make) -> None:
    """The line [HURA]: `Rule added to policy local (scope: sandbox:NAME): UUID (github.com [tcp])`; the row [SDK, DEN, CAP]."""
    sbx = make(rule_delay_s=0.0)
    sbx.said("ls")
    text = sbx.said("policy", "allow", "network", "one.example,two.example:8080")
    assert re.fullmatch(
        rf"(Rule added to policy local \(scope: global\): {UUID} \((one\.example|two\.example:8080) \[tcp\]\)\n){{2}}", text
    )
    row = next(each for each in sbx.json("policy", "ls", "--json")["rules"] if each["id"] == added(text))
    assert set(row) > KEYS
    assert (row["resources"], row["decision"], row["scope"], row["applies_to"]) == (["one.example"], "allow", "global", "all")
    assert (row["provenance"], row["actions"], row["status"]) == ({"created_via": "added"}, ["net:connect:tcp"], "active")
    assert sbx.said("policy", "check", "network", "one.example") == "Allowed: one.example\n"
    assert "stdin is not a terminal" in sbx.failed("policy", "rm", "network", "--id", added(text))
    sbx.said("policy", "rm", "network", "--id", added(text), "--force")
    assert "not found" in sbx.failed("policy", "rm", "network", "--id", added(text), "--force")
    denied = sbx.run("policy", "check", "network", "one.example")
    assert (denied.returncode, denied.stdout) == (1, b"Denied: one.example\n")


def test_a_host_without_a_port_is_stored_with_443_in_older_versions(make: Make) -> None:
    """`host:443` in ls [M, DEN]; as it is in 0.47 [CAP]."""
    old = make("0.43")
    old.said("ls")
    ident = added(old.said("policy", "allow", "network", "one.example"))
    rows = {each["id"]: each for each in old.json("policy", "ls", "--json")["rules"]}
    assert rows[ident]["resources"] == ["one.example:443"]
    assert set(rows[ident]) == KEYS


def test_the_profiles(make: Make) -> None:
    """deny-all is one rule [DCA, KT]; balanced six groups and two of the file system [CAP]; the table [CAP]."""
    sbx = make(policy="deny-all")
    sbx.said("ls")
    (rule,) = [each for each in sbx.json("policy", "ls", "--json")["rules"] if each["resource_type"] == "network"]
    told = {
        "id": "default-deny-all",
        "scope": "global",
        "applies_to": "all",
        "decision": "deny",
        "resources": ["**"],
        "origin": "local",
    }
    assert told.items() <= rule.items()
    sbx.said("policy", "reset", "--force")
    sbx.said("policy", "init", "balanced")
    rules = sbx.json("policy", "ls", "--json")["rules"]
    assert len([each for each in rules if each["resource_type"] == "network"]) == 6
    head, line = sbx.said("policy", "ls").splitlines()
    assert head.split("   ") == ["POLICY      ", "SOURCE", "APPLIES TO", "SUMMARY"] or head.split() == [
        "POLICY",
        "SOURCE",
        "APPLIES",
        "TO",
        "SUMMARY",
    ]
    assert re.search(
        r"^local-policy   local    all +network: \d+ allow; filesystem read: 1 allow; filesystem write: 1 allow$", line
    )
    assert sbx.said("policy", "ls", "--decision", "deny") == "No policies match the selected filters.\n"
    assert sbx.json("policy", "profile", "ls", "--json") == {"profiles": [], "policy_rules_unavailable": False}


def test_check_says_why(make: Make) -> None:
    """Both denials and the allow, complete [CAP]; exit 0 allowed, 1 denied [DEN]."""
    sbx = make(policy="deny-all", rule_delay_s=0.0)
    sbx.said("ls")
    implicit = sbx.run("policy", "check", "network", "--json", "example.com")
    assert implicit.returncode == 1
    assert json.loads(implicit.stdout) == {
        "action": "net:connect:tcp",
        "allowed": False,
        "context": "global",
        "deny_kind": "implicit",
        "governance": {"active": False},
        "reason": "No matching allow rule (default deny)",
        "resource_type": "net:domain",
        "resource_value": "example.com:443",
        "target": "example.com",
        "type": "network",
    }
    ident = added(sbx.said("policy", "deny", "network", "example.com"))
    explicit = json.loads(sbx.run("policy", "check", "network", "--verbose", "--json", "example.com").stdout)
    assert explicit["deny_kind"] == "explicit"
    assert (explicit["origin"], explicit["reason"], explicit["rule"]) == ("local", "Denied by local rule", f"local:{ident}")
    assert f'allow: "example.com" conflicts with existing deny rule "{ident}"' in sbx.failed(
        "policy", "allow", "network", "example.com"
    )


PATTERNS = [
    ("example.com", "example.com", True),
    ("example.com", "a.example.com", False),
    ("*.example.com", "a.example.com", True),
    ("*.example.com", "a.b.example.com", False),
    ("*.example.com", "example.com", False),
    ("**.example.com", "a.b.example.com", True),
    ("example.com:8080", "example.com:8080", True),
    ("example.com:8080", "example.com", False),
    ("10.0.0.0/8", "10.1.2.3", True),
    ("10.0.0.0/8", "11.1.2.3", False),
    ("10.1.2.3:80", "10.1.2.3:80", True),
    ("**", "anything.example:1", True),
]


def test_patterns(make: Make) -> None:
    """`host`, `*.host` one level, `**.host` any depth, `host:port`, CIDR, `**`; a host does not cover what is below it [M, DEN]."""
    sbx = make(policy="deny-all", rule_delay_s=0.0)
    sbx.said("ls")
    for pattern, target, allowed in PATTERNS:
        ident = added(sbx.said("policy", "allow", "network", pattern))
        assert sbx.run("policy", "check", "network", target).returncode == (0 if allowed else 1), (pattern, target)
        sbx.said("policy", "rm", "network", "--id", ident, "--force")
    for bad in ("a b", "http://x", "a..b"):
        assert "invalid network pattern" in sbx.failed("policy", "allow", "network", bad)


def test_a_rule_is_listed_before_it_is_honoured(make: Make) -> None:
    """Rules show in `ls` 83-172 ms before `check` honours them: poll [DEN]."""
    sbx = make(policy="deny-all", rule_delay_s=3600.0)
    sbx.said("ls")
    ident = added(sbx.said("policy", "allow", "network", "example.com"))
    assert ident in sbx.said("policy", "ls", "--json")
    assert sbx.run("policy", "check", "network", "example.com").returncode == 1
    sbx.configure(rule_delay_s=0.1)
    sbx.said("policy", "allow", "network", "other.example")
    deadline = time.monotonic() + 30
    while sbx.run("policy", "check", "network", "other.example").returncode:
        assert time.monotonic() < deadline


def test_under_an_organisation_its_allows_alone_count(make: Make) -> None:
    """Only org allows count, local denies still apply, and an org rule cannot be removed [M, G]."""
    sbx = make(
        policy="allow-all", rule_delay_s=0.0, governance=Governance("acme", ("*.good.example", "mine.example"), ("bad.example",))
    )
    sbx.said("ls")
    sbx.said("policy", "deny", "network", "mine.example")
    wanted = {"a.good.example": 0, "mine.example": 1, "bad.example": 1, "elsewhere.example": 1}
    assert {host: sbx.run("policy", "check", "network", host).returncode for host in wanted} == wanted
    assert sbx.said("policy", "ls").startswith("Governance: Managed by acme | Sync: OK, last synced ")
    (org, *_) = [each for each in sbx.json("policy", "ls", "--json")["rules"] if each["origin"] == "org"]
    assert "cannot be removed" in sbx.failed("policy", "rm", "network", "--id", org["id"], "--force")


@pytest.mark.needs("bubblewrap")
def test_rules_of_a_sandbox(make: Make, workspace: Path) -> None:
    """Scope `sandbox:NAME`; the scoped list has no `default-deny-all` [HURA]; deny beats allow [M]; they go with `rm` [D]."""
    sbx = make(policy="deny-all", rule_delay_s=0.0)
    sbx.said("ls")
    sbx.said("create", "--name", "one", "--deny-network", "bad.example", "shell", str(workspace))
    text = sbx.said("policy", "allow", "network", "--sandbox", "one", "**.example")
    assert text.startswith("Rule added to policy local (scope: sandbox:one): ")
    rules = sbx.json("policy", "ls", "one", "--json")["rules"]
    assert "default-deny-all" not in {each["id"] for each in rules}
    assert {each["resource_type"] for each in rules if each["scope"] == "global"} == {"filesystem:read", "filesystem:write"}
    wanted = {"good.example": 0, "bad.example": 1}
    assert {host: sbx.run("policy", "check", "network", "--sandbox", "one", host).returncode for host in wanted} == wanted
    assert sbx.run("policy", "check", "network", "good.example").returncode == 1, "another scope"
    sbx.said("rm", "-f", "one")
    assert "sandbox:one" not in sbx.said("policy", "ls", "--json")


# ---------------------------------------------------------------------------------------------------- the proxy


class Outside(BaseHTTPRequestHandler):
    """A server outside: it answers with what it was sent."""

    def do_POST(self) -> None:
        """Answer with the path, the headers and the body."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        data = json.dumps({"path": self.path, "headers": dict(self.headers), "body": body}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST  # noqa: N815 - named by the library

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named by the library
        """Say nothing."""


@pytest.fixture
def outside() -> Iterator[int]:
    """A server of the host's loopback, by its port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Outside) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


CURL = ("exec", "one", "curl", "-sS")


@pytest.mark.needs("bubblewrap")
def test_a_guest_reaches_what_is_allowed_and_reads_why_not_otherwise(make: Make, workspace: Path, outside: int) -> None:
    """403 with the reason, curl exits 0, `curl -f` 22, CONNECT refused [DEN, CEZ, CAP]; `localhost:PORT` [M]; the log [CAP]."""
    sbx = make(policy="deny-all", rule_delay_s=0.0)
    sbx.said("create", "--name", "one", "shell", str(workspace))
    url = f"http://host.docker.internal:{outside}/v1?q=1"
    blocked = sbx.said(*CURL, url)
    assert blocked.startswith(f"Approval required for host.docker.internal:{outside}.\n\nReview and respond with:\n")
    assert sbx.run(*CURL, "-f", url).returncode == 22
    assert sbx.run(*CURL, "https://example.com/").returncode == 56
    ident = added(sbx.said("policy", "allow", "network", "--sandbox", "one", f"localhost:{outside}"))
    answer = sbx.json(*CURL, url, "-d", "sent")
    assert (answer["path"], answer["body"]) == ("/v1?q=1", "sent")
    tunnelled = sbx.json(*CURL, "--proxytunnel", url)
    assert tunnelled["path"] == "/v1?q=1"
    log = sbx.json("policy", "log", "one", "--json")
    target = f"host.docker.internal:{outside}"
    assert [(row["host"], row["count_since"], row["rule"]) for row in log["allowed_hosts"]] == [(target, 2, "")]
    row = next(row for row in log["blocked_hosts"] if row["host"] == target)
    assert set(row) == {"host", "vm_name", "proxy_type", "rule", "last_seen", "since", "count_since", "reason"}
    assert "no applicable policies" in row["rule"]
    sbx.said("policy", "rm", "network", "--sandbox", "one", "--id", ident, "--force")
    sbx.said("policy", "deny", "network", "--sandbox", "one", f"localhost:{outside}")
    assert sbx.said(*CURL, url).startswith("Blocked by local rule for host.docker.internal\n")
    sbx.said("rm", "-f", "one")
    assert sbx.json("policy", "log", "one", "--json")["allowed_hosts"], "the log is kept over rm [CAP]"


@pytest.mark.needs("bubblewrap")
def test_an_older_version_says_it_otherwise(make: Make, workspace: Path) -> None:
    """Body beginning `Blocked by network policy: domain HOST:443` [DEN, CEZ]."""
    sbx = make("0.43", policy="deny-all")
    sbx.said("create", "--name", "one", "shell", str(workspace))
    assert sbx.said(*CURL, "http://example.com/").startswith("Blocked by network policy: domain example.com:80\n")


@pytest.mark.needs("bubblewrap")
def test_secrets_are_put_in_place_of_placeholders_on_their_way_alone(make: Make, workspace: Path, outside: int) -> None:
    """A substring swap in any header, plain HTTP too, on the forward path [CAP]; the guest never has the value; other hosts get nothing."""
    world = {
        "api.openai.com": f"127.0.0.1:{outside}",
        "mine.example": f"127.0.0.1:{outside}",
        "other.example": f"127.0.0.1:{outside}",
    }
    sbx = make(policy="allow-all", world=world)
    sbx.said("ls")
    sbx.said("secret", "set", "openai", stdin=b"sk-real\n")
    text = sbx.said("secret", "set-custom", "--host", "mine.example", "--env", "MINE", "--value", "s3cret")
    made = re.search(
        r'placeholder "(sbx-cs-\w{16})" for target "mine\.example" env "MINE" in scope "global"\nGenerated placeholder: \1\n', text
    )
    assert made, text
    sbx.said("create", "--name", "one", "shell", str(workspace))
    assert (
        sbx.said("exec", "one", "sh", "-c", "echo $MINE $OPENAI_API_KEY $SBX_CRED_OPENAI_MODE")
        == f"{made[1]} proxy-managed apikey\n"
    )
    bearer = "Authorization: Bearer "
    assert sbx.json(*CURL, "http://mine.example/", "-H", f"{bearer}{made[1]}!")["headers"]["Authorization"] == "Bearer s3cret!"
    assert sbx.json(*CURL, "http://api.openai.com/", "-H", f"{bearer}proxy-managed")["headers"]["Authorization"] == "Bearer sk-real"
    for host, sent in (("other.example", made[1]), ("other.example", "proxy-managed"), ("mine.example", "proxy-managed")):
        seen = sbx.json(*CURL, f"http://{host}/", "-H", f"{bearer}{sent}", "-d", made[1])
        assert (seen["headers"]["Authorization"], seen["body"]) == (f"Bearer {sent}", made[1])


# ---------------------------------------------------------------------------------------------------- secrets


def test_secrets_are_listed_without_their_values(make: Make) -> None:
    """The complete shape [SBXM, MIS]; the table [SDK]; without `--force` nothing is overwritten, exit 0 [SDK]."""
    sbx = make()
    sbx.said("ls")
    empty = {"secrets": [], "custom_secrets": [], "shadowed_services": [], "env_only_count": 0}
    assert sbx.json("secret", "ls", "--json") == empty
    assert sbx.said("secret", "ls", "-g") == 'No secrets found for scope "global".\n'
    sbx.said("secret", "set", "github", "-t", "ghp_x")
    sbx.said("secret", "set-custom", "--host", "h.example", "--env", "E", "--placeholder", "sk-{rand}", "--value", "v")
    found = sbx.json("secret", "ls", "--json")
    assert found["secrets"] == [{"scope": "global", "type": "service", "name": "github", "secret": "(stored)"}]
    (custom,) = found["custom_secrets"]
    assert set(custom) == {"scope", "targets", "env", "placeholder", "secret"}
    assert re.fullmatch(r"sk-\w{16}", custom["placeholder"])
    assert "ghp_x" not in sbx.said("secret", "ls") + sbx.said("secret", "ls", "--json")
    heads = [line.split() for line in sbx.said("secret", "ls").splitlines() if line]
    assert heads[0] == ["SCOPE", "TYPE", "NAME", "SECRET"]
    assert ["SCOPE", "TARGETS", "ENV", "PLACEHOLDER", "SECRET"] in heads
    assert sbx.said("secret", "set", "github", "-t", "another").endswith("Cancelled\n")
    assert "already exists in scope global with placeholder" in sbx.failed(
        "secret", "set-custom", "--host", "h", "--env", "E", "--value", "w"
    )
    assert sbx.said("secret", "rm", "github", "--force").startswith("Deleted ")
    assert sbx.said("secret", "rm", "--placeholder", custom["placeholder"], "-f").endswith(
        "Applied secret updates for 0 running sandbox(es)\n"
    )
    assert sbx.json("secret", "ls", "--json") == empty


def test_secrets_of_registries_and_of_one_sandbox(make: Make) -> None:
    """A registry's is `(host only)` unless it is of a sandbox [D]; a sandbox that is not there is refused."""
    sbx = make()
    sbx.said("ls")
    sbx.said("secret", "set", "--registry", "ghcr.io", "--username", "u", "--password-stdin", stdin=b"pw")
    (row,) = sbx.json("secret", "ls", "--json")["secrets"]
    assert (row["scope"], row["type"], row["name"]) == ("(host only)", "registry", "ghcr.io")
    assert "sandbox 'none' not found" in sbx.failed("secret", "set", "openai", "--sandbox", "none", "-t", "x")
    assert "unknown service" in sbx.failed("secret", "set", "nonsense", "-t", "x")
    assert sbx.said("secret", "rm", "--registry", "ghcr.io", "-f").startswith("Deleted ")


def test_removing_a_secret_by_version(make: Make) -> None:
    """Cancelled without a terminal: exit 0 and nothing removed until 0.44 [SDK], non-zero later [RN]; a missing one the same way."""
    old, new = make("0.43"), make("0.47")
    for sbx in (old, new):
        sbx.said("ls")
        sbx.said("secret", "set", "openai", "-t", "x")
    assert old.said("secret", "rm", "openai") == "Delete selected secret? (y/N): Cancelled\n"
    new.failed("secret", "rm", "openai")
    for sbx in (old, new):
        assert [each["name"] for each in sbx.json("secret", "ls", "--json")["secrets"]] == ["openai"]
    assert old.said("secret", "rm", "xai", "--force") == "No secret found\n"
    assert "Cancelled" in new.run("secret", "rm", "xai").stdout.decode()


def test_secrets_are_imported_from_the_callers_environment(make: Make) -> None:
    """`No credential env vars detected on the host. …` [CAP]; what there is is imported."""
    sbx = make()
    sbx.said("ls")
    assert sbx.said("secret", "import", "--dry-run").startswith(
        "No credential env vars detected on the host. Set e.g. OPENAI_API_KEY "
    )
    assert sbx.said("secret", "import", "--all", OPENAI_API_KEY="sk-1") == "Imported openai\n"
    assert [each["name"] for each in sbx.json("secret", "ls", "--json")["secrets"]] == ["openai"]


@pytest.mark.needs("bubblewrap")
@pytest.mark.parametrize(("version", "left"), [("0.39", ["one"]), ("0.43", [])])
def test_secrets_of_a_sandbox_go_with_it_from_0_42_on(make: Make, workspace: Path, version: str, left: list[str]) -> None:
    """Scoped secrets are deleted with the sandbox [RN]."""
    sbx = make(version)
    sbx.run("secret", "ls")
    sbx.said("create", "--name", "one", "shell", str(workspace))
    sbx.said("secret", "set", "openai", "--sandbox", "one", "-t", "x")
    sbx.said("rm", "-f", "one")
    rows = [line.split()[0] for line in sbx.said("secret", "ls").splitlines() if line.endswith("(stored)")]
    assert rows == left
