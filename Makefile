# Everything a person types. Needs Python >= 3.11 and make; the rest is fetched into .venv.
PY := $(shell for p in python3 python3.11 python3.12 python3.13 python3.14 python; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
BIN := .venv/bin
FRESH := .venv/.fresh
MUTMUT := .mutants/lib/.fresh
ARGS ?=
SAMPLE ?= 400

.PHONY: up test lint format bench stress mutants lock clean

up: $(FRESH) ## PostgreSQL, web and all loops; PORT= and DATA_DIR= move them
	@exec $(BIN)/python manage.py up $(ARGS)

test: $(FRESH) ## the whole suite in parallel; ARGS="tests/db -k lease" narrows it
	@scripts/install_test_services
	$(BIN)/python -m pytest -n auto $(ARGS)

lint: $(FRESH)
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/python manage.py check
	$(BIN)/mypy

format: $(FRESH)
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: $(FRESH) ## speed beside a bare pipeline; ARGS="--only W1,W6 --rounds 3" narrows it, PEERS=1 adds other systems
	$(BIN)/python manage.py bench $(if $(PEERS),--peers) $(ARGS)

stress: $(FRESH) ## slow: thousands of runs under chaos, contention fifty times; CHAOS_SEED= plays one again
	@scripts/install_test_services
	$(BIN)/python -m pytest -m stress $(ARGS)
	$(BIN)/python -m pytest -n auto --through-pooler tests/races tests/e2e

mutants: $(FRESH) $(MUTMUT) ## each invariant's mutation must make its test fail, and most of SAMPLE= mutants of the engine (0: all)
	$(BIN)/python -m tests.mutations $(ARGS)
	$(BIN)/python -m tests.engine_mutants --sample $(SAMPLE)

lock: $(FRESH) ## after a change of dependencies in pyproject.toml
	$(BIN)/python scripts/lock

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .mutants

# uv is quicker, pip is everywhere. The stamp is written last: an interrupted install is done again.
$(FRESH): requirements.lock
	@test -n "$(PY)" || { echo "Python 3.11 or newer is needed; none was found on PATH." >&2; exit 1; }
	@test -x $(BIN)/python || $(PY) -m venv .venv
	@if command -v uv >/dev/null 2>&1; then \
		uv pip install --quiet --python $(BIN)/python -r requirements.lock; \
	else \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock; \
	fi
	@touch $(FRESH)

# Beside the environment and not in it: tests/engine_mutants.py says why.
$(MUTMUT): requirements-mutants.lock | $(FRESH)
	@rm -rf $(@D)
	@if command -v uv >/dev/null 2>&1; then \
		uv pip install --quiet --python $(BIN)/python --target $(@D) -r requirements-mutants.lock; \
	else \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --target $(@D) -r requirements-mutants.lock; \
	fi
	@touch $@
