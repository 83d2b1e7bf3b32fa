# What a person types: `make run`, `make test`. The work of installing is in packaging/install.py, which does each stage
# once for each backend and is the way on systems without make as well.

PYTHON ?= python3
BACKEND ?= $(if $(filter Darwin-arm64,$(shell uname -s)-$(shell uname -m)),metal,cpu)
ENVIRONMENT := $(if $(filter cpu,$(BACKEND)),.venv,.venv-$(BACKEND))
BIN := $(ENVIRONMENT)/bin
ARGS ?=
INSTALL := $(PYTHON) packaging/install.py --backend $(BACKEND)
# The installation's own path is used and no activation: nothing outside this folder is read or changed.
RUN := $(BIN)/python
# Byte code is kept whatever the environment says: each of a thousand processes would compile the same files again.
OFFSCREEN := QT_QPA_PLATFORM=offscreen PYTHONDONTWRITEBYTECODE=
CHECKED := app engine models tests benchmarks packaging

.DEFAULT_GOAL := help
.PHONY: help install run install-test test check soak bench bench-peers bench-speculation bench-window third-party parameters clean clean-all

help:
	@echo "make run          install what is missing and open Fireside; ARGS=\"chat -m starter\" for a command,"
	@echo "                  BACKEND=cpu, metal, cuda or vulkan for what it computes on (here: $(BACKEND))"
	@echo "make test         all tests, window tests included, without a display"
	@echo "make check        style, types and architecture"
	@echo "make soak         the long tests with their full counts"
	@echo "make bench        the engine beside a bare loop on the same library"
	@echo "make bench-peers  the engine beside llama-cpp-python and llama.cpp's own server"
	@echo "make bench-speculation  drafting on and off, whole replies in turns"
	@echo "make bench-window the window beside its targets"
	@echo "make third-party  write THIRD_PARTY.md anew"
	@echo "make parameters   write docs/parameters.md anew"
	@echo "make clean        remove what tests and builds left; clean-all removes the environments too"

install:
	@$(INSTALL)

run: install
	@$(BIN)/fireside $(ARGS)

install-test:
	@$(INSTALL) --test
	@$(RUN) packaging/check_system.py

# Three at a time on two cores: windows and processes under test wait for each other a tenth of the time.
test: install-test
	$(OFFSCREEN) $(RUN) -m pytest -n 3 --dist loadfile $(ARGS)

check: install-test
	$(RUN) -m ruff check $(CHECKED)
	$(RUN) -m ruff format --check $(CHECKED)
	$(RUN) -m mypy
	$(RUN) -m mypy --no-explicit-package-bases $(addprefix packaging/,install.py check_system.py third_party.py parameters.py)
	$(OFFSCREEN) $(RUN) -m pytest -q tests/test_architecture.py

soak: install-test
	$(OFFSCREEN) $(RUN) -m pytest -m soak --timeout=7200 tests/soak tests/e2e tests/contract tests/unit $(ARGS)
	$(OFFSCREEN) $(RUN) -m pytest -n 2 --dist loadfile -m hypothesis --hypothesis-profile=explore tests

bench: install-test
	$(RUN) -m benchmarks.engine $(ARGS)

bench-peers: install-test
	$(RUN) -m pip install --quiet -e '.[bench]'
	$(RUN) -m benchmarks.peers $(ARGS)

bench-speculation: install-test
	$(RUN) -m pip install --quiet -e '.[bench]'
	$(RUN) -m benchmarks.speculation $(ARGS)

bench-window: install-test
	$(OFFSCREEN) $(RUN) -m benchmarks.window $(ARGS)

third-party: install-test
	$(RUN) packaging/third_party.py

parameters: install-test
	$(RUN) packaging/parameters.py

clean:
	rm -rf build dist *.egg-info .ruff_cache .mypy_cache .pytest_cache .hypothesis
	find app engine models tests benchmarks packaging -name __pycache__ -type d -prune -exec rm -rf {} +

clean-all: clean
	rm -rf .venv .venv-metal .venv-cuda .venv-vulkan
