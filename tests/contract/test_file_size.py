"""Modules stay small enough to read in one sitting."""

from __future__ import annotations

from jamcore.testing.sources import Source

LIMIT = 400


def test_no_module_is_longer_than_the_limit(sources: tuple[Source, ...]) -> None:
    """No module of the core or of a plugin has more than 400 lines; there is no list of exceptions."""
    lengths = {source.name: len(source.path.read_bytes().splitlines()) for source in sources}
    assert {name: length for name, length in lengths.items() if length > LIMIT} == {}
    assert lengths, "found no modules at all"
