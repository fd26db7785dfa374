# make bench and make test are all a newcomer needs: each makes .venv, installs and runs.
# Nothing has to be there but Python 3.11+ and make; uv is used where it is on the PATH.

PYTHON ?= python3
# Tests run in two processes; more would each start Java and load models of their own.
WORKERS ?= 2
VENV := .venv
BIN := $(VENV)/bin

.PHONY: bench test docs lint format clean

bench: $(VENV)/.runtime
	$(BIN)/captau bench $(ARGS)

test: lint
	$(BIN)/pytest -n $(WORKERS) $(ARGS)

# Into build/site, of pages that open from disk.
docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist *.egg-info

# A stamp each, so that what is installed already is not installed again.
$(VENV)/.runtime: pyproject.toml
	$(call install,.)
	@touch $@

$(VENV)/.dev: pyproject.toml
	$(call install,.[dev])
	@touch $@ $(VENV)/.runtime

define install
	@if command -v uv >/dev/null 2>&1; then \
	  test -d $(VENV) || uv venv --quiet --python '>=3.11' $(VENV); \
	  uv pip install --quiet --python $(BIN)/python -e '$(1)'; \
	else \
	  $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "captau needs Python 3.11 or newer: make PYTHON=python3.11")'; \
	  test -d $(VENV) || $(PYTHON) -m venv $(VENV); \
	  $(BIN)/pip install --quiet --disable-pip-version-check -e '$(1)'; \
	fi
endef
