# Everything lives in .venv; `make demo` and `make test` set it up by themselves.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
BROWSER := .venv/.browser
DOCS := .venv/.docs
FLOWER := .venv-flower/bin
SIONNA := .venv-sionna/bin

.PHONY: setup demo demo-flower picture docs test test-browser test-package test-flower test-sionna notebooks fuzz kill \
	lint constraints bench bench-check \
	bench-peers clean

setup: $(STAMP)

# torch comes first and alone: its constraint picks the CPU build, and nothing after it may replace it.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet torch -c constraints.txt
	$(BIN)/python -m pip install --quiet -e '.[dev]' -c constraints.txt
	touch $(STAMP)

demo: setup
	$(BIN)/pfels compare demo --total-epsilon 16 --seeds 0,1,2 --jobs 2 --out runs/demo
	@echo "report: $$($(BIN)/pfels report runs/demo)"

# Four real SuperNodes on loopback, held to what the simulator makes of the same config.
demo-flower: .venv-flower/.installed
	$(FLOWER)/python -P -m pfels.flower.demo runs/demo-flower

picture: setup
	$(BIN)/python docs/pictures.py runs/demo docs/images/demo.png

# The documentation site, as pages to open from the disk or to put on any server; a warning ends the build. (Not with
# --quiet: mkdocs then counts no warnings.)
docs: setup $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "site: build/site/index.html"

$(DOCS): $(STAMP)
	$(BIN)/python -m pip install --quiet -e '.[docs]' -c constraints.txt
	touch $(DOCS)

test: setup
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2

# Opens a report and the site in a real Chromium. Debian's packages are installed where they are missing, which only
# root may do.
test-browser: setup docs $(BROWSER)
	@{ command -v chromium && command -v chromedriver; } >/dev/null \
	|| { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq chromium chromium-driver >/dev/null; } \
	|| { echo "test-browser: needs chromium and chromedriver: apt-get install chromium chromium-driver" >&2; exit 1; }
	$(BIN)/python -m pytest -q tests/browser

$(BROWSER): $(STAMP)
	$(BIN)/python -m pip install --quiet -e '.[browser]' -c constraints.txt
	touch $(BROWSER)

# Wheel and sdist, built, installed in a clean environment and tried.
test-package: setup
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q tests/package

# The notebooks, executed; build/notebooks has them with their results.
notebooks: .venv/.notebooks
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python notebooks/execute.py build/notebooks

.venv/.notebooks: $(STAMP)
	$(BIN)/python -m pip install --quiet -e '.[notebooks]' -c constraints.txt
	touch $@

# Flower gets an environment of its own: it asks for older versions of what we share with it.
test-flower: .venv-flower/.installed
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(FLOWER)/python -m pytest -q -n 2 --maxschedchunk 1 tests/flower

.venv-flower/.installed: pyproject.toml constraints-flower.txt
	test -x $(FLOWER)/python || $(PYTHON) -m venv .venv-flower
	$(FLOWER)/python -m pip install --quiet torch -c constraints-flower.txt
	$(FLOWER)/python -m pip install --quiet -e '.[flower]' 'pytest>=8.2' 'pytest-xdist>=3.6' -c constraints-flower.txt
	touch $@

# Sionna, an independent link-level simulator, gets one too: it asks for newer versions than we need.
test-sionna: .venv-sionna/.installed
	$(SIONNA)/python -m pytest -q tests/sionna

.venv-sionna/.installed: pyproject.toml constraints.txt
	test -x $(SIONNA)/python || $(PYTHON) -m venv .venv-sionna
	$(SIONNA)/python -m pip install --quiet torch -c constraints.txt
	$(SIONNA)/python -m pip install --quiet -e '.[sionna]' 'pytest>=8.2' -c constraints.txt
	touch $@

# Hostile inputs for every reader; SECONDS=1800 for a long run. Messages get a tenth of the time: they are quick.
SECONDS ?= 60
SEED ?= 0
fuzz: setup .venv-flower/.installed
	$(BIN)/python -m tests.fuzz $(SECONDS) --seed $(SEED)
	$(FLOWER)/python -m tests.fuzz $$(($(SECONDS) / 10 + 1)) --seed $(SEED)

# Commands killed at random moments, byte by byte against those that nobody killed; KILLS=300 for a long run.
KILLS ?= 30
kill: setup
	$(BIN)/python -m tests.kill $(KILLS) --seed $(SEED)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# The newest versions that pyproject.toml allows, written down for everybody.
constraints:
	.ci/constraints

bench: setup
	$(BIN)/python benchmarks/bench.py

# Fails if a ratio to the plain loop has fallen below 0.8 of that in docs/results, measured on the same processor.
bench-check: setup
	$(BIN)/python benchmarks/check.py

# The peers get an environment of their own: what they pin must not touch ours.
bench-peers: setup .venv-peers/.installed
	$(BIN)/python benchmarks/peers.py

# fluke asks for torchvision, whose usual build needs PyTorch with CUDA, and for logging services. Rounds need neither: what
# they need is named here.
.venv-peers/.installed: constraints.txt Makefile
	test -x .venv-peers/bin/python || $(PYTHON) -m venv .venv-peers
	grep '^torch==' constraints.txt > .venv-peers/torch.txt
	.venv-peers/bin/python -m pip install --quiet torch -c .venv-peers/torch.txt
	.venv-peers/bin/python -m pip install --quiet 'pfl[pytorch]' 'flwr[simulation]' cerberus diskcache matplotlib \
		omegaconf pandas psutil rich scikit-learn seaborn torchmetrics -c .venv-peers/torch.txt
	.venv-peers/bin/python -m pip install --quiet --no-deps fluke-fl==0.8.1
	touch $@

clean:
	rm -rf .venv .venv-flower .venv-sionna .venv-peers build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
