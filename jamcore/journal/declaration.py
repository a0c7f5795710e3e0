"""What a kind of action says of itself before it may be registered (START-6)."""

from __future__ import annotations

from dataclasses import dataclass

from jamcore.domain.records import Record


@dataclass(frozen=True, slots=True)
class Declaration:
    """What is known of a kind besides its steps and their restart rules.

    Attributes:
        title: What it does, as a noun with its article left out; lists add what it is done to.
        evidence: Where it looks before it changes anything, at the moment of the change.
        replay: The step of the start that goes on with one that was cut.
        confirms: The record whose digest a person confirms. A field of it, ``kind`` or ``schema_version``, has a value that no other kind's
            has, so that the digest fits no other. ``None``: the kind takes nothing away that somebody could miss.
    """

    title: str
    evidence: str
    replay: str
    confirms: type[Record] | None = None

    @property
    def seal(self) -> str | None:
        """What a digest of this kind's evidence is bound to; ``None`` without a confirmation."""
        fields = self.confirms.model_fields if self.confirms else {}
        return next((str(fields[name].default) for name in ("kind", "schema_version") if name in fields), None)

    def problem(self, record: type[Record]) -> str:
        """Return what is missing, or does not fit the record of the kind's actions; empty when nothing is."""
        if missing := [name for name in ("title", "evidence", "replay") if not getattr(self, name)]:
            return f"its {missing[0]} is not declared"
        if (self.confirms is not None) != ("confirmed" in record.model_fields):
            return "its confirmation is not both declared and a field of its record"
        return "its confirmation could be passed to another kind" if self.confirms is not None and self.seal is None else ""
