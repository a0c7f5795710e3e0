"""The page of guarantees is what the tests say."""

from __future__ import annotations

from pathlib import Path

from jamcore.testing.guarantees import PAGE, SOURCE, find_proofs, load, render, unknown_ids


def test_every_mark_names_a_guarantee(root: Path) -> None:
    """A test that proves an id nobody promised has a slip in its mark."""
    assert unknown_ids(load(root / SOURCE), find_proofs(root)) == ()


def test_the_page_is_up_to_date(root: Path) -> None:
    """docs/guarantees.md is what source and marks say; `make guarantees` makes it anew."""
    assert (root / PAGE).read_text(encoding="utf-8") == render(load(root / SOURCE), find_proofs(root))


def test_every_proof_says_its_sentence(root: Path) -> None:
    """A test that carries an id has a docstring: the sentence that it proves."""
    assert [proof.test for proof in find_proofs(root) if not proof.sentence] == []
