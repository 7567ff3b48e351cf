# Everything lives in .venv and .vesper; `make clean` removes both caches and data, not .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
VESPER_HOME ?= $(CURDIR)/.vesper
EXTRAS := core,embed,train,trl,devices,webapps,dagster,s3,ray,production,tracking,docs,dev
WORKERS ?= auto
PORT ?= 3000
MINUTES ?= 20
SEED ?= 0
export VESPER_HOME
# Nothing here phones home.
export DAGSTER_DISABLE_TELEMETRY := 1
export HF_HUB_DISABLE_TELEMETRY := 1
export DO_NOT_TRACK := 1

.DEFAULT_GOAL := help
.PHONY: help setup demo check check-python quick test lint types structure dev docs docs-serve bench gpu soak soak-desktop ui nights nano-base serve attack growth lock sbom clean

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.stamp ## the environment and a browser, once

$(VENV)/.stamp: pyproject.toml constraints.txt deploy/install.sh
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Vesper needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V). Say make PYTHON=python3.12"; exit 1; }
	@if ! [ -x $(BIN)/pip ]; then \
		if ! $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null; then \
			if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
				apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv; \
			else \
				echo "Python's venv module is missing: install it first (Debian, Ubuntu: apt-get install python3-venv)"; exit 1; \
			fi; \
		fi; \
		$(PYTHON) -m venv $(VENV); \
	fi
	@deploy/install.sh $(BIN)/python $(EXTRAS) --editable
	@browser=$$(deploy/get_browser.sh $(CURDIR)/$(BIN)/python) && echo "browser: $$(printf '%s\n' "$$browser" | tail -n 1)"
	@deploy/get_devices.sh
	@touch $@

demo: setup ## the whole graph on embedded data; prints what improved, leaves report.html and report.json (SIZE=tiny: a first look)
	$(BIN)/vesper demo $(if $(SIZE),--size $(SIZE))

check: lint ## the inner loop: lint, and the tests that are quick and need no browser, device or server
	@$(MAKE) --no-print-directory quick

check-python: ## the same tests on another Python, in an environment of its own (PYTHON=python3.13)
	@$(MAKE) --no-print-directory VENV=.venv-$(notdir $(PYTHON)) quick

quick: setup
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -q -m "not slow and not real_parts"

test: lint ## lint, types, import directions, all tests
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

lint: setup ## ruff, mypy, import contracts, figures of the structure
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target types structure

types: ## a part of lint: mypy, by far the longest on its first run
	$(BIN)/mypy

structure: ## a part of lint: ruff, import contracts, figures of the structure
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python bench/structure.py

dev: setup ## Dagster's UI on http://127.0.0.1:$(PORT), with the demo's history
	$(BIN)/vesper web --port $(PORT)

docs: setup ## the documentation into .vesper/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

docs-serve: setup ## the documentation on http://127.0.0.1:8001, built anew while one writes
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --dev-addr 127.0.0.1:8001

bench: setup ## side-by-side figures into bench/results.json
	$(BIN)/python bench/run.py

gpu: setup ## what a GPU makes of the trainer, in one report, in at most 25 minutes (needs one of 80 GB)
	$(BIN)/python bench/gpu.py

growth: setup ## what each stage takes at 1, 10 and 100 times the rows: a table, a plot, a failure where one grows faster than its data
	$(BIN)/python bench/growth.py --out $(VESPER_HOME)/growth

attack: setup ## what strangers may try, tried on us: a table, in at most ten minutes
	$(BIN)/python bench/attack.py

soak: setup ## devices, nodes and workers killed at random under the generation loop: make soak MINUTES=20 SEED=0
	$(BIN)/python bench/soak.py --minutes $(MINUTES) --seed $(SEED) --json $(VESPER_HOME)/soak.json

soak-desktop: setup ## desktops with real programs, killed at random behind a gateway: make soak-desktop MINUTES=20 SEED=0
	$(BIN)/python bench/soak_desktop.py --minutes $(MINUTES) --seed $(SEED) --json $(VESPER_HOME)/soak_desktop.json

ui: setup ## what people wait for in the UI, with every source in the graph
	$(BIN)/python bench/ui.py

nights: setup ## three nights on PostgreSQL, a night every two minutes, everything killed during the second
	$(BIN)/python bench/nights.py --bench $(VESPER_HOME) --json $(VESPER_HOME)/nights.json

nano-base: setup ## build the nano model that sees, in parts (hours on two cores): kill it and it goes on
	bash deploy/get_ui_kits.sh $(VESPER_HOME)/cache/nano_base/ui_kits
	$(BIN)/vesper nano-base --work $(VESPER_HOME)/cache/nano_base

serve: ## vLLM in an environment of its own (needs a GPU): make serve MODEL=Qwen/Qwen3-VL-8B-Instruct
	@[ -n "$(MODEL)" ] || { echo "say which model: make serve MODEL=Qwen/Qwen3-VL-8B-Instruct"; exit 1; }
	@[ -x .venv-serve/bin/vllm ] || { $(PYTHON) -m venv .venv-serve && .venv-serve/bin/pip install --quiet --upgrade pip; }
	@[ -x .venv-serve/bin/vllm ] || .venv-serve/bin/pip install --group serve
	.venv-serve/bin/vllm serve $(MODEL) --host 127.0.0.1 --port 8000

# The pins stay where they fit; `make lock UPGRADE=--upgrade` takes the newest that do. PyTorch has builds without CUDA
# in an index of its own alone: the one that was tested is locked beside the registry's.
TORCH_CPU := 6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b
lock: ## constraints.txt anew from pyproject.toml, with the hashes of the registry
	@[ -x .venv-lock/bin/uv ] || { $(PYTHON) -m venv .venv-lock && .venv-lock/bin/pip install --quiet uv; }
	.venv-lock/bin/uv pip compile --quiet --universal --python-version 3.11 --all-extras --generate-hashes --no-annotate \
		--custom-compile-command "make lock" $(UPGRADE) --output-file constraints.txt pyproject.toml
	sed -i.before -E '/$(TORCH_CPU)/d; s/^torch==[^ ]+ .*/&\n    --hash=sha256:$(TORCH_CPU) \\/' constraints.txt && rm constraints.txt.before

sbom: ## a bill of materials of what constraints.txt locks (CycloneDX JSON), into sbom.json
	@$(PYTHON) deploy/make_sbom.py --lock constraints.txt > sbom.json
	@echo "sbom.json: $$(grep -c '"purl"' sbom.json) packages"

clean: ## remove data, reports and caches (not .venv)
	rm -rf $(VESPER_HOME) report.json report.html bench/results.json bench/generation.json .pytest_cache .mypy_cache .ruff_cache .hypothesis
