# `make demo` shows gpuq at work, `make test` checks it; both set up first.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin

.PHONY: setup demo demo-gpu packages package-test test test-fleet test-frameworks test-slurm test-split lint lock soak bench bench-learning bench-policies bench-replay measure-gpu clean

setup: .venv/.done

.venv/.done: requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("gpuq needs Python 3.11 or newer, this is " + sys.version) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes --only-binary :all: -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

demo: setup
	$(BIN)/python -m workloads.demo

# The same on eight emulated GPUs, by NVIDIA's mock of its driver library in the folder `GPUQ_NVML_MOCK` (default: ../shared/nvml).
demo-gpu: setup
	$(BIN)/python -m workloads.demo --emulated-gpus

# Six workers keep two cores busy: more than half of their time is waiting for processes. `lint`, most of which is mypy on one core, runs
# beside them, and what it prints comes after them. Tests marked `quiet` measure contention, so they run alone afterwards; only their
# files are named, because collecting the whole suite again takes ten seconds.
test: setup
	@mkdir -p build
	@make --no-print-directory lint >build/lint.txt 2>&1 & \
	$(BIN)/python -m pytest -m "not soak and not quiet and not fleet and not packages and not slurm" --numprocesses 6 --dist worksteal; tested=$$?; \
	wait $$!; linted=$$?; cat build/lint.txt; exit $$((tested | linted))
	$(BIN)/python -m pytest -m quiet $$(grep -rl --include='test_*.py' pytest.mark.quiet tests)

# Hosts that boot, break and come back: the campaign of docs/measurements/fleet.md in its short form. It needs root on Debian 12 and the
# lab's script (`GPUQ_LAB`, default: ../shared/lab/lab), and says why it skips. `ROW=killed COUNT=300` takes the rows of that name, so often;
# with `BUDGET=600` each begins no repetition after ten minutes, and `SEED=2` draws other chances.
ROW ?=
COUNT ?=
BUDGET ?=
SEED ?= 1
test-fleet: setup
	$(BIN)/python -m pytest -m fleet tests/fleet -s $(if $(ROW),-k "$(ROW)") $(if $(COUNT),--count $(COUNT)) --seed $(SEED) $(if $(BUDGET),--budget $(BUDGET))

# Scripts of PyTorch, Lightning, Transformers, Keras, JAX, Flax and Equinox as real jobs, in environments without gpuq: some
# three gigabytes and ten minutes, and more where pip finds PyTorch with CUDA only. `FRAMEWORKS=jax` takes one of them.
FRAMEWORKS ?= torch jax tensorflow
test-frameworks: setup $(FRAMEWORKS:%=build/frameworks/%/.done)
	$(BIN)/python -m pytest -m frameworks tests/frameworks

build/frameworks/%/.done: tests/frameworks/requirements/%.txt
	$(PYTHON) -m venv build/frameworks/$*
	build/frameworks/$*/bin/python -m pip install --quiet --requirement $<
	touch $@

# A real Slurm, which the tests start on this machine: batch scripts that it and gpuq both run, and jobs in allocations that it grants.
# It needs root and Debian's slurm-wlm, and for the latter the emulated GPUs of `make demo-gpu`; else they say so, and skip.
test-slurm: setup
	$(BIN)/python -m pytest -m slurm tests/slurm

# Wheels and Debian packages, to `dist`; and: installed on a clean Debian (root, debootstrap), by pipx and by uv, to run a job each.
packages: setup
	$(BIN)/python .ci/packages/build.py --out dist

package-test: setup
	$(BIN)/python -m pytest -m packages tests/packages -s

# Kernels that are compiled and run by OpenCL on CPU cores, in an environment with the extra `split` (some 330 MB).
test-split: build/split/.done
	build/split/bin/python -m pytest -m "opencl and not soak" tests/split

build/split/.done: requirements.lock pyproject.toml
	$(PYTHON) -m venv build/split
	build/split/bin/python -m pip install --quiet --require-hashes --only-binary :all: -r requirements.lock
	build/split/bin/python -m pip install --quiet --no-build-isolation --editable '.[split]'
	touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python .ci/words.py

soak: setup
	$(BIN)/python -m pytest -m soak

bench: setup
	$(BIN)/python -m benchmarks

# Forecasts against measured public data (`GPUQ_DATA`); skips, saying so, where there is none.
bench-learning: setup
	$(BIN)/python -m benchmarks.learning

# Policies and rivals in the same simulated worlds, made from measured public data (`GPUQ_DATA`).
bench-policies: setup
	$(BIN)/python -m benchmarks.policies

# A real run on two cores and its simulated replay, side by side: about six minutes on a machine with nothing else to do.
bench-replay: setup
	$(BIN)/python -m benchmarks.replay

# On a machine with an NVIDIA GPU: what its driver says, sharing, memory, the hook's cost, the campaign. In steps that resume;
# docs/devices.md has the way for a machine without a network.
measure-gpu: setup
	$(BIN)/python -m workloads.on_gpu

# Every wheel from the package index, with its hashes, for the oldest Python we support: for developers, and the part of them that a
# service needs. The extra `reinforcement` is left out: it brings PyTorch with CUDA, gigabytes that only training a policy needs.
LOCK := uv pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes --no-header
lock:
	$(LOCK) --extra lab --extra mcp --extra notify --extra postgresql --extra submitit --extra train --extra workloads --extra yaml --group dev \
	    --output-file requirements.lock pyproject.toml
	$(LOCK) --extra mcp --extra notify --extra postgresql --extra train --extra yaml --group build --constraint requirements.lock \
	    --output-file requirements-service.lock pyproject.toml

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
