# What people and CI run. Each target sets up what it needs, once, in .venv.

BIN := .venv/bin
C_FILES = $(shell find firmware tests -name '*.[ch]' -not -path '*golden*')
PYTHON_FOLDERS := tinytrain codegen tests scripts
ARGS ?=
KERNEL_BOARDS := --board mps2-an386 --board mps2-an500 --board mps3-an547

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo board test check fmt golden bench bench-compare fuzz clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

demo: .venv/ready-demo ## train a small network on your machine, in under a minute
	@$(BIN)/tinytrain demo $(ARGS)

board: .venv/ready-board ## set up PlatformIO, ARM compiler and QEMU, and write an example for docs/board.md
	@$(BIN)/python -m tinytrain.demo example

test: .venv/ready-test ## run the tests; ARGS="-k name" and the like are handed to pytest
	@$(BIN)/pytest -n auto $(ARGS)

check: .venv/ready-check ## lint, format, types, layers, sizes; changes nothing
	$(BIN)/ruff check $(PYTHON_FOLDERS)
	$(BIN)/ruff format --check $(PYTHON_FOLDERS)
	$(BIN)/mypy $(PYTHON_FOLDERS)
	$(BIN)/lint-imports
	$(BIN)/clang-format --dry-run -Werror $(C_FILES)
	$(BIN)/python scripts/check_sizes.py

fmt: .venv/ready-check ## format Python and C
	$(BIN)/ruff check --select I --fix $(PYTHON_FOLDERS)
	$(BIN)/ruff format $(PYTHON_FOLDERS)
	$(BIN)/clang-format -i $(C_FILES)

golden: .venv/ready-test ## write the expected files of the tests anew; then read the diff
	@$(BIN)/pytest --update-golden $(ARGS)

bench: .venv/ready-test ## count instructions and bytes of the models at hand, in QEMU
	@$(BIN)/python scripts/bench.py $(ARGS)

bench-compare: .venv/ready-test ## fail where a count in bench/counts.json grew by more than 2 %; needs the zoo
	@$(BIN)/tinytrain bench kernels $(KERNEL_BOARDS) --compare bench/counts.json
	@$(BIN)/tinytrain bench models --compare bench/counts.json $(ARGS)

fuzz: .venv/ready-test ## damaged model files, then damaged frames of the link; ARGS="--seconds 600"
	@$(BIN)/python scripts/fuzz.py $(ARGS)
	@$(BIN)/python scripts/fuzz_link.py $(ARGS)

clean: ## remove what builds and tests left; .venv stays
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find $(PYTHON_FOLDERS) -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/ready-%: pyproject.toml scripts/setup.sh
	@sh scripts/setup.sh $*
