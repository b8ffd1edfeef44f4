# `make` alone lists the targets. `make demo` and `make test` need nothing but this repository, a
# Python (or uv, which brings one) and a C++ compiler for the one dependency without wheels: where
# glibc is 2.38 or newer a Python of 3.10 to 3.13, for TFX 1.21; elsewhere Python 3.10, for TFX 1.16.
# STACK=tfx or STACK=tfx116 decides: scripts/choose_stack.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
export STACK PYTHON

# Another virtualenv, or pip settings meant for one, must not leak into ours.
unexport VIRTUAL_ENV PYTHONHOME PYTHONPATH
unexport PIP_CONSTRAINT PIP_NO_BINARY PIP_PREFIX PIP_REQUIRE_HASHES PIP_TARGET PIP_USER

# Each stands at the end of its step only. .stack says which stack the environment has: a make that asks
# for the other one makes it anew.
LOCKED := $(VENV)/.locked
READY := $(VENV)/.ready
OTHER_STACK := $(if $(STACK),$(if $(filter $(STACK),$(shell cat $(VENV)/.stack 2>/dev/null)),,other-stack))

.PHONY: docs help venv demo test test-quick coverage golden test-current test-other bench-stack bench-stacks bench-peers
.PHONY: test-faults test-trainer test-frameworks test-dask test-flink test-kfp test-prism stores lint format lock build image sbom release generate
.PHONY: clean growth other-stack venv-other

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

venv: $(READY)  ## .venv with the locked dependencies and this project, editable; STACK=tfx116 or tfx

demo: $(READY)  ## the whole pipeline on a small real photo set, or on yours: make demo SRC="my photos"
	@$(BIN)/python -m pipelines.examples.demo $(if $(value SRC),"$$SRC")

# A process a core, eight at the most: TFX takes a GB each, and some tests start clusters of their own.
PARALLEL := --numprocesses=auto --maxprocesses=8 --dist=loadfile --no-loadscope-reorder

# Tests start many processes, each of which would compile our modules again where Python may not write
# their bytecode (PYTHONDONTWRITEBYTECODE).
SOURCES := trainer_utils components pipelines tests

test: $(READY)  ## every test; make test ARGS="-k naming -x" hands pytest its options
	@$(BIN)/python -m compileall -q -j 0 $(SOURCES)
	$(BIN)/python -m pytest $(PARALLEL) --durations=10 $(ARGS)

test-quick: $(READY)  ## the tests not marked e2e or slow
	@$(BIN)/python -m pytest $(PARALLEL) -m "not e2e and not slow" $(ARGS)

coverage: $(READY)  ## branch coverage of test-quick; an error below the floor in pyproject.toml
	@rm -rf build/coverage
	$(BIN)/coverage run -m pytest $(PARALLEL) -m "not e2e and not slow" $(ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

docs: $(READY)  ## the site of docs/ into build/site; a broken link is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict 2>&1 | { grep -v "^INFO " || true; }

growth: $(READY)  ## calls and bytes of reading, shuffling, unpacking and packing grow linearly: half a minute
	@$(BIN)/python benchmarks/growth.py --small

test-faults: $(READY)  ## the long part: killed, starved, corrupted; TFX_SHARDS_SEED=1 repeats one, TFX_SHARDS_SHARE=0.1 does a tenth
	@export TFX_SHARDS_PRISM=$${TFX_SHARDS_PRISM:-$(firstword $(wildcard $(CURDIR)/.prism/*/prism))}
	$(BIN)/python -m pytest $(PARALLEL) --dist=load -m faults tests/faults tests/trainer_utils $(ARGS)

golden: $(READY)  ## the digests that both stacks are compared with, after a change of the format
	@$(BIN)/python -m tests.golden.make_digests > tests/golden/digests.json.new
	mv tests/golden/digests.json.new tests/golden/digests.json

# A target with TFX 1.21: here, or where glibc is too old in a root of Debian 13.
define with_tfx
if STACK=tfx scripts/choose_stack >/dev/null 2>&1; then
  $(MAKE) --no-print-directory $1 STACK=tfx $(if $(filter tfx116,$(shell cat $(VENV)/.stack 2>/dev/null)),VENV=.venv-tfx)
else
  scripts/current_system $1
fi
endef

# A target with the stack that .venv does not have.
define with_other
if [ $$(cat $(VENV)/.stack) = tfx ]; then
  $(MAKE) --no-print-directory $1 STACK=tfx116 VENV=.venv-tfx116
else
  $(call with_tfx,$1)
fi
endef

test-current:  ## every test with TFX 1.21: here, or where glibc is too old in a root of Debian 13
	@$(call with_tfx,test)

venv-other: $(READY)  ## the environment of the stack that .venv does not have
	@$(call with_other,venv)

test-other: $(READY)  ## every test with the stack that .venv does not have
	@$(call with_other,test)

bench-stack: $(READY)
	@$(BIN)/python benchmarks/stacks.py --workdir build/bench

bench-stacks: $(READY)  ## how fast both stacks convert, balance and read here, side by side
	@rates=$$(mktemp)
	trap 'rm -f $$rates' EXIT
	for round in 1 2; do
	  $(MAKE) --no-print-directory bench-stack | tee -a $$rates
	  $(call with_other,bench-stack) | tee -a $$rates
	done
	$(BIN)/python benchmarks/stacks.py --compare $$rates

PEERS := .venv-peers

bench-peers: $(PEERS)/.ready  ## next to TFDS, Streaming, WebDataset, litData, Grain, …: hours; ARGS="--sizes 1000 --repeat 1"; 6 GB
	@$(PEERS)/bin/python -m compileall -q -j 0 $(SOURCES)  # as pip does with the peers
	$(PEERS)/bin/python benchmarks/peers.py --write $(ARGS)

TRAINER := .venv-trainer

test-trainer: $(TRAINER)/.ready  ## trainer_utils alone: the newest TensorFlow on the newest Python here, no TFX
	@$(TRAINER)/bin/python -m pytest tests/trainer_utils $(ARGS)

PLAIN := .venv-base

test-base: $(PLAIN)/.ready  ## what needs no TFX, without it: conversion, balancing, the same bytes; the newest Python here
	@$(PLAIN)/bin/python -m compileall -q -j 0 $(SOURCES)
	$(PLAIN)/bin/python -m pytest tests/test_golden.py tests/components/test_steps.py \
	  tests/pipelines/tools/conversion/test_{balancing,recognition,runs}.py tests/pipelines/test_lineage_exports.py \
	  tests/pipelines/cli/test_{signatures,wrong_settings}.py $(ARGS)

FRAMEWORKS := .venv-frameworks

test-frameworks: $(FRAMEWORKS)/.ready  ## the inputs of PyTorch, JAX and Keras with these themselves, without TensorFlow; Python 3.12, some 6 GB
	@$(FRAMEWORKS)/bin/python -m compileall -q -j 0 $(SOURCES)
	run() { KERAS_BACKEND=$$1 $(FRAMEWORKS)/bin/python -m pytest $(PARALLEL) "$${@:2}" $(ARGS); }
	run jax tests/trainer_utils/frameworks/test_{jax,keras,raw_inputs,same_batches,state,tutorial}.py tests/trainer_utils/test_{filter,views}.py
	# Of filters and views, only those of Keras differ by its backend.
	run torch -k "keras or not (test_filter.py or test_views.py)" tests/trainer_utils/frameworks/test_{keras,other_loaders,ranks,readme,torch,torch_loader,torch_page,trainers}.py tests/trainer_utils/test_{filter,views}.py tests/benchmarks/test_feed_gpu.py

# The engines are those of the Beam that is installed. Maven takes its settings from ~/.m2, Go from its
# environment; both keep what they fetched, and the files lie here until `make clean`.
BEAM_VERSION = $$($(BIN)/python -c 'from importlib import metadata; print(metadata.version("apache-beam"))')
FLINK_VERSION := 1.20

test-flink: $(READY)  ## the components on Apache Flink; needs Java 11 or 17 and Maven; FLINK_VERSION=1.19
	@jar=.flink/beam-runners-flink-$(FLINK_VERSION)-job-server-$(BEAM_VERSION).jar
	$(MAKE) --no-print-directory $$jar
	command -v java >/dev/null || { echo "make test-flink needs java on the PATH: Java 11 or 17." >&2; exit 1; }
	TFX_SHARDS_FLINK_JAR=$$PWD/$$jar $(BIN)/python -m pytest -m flink $(ARGS)

test-prism: $(READY)  ## the components on Prism, Beam's engine in Go; needs Go
	@prism=.prism/$(BEAM_VERSION)/prism
	$(MAKE) --no-print-directory $$prism
	TFX_SHARDS_PRISM=$$PWD/$$prism $(BIN)/python -m pytest -m prism $(ARGS)

test-kfp: $(READY)  ## native components compile alike with kfp 2.1 and the newest, and with 2.0
	@scripts/compare_kfp $(BIN)

test-dask: $(READY)  ## the components on Dask, with workers that are processes; a part of make test
	@$(BIN)/python -m pytest -m dask $(ARGS)

.flink/%.jar:
	@command -v mvn >/dev/null || { echo "make test-flink needs mvn on the PATH, to fetch Beam's Flink job server." >&2; exit 1; }
	name=$*
	echo "Fetching Beam's Flink job server, some 200 MB, from Maven Central."
	mvn --batch-mode --quiet dependency:copy -DoutputDirectory=$$PWD/.flink \
	  -Dartifact=org.apache.beam:$${name%-*}:$${name##*-} || {
	  echo "Maven has no such job server: the reason stands above." >&2
	  echo "make test-flink FLINK_VERSION=... takes another that Beam $${name##*-} is published for;" >&2
	  echo "a jar from elsewhere goes to $@." >&2
	  exit 1
	}

.prism/%/prism:
	@command -v go >/dev/null || { echo "make test-prism needs go on the PATH, to build Beam's Prism." >&2; exit 1; }
	echo "Building Beam's Prism, which takes a minute or two."
	GOBIN=$$PWD/.prism/$* go install github.com/apache/beam/sdks/v2/go/cmd/prism@v$*

# Object stores for the tests, where there is Go to build them; else moto's server, which is S3 alone.
STORES := .stores/versitygw .stores/fake-gcs-server
AZURITE := .stores/node_modules/.bin/azurite-blob

stores: $(STORES) $(AZURITE)  ## servers of S3, Google Cloud Storage and Azure for the tests; needs Go and npm

$(AZURITE):
	@command -v npm >/dev/null || { echo "make stores needs npm on the PATH, for Azurite." >&2; exit 1; }
	echo "Installing Azurite, which takes half a minute."
	npm install --silent --no-fund --no-audit --no-save --prefix .stores azurite@3

.stores/versitygw: STORE_MODULE := github.com/versity/versitygw/cmd/versitygw@v1.8.0
.stores/fake-gcs-server: STORE_MODULE := github.com/fsouza/fake-gcs-server@v1.56.1
$(STORES):
	@command -v go >/dev/null || { echo "make stores needs go on the PATH." >&2; exit 1; }
	echo "Building $(notdir $@), which takes a minute or two."
	GOBIN=$$PWD/.stores go install $(STORE_MODULE)

lint: $(READY)  ## ruff check, ruff format --check, wording, mypy, and who may import whom
	@$(BIN)/ruff check .
	$(BIN)/python scripts/check_prose.py *.md benchmarks components docs pipelines scripts tests trainer_utils
	$(BIN)/ruff format --check .
	$(BIN)/python scripts/generate_settings.py --check
	$(BIN)/mypy
	PYTHONPATH=. $(BIN)/lint-imports --no-logo

generate: $(READY)  ## rewrites what spells out settings and layouts: typed keywords, Kubeflow's functions, tables of docs/
	@$(BIN)/python scripts/generate_settings.py
	$(BIN)/python -m tests.docs.test_settings
	$(BIN)/python -m tests.docs.test_layouts

format: $(READY)  ## ruff's formatting and its safe fixes, in place
	@$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

build: $(READY)  ## the wheel and the sdist, in dist/
	@rm -rf build
	$(BIN)/python -m build --no-isolation --outdir dist .

clean:  ## removes .venv and everything made
	@rm -rf $(VENV) $(TRAINER) $(PLAIN) $(FRAMEWORKS) $(PEERS) .venv-tfx .venv-tfx116 .flink .prism .stores build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

IMAGE := tfx-shards
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)

# The base of the images: its name becomes a digest when it is fetched, and the images are built on that
# and tell it. BASE=python@sha256:… builds on the same again.
BASE := python:3.13-slim-trixie

image:  ## the container images for Kubeflow, with docker or podman; IMAGE=registry/name names them
	@scripts/build_images $(IMAGE) $(VERSION) $(BASE)

sbom: $(READY)  ## what each lock holds, as CycloneDX, in dist/; make release has it too
	@mkdir -p dist
	scripts/make_sbom $(BIN) $(VERSION) dist

release: $(READY)  ## builds, checks and tags a release; nothing is uploaded
	@scripts/release $(BIN) $(VERSION)

UV := $(or $(shell command -v uv),$(wildcard $(BIN)/uv),uv)
COMPILE = $(UV) pip compile pyproject.toml --generate-hashes --no-emit-index-url --no-python-downloads --quiet \
  --custom-compile-command "make lock" $(if $(UPGRADE),--upgrade)
FOR_IMAGES = --python-version 3.13 --python-platform x86_64-manylinux_2_40 --constraint requirements-tfx.lock

lock:  ## the locks from pyproject.toml and requirements*.in; UPGRADE=1 takes newer releases
	@command -v $(UV) >/dev/null || {
	  echo "make lock needs uv: run make venv, put it on the PATH (pip install uv) or name it, make lock UV=/path/to/uv" >&2
	  exit 1
	}
	$(COMPILE) requirements.in --universal --python-version 3.10 --extra tfx --extra demo --extra dev --extra docs \
	  --output-file requirements-tfx.lock
	$(COMPILE) requirements.in requirements-tfx116.in --python-version 3.10 --python-platform linux \
	  --extra tfx116 --extra demo --extra dev --extra docs --output-file requirements-tfx116.lock
	$(COMPILE) requirements-image.in $(FOR_IMAGES) --override requirements-image.override --extra tfx --extra s3 \
	  --output-file requirements-image.lock
	$(COMPILE) $(FOR_IMAGES) --extra kfp --extra crops --extra cuda --extra gcs --extra s3 --output-file requirements-trainer.lock
	$(COMPILE) $(FOR_IMAGES) --extra kfp --extra audio --extra azure --extra gcs --extra s3 --output-file requirements-components.lock
	$(COMPILE) requirements-peers.in --extra s3 --python-version 3.12 --python-platform x86_64-manylinux_2_28 \
	  --output-file requirements-peers.lock

$(READY): $(LOCKED) pyproject.toml
	@exec 9< scripts/make_venv  # which locks itself, for makes that run at the same time
	! command -v flock >/dev/null || flock 9
	PYTHONWARNINGS=ignore $(PIP) install --no-deps --no-build-isolation --editable .
	touch $@

$(LOCKED): requirements-tfx.lock requirements-tfx116.lock $(OTHER_STACK)
	@scripts/make_venv $(VENV)

# An environment of Python 3.12 for the target's folder.
define make_python_312
if [ ! -x $(@D)/bin/python ]; then
  of_pyenv=$$(pyenv versions --bare 2>/dev/null | grep -E "^3\.12\.[0-9]+$$" | tail -n 1) || true
  for candidate in python3.12 $${of_pyenv:+"$$(pyenv prefix $$of_pyenv)/bin/python"}; do
    ! "$$candidate" -m venv $(@D) 2>/dev/null || break
  done
  [ -x $(@D)/bin/python ] || { echo "make $1 needs a Python 3.12 on the PATH or in pyenv." >&2; exit 1; }
fi
endef

$(FRAMEWORKS)/.ready: pyproject.toml
	@$(call make_python_312,test-frameworks)
	$(@D)/bin/python -m pip --disable-pip-version-check --quiet install --editable '.[frameworks-test]'
	touch $@

$(PEERS)/.ready: requirements-peers.lock
	@$(call make_python_312,bench-peers)
	$(@D)/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes --requirement requirements-peers.lock
	$(@D)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --editable .
	touch $@

# Not locked: what it shows is that the newest releases work.
$(TRAINER)/.ready $(PLAIN)/.ready: pyproject.toml
	@if [ ! -x $(@D)/bin/python ]; then
	  newest=
	  for version in 3.13 3.12 3.11 3.10; do
	    pyenv_one=$$(pyenv versions --bare 2>/dev/null | grep -E "^$$version\.[0-9]+$$" | tail -n 1) || true
	    for candidate in $$(command -v python$$version || true) $${pyenv_one:+"$$(pyenv prefix $$pyenv_one)/bin/python"}; do
	      if "$$candidate" -c 'import venv, ensurepip' 2>/dev/null; then newest=$$candidate; break 2; fi
	    done
	  done
	  [ -n "$$newest" ] || { echo "make $(patsubst .venv-%,test-%,$(@D)) needs a Python of 3.10 to 3.13 on the PATH or in pyenv." >&2; exit 1; }
	  "$$newest" -m venv $(@D)
	fi
	$(@D)/bin/python -m pip --disable-pip-version-check --quiet install --editable '.[$(patsubst .venv-%,%-test,$(@D))]'
	touch $@
