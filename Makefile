# Jam's commands for people and for CI. Everything runs in .venv, which is made here; nothing else on the machine changes.

VENV    := .venv
BIN     := $(VENV)/bin
STAMP   := $(VENV)/.installed
PLUGINS := $(patsubst %/pyproject.toml,%,$(wildcard plugins/*/pyproject.toml))
INPUTS  := pyproject.toml $(PLUGINS:=/pyproject.toml) constraints.txt
# `make PYTHON=/path/to/python` wins; otherwise the first interpreter of 3.11 or newer.
PYTHON  ?=
FIND_PYTHON = for p in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11; do \
	  "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; exit 0; }; done; exit 1

# What `make test` runs side by side, the quickest answers first, then the longest: each is a process of its own, and its tests have places
# of their own.
LANES   ?= lint types imports lane-real lane-matrix lane-unit lane-crash
JOBS    ?= 3
KEPT    := .lanes
OUTPUT  = $(if $(filter output-sync,$(.FEATURES)),--output-sync=$(1))
# A lane is bounded as a whole; each of its tests has a bound of its own besides.
LANE_S  ?= 4500
LANE    = $(BIN)/python -u -m pytest --session-timeout=$(LANE_S) -p no:cacheprovider --durations=40 --durations-min=4 --guarantees-json $(KEPT)/$@.json

.PHONY: demo test bench lint types imports pytest lane-real lane-matrix lane-crash lane-unit test-unprivileged wheels guarantees install clean

demo: $(STAMP)
	@$(BIN)/jam demo $(ARGS)

# Every lane is run to its end, and one failure fails the whole. What a lane says is shown when it ends; until then it is in its file.
test: $(STAMP)
	@rm -rf $(KEPT) && mkdir $(KEPT)
	@echo "Side by side, each shown when it ends (until then see $(KEPT)/): $(LANES) $(MORE)"
	@$(MAKE) --no-print-directory --keep-going --jobs=$(JOBS) $(call OUTPUT,target) $(addprefix side-by-side/,$(LANES) $(MORE))
	@$(BIN)/python -m jamcore.testing.proof $(KEPT)/*.json

side-by-side/%:
	@start=$$(date +%s); $(MAKE) --no-print-directory $(call OUTPUT,none) $* >$(KEPT)/$*.log 2>&1; status=$$?; \
	printf '\n== %s: status %d after %d s\n' $* $$status $$(($$(date +%s) - start)); cat $(KEPT)/$*.log; exit $$status

bench: $(STAMP)
	@$(BIN)/python -m benchmarks $(ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

imports: $(STAMP)
	$(BIN)/lint-imports --no-cache

# Kills, faults and jumps over every journaled kind: as long as all other kill tests together.
MATRICES := $(wildcard tests/crash/test_*_matrix.py tests/crash/test_*_faults.py tests/crash/test_*_jumps.py tests/crash/test_*_disks.py)
lane-matrix: $(STAMP)
	$(LANE) $(MATRICES)

lane-crash: $(STAMP)
	$(LANE) $(filter-out $(MATRICES),$(wildcard tests/crash/test_*.py))

lane-unit: $(STAMP)
	$(LANE) tests/unit tests/contract

# Whatever no other lane has, so that a new directory of tests is never forgotten.
lane-real: $(STAMP)
	$(LANE) $(filter-out tests/crash/ tests/unit/ tests/contract/ %/__pycache__/,$(wildcard tests/*/ plugins/*/tests/))

# The same tests as those of the lanes, in one process.
pytest: $(STAMP)
	$(BIN)/python -m pytest tests $(wildcard plugins/*/tests) $(ARGS)

# The tests marked `unprivileged`, as an ordinary user. From root: in a copy of this tree that the user owns.
test-unprivileged: $(STAMP)
	.ci/unprivileged $(ARGS)

# What is built for others, tried without the tree: the plugin with its wheels, the core's contracts with no plugin installed.
PY      = py$(shell $(BIN)/python -c 'import sys; print("%d%d" % sys.version_info[:2])')
wheels: $(STAMP)
	@set -e; for plugin in $(notdir $(PLUGINS)); do \
	  echo "== $$plugin"; $(BIN)/tox run -q -e "plugin-$$plugin-$(PY)" -- -m "not slow" "$(CURDIR)/plugins/$$plugin/tests"; done
	$(BIN)/tox run -q -e examples-$(PY)
	$(BIN)/tox run -q -e core-$(PY) -- "$(CURDIR)/tests/contract" "$(CURDIR)/tests/unit/domain" "$(CURDIR)/tests/unit/testing"

guarantees: $(STAMP)
	$(BIN)/python -m jamcore.testing.guarantees
	$(BIN)/python -m jamcore.testing.live_page
	$(BIN)/python -m jamcore.testing.error_page
	$(BIN)/python -m jamcore.testing.settings_page
	$(BIN)/python -m jamcore.testing.operations_page
	$(BIN)/python -m jamcore.testing.crash_page
	$(BIN)/python -m jamcore.testing.engines --write
	$(BIN)/python -m jamcore.testing.providers --write
	$(BIN)/python -m jamcore.testing.policies --write
	$(BIN)/python -m jamcore.testing.store --write
	$(BIN)/python -m jamcore.testing.skeleton.examples
	$(BIN)/python -m jamcore.testing.hooks_page
	$(BIN)/python -m jamcore.testing.capabilities_page
	$(BIN)/python -m jamcore.testing.scenario.page
	$(BIN)/python -m jamcore.testing.sbx.page

install: $(STAMP)

$(STAMP): $(INPUTS)
	@python=$$($(FIND_PYTHON)) || { echo "Jam needs Python 3.11 or newer. Install it, or name it: make PYTHON=/path/to/python3" >&2; exit 1; }; \
	"$$python" -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$$python cannot make environments: its venv module is missing. On Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }; \
	[ -x $(BIN)/python ] && $(BIN)/python -m pip --version >/dev/null 2>&1 || { \
	  echo "Making $(VENV) with $$python"; rm -rf $(VENV); "$$python" -m venv $(VENV); }
	@echo "Installing Jam and what it needs into $(VENV) (the first time takes a minute)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[testing,dev]" $(addprefix -e ,$(PLUGINS))
	@touch $@

clean:
	rm -rf $(VENV) .tox build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache htmlcov .coverage guarantees.json $(KEPT)
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
