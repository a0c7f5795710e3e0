# Jam's commands for people and for CI. Everything runs in .venv, which is made here; nothing else on the machine changes.

VENV    := .venv
BIN     := $(VENV)/bin
STAMP   := $(VENV)/.installed
INPUTS  := pyproject.toml plugins/codex/pyproject.toml constraints.txt
# `make PYTHON=/path/to/python` wins; otherwise the first interpreter of 3.11 or newer.
PYTHON  ?=
FIND_PYTHON = for p in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11; do \
	  "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; exit 0; }; done; exit 1

.PHONY: demo test bench lint types imports pytest test-unprivileged guarantees install clean

demo: $(STAMP)
	@$(BIN)/jam demo $(ARGS)

test: lint types imports pytest

bench: $(STAMP)
	@$(BIN)/python -m benchmarks $(ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

imports: $(STAMP)
	$(BIN)/lint-imports --no-cache

pytest: $(STAMP)
	$(BIN)/python -m pytest tests $(wildcard plugins/*/tests) $(ARGS)

# The tests marked `unprivileged`, as an ordinary user. From root: in a copy of this tree that the user owns.
test-unprivileged: $(STAMP)
	.ci/unprivileged $(ARGS)

guarantees: $(STAMP)
	$(BIN)/python -m jamcore.testing.guarantees
	$(BIN)/python -m jamcore.testing.error_page
	$(BIN)/python -m jamcore.testing.settings_page
	$(BIN)/python -m jamcore.testing.engines --write

install: $(STAMP)

$(STAMP): $(INPUTS)
	@python=$$($(FIND_PYTHON)) || { echo "Jam needs Python 3.11 or newer. Install it, or name it: make PYTHON=/path/to/python3" >&2; exit 1; }; \
	"$$python" -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$$python cannot make environments: its venv module is missing. On Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }; \
	[ -x $(BIN)/python ] && $(BIN)/python -m pip --version >/dev/null 2>&1 || { \
	  echo "Making $(VENV) with $$python"; rm -rf $(VENV); "$$python" -m venv $(VENV); }
	@echo "Installing Jam and what it needs into $(VENV) (the first time takes a minute)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[testing,dev]" -e plugins/codex
	@touch $@

clean:
	rm -rf $(VENV) .tox build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache htmlcov .coverage guarantees.json
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
