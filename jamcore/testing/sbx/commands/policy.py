"""``policy``: rules of the network, what they say about a target, and the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from jamcore.testing.sbx.program.call import Call
from jamcore.testing.sbx.program.console import Failure
from jamcore.testing.sbx.program.flags import Command, Flag, UsageError

UDP = "WARN: UDP egress is disabled until feature.udp-egress is enabled"


def init(call: Call) -> None:
    """Make the first rules."""
    call.daemon.call("policy_init", profile=call.args[0])
    call.console.print(f'Global network policy initialized to "{call.args[0]}".')


def add(decision: str) -> Callable[[Call], None]:
    """Return what ``allow`` or ``deny`` does."""

    def run(call: Call) -> None:
        sandbox = call.flag("sandbox")
        default = ["tcp"] if decision == "allow" or not call.gates("policy.udp-warning") else ["tcp", "udp"]
        protocols = call.flag("protocol").split(",") if call.flag("protocol") else default
        how: dict[str, Any] = {"_protocols": protocols}
        resources = [each.strip() for text in call.args for each in text.split(",") if each.strip()]
        if methods := call.flag("method"):
            targets = [{"host": host, "path": call.flag("path") or "/**"} for host in resources]
            how |= {"resource_type": "http", "methods": methods.split(","), "http_targets": targets}
        made = call.daemon.call("policy_add", decision=decision, sandbox=sandbox, resources=resources, how=how)
        scope = f"sandbox:{sandbox}" if sandbox else "global"
        for each in made:
            shown = f"{each['resources'][0]} [{','.join(protocols)}]"
            call.console.print(f"Rule added to policy local (scope: {scope}): {each['id']} ({shown})")
        if "udp" in protocols and call.gates("policy.udp-warning"):
            call.console.say(UDP)

    return run


def rm(call: Call) -> None:
    """Remove rules."""
    ident, resources = call.flag("id"), [each for each in call.flag("resource").split(",") if each]
    if not ident and not resources:
        raise Failure("--id or --resource is required")
    call.console.confirm(f"Remove rule {ident or ','.join(resources)}? (y/N): ", force=bool(call.flag("force")))
    for gone in call.daemon.call("policy_rm", sandbox=call.flag("sandbox"), ident=ident, resources=resources):
        call.console.print(f"Rule removed: {gone}")


def ls(call: Call) -> None:
    """List the rules, by policy where they are no JSON."""
    if call.flag("json") and call.told.bug("no-policy-json"):
        raise UsageError("unknown flag: --json")
    answer = call.daemon.call("policy_ls", sandbox=call.args[0] if call.args else "")
    rules = [each for each in answer["rules"] if _wanted(call, each)]
    if call.flag("json"):
        call.json({**answer, "rules": rules})
        return
    if "organization" in answer:
        hidden = sum(each["status"] == "inactive" for each in answer["rules"])
        line = f"Governance: Managed by {answer['organization']} | Sync: OK, last synced 12:00:00"
        call.console.print(
            line + (f" | Hidden: {hidden} inactive rules. Show with: sbx policy ls --include-inactive" if hidden else "")
        )
    if not rules:
        call.console.print("No policies match the selected filters.")
        return
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for each in rules:
        groups.setdefault((each["policy_id"], "org" if each["origin"] == "org" else "local", each["applies_to"]), []).append(each)
    rows = [(*group, _summary(found)) for group, found in groups.items()]
    call.console.table([("POLICY", "SOURCE", "APPLIES TO", "SUMMARY"), *rows])


def _wanted(call: Call, each: Mapping[str, Any]) -> bool:
    if each["status"] == "inactive" and not call.flag("include-inactive"):
        return False
    if (kind := call.flag("type")) not in ("", "all") and not each["resource_type"].startswith(kind):
        return False
    if (source := call.flag("source")) and source != {"org": "org", "kit": "kit"}.get(each["origin"], "local"):
        return False
    return call.flag("decision") in ("", each["decision"])


def _summary(rules: list[Mapping[str, Any]]) -> str:
    counts = Counter((each["resource_type"].replace(":", " "), each["decision"]) for each in rules for _ in each["resources"])
    return "; ".join(f"{kind}: {number} {decision}" for (kind, decision), number in counts.items())


def check(call: Call) -> int:
    """Check a target; 1 is denied."""
    answer = call.daemon.call("policy_check", sandbox=call.flag("sandbox"), target=call.args[0])
    if call.flag("json"):
        call.json(answer)
    else:
        call.console.print(f"{'Allowed' if answer['allowed'] else 'Denied'}: {call.args[0]}")
        if call.flag("verbose") and not answer["allowed"]:
            call.console.print(f"  {answer['reason']}")
    return 0 if answer["allowed"] else 1


def inspect(call: Call) -> None:
    """Describe a policy or one rule."""
    rules = call.daemon.call("policy_ls", sandbox="")["rules"]
    found = [each for each in rules if call.args[0] in (each["id"], each["policy_id"])]
    if not found:
        raise Failure(f"policy or rule '{call.args[0]}' not found")
    for each in found:
        if each["editable"]:
            scope = f" --sandbox {each['scope'].partition(':')[2]}" if each["scope"] != "global" else ""
            each["remove_command"] = f"sbx policy rm network{scope} --id {each['id']}"
    if call.flag("json"):
        call.json({"name": "local", "policy_id": found[0]["policy_id"], "rules": found})
        return
    for each in found:
        call.console.print(f"{each['id']}: {each['decision']} {','.join(each['resources'])} ({each['applies_to']})")


def log(call: Call) -> None:
    """Show what was asked for and how it was answered."""
    answer = call.daemon.call("policy_log", sandbox=call.args[0] if call.args else "", limit=call.flag("limit") or 0)
    if call.flag("json"):
        call.json(answer)
        return
    for title, rows in (("Blocked requests:", answer["blocked_hosts"]), ("Allowed requests:", answer["allowed_hosts"])):
        if rows:
            call.console.print(title)
            heads = ("SANDBOX", "TYPE", "HOST", "PROXY", "RULE", "REASON", "LAST SEEN", "COUNT")
            shown = [
                (
                    row["vm_name"],
                    "network",
                    row["host"],
                    row["proxy_type"],
                    row["rule"],
                    row.get("reason", ""),
                    row["last_seen"],
                    str(row["count_since"]),
                )
                for row in rows
            ]
            call.console.table([heads, *shown])


def reset(call: Call) -> None:
    """Forget every rule."""
    call.console.confirm("Reset the network policy? (y/N): ", force=bool(call.flag("force")))
    call.daemon.call("policy_reset")
    call.console.print("Network policy reset.")


def profiles(call: Call) -> None:
    """List no profiles: there are none without an organisation."""
    if call.flag("json"):
        call.json({"profiles": [], "policy_rules_unavailable": False})
    elif not call.flag("quiet"):
        call.console.print("No policy profiles found")


_ADD = (
    Flag("sandbox"),
    Flag("protocol", "", "text", "policy.udp-warning"),
    Flag("method", "", "text", "policy.http-rules"),
    Flag("path", "", "text", "policy.http-rules"),
)
_JSON, _FORCE = Flag("json", "", "bool"), Flag("force", "f", "bool")
_LS = (
    _JSON,
    Flag("wide", "", "bool"),
    Flag("include-inactive", "", "bool"),
    *map(Flag, ("created-via", "decision", "profile", "protocol", "source", "type")),
)
COMMANDS = (
    Command("policy init", init, (), 1, 1),
    Command("policy set-default", init, (), 1, 1),
    Command("policy allow network", add("allow"), _ADD, 1, None),
    Command("policy deny network", add("deny"), _ADD, 1, None),
    Command("policy rm network", rm, (Flag("sandbox"), Flag("id"), Flag("resource"), _FORCE)),
    Command("policy ls", ls, _LS, 0, 1),
    Command("policy check network", check, (Flag("sandbox"), _JSON, Flag("protocol"), Flag("verbose", "", "bool")), 1, 1),
    Command("policy inspect", inspect, (_JSON,), 1, 1),
    Command("policy log", log, (_JSON, Flag("limit", "", "int"), Flag("quiet", "q", "bool"), Flag("type")), 0, 1),
    Command("policy reset", reset, (_FORCE,)),
    Command("policy profile ls", profiles, (_JSON, Flag("quiet", "q", "bool"))),
)
