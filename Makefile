# What a developer types. `make` alone lists it.

PYTHON ?= python3
VENV ?= .venv

py := $(VENV)/bin/python
pip := $(py) -m pip --disable-pip-version-check --quiet
stamps := $(VENV)/.stamps
ARGS ?=

.PHONY: help build test demo lint format docs fuzz explore sanitize bench-peers bench-rdma bench-overlap \
    bench-protocols reproduce lab clean
.DELETE_ON_ERROR:
.NOTPARALLEL:

help:  ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  PYTHON=python3.13 chooses the interpreter of a new $(VENV), VENV=DIR another place,"
	@echo "  ARGS='...' goes on to pytest, the demo and the benchmarks,"
	@echo "  FABRIC=shm (auto, verbs) chooses for the demo."

# The environment is made once; later builds only compile what changed.
$(stamps)/venv: .ci/prepare
	.ci/prepare $(PYTHON)
	test -x $(py) || $(PYTHON) -m venv $(VENV)
	mkdir -p $(@D)
	touch $@

$(stamps)/build-tools: $(stamps)/venv pyproject.toml
	$(pip) install 'setuptools>=77' 'cython>=3.1' 'numpy>=2.0'
	touch $@

$(stamps)/editable: $(stamps)/build-tools pyproject.toml
	$(pip) install --editable .
	touch $@

build: $(stamps)/editable  ## install what is missing, build, install editable into .venv
	@$(py) setup.py --quiet build_ext --inplace

# Tools of one extra of pyproject.toml, without building the package again.
$(stamps)/extra-%: $(stamps)/editable
	$(pip) install $$($(py) .ci/extra.py $*)
	touch $@

test: build $(stamps)/extra-test  ## run every test, those on RDMA devices in the lab
	.ci/prepare-lab || test -z "$$CI"
	$(if $(ARGS),,$(py) -m pytest -n auto tests/explore)
	$(py) -m pytest $(or $(ARGS),--ignore tests/explore)

# Within one host a job would choose shared memory; the demo takes RDMA where a device is.
demo_fabric = from pyrdv.fabrics import verbs; print("auto" if verbs.unavailable() else "verbs")

demo: build  ## compress a directory tree on two ranks, over RDMA if a device is there
	$(VENV)/bin/pyrdv run -n 2 --fabric $(or $(FABRIC),$$($(py) -c '$(demo_fabric)')) \
	    examples/compress.py $(ARGS)

lint: build $(stamps)/extra-lint  ## ruff, cython-lint, clang-format, mypy, stubtest
	.ci/lint $(VENV)/bin

format: $(stamps)/extra-lint  ## rewrite Python imports and C as the linters want them
	$(VENV)/bin/ruff check --fix-only --quiet .
	git ls-files -co --exclude-standard 'csrc/*.[ch]' | xargs -r $(VENV)/bin/clang-format -i

docs: build $(stamps)/extra-docs  ## build the documentation into docs/_build/html
	$(py) -m sphinx -W --keep-going -q -b html docs docs/_build/html

fuzz: build $(stamps)/extra-test  ## feed broken packets and bootstrap bytes for a long time
	$(py) tests/fuzz/long.py $(ARGS)

explore: build $(stamps)/extra-test  ## run every order of events of many small programs (hours; ARGS='--seconds 60')
	$(py) -m tests.explore.long $(ARGS)

sanitize: build $(stamps)/extra-test  ## run the engine under ASan and UBSan, its threads under TSan
	PYRDV_SANITIZE=thread PYRDV_VERBS=off $(py) setup.py --quiet build \
	    --build-base build/threads --build-lib build/threads/lib
	tests/sanitize/run.sh threads $(py) build/threads/lib
	PYRDV_SANITIZE=address,undefined $(py) setup.py --quiet build \
	    --build-base build/sanitize --build-lib build/sanitize/lib
	tests/sanitize/run.sh memory $(py) build/sanitize/lib $(ARGS)

bench-peers: build  ## compare with mpi4py on MPICH and on Open MPI
	$(py) benchmarks/peers/run.py $(ARGS)

bench-rdma: build $(stamps)/extra-bench  ## compare with perftest, UCX and Open MPI on RDMA devices in the lab
	$(py) benchmarks/rdma/run.py $(ARGS)

bench-overlap: build $(stamps)/extra-bench  ## overlap of communication and computation in the lab
	$(py) benchmarks/overlap.py $(ARGS)

bench-protocols: build $(stamps)/extra-bench  ## registration, pipeline and first touch in the lab
	$(py) benchmarks/protocols.py $(ARGS)

reproduce: build $(stamps)/extra-bench  ## run the experiments of the documentation, write their tables
	$(py) benchmarks/reproduce.py $(ARGS)

# Not a stamp: it only looks whether everything is there, and the lab may be asked for anywhere.
lab: build $(stamps)/extra-test  ## a shell (or ARGS='-- command') beside real soft-RDMA devices
	.ci/prepare-lab
	@$(py) -m tests.lab $(ARGS)

clean:  ## remove everything that was built, .venv included
	rm -rf $(VENV) build dist docs/_build docs/_generated src/*.egg-info
	find src -name '*.so' -delete
	find . -name __pycache__ -prune -exec rm -rf {} +
