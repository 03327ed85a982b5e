# Two commands on a fresh machine: `make demo` runs the main job, `make test` the tests.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DEMO_TASK ?= examples/gelu_layernorm.py
RECIPES ?= kernelwright,kernelskill,kernelskill-no-long-term,kernelskill-no-short-term,stark,stark-no-search,stark-no-plan,scientist,cupilot,fsr,best-of-n,refine

.PHONY: help demo test test-slow check lint types bench compare learning turnaround small-model gpu-check docs clean

help: ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

demo: $(VENV)/.ready ## Set up, make one real module faster, write an HTML report
	$(BIN)/kernelwright optimize $(DEMO_TASK) --report out/demo.html -o out/demo_kernel.py

test: $(VENV)/.ready-dev ## Set up and run the tests
	$(BIN)/python -m pytest -n auto --dist loadfile

test-slow: $(VENV)/.ready-dev ## The tests that take long: the whole corpus of cheats, kills, real compilers
	$(BIN)/python -m pytest -m slow -n auto --dist loadfile --no-loadscope-reorder

check: lint types ## Lint and strict types

lint: $(VENV)/.ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.ready-dev
	$(BIN)/mypy

bench: $(VENV)/.ready ## Our suite against eager and torch.compile (hours; for a look add ONLY='*[05]_*')
	$(BIN)/kernelwright bench --only '$(or $(ONLY),*)' --out out/bench

compare: $(VENV)/.ready ## Every recipe on the suite under one budget (two hours; for a look add ONLY='*[05]_*')
	$(BIN)/kernelwright compare --only '$(or $(ONLY),*)' --recipes $(RECIPES) --budget-evaluations 8 \
		--reuse-measurements --out out/compare

learning: $(VENV)/.ready-dev ## What a run gains from what other tasks taught: hours; add ARGS="--limit 2" for a look
	$(BIN)/python -m lab.benchmarks.learning $(ARGS)

turnaround: $(VENV)/.ready-dev ## Build-to-verdict time beside torch.utils.cpp_extension.load_inline
	$(BIN)/python -m lab.benchmarks.turnaround

small-model: $(VENV)/.ready-dev ## A whole run with a real small model on loopback (builds its server: minutes)
	$(BIN)/python scripts/small_model.py

gpu-check: $(VENV)/.ready-dev ## On a machine with a GPU: all that needs one, under nine minutes (docs/gpu-check.md)
	$(BIN)/python scripts/gpu-check $(ARGS)

docs: $(VENV)/.ready-dev ## The site, in out/site: the pages of docs/ and the API from docstrings
	$(BIN)/python -m pip install --quiet -e '.[docs]'
	$(BIN)/python -m mkdocs build --strict

clean: ## Remove the environment and everything generated
	rm -rf $(VENV) .venv-small-model out build src/*.egg-info .pytest_cache .mypy_cache .ruff_cache

$(VENV)/.ready: pyproject.toml scripts/setup_environment.py
	$(PYTHON) scripts/setup_environment.py $(VENV)
	@touch $@

$(VENV)/.ready-dev: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	@touch $@
