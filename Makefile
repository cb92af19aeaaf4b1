# Everything a newcomer or a CI machine runs. Needs Python 3.11+ and make, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Pins what a build needs, too, which `-c` does not: older pips read the first, newer ones the second.
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt

.PHONY: demo test lint types search bench clean

$(VENV)/core: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/full: $(VENV)/core requirements-test.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -e . -r requirements-test.txt
	touch $@

demo: $(VENV)/core
	@$(BIN)/python examples/demo.py

lint: $(VENV)/full
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/full
	$(BIN)/mypy

test: lint types
	$(BIN)/pytest -n 2 --dist loadgroup --no-skips

# The property tests with examples that chance chooses: not for a verdict, but to find what is not known yet.
search: $(VENV)/full
	$(BIN)/pytest -n 2 --dist loadgroup --hypothesis-profile=search

.venv-bench/ready: constraints.txt Makefile
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/pip install --quiet --disable-pip-version-check langgraph langgraph-checkpoint-sqlite \
		langgraph-checkpoint-postgres 'psycopg[binary]' psycopg-pool
	touch $@

bench: $(VENV)/full .venv-bench/ready
	$(BIN)/python -m bench

clean:
	rm -rf $(VENV) .venv-bench .demo
