# Each target sets up all that it needs: a virtual environment with the pinned dependencies and this package.
# pip stands outside of the environment, so Debian's python3-venv package is not needed.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(PYTHON) -m pip --python $(BIN)/python --disable-pip-version-check

.PHONY: demo test lint bench docs clean

demo: .venv/ready
	$(BIN)/ramify demo

test: .venv/ready lint
	$(BIN)/pytest -n 2

lint: .venv/ready
	$(BIN)/ruff check src tests examples tools studies
	$(BIN)/ruff format --check src tests examples tools studies
	$(BIN)/mypy

bench: .venv/ready
	$(BIN)/ramify bench

docs: .venv/ready
	$(BIN)/mkdocs build --strict

.venv/ready: requirements.lock pyproject.toml
	$(PYTHON) -m venv --without-pip .venv
	$(PIP) install --quiet -r requirements.lock
	$(PIP) install --quiet --no-deps timm==1.0.31  # it asks for torchvision, which would want another torch
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	touch $@

clean:
	rm -rf .venv build dist site .mypy_cache .ruff_cache .pytest_cache
