"""How far a download is, read from what pip prints for programs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jamcore.sandbox.download_progress import ProgressReader, progress_option

pytestmark = pytest.mark.unprivileged


@pytest.mark.parametrize(("pip", "option"), [("26.3", "raw"), ("24.1", "raw"), ("24.0", "off"), ("9.0.3", "off"), ("odd", "off")])
def test_an_older_pip_is_asked_for_no_progress(pip: str, option: str) -> None:
    """It would refuse the option, and with it the download."""
    assert progress_option(pip) == option


@given(st.lists(st.integers(1, 40), max_size=30))
def test_progress_is_read_however_the_output_is_cut(sizes: list[int]) -> None:
    """The last whole line counts; other words of pip are none; a line without an end costs no memory."""
    said = b"Collecting good\n" + b"".join(b"Progress %d of 900\n" % n for n in range(0, 901, 100)) + b"Saved\n"
    told: list[tuple[int, int]] = []
    reader = ProgressReader(lambda done, total: told.append((done, total)))
    for size in sizes:
        reader.feed(said[:size])
        said = said[size:]
    reader.feed(said)
    assert told[-1] == (900, 900)
    assert told == sorted(told)
    reader.feed(b"x" * 100_000)
    reader.feed(b"\nProgress 1 of 2")
    assert told[-1] == (900, 900)
