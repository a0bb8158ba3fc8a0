# Onceback. Every command works on a machine with Python 3.11 or newer and nothing else set up.
# `make demo` is the one to begin with.

NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(or $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c '$(NEW_ENOUGH)' 2>/dev/null && echo $$python && break; done),python3)
BIN := .venv/bin
MAKE_VENV = command -v $(PYTHON) >/dev/null || { echo "Onceback needs Python 3.11 or newer: install it first." >&2; exit 2; }; \
	$(PYTHON) demo/venv.py
LOCK_INPUTS := pyproject.toml requirements.lock requirements-build.lock hatch_build.py

.DELETE_ON_ERROR:
.PHONY: help demo demo-reset test check lint format bench killmatrix chaos properties mutate replay entitlement-audit lock clean

help:
	@echo "make demo                start the whole of Onceback with one believable merchant, here on this machine"
	@echo "make demo-reset          forget what was done in the demo and start over at the next make demo"
	@echo "make test                check the code and run every test, in a browser too"
	@echo "make check               lint, types, import rules, templates"
	@echo "make format              let the formatter rewrite the code"
	@echo "make bench               measure, print a table and write build/bench.json"
	@echo "make killmatrix          kill a worker and a web process at every commit and call, and count the refunds (ARGS=--resume goes on with one that was stopped)"
	@echo "make chaos LIVES=200     many refunds at once while everything goes wrong (SEED=1; GUARD=name takes a guard away)"
	@echo "make properties          try each property of what is owed on 10,000 generated orders (EXAMPLES=10000)"
	@echo "make mutate              change one sign, rounding or bound of what is owed at a time, and see that a test fails (ARGS=--help)"
	@echo "make replay FILE=...     turn a month of a real ledger into returns and refunds, and add up both sides"
	@echo "make entitlement-audit   derive every entitlement again from what was stored with it; wants DATABASE_URL (ARGS=--help)"
	@echo "make lock                write the lock files again (LOCK_ARGS=--upgrade takes newer releases)"
	@echo "make clean               remove what was built; the demo's data stays (see make demo-reset)"

demo: .venv/.installed-run
	@$(BIN)/python -m demo $(ARGS)

demo-reset: .venv/.installed-run
	@$(BIN)/python -m demo --reset

# A new machine gets its browser while the packages come. The types are checked beside the tests, and what mypy says is
# shown after them: each of the two fails the whole.
test:
	@$(PYTHON) -m demo.browser --if-missing 2>/dev/null & browser=$$!; \
	$(MAKE) --silent --no-print-directory .venv/.installed-dev; made=$$?; wait $$browser; exit $$made
	@$(BIN)/python -m demo.browser
	@$(MAKE) --no-print-directory lint
	@mkdir -p build; $(BIN)/mypy >build/mypy.txt 2>&1 & types=$$!; trap "kill $$types" INT; \
	$(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder; tests=$$?; \
	wait $$types; typed=$$?; echo "mypy:"; cat build/mypy.txt; test $$tests -eq 0 -a $$typed -eq 0

check: lint
	$(BIN)/mypy

lint: .venv/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/djlint templates --lint --quiet

format: .venv/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/.installed-run
	@$(BIN)/python -m bench $(ARGS)

killmatrix: .venv/.installed-dev
	@$(BIN)/python -m faults.killmatrix $(ARGS)

chaos: .venv/.installed-dev
	@$(BIN)/python -m faults.chaos $(if $(LIVES),--lives $(LIVES)) $(if $(SEED),--seed $(SEED)) $(if $(GUARD),--guard $(GUARD)) $(ARGS)

properties: .venv/.installed-dev
	@OWED_EXAMPLES=$(or $(EXAMPLES),10000) $(BIN)/pytest -q -n auto --dist loadfile tests/unit/test_owed_properties*.py

mutate: .venv/.installed-dev
	@$(BIN)/python -m faults.mutate $(ARGS)

replay: .venv/.installed-run
	@test -n "$(FILE)" || { echo "Name the ledger file: make replay FILE=../shared/data/online-retail-2010-12.csv" >&2; exit 2; }
	@$(BIN)/python -m demo.replay "$(FILE)" $(ARGS)

entitlement-audit: .venv/.installed-run
	@$(BIN)/flask entitlement audit $(ARGS)

# The lock files name versions and hashes and no address, so that they hold wherever packages are served from.
UV := build/lock/bin/uv
COMPILE = $(UV) pip compile --no-config --universal --python-version 3.11 --generate-hashes \
	--only-binary :all: --no-emit-index-url --quiet --custom-compile-command "make lock" $(LOCK_ARGS)

lock: $(UV)
	$(COMPILE) pyproject.toml --extra local --group dev --output-file requirements-dev.lock
	$(COMPILE) pyproject.toml --extra local --constraint requirements-dev.lock --output-file requirements.lock
	$(COMPILE) --group build --constraint requirements-dev.lock --output-file requirements-build.lock
	$(COMPILE) bench/peers/requirements.in --output-file bench/peers/requirements.lock

$(UV):
	$(PYTHON) -m venv build/lock
	build/lock/bin/pip install --quiet --only-binary :all: uv==0.13.8

.venv/.installed-run: $(LOCK_INPUTS)
	@$(MAKE_VENV) $@ requirements.lock requirements-build.lock

.venv/.installed-dev: $(LOCK_INPUTS) requirements-dev.lock
	@$(MAKE_VENV) $@ requirements-dev.lock

clean:
	rm -rf .venv build dist static/vendor test-results .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +
