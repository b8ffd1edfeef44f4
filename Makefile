# `make` alone lists the targets. `make demo` and `make test` need nothing but this repository, a
# Python 3.10 (or uv, which brings one) and a C++ compiler for the one dependency without wheels.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

# Another virtualenv, or pip settings meant for one, must not leak into ours.
unexport VIRTUAL_ENV PYTHONHOME PYTHONPATH
unexport PIP_CONSTRAINT PIP_NO_BINARY PIP_PREFIX PIP_REQUIRE_HASHES PIP_TARGET PIP_USER

# LOCKED and READY stand at the end of their step only; BUSY stands where an install broke off.
BUSY := $(VENV)/.busy
LOCKED := $(VENV)/.locked
READY := $(VENV)/.ready

.PHONY: help venv demo demo-text test test-quick test-trainer test-flink test-prism lint format lock build image clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

venv: $(READY)  ## .venv with Python 3.10, the locked dependencies and this project, editable

demo: $(READY)  ## the whole pipeline on a small real photo set, or on yours: make demo SRC="my photos"
	@$(BIN)/python -m pipelines.demo $(if $(value SRC),"$$SRC")

demo-text: $(READY)  ## the same with texts: real paragraphs by their source; SRC="my table.csv" takes yours
	@$(BIN)/python -m pipelines.demo --text $(if $(value SRC),"$$SRC")

# A process a core, two at the most: some tests start clusters of their own, and TFX takes a GB each.
PARALLEL := --numprocesses=auto --maxprocesses=2 --dist=loadfile

test: $(READY)  ## every test; make test ARGS="-k naming -x" hands pytest its options
	@$(BIN)/python -m pytest $(PARALLEL) $(ARGS)

test-quick: $(READY)  ## the tests not marked e2e or slow
	@$(BIN)/python -m pytest $(PARALLEL) -m "not e2e and not slow" $(ARGS)

TRAINER := .venv-trainer

test-trainer: $(TRAINER)/.ready  ## trainer_utils alone: the newest TensorFlow on the newest Python here, no TFX
	@$(TRAINER)/bin/python -m pytest tests/trainer_utils $(ARGS)

# The engines are those of the Beam that is pinned. Maven takes its settings from ~/.m2, Go from its
# environment; both keep what they fetched, and the files lie here until `make clean`.
BEAM_VERSION := $(shell sed -n 's/.*"apache-beam==\([0-9.]*\).*/\1/p' pyproject.toml)
FLINK_VERSION := 1.20
FLINK := .flink
FLINK_JAR := $(FLINK)/beam-runners-flink-$(FLINK_VERSION)-job-server-$(BEAM_VERSION).jar
PRISM := .prism/$(BEAM_VERSION)/prism

test-flink: $(READY) $(FLINK_JAR)  ## the components on Apache Flink; needs Java 11 or 17 and Maven; FLINK_VERSION=1.19
	@command -v java >/dev/null || { echo "make test-flink needs java on the PATH: Java 11 or 17." >&2; exit 1; }
	TFX_SHARDS_FLINK_JAR=$(abspath $(FLINK_JAR)) $(BIN)/python -m pytest -m flink $(ARGS)

test-prism: $(READY) $(PRISM)  ## the components on Prism, Beam's engine in Go; needs Go
	@TFX_SHARDS_PRISM=$(abspath $(PRISM)) $(BIN)/python -m pytest -m prism $(ARGS)

lint: $(READY)  ## ruff check, ruff format --check, mypy
	@$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)  ## ruff's formatting and its safe fixes, in place
	@$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

build: $(READY)  ## the wheel and the sdist, in dist/
	@rm -rf build
	$(BIN)/python -m build --no-isolation --outdir dist .

clean:  ## removes .venv and everything made
	@rm -rf $(VENV) $(TRAINER) .flink .prism build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(FLINK_JAR):
	@command -v mvn >/dev/null || { echo "make test-flink needs mvn on the PATH, to fetch Beam's Flink job server." >&2; exit 1; }
	echo "Fetching Beam's Flink job server, some 200 MB, from Maven Central."
	mvn --batch-mode --quiet dependency:copy -DoutputDirectory=$(abspath $(FLINK)) \
	  -Dartifact=org.apache.beam:beam-runners-flink-$(FLINK_VERSION)-job-server:$(BEAM_VERSION) || {
	  echo "Maven has no such job server: the reason stands above." >&2
	  echo "make test-flink FLINK_VERSION=... takes another that Beam $(BEAM_VERSION) is published for;" >&2
	  echo "a jar from elsewhere goes to $@." >&2
	  exit 1
	}

$(PRISM):
	@command -v go >/dev/null || { echo "make test-prism needs go on the PATH, to build Beam's Prism." >&2; exit 1; }
	echo "Building Beam's Prism, which takes a minute or two."
	GOBIN=$(abspath $(dir $@)) go install github.com/apache/beam/sdks/v2/go/cmd/prism@v$(BEAM_VERSION)

IMAGE := tfx-shards
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)

image:  ## the container images for Kubeflow, with docker or podman; IMAGE=registry/name names them
	@engine=
	for candidate in docker podman; do
	  if "$$candidate" info >/dev/null 2>&1; then engine=$$candidate; break; fi
	done
	[ -n "$$engine" ] || {
	  echo "make image needs docker or podman: neither is here and answers to 'docker info' or 'podman info'." >&2
	  exit 1
	}
	"$$engine" build --target trainer --tag $(IMAGE)-trainer:$(VERSION) .
	"$$engine" build --target pipelines --tag $(IMAGE):$(VERSION) .

UV := uv
COMPILE = $(UV) pip compile --python-version 3.10 --python-platform linux --generate-hashes --no-emit-index-url \
  --custom-compile-command "make lock" --quiet

lock:  ## the two locks from pyproject.toml and requirements.in; UPGRADE=1 takes newer releases
	@command -v $(UV) >/dev/null || {
	  echo "make lock needs uv: put it on the PATH (pip install uv) or name it, make lock UV=/path/to/uv" >&2
	  exit 1
	}
	$(COMPILE) pyproject.toml requirements.in --extra tfx --extra demo --extra dev --output-file requirements.lock \
	  $(if $(UPGRADE),--upgrade)
	$(COMPILE) pyproject.toml --extra kfp --constraint requirements.lock --output-file requirements-trainer.lock

$(READY): $(LOCKED) pyproject.toml
	@$(alone)
	PYTHONWARNINGS=ignore $(PIP) install --no-deps --no-build-isolation --editable .
	touch $@

# Not locked: what it shows is that the newest releases work.
$(TRAINER)/.ready: pyproject.toml
	@if [ ! -x $(TRAINER)/bin/python ]; then
	  newest=
	  for version in 3.13 3.12 3.11 3.10; do
	    pyenv_one=$$(pyenv versions --bare 2>/dev/null | grep -E "^$$version\.[0-9]+$$" | tail -n 1) || true
	    for candidate in $$(command -v python$$version || true) $${pyenv_one:+"$$(pyenv prefix $$pyenv_one)/bin/python"}; do
	      if "$$candidate" -c 'import venv, ensurepip' 2>/dev/null; then newest=$$candidate; break 2; fi
	    done
	  done
	  [ -n "$$newest" ] || { echo "make test-trainer needs a Python of 3.10 to 3.13 on the PATH or in pyenv." >&2; exit 1; }
	  "$$newest" -m venv $(TRAINER)
	fi
	$(TRAINER)/bin/python -m pip --disable-pip-version-check --quiet install --editable '.[trainer-test]'
	touch $@

# The lock is complete, so --no-deps: pip need not solve it again, and older pips stumble over that.
# The locked pip, setuptools and wheel come first and build the rest: nothing outside the lock is fetched.
$(LOCKED): requirements.lock
	@$(alone)
	if [ $@ -nt $< ]; then exit 0; fi
	$(make_venv)
	touch $(BUSY)
	echo "Installing the locked dependencies into $(VENV): some 280 packages, about 1 GB, 2 to 10 minutes."
	awk '/^[a-z]/ {keep = /^(pip|setuptools|wheel)==/} keep' requirements.lock > $(VENV)/tools.txt
	$(PIP) install --no-deps --require-hashes -r $(VENV)/tools.txt
	$(PIP) install --no-deps --require-hashes --no-build-isolation -r requirements.lock || {
	  echo "The install did not finish: the reason stands above. make takes it up again." >&2
	  echo "Where a compiler is missing: the packages g++ and python3.10-dev (pyfarmhash has no wheel)." >&2
	  exit 1
	}
	rm $(BUSY)
	touch $@

# Two makes at once, say `make demo` beside `make test`: the second waits. The system lifts the lock
# when the process ends, however it ends.
define alone
exec 9< $(firstword $(MAKEFILE_LIST))
if command -v flock >/dev/null && ! flock --nonblock 9; then
  echo "Waiting for another make, which is installing into $(VENV)."
  flock 9
fi
endef

# A half-made .venv is made anew; a whole one is kept; somebody else's of another Python is left alone.
# Each Python is tried by running it: a pyenv shim may stand there without a Python behind it, and
# Debian's python3.10 may lack the module that installs pip.
define make_venv
is_310='import sys, pip; sys.exit(sys.version_info[:2] != (3, 10))'
can_make='import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 10))'
if [ -e $(BUSY) ]; then rm -rf $(VENV); fi
if [ -e $(VENV) ]; then
  $(BIN)/python -c "$$is_310" 2>/dev/null || {
    echo "$(VENV) is here, but not with Python 3.10 and pip: move it away (or make clean) and run make again." >&2
    exit 1
  }
else
  python=
  pyenv_310=$$(pyenv versions --bare 2>/dev/null | grep -E '^3\.10\.[0-9]+$$' | tail -n 1) || true
  for candidate in $(PYTHON) python3.10 $${pyenv_310:+"$$(pyenv prefix $$pyenv_310)/bin/python"}; do
    if "$$candidate" -c "$$can_make" 2>/dev/null; then python=$$candidate; break; fi
  done
  mkdir $(VENV)
  touch $(BUSY)
  if [ -n "$$python" ]; then
    echo "Making $(VENV) with $$("$$python" --version)."
    "$$python" -m venv $(VENV)
  elif command -v uv >/dev/null; then
    echo "Making $(VENV) with uv's Python 3.10."
    uv venv --quiet --allow-existing --seed --python 3.10 $(VENV)
  else
    rm -rf $(VENV)
    echo "No Python 3.10 here, which TFX needs: install python3.10 (with its venv module), or uv, or run pyenv install 3.10, then run make again." >&2
    exit 1
  fi
fi
endef
