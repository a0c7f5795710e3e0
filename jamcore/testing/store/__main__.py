"""Prints the store suite: ``python -m jamcore.testing.store``; ``--write`` makes docs/store-suite.md from it."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path

from jamcore.testing.providers.__main__ import checks_of
from jamcore.testing.sources import workspace_root
from jamcore.testing.store.base import Feature, StoreTests, features_of
from jamcore.testing.store.suite import StoreSuite

PAGE = "docs/store-suite.md"
PARTS: tuple[type, ...] = StoreSuite.__bases__
"""The suite's parts, in the order in which they are run."""
_HEAD = """\
# The store suite

Made by `python -m jamcore.testing.store --write` from the suite; do not edit. What a store is here, which databases there are
and how another one is tried is in [store-authors.md](store-authors.md).

Whoever tries a database installs `jamcore[testing]` and writes:

```python
from collections.abc import Iterator

import pytest
from jamcore.testing.store import StoreSuite


class TestStore(StoreSuite):
    @pytest.fixture
    def empty_url(self) -> Iterator[str]:
        with my_database() as url:
            yield url
```

The first sentence of a check is its rule; what follows says why. A subclass may say:
"""


def render() -> str:
    """Return the page."""
    features = (f"- `Feature.{feature.name}`: the database {feature}." for feature in Feature)
    head = (_HEAD, *_attributes(), "", "What a database may be without:", "", *features, "")
    return "\n".join((*head, *(line for part in PARTS for line in _part(part))))


def title_of(part: type) -> str:
    """Return what a part is called on the page."""
    return part.__module__.rpartition(".")[2]


def place_of(suite: type, test: str) -> str | None:
    """Return the page with the place on it that explains a check of a subclass of the suite; ``None``: it is no check of the suite."""
    part = next((part for part in PARTS if issubclass(suite, part) and hasattr(part, test)), None)
    return None if part is None else f"{PAGE}#{title_of(part)}"


def _part(part: type) -> Iterator[str]:
    yield from (f"## {title_of(part)}", "", inspect.getdoc(part) or "", "")
    yield from (_entry(name, test) for name, test in checks_of(part))
    yield ""


def _entry(name: str, test: Callable[..., object]) -> str:
    rule, _, why = (inspect.getdoc(test) or "").partition("\n\n")
    needs = " and ".join(features_of(test))
    asked = f" (asked of a database that {needs})" if needs else ""
    return f"- **{name.removeprefix('test_').replace('_', ' ')}**{asked}: {rule} *Why:* {' '.join(why.split())}"


def _attributes() -> Iterator[str]:
    for line in (inspect.getdoc(StoreTests) or "").partition("Attributes:\n")[2].splitlines():
        name, _, text = line.strip().partition(": ")
        yield f"- `{name}`: {text}"


def main(arguments: list[str] | None = None) -> int:
    """Print or write."""
    parser = argparse.ArgumentParser(prog="python -m jamcore.testing.store", description="The checks of the store suite.")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE}")
    if parser.parse_args(arguments).write:
        (workspace_root(Path.cwd()) / PAGE).write_text(render(), encoding="utf-8")
    else:
        print(render(), end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
