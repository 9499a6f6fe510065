# Needs python3 (3.11 or later, with venv) and make; everything else goes into .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST_ARGS ?=
PYTEST := $(BIN)/python -m pytest -q -n 2 --dist loadgroup --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint attack soak pythons bench bench-check docs docs-serve wheel lock clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

setup: $(STAMP) ## create .venv, install what requirements.lock lists, and compile kernels ahead
	@$(BIN)/streamjoin warm

# The stamp is written last, so an interrupted set-up is taken up again by the next make.
$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "streamjoin needs Python 3.11 or later; name one with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "[1/3] creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)
	@echo "[2/3] installing dependencies (about 750 MB are downloaded the first time, a few minutes)"
	@$(BIN)/python -m pip install --disable-pip-version-check --require-hashes -r requirements.lock
	@echo "[3/3] installing streamjoin itself, editable"
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation -e .
	@touch $@

demo: $(STAMP) ## the papers' workload through a Spark pipeline, with progress, verified at the end
	@$(BIN)/streamjoin demo

lint: $(STAMP) ## ruff and mypy only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint ## ruff, mypy and the whole suite
	$(PYTEST) $(PYTEST_ARGS)

attack: $(STAMP) ## the hostile tests in their long version: planted files, damage, interruptions, signals
	HYPOTHESIS_PROFILE=soak $(PYTEST) tests/attack $(PYTEST_ARGS)

soak: $(STAMP) ## the whole suite in its long version, attacks included
	HYPOTHESIS_PROFILE=soak $(PYTEST) $(PYTEST_ARGS)

pythons: $(STAMP) ## the wheel in empty environments of Python 3.11, 3.12 and 3.13, those that are found
	STREAMJOIN_PYTHONS=1 $(PYTEST) -rs tests/packaging/test_wheel.py $(PYTEST_ARGS)

bench: $(STAMP) ## the benchmarks
	$(BIN)/streamjoin bench scan
	$(BIN)/streamjoin bench join --access band
	$(BIN)/streamjoin bench join --access scan
	$(BIN)/streamjoin bench join --access hash
	$(BIN)/streamjoin bench tables
	$(BIN)/streamjoin bench push
	$(BIN)/streamjoin bench watch
	$(BIN)/streamjoin bench cold
	$(BIN)/streamjoin bench spark

bench-check: $(STAMP) ## tables against other engines; names what fell by more than 15 % of benchmarks/recorded.json
	$(BIN)/streamjoin bench check

docs: $(STAMP) ## the documentation site in build/site, all links checked
	$(BIN)/python docs/site.py
	$(BIN)/zensical build --strict

docs-serve: docs ## the same on http://localhost:8000
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site 8000

wheel: $(STAMP) ## a wheel in dist/ that brings compiled kernels, so that a first join need not wait
	STREAMJOIN_SHIP=1 $(BIN)/python -m hatchling build -t wheel

lock: ## make requirements.lock anew (needs uv)
	uv pip compile pyproject.toml --extra dev --extra spark --extra opencl --extra fpga --extra watch --extra docs --universal --python-version 3.11 \
	  --generate-hashes --no-header --no-emit-index-url --no-emit-find-links --upgrade --quiet \
	  -o requirements.lock

clean: ## remove .venv and everything that was made
	rm -rf $(VENV) build dist .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
