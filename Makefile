# Everything that can be done with this checkout. `make` alone lists it.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON      ?= python3
DEMO_ARGS   ?=
PYTEST_ARGS ?=
ONLY        ?=
LAB_ARGS    ?=
FAULTS_ARGS ?=
MUTANTS_ARGS ?=
SCORECARD_ARGS ?=

BIN   := .venv/bin
STAMP := .venv/.made-from-lock

export PYTHON

.PHONY: help setup demo test check format bench scorecard test-loki faults mutants lab lock proto clean

help: ## list these targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## */\t/' | sort | while IFS=$$'\t' read -r t d; do printf '  make %-10s %s\n' "$$t" "$$d"; done

setup: $(STAMP) ## make .venv from the lock file (middlewatch, mw and the check tools)

$(STAMP): pyproject.toml uv.lock tools/setup.sh
	@tools/setup.sh sync
	@touch $@

demo: setup ## one recovery from end to end, told as it happens; DEMO_ARGS= passes flags
	@$(BIN)/middlewatch demo $(DEMO_ARGS)

test: setup ## the checks, then every test; as root it first installs the system packages they need
	@$(BIN)/python -m tools.suite $(PYTEST_ARGS)

test-loki: setup ## run the contract of log stores on a Loki that you give; LOKI_URL=http://…
	@test -n "$(LOKI_URL)" || { echo "say which Loki: make test-loki LOKI_URL=http://localhost:3100"; exit 2; }
	@LOKI_URL="$(LOKI_URL)" LOKI_TENANT="$(LOKI_TENANT)" $(BIN)/python -m pytest tests/contract/logsource -k given_loki

check: setup ## ruff, mypy --strict and the import contracts
	@$(BIN)/python -m tools.suite --only-checks

format: setup ## let ruff lay out the code and mend what it can
	@$(BIN)/ruff format
	@$(BIN)/ruff check --fix

bench: setup ## measure the speeds into build/bench.json; ONLY=group picks one
	@$(BIN)/python -m tools.bench $(if $(ONLY),--only $(ONLY))

scorecard: setup ## how right detection is: labelled logs and simulated streams, into build/scorecard.json
	@$(BIN)/python -m tools.scorecard $(SCORECARD_ARGS)

faults: setup ## let everything go wrong in the middle of recoveries, simulated and real, into build/faults.json
	@$(BIN)/python -m tools.faults $(FAULTS_ARGS)

mutants: setup ## plant bugs in the reconciler one by one and see that the suites catch each
	@$(BIN)/python -m tools.mutants $(MUTANTS_ARGS)

lab: setup ## start a real Slurm on this machine (root, Debian); LAB_ARGS= passes flags
	@$(BIN)/middlewatch lab up $(LAB_ARGS)

lock: ## resolve pyproject.toml into uv.lock again; `make lock UPGRADE=1` takes newer versions
	@tools/setup.sh lock $(if $(UPGRADE),--upgrade)

proto: setup ## generate src/middlewatch/contract from proto/
	@$(BIN)/python -m tools.proto

clean: ## remove what was made: .venv, .uv, build, caches
	rm -rf .venv .uv build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .schemathesis
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
