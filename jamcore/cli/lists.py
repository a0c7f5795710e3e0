"""What can be listed without records: the names are those in the table of commands."""

from __future__ import annotations

from datetime import UTC, datetime

from jamcore.cli.listing import Item, Listing
from jamcore.cli.output import Row
from jamcore.cli.words import SHORT_ID, engine_word, kept_word, room_word, shortened, turn_word


def _room(item: Item) -> Row:
    room, host, turn = item["room"], item["host"], item["last_turn"]
    return (
        room["name"],
        room["id"][:SHORT_ID],
        host["provider"],
        engine_word(host["engine"], item["isolation"]),
        room_word(
            busy=item["busy"],
            live=item["live"],
            not_parked=item["not_parked"],
            workspace=item["workspace"]["state"],
            host=host["state"],
        ),
        kept_word(item["safety"], datetime.now(UTC)) or None,
        turn_word(turn["state"], live=item["live"]) if turn else None,
        shortened(turn["text"]) if turn else None,
    )


ROOMS = Listing(
    target="/v1/rooms",
    fetch=lambda client: client.rooms(),
    columns=("ROOM", "ID", "AGENT", "ENGINE", "STATE", "KEPT", "LAST TURN", "LAST MESSAGE"),
    row=_room,
    empty="No rooms yet. Open one: jam room new AGENT (`jam provider ls` names them)",
)
