# `make bench` and `make test` are all that a newcomer needs: each makes .venv, installs and runs.
# Nothing but Python 3.11+ and make has to be there. uv, which installs in half of pip's time, is taken from the
# PATH or put into .venv; where it cannot be had, or reach the packages, pip installs them.

PYTHON ?= python3
# All tests run in two processes, as each starts Java and loads models of its own; the quick ones in three, of which
# one or another waits for a server or a child.
WORKERS ?= 2
QUICK_WORKERS ?= 3
VENV := .venv
BIN := $(VENV)/bin
# What the quick tier leaves out: tests marked by what they need, or as slow (see CONTRIBUTING.md).
SLOW_MARKERS := java dev neural browser proxy cluster wheel docs kill training slow
NOTHING :=
QUICK := not ($(subst $(NOTHING) $(NOTHING), or ,$(SLOW_MARKERS)))

.PHONY: bench test test-all docs lint types format clean

bench: $(VENV)/.runtime
	$(BIN)/captau bench $(ARGS)

# Minutes: what a contributor runs before each commit.
test: $(VENV)/.test lint
	$(BIN)/pytest -n $(QUICK_WORKERS) -m "$(QUICK)" $(ARGS)

# Everything. CI runs this after `make test` and `make bench` in clones of their own (.ci/run).
test-all: types lint
	$(BIN)/pytest -n $(WORKERS) $(ARGS)

types: $(VENV)/.dev
	$(BIN)/basedpyright

# Into build/site, of pages that open from disk.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

lint: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

format: $(VENV)/.test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist *.egg-info

# A stamp each, so that what is installed already is not installed again.
$(VENV)/.runtime: pyproject.toml
	$(call install,.[coco])
	@touch $@

$(VENV)/.test: pyproject.toml
	$(call install,.[test])
	@touch $@ $(VENV)/.runtime

$(VENV)/.docs: pyproject.toml
	$(call install,.[docs])
	@touch $@

$(VENV)/.dev: pyproject.toml
	$(call install,.[dev])
	@touch $@ $(VENV)/.docs $(VENV)/.test $(VENV)/.runtime

define install
	@echo 'Installing $(1) and the packages that it needs into $(VENV); this takes a minute or less.'
	@if command -v uv >/dev/null 2>&1; then \
	  test -d $(VENV) || uv venv --quiet --seed --python '>=3.11' $(VENV); \
	else \
	  $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "captau needs Python 3.11 or newer: make PYTHON=python3.11")' || exit 1; \
	  test -d $(VENV) || $(PYTHON) -m venv $(VENV) || exit 1; \
	  test -x $(BIN)/uv || $(BIN)/pip install --quiet --disable-pip-version-check uv || true; \
	fi
	@uv=$$(command -v uv || echo $(BIN)/uv); \
	  "$$uv" pip install --compile-bytecode --python $(BIN)/python -e '$(1)' || \
	  $(BIN)/pip install --disable-pip-version-check -e '$(1)'
	@$(BIN)/python scripts/link_packages.py
endef
