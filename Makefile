# `make test` and `make demo` set everything up by themselves: a virtual environment in .venv with the pinned versions.

PYTHON ?= python3
BIN := .venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: setup test lint types tests fuzz demo clean

setup: .venv/ready

# --use-pep517: one dependency of the tests comes as source alone, whose setup.py pip would otherwise run without what it needs.
.venv/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "bertlab needs Python 3.11 or later; run: make PYTHON=python3.11 …")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --use-pep517 --constraint constraints.txt --editable '.[dev]'
	touch $@

test: lint types tests

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

tests: setup
	$(BIN)/pytest --numprocesses 2 --dist worksteal --quiet

fuzz: setup
	BERTLAB_TESTS=fuzz $(BIN)/pytest --numprocesses 2 --dist worksteal --quiet tests/security/test_fuzz_files.py

demo: setup
	$(BIN)/bertlab ablate --grid table5 --scale smoke logger=none

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
