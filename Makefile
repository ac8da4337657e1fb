# The two commands of a new checkout: `make demo` and `make test`.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   ?= .venv
BIN     = $(VENV)/bin
# Kept equal to what the trained models were made with; a plain version number takes the CPU build.
TORCH  ?= torch==2.13.0
FUZZ_MINUTES ?= 20
FUZZ_SEED    ?= 0

.PHONY: demo test test-all test-every coverage durations lint docs fuzz fuzz-properties bench bench-kernels train clean

demo: $(VENV)/.base
	$(BIN)/polydl optimize examples/matmul.c

# The first tier: five minutes (tests/tiers.py).
test: $(VENV)/.test
	$(BIN)/python -m pytest -q -n auto --dist worksteal --first

# The second tier: every test, and of those with many cases that take long half (tests/tiers.py).
test-all: $(VENV)/.test
	$(BIN)/python -m pytest -q -n auto --dist worksteal --second -m "not timing"
	$(BIN)/python -m pytest -q -m timing

# Every case of every test: three quarters of an hour on two fast processors, twice that on slow ones.
test-every: $(VENV)/.test
	$(BIN)/python -m pytest -q -n auto --dist worksteal -m "not timing"
	$(BIN)/python -m pytest -q -m timing

# The lines of polydl that the first tier runs, those in other processes not counted.
coverage: $(VENV)/.test
	$(BIN)/python -m pytest -q -n auto --dist worksteal --first --cov=polydl --cov-report=term-missing:skip-covered

# What every test takes, written down anew: it decides what the first tier is.
durations: $(VENV)/.test
	$(BIN)/python -m pytest -q -n auto --dist worksteal -m "not timing" --record-durations

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The documentation as a site in build/site, which needs no network: open index.html. A warning is an error.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

fuzz: $(VENV)/.test
	$(BIN)/python -m tests.fuzz --minutes $(FUZZ_MINUTES) --seed $(FUZZ_SEED)
	$(BIN)/python -m tests.fuzz --graphs --minutes $(FUZZ_MINUTES) --seed $(FUZZ_SEED)

# Every property test with many more examples: hours.
fuzz-properties: $(VENV)/.test
	$(BIN)/python -m pytest -q -n auto --dist worksteal -m "hypothesis and not timing" --hypothesis-profile=fuzz

# polydl's own speed against experiments/tool_speed.json: fails where a stage has become slower.
bench: $(VENV)/.test
	$(BIN)/python experiments/tool_speed.py

# The speed of what polydl writes, beside MKL, oneDNN and LIBXSMM: hours, with the machine for itself.
bench-kernels: $(VENV)/.test
	$(BIN)/python experiments/gemm.py
	$(BIN)/python experiments/conv.py --network resnet

# The shipped rankers from the shipped data: under ten minutes without a graphics card.
train: $(VENV)/.test
	$(BIN)/polydl train --data trained_models/data --out trained_models/dnn.safetensors
	$(BIN)/polydl train --kind dnn-paper --data trained_models/data \
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

$(VENV)/.docs: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -e '.[docs]'
	touch $@

clean:
	rm -f examples/*.polydl.c
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
