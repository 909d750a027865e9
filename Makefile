# Everything lives in .venv; `make demo` and `make test` set it up by themselves.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
TOOLS := .venv/.tools
FLOWER := .venv-flower/bin
SIONNA := .venv-sionna/bin

.PHONY: setup demo demo-flower picture docs test test-browser test-package test-flower test-sionna notebooks fuzz kill \
	lint constraints bench bench-check \
	bench-peers clean

setup: $(STAMP)

# $(call install,ENVIRONMENT,CONSTRAINTS): every file is held to the SHA-256 in the constraints. PyTorch comes first and
# alone: the build that pip finds, without CUDA if an index has one, or else the package registry's, which may need
# packages that the other does not. The constraints are complete: pip resolves nothing, and `pip check` must agree. pfels
# itself is built by what was just installed.
define install
	test -x $(1)/bin/python || $(PYTHON) -m venv $(1)
	$(1)/bin/python -m pip download --quiet --no-deps --dest $(1)/torch $$(grep -o '^torch==[^ ]*' constraints-torch.txt)
	$(1)/bin/python -m pip install --quiet --require-hashes --no-deps --no-index --find-links $(1)/torch \
		-r constraints-torch.txt || \
		$(1)/bin/python -m pip install --quiet --require-hashes --no-deps -r constraints-torch.txt
	rm -r $(1)/torch
	if $(1)/bin/python -m pip show torch | grep -q '^Requires:.*nvidia'; then \
		$(1)/bin/python -m pip install --quiet --require-hashes --no-deps -r constraints-cuda.txt; fi
	$(1)/bin/python -m pip install --quiet --require-hashes --no-deps -r $(2)
	$(1)/bin/python -m pip install --quiet --no-deps --no-build-isolation -e .
	$(1)/bin/python -m pip check
endef

$(STAMP): pyproject.toml constraints.txt constraints-torch.txt constraints-cuda.txt
	$(call install,.venv,constraints.txt)
	touch $(STAMP)

# What the site, the tests in a browser and the notebooks need.
$(TOOLS): $(STAMP) constraints-tools.txt
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps -r constraints-tools.txt
	touch $(TOOLS)

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
docs: setup $(TOOLS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "site: build/site/index.html"

test: setup
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2

# Opens a report and the site in a real Chromium. Debian's packages are installed where they are missing, which only
# root may do.
test-browser: setup docs
	@{ command -v chromium && command -v chromedriver; } >/dev/null \
	|| { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq chromium chromium-driver >/dev/null; } \
	|| { echo "test-browser: needs chromium and chromedriver: apt-get install chromium chromium-driver" >&2; exit 1; }
	$(BIN)/python -m pytest -q tests/browser

# Wheel and sdist, built, installed in a clean environment and tried.
test-package: setup
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q tests/package

# The notebooks, executed; build/notebooks has them with their results.
notebooks: setup $(TOOLS)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python notebooks/execute.py build/notebooks

# Flower gets an environment of its own: it asks for older versions of what we share with it.
test-flower: .venv-flower/.installed
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(FLOWER)/python -m pytest -q -n 2 --maxschedchunk 1 tests/flower

.venv-flower/.installed: pyproject.toml constraints-flower.txt constraints-torch.txt constraints-cuda.txt
	$(call install,.venv-flower,constraints-flower.txt)
	touch $@

# Sionna, an independent link-level simulator, gets one too: it asks for newer versions than we need. (Nothing that is
# released, and no test of .ci/run, comes from this environment or that of the peers: they are installed by version.)
test-sionna: .venv-sionna/.installed
	$(SIONNA)/python -m pytest -q tests/sionna

.venv-sionna/.installed: pyproject.toml constraints.txt constraints-torch.txt
	test -x $(SIONNA)/python || $(PYTHON) -m venv .venv-sionna
	grep -oh '^[^ ]*==[^ ;]*' constraints.txt constraints-torch.txt > .venv-sionna/versions.txt
	$(SIONNA)/python -m pip install --quiet torch -c .venv-sionna/versions.txt
	$(SIONNA)/python -m pip install --quiet -e '.[sionna]' 'pytest>=8.2' -c .venv-sionna/versions.txt
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

# The newest versions that pyproject.toml allows, with the hashes of their files.
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
.venv-peers/.installed: constraints-torch.txt Makefile
	test -x .venv-peers/bin/python || $(PYTHON) -m venv .venv-peers
	grep -o '^torch==[^ ]*' constraints-torch.txt > .venv-peers/torch.txt
	.venv-peers/bin/python -m pip install --quiet torch -c .venv-peers/torch.txt
	.venv-peers/bin/python -m pip install --quiet 'pfl[pytorch]' 'flwr[simulation]' cerberus diskcache matplotlib \
		omegaconf pandas psutil rich scikit-learn seaborn torchmetrics -c .venv-peers/torch.txt
	.venv-peers/bin/python -m pip install --quiet --no-deps fluke-fl==0.8.1
	touch $@

clean:
	rm -rf .venv .venv-flower .venv-sionna .venv-peers build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
