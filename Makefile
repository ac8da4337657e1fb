# The two commands of a new checkout: `make demo` and `make test`.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   ?= .venv
BIN     = $(VENV)/bin
# Kept equal to what the trained models were made with; a plain version number takes the CPU build.
TORCH  ?= torch==2.13.0
FUZZ_MINUTES ?= 20
FUZZ_SEED    ?= 0

.PHONY: demo test lint fuzz fuzz-properties bench train clean

demo: $(VENV)/.base
	$(BIN)/polydl optimize examples/matmul.c

test: $(VENV)/.test
	$(BIN)/python -m pytest -q -n auto --dist worksteal -m "not timing"
	$(BIN)/python -m pytest -q -m timing

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fuzz: $(VENV)/.test
	$(BIN)/python -m tests.fuzz --minutes $(FUZZ_MINUTES) --seed $(FUZZ_SEED)

# Every property test with many more examples: hours.
fuzz-properties: $(VENV)/.test
	$(BIN)/python -m pytest -q -n auto --dist worksteal -m "hypothesis and not timing" --hypothesis-profile=fuzz

bench: $(VENV)/.test
	$(BIN)/python experiments/gemm.py
	$(BIN)/python experiments/conv.py --network resnet

# The shipped rankers from the shipped data: under ten minutes without a graphics card.
train: $(VENV)/.test
	$(BIN)/polydl train --data trained_models/data/measurements.parquet --out trained_models/dnn.safetensors
	$(BIN)/polydl train --kind dnn-paper --data trained_models/data/measurements.parquet \
	    --out trained_models/dnn-paper.safetensors

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -e .
	touch $@

$(VENV)/.test: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet $(TORCH)
	$(BIN)/python -m pip install --quiet -e '.[test,train]'
	touch $@ $(VENV)/.base

clean:
	rm -f examples/*.polydl.c
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
