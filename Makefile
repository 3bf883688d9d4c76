# Each target sets up all that it needs: a virtual environment with the pinned dependencies and this package.
# pip stands outside of the environment, so Debian's python3-venv package is not needed.
PYTHON ?= python3
BIN := .venv/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
PIP := $(PYTHON) -m pip --python .venv --disable-pip-version-check

.PHONY: demo test lint bench docs dist clean

demo: .venv/ready
	$(BIN)/ramify demo

test: .venv/ready lint
	$(BIN)/pytest -n 2 --dist worksteal

lint: .venv/ready
	$(BIN)/ruff check src tests examples tools studies
	$(BIN)/ruff format --check src tests examples tools studies
	$(BIN)/mypy
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml

bench: .venv/ready
	$(BIN)/ramify bench

docs: .venv/ready
	$(BIN)/mkdocs build --strict
	$(BIN)/pytest tests/test_docs.py tests/test_notebooks.py

dist:
	$(PYTHON) tools/dist.py

.venv/ready: requirements.lock pyproject.toml
	$(PYTHON) -m venv --without-pip .venv
	$(PIP) install --quiet -r requirements.lock
	$(PIP) install --quiet --no-deps timm==1.0.31  # it asks for torchvision, which would want another torch
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	touch $@

clean:
	rm -rf .venv build dist site .mypy_cache .ruff_cache .pytest_cache
