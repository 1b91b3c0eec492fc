# Every way to run this project. Each target makes what it needs, so any of them may be the first one.
#
# Three environments: .venv-serve holds what serving needs and nothing else, .venv adds the tools of tests and
# benchmarks, .venv-spark42 is .venv with the oldest Spark we run on. Each carries a stamp that is older than its lock when the lock has changed, and is then brought up to date.

PYTHON ?= python3
ARGS ?=
PIP_TOOLS := pip-tools==7.6.2
WORKERS ?= 2

SERVE := .venv-serve
DEV := .venv
OLDEST := .venv-spark42
LOCK := .venv-lock
CONSOLE := src/penstock/doors/http/console
SCRIPTS := '$(CONSOLE)/**/*.js'

# The tests start hundreds of processes, and each would compile all that it imports (0.80 s a server instead of 0.47 s).
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help setup serve build test browser check bench pipeline pictures nightly lock docs clean python $(addprefix nightly-,doors journal model broker text soak spark oldest packages order)

help: ## this list
	@echo "Penstock, a durable message broker. Targets:"
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(DEV)/.stamp ## make .venv: the project, installed in place, and every tool
	@echo "Ready: $(DEV)/bin/penstock, $(DEV)/bin/python"

serve: $(SERVE)/.stamp ## run the server; flags in ARGS, as in: make serve ARGS="--memory"
	@exec $(SERVE)/bin/penstock serve $(ARGS)

build: $(DEV)/.stamp ## make the wheel and the source package, in dist
	$(DEV)/bin/python -m hatchling build

test: check browser ## everything a change must pass: check, then all tests but the nightly ones
	$(DEV)/bin/python -m pytest -n $(WORKERS) --dist worksteal tests --ignore tests/tidy $(ARGS)

browser: $(DEV)/.stamp # find or install the Chromium that the tests of the console need
	@$(DEV)/bin/python -m tests.console.browser

check: $(DEV)/.stamp ## format, lint, types of Python, format and lint of the console, and the rules of tests/tidy
	$(DEV)/bin/ruff format --check .
	$(DEV)/bin/ruff check .
	$(DEV)/bin/oxfmt --check $(SCRIPTS)
	$(DEV)/bin/oxlint $(CONSOLE)
	$(DEV)/bin/mypy & types=$$!; $(DEV)/bin/python -m pytest -q tests/tidy; rules=$$?; wait $$types && exit $$rules

bench: $(DEV)/.stamp ## print the rates, at an empty queue and at a deep one
	$(DEV)/bin/python -m benchmarks $(ARGS)

pipeline: $(DEV)/.stamp ## a broker, traffic through every door, a pipeline on Spark, and what came out
	@$(DEV)/bin/python examples/pipelines/demo.py

# Each part fits into an hour on two cores; the parts one after the other are the whole.
NIGHTLY := doors journal model broker text soak spark oldest packages order
SEEDS := 1 2 3
PART ?= $(NIGHTLY)

pictures: $(DEV)/.stamp browser ## update the README's picture of the console and tests/console/layout.json
	$(DEV)/bin/python -m tests.console.pictures

nightly: ## the long tests, with their large numbers; one part of them with PART=, as in: make nightly PART=journal
	@$(foreach part,$(PART),$(if $(filter $(part),$(NIGHTLY)),,$(error There is no part $(part). There are: $(NIGHTLY))))
	@for part in $(PART); do echo "== nightly: $$part"; $(MAKE) --no-print-directory nightly-$$part || exit 1; done

NIGHT = PENSTOCK_NIGHTLY=1 $(DEV)/bin/python -m pytest -n $(WORKERS) --dist worksteal -m nightly --durations 10 $(ARGS)
SIMULATION := tests/simulation

nightly-doors: $(DEV)/.stamp browser # all tests that no other part names
	$(NIGHT) tests $(addprefix --ignore ,$(SIMULATION) tests/soak tests/spark tests/packages)
nightly-journal: $(DEV)/.stamp
	$(NIGHT) $(SIMULATION)/journal
nightly-model: $(DEV)/.stamp
	$(NIGHT) $(wildcard $(SIMULATION)/test_model*.py)
nightly-broker: $(DEV)/.stamp
	$(NIGHT) $(SIMULATION) $(addprefix --ignore ,$(SIMULATION)/journal $(SIMULATION)/text $(wildcard $(SIMULATION)/test_model*.py))
nightly-text: $(DEV)/.stamp
	$(NIGHT) $(SIMULATION)/text
nightly-soak: $(DEV)/.stamp
	$(NIGHT) tests/soak
nightly-spark: $(DEV)/.stamp
	$(NIGHT) tests/spark
nightly-oldest: $(OLDEST)/.stamp # every test of Spark, not only the long ones, on the oldest release we run on
	$(OLDEST)/bin/python -m pytest -n $(WORKERS) --dist worksteal tests/spark $(ARGS)

nightly-order: $(DEV)/.stamp browser # each file alone, tests with fixtures of their own, then everything in three orders
	$(DEV)/bin/python -m tests.alone
	$(DEV)/bin/python -m pytest -n $(WORKERS) --dist worksteal tests --ignore tests/spark --alone $(ARGS)
	for seed in $(SEEDS); do $(DEV)/bin/python -m pytest -n $(WORKERS) --dist worksteal tests --seed $$seed $(ARGS) || exit 1; done

nightly-packages: $(DEV)/.stamp # the wheel in clean environments, with each extra, on every Python we name that is here
	$(NIGHT) tests/packages

# The resolver sees no local indexes, so that a lock holds what anybody can fetch, and no place it came from.
COMPILE := PIP_CONFIG_FILE=/dev/null PIP_EXTRA_INDEX_URL= PIP_FIND_LINKS= $(LOCK)/bin/pip-compile --quiet --upgrade \
	--generate-hashes --strip-extras --allow-unsafe --no-header \
	--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-emit-options

lock: $(LOCK)/.stamp ## choose the newest versions and write locks/*.txt
	$(COMPILE) --extra google --extra azure --extra flight --extra spark --extra delta \
		--output-file locks/test.txt pyproject.toml locks/build.in locks/test.in
	$(COMPILE) --extra google --extra azure --extra flight --constraint locks/test.txt --output-file locks/serve.txt \
		pyproject.toml locks/build.in
	$(COMPILE) --extra google --extra azure --constraint locks/serve.txt --output-file locks/image.txt \
		pyproject.toml locks/build.in
	$(COMPILE) --output-file locks/spark42.txt locks/spark42.in

docs: $(DEV)/.stamp ## write docs/settings.md, docs/cli.md and docs/compatibility.md from settings, commands and tests
	@$(DEV)/bin/python -m tests.tidy.settings_page > docs/settings.md
	@$(DEV)/bin/python -m tests.tidy.cli_page
	@$(DEV)/bin/python -m tests.compatibility.page > docs/compatibility.md

clean: ## remove environments and caches; penstock-data stays
	rm -rf $(SERVE) $(DEV) $(OLDEST) $(LOCK) .hypothesis .mypy_cache .pytest_cache .ruff_cache dist

python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "Penstock needs Python 3.11 or newer; '$(PYTHON)' is not. Name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "'$(PYTHON)' cannot make virtual environments; install its venv package (python3-venv on Debian)." >&2; exit 1; }

$(SERVE)/.stamp: locks/serve.txt pyproject.toml | python
	$(call install,$(SERVE),locks/serve.txt)

$(DEV)/.stamp: locks/test.txt pyproject.toml | python
	$(call install,$(DEV),locks/test.txt)

$(OLDEST)/.stamp: locks/test.txt locks/spark42.txt pyproject.toml | python
	$(call install,$(OLDEST),locks/test.txt)
	@$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement locks/spark42.txt
	@touch $@

$(LOCK)/.stamp: Makefile | python
	$(PYTHON) -m venv $(LOCK)
	$(LOCK)/bin/python -m pip install --quiet --disable-pip-version-check '$(PIP_TOOLS)'
	@touch $@

# $(1) environment, $(2) lock. The build backend comes out of the lock, hence no build isolation.
define install
	@echo "Preparing $(1) from $(2) ..."
	@$(PYTHON) -m venv $(1)
	@$(1)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement $(2)
	@$(1)/bin/python -m pip uninstall -qqq --yes penstock  # the name of the project until it became penstock-broker
	@$(1)/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@touch $@
endef
