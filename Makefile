# Two commands: `make demo` and `make test`. Both create an environment in .venv.
# `make help` lists the rest.

PYTHON ?= python3
JOBS   ?= 2
EXTRAS ?= dev,docs,fuzz
BEYOND ?= dev,gpu,cluster,witness,onnxruntime
TORCHES ?= 2.11.0 2.12.1 2.13.0
DEMO   ?= verify examples/demo.json
VENV   ?= .venv
BIN    := $(VENV)/bin
COMMA  := ,
STAMP  := $(VENV)/installed-$(subst $(COMMA),-,$(EXTRAS))

# cmake and ninja come from the environment, as wheels.
export PATH := $(CURDIR)/$(BIN):$(PATH)
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

RUNTIME := $(shell find runtime -type f -not -path '*/tests/*' 2>/dev/null)

# $(call step,NAME,COMMAND,WHAT TO DO WHEN IT FAILS)
step = @echo '== $(1)'; $(2) || { echo; echo 'FAILED: $(1). $(3)' >&2; exit 1; }

.PHONY: help demo test test-extras test-torches test-all quick docs env lint format pytest ctest snapshots replay sanitize asan ubsan clean

help: ## list the targets
	@sed -nE 's/^([a-z -]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

demo: $(STAMP) ## generate a fused kernel, run it on the CPU twin, compare with NumPy
	$(call step,demo,$(BIN)/autofuse $(DEMO),The message above names the cause.)

test: lint docs pytest ctest sanitize ## everything that must pass: lint, types, floors, the site, pytest, ctest, sanitizers
	@echo; echo 'All tests passed.'

test-extras: ## the tests that `make test` skips: PyTorch, Triton, distributed, onnxruntime, nvcc, in an environment of their own
	@$(MAKE) --no-print-directory pytest VENV=.venv-extras EXTRAS=$(BEYOND) SELECT="--extras --snapshot-warn-unused"
	@echo; echo 'All tests of the extras passed.'

# Triton 3.6, which belongs to PyTorch 2.11, does not interpret with NumPy 2.4.
test-torches: ## the tests of PyTorch with each older version that is supported, in environments of their own
	@for t in $(TORCHES); do $(MAKE) --no-print-directory pytest VENV=.venv-torch-$$t EXTRAS=$(BEYOND) \
	  WITH="torch==$$t numpy~=2.3.0" SELECT="tests/torch --extras" || exit 1; done

test-all: ## all of these with all cases and whole corpora, as before a release
	@CORPUS=all $(MAKE) --no-print-directory test test-extras test-torches

# A test that compiles is one of the twin; without that mark it fails here, since g++ knows no such option.
quick: lint ## what shows most mistakes in two minutes: lint, types, unit tests and snapshots, nothing compiled
	$(call step,quick,AUTOFUSE_CXXFLAGS=-fnothing-is-compiled $(BIN)/pytest tests/unit tests/snapshot -n $(JOBS) --dist worksteal -q -m "not twin and not slow and not corpus",All the rest: make test)

docs: $(STAMP) ## build the site of docs/ into build/site; a link that leads nowhere is an error
	$(call step,docs,NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet,Each WARNING names the page and the link. It needs the extra docs: make docs EXTRAS=docs)

env: $(STAMP) ## create .venv and install autofuse into it, with live edits

# The prerequisites change what is installed: dependencies, version, compiled code and headers.
$(STAMP): pyproject.toml CMakeLists.txt autofuse/__init__.py $(RUNTIME)
	$(call step,environment,$(PYTHON) -c "$$CHECK_PYTHON",Install what is missing and run make again.)
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(call step,install,$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]' $(WITH),Is the package index reachable and the C++ code sound?)
	@touch $@

define CHECK_PYTHON
import os, shutil, sys, sysconfig
need = []
if sys.version_info < (3, 10):
    sys.exit('autofuse needs Python 3.10 or later: make PYTHON=python3.11 ...')
try:
    import ensurepip, venv
except ImportError:
    need.append('python3-venv')
if not os.path.exists(os.path.join(sysconfig.get_path('include'), 'Python.h')):
    need.append('python3-dev')
if not shutil.which(os.environ.get('CXX', 'g++')):
    need.append('g++')
if need:
    sys.exit('missing: apt-get install ' + ' '.join(need))
endef
export CHECK_PYTHON

lint: $(STAMP) ## ruff, mypy, import-linter
	$(call step,ruff check,$(BIN)/ruff check .,Many of these are repaired by: make format)
	$(call step,ruff format,$(BIN)/ruff format --check .,Repair it with: make format)
	$(call step,mypy,$(BIN)/mypy,Each line above is file:line: error.)
	$(call step,first words,$(BIN)/python tools/first_words.py,A docstring says what a thing returns or does.)
	$(call step,import floors,$(BIN)/lint-imports --no-logo,A module imports from a floor above its own: see tool.importlinter in pyproject.toml.)

format: $(STAMP) ## let ruff repair what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

pytest: $(STAMP) ## the Python tests; CORPUS=all for whole corpora, TEST_SEED=... for the data of another run
	$(call step,pytest,$(BIN)/pytest $(SELECT) -n $(JOBS) --dist worksteal,Run one test alone with: $(BIN)/pytest -k NAME. If a snapshot changed on purpose: make snapshots)

snapshots: $(STAMP) ## accept the present output as the expected output; read the diff before you commit it
	$(BIN)/pytest tests/snapshot tests/e2e/cli/test_cli_errors.py tests/e2e/kernels/test_ub_overflow.py --snapshot-update -q -m "not twin"
	@git status --short tests

replay: $(STAMP) ## generate all graphs as BASE does and as here, and report what differs (FULL=1: the whole corpus)
	@$(BIN)/python tools/replay.py --jobs $(JOBS) $(if $(BASE),--base $(BASE)) $(if $(HEAD),--head $(HEAD)) $(if $(FULL),--full)

ctest sanitize asan ubsan: $(STAMP) ## the C++ tests of the twin, plain or under a sanitizer
	$(call step,$@: build,cmake --preset $(PRESET) >/dev/null && cmake --build --preset $(PRESET) --parallel $(JOBS),Warnings are errors here.)
	$(call step,$@: run,ctest --preset $(PRESET) --parallel $(JOBS),Run one test alone with: ctest --preset $(PRESET) -R NAME)

ctest: PRESET := dev
sanitize: PRESET := sanitize
asan:  PRESET := asan
ubsan: PRESET := ubsan

clean: ## remove the environment, the builds and the caches
	rm -rf .venv .venv-extras .venv-torch-* build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
