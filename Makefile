# Everything lives in .venv; `make demo` and `make test` set it up by themselves.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: setup demo picture test lint bench clean

setup: $(STAMP)

# torch comes first and alone: its constraint picks the CPU build, and nothing after it may replace it.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet torch -c constraints.txt
	$(BIN)/python -m pip install --quiet -e '.[dev]' -c constraints.txt
	touch $(STAMP)

demo: setup
	$(BIN)/pfels compare demo --seeds 0,1,2 --jobs 2 --out runs/demo

picture: setup
	$(BIN)/python docs/pictures.py runs/demo docs/images/demo.png

test: setup
	$(BIN)/python -m pytest -q

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: setup
	$(BIN)/python benchmarks/local_training.py

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
