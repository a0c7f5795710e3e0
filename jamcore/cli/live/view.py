"""The events of one room on a live terminal: what is said as everywhere, what is done folded."""

from __future__ import annotations

from jamcore.cli.events import EventView, Past
from jamcore.cli.live.folds import WORK, Fold, Folds
from jamcore.cli.output import Output
from jamcore.domain.events import RoomPayload


class LiveView(EventView):
    """Prints the events of one room in their order, with one line for each piece of work."""

    def __init__(self, output: Output, *, ref: str, past: Past | None = None) -> None:
        super().__init__(output, ref=ref, mine=frozenset(), past=past, how_to_answer=False)
        self.folds = Folds()

    def unfold(self, word: str) -> bool:
        """Show all of one piece of work; say whether there is one of that number."""
        fold = self.folds.find(word)
        if fold is None:
            return False
        self.close()
        self._output.note(f"{fold.mark} {fold.number}", "bold")
        for line in fold.detail:
            self._output.note(f"  {line.text}", line.style)
        return True

    def _show(self, payload: RoomPayload, *, typed_here: bool) -> None:
        for fold in self.folds.take(payload):
            self.close()
            self._fold(fold)
        if not isinstance(payload, WORK):
            super()._show(payload, typed_here=typed_here)

    def _fold(self, fold: Fold) -> None:
        self._output.note(fold.line, fold.style)
        for line in fold.inline:
            self._output.note(f"  {line.text}", line.style)
