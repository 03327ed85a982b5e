# Two commands on a fresh machine: `make demo` runs the main job, `make test` the tests.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DEMO_TASK ?= examples/gelu_layernorm.py

.PHONY: help demo test check lint types bench turnaround small-model clean

help: ## List the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

demo: $(VENV)/.ready ## Set up, make one real module faster, write an HTML report
	$(BIN)/kernelwright optimize $(DEMO_TASK) --report out/demo.html -o out/demo_kernel.py

test: $(VENV)/.ready-dev ## Set up and run all tests
	$(BIN)/python -m pytest -n auto --dist loadfile

check: lint types ## Lint and strict types

lint: $(VENV)/.ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.ready-dev
	$(BIN)/mypy

bench: $(VENV)/.ready ## Our suite against eager and torch.compile (about an hour on two cores)
	$(BIN)/kernelwright bench --out out/bench

turnaround: $(VENV)/.ready-dev ## Build-to-verdict time beside torch.utils.cpp_extension.load_inline
	$(BIN)/python benchmarks/turnaround.py

small-model: $(VENV)/.ready-dev ## A whole run with a real small model on loopback (builds its server: minutes)
	$(BIN)/python scripts/small_model.py

clean: ## Remove the environment and everything generated
	rm -rf $(VENV) .venv-small-model out build src/*.egg-info .pytest_cache .mypy_cache .ruff_cache

$(VENV)/.ready: pyproject.toml scripts/setup_environment.py
	$(PYTHON) scripts/setup_environment.py $(VENV)
	@touch $@

$(VENV)/.ready-dev: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	@touch $@
