"""``kit`` and ``template``: kits in directories, and the images that the simulator was told of."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from jamcore.testing.sbx.kits import KitError, read
from jamcore.testing.sbx.program.call import Call
from jamcore.testing.sbx.program.console import Failure
from jamcore.testing.sbx.program.flags import Command, Flag


def validate(call: Call) -> int:
    """Say whether a kit is one."""
    reference = call.args[0]
    try:
        read(Path(reference))
    except KitError as error:
        call.console.say(f"INVALID: {error}")
        if call.flag("json"):
            call.json({"reference": reference, "kind": "directory", "valid": False, "warnings": []})
        return 1
    if call.flag("json"):
        call.json({"reference": reference, "kind": "directory", "valid": True, "warnings": []})
    else:
        call.console.print(f"VALID: {reference}")
    return 0


def inspect(call: Call) -> None:
    """Show what a kit says."""
    try:
        kit = read(Path(call.args[0]))
    except KitError as error:
        raise Failure(str(error), error.hint) from error
    if call.flag("json"):
        call.json(dict(kit.spec))
    else:
        call.console.table([("Name:", kit.name), ("Kind:", kit.kind), ("Allows:", ", ".join(kit.allow))])


def _images(call: Call) -> list[dict[str, Any]]:
    found = []
    for image in call.told.images:
        repository, _, tag = image.reference.partition(":")
        number = hashlib.sha256(image.reference.encode()).hexdigest()[:12]
        qualified = repository if "." in repository.partition("/")[0] else f"docker.io/{repository}"
        found.append(
            {
                "id": number,
                "repository": qualified,
                "tag": tag or "latest",
                "flavor": "",
                "created_at": "2026-01-01T00:00:00Z",
                "size": 0,
            }
        )
    return found


def templates(call: Call) -> None:
    """List the images."""
    found = _images(call)
    if call.flag("json"):
        call.json({"images": found})
    elif call.flag("quiet"):
        call.console.print(*(each["id"] for each in found))
    else:
        call.console.table([("REPOSITORY", "TAG", "IMAGE ID"), *((each["repository"], each["tag"], each["id"]) for each in found)])


def rm_template(call: Call) -> None:
    """Forget an image.

    Raises:
        Failure: There is none.
    """
    from jamcore.testing.sbx.configuration import change  # late: it changes what the simulator was told

    wanted = call.args[0]
    kept = [
        image for image, each in zip(call.told.images, _images(call), strict=True) if wanted not in (each["id"], image.reference)
    ]
    if len(kept) == len(call.told.images):
        raise Failure(f"template '{wanted}' not found")
    call.console.confirm(f"Remove template {wanted}? (y/N): ", force=bool(call.flag("force")))
    change(call.place.root, images=tuple(kept))
    call.console.print(f"Removed: {wanted}")


_JSON = Flag("json", "", "bool")
COMMANDS = (
    Command("kit validate", validate, (_JSON, Flag("kit-arg", "", "list"), Flag("kit-args-file", "", "list")), 1, 1),
    Command("kit inspect", inspect, (_JSON,), 1, 1),
    Command("template ls", templates, (_JSON, Flag("quiet", "q", "bool"))),
    Command("template rm", rm_template, (Flag("force", "f", "bool"),), 1, 1),
)
