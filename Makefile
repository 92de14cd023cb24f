# SPDX-License-Identifier: MIT OR Apache-2.0
#
# The commands that people type. What each needs and is missing is installed first, and named before it is.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.NOTPARALLEL:
.DEFAULT_GOAL := help

# Where cargo builds. A folder given by CARGO_TARGET_DIR is used by cargo itself as well.
TARGET := $(or $(CARGO_TARGET_DIR),target)
HOST = $(shell scripts/with-cargo.sh rustc -vV | sed -n 's/^host: //p')
CARGO := scripts/with-cargo.sh cargo
PREFIX ?= /usr/local
# A machine of CI builds once: what another build could take up again would be a tenth of the work, and gigabytes.
ifdef CI
export CARGO_INCREMENTAL := 0
endif
# Which profile of Cargo.toml is built.
PROFILE := release
# More for `make run`: make run ARGS="--load ipc --duration 30s"
ARGS ?=

.PHONY: help
help: ## Say what there is
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

.PHONY: run
# A release takes more than twice the processor time, for a smaller and faster binary. Where one was built it is taken.
run: PROFILE = $(if $(wildcard $(TARGET)/release/latebound),release,first)
run: build ## Install what is missing, build, and run `latebound check` on this machine
	@scripts/run-check.sh $(TARGET)/$(PROFILE)/latebound $(ARGS)

.PHONY: build
build: packages-build ## Build the release binary
# Not --quiet: a first build takes minutes, and cargo says what it is at and how far.
	@echo "latebound: building $(TARGET)/$(PROFILE)/latebound; the first time takes some minutes, since its libraries are built too"
	@$(CARGO) build --profile $(PROFILE) --package latebound
	@echo "latebound: built $(TARGET)/$(PROFILE)/latebound"

# Formats, lints and licence headers: what needs no package but those of the build.
.PHONY: lint
lint:
	@scripts/check-spdx.sh
	@$(CARGO) fmt --all --check
	@$(CARGO) clippy --quiet --workspace --all-targets -- --deny warnings

.PHONY: test
test: packages-and-tools tracefs lint ## Install what is missing, and run every check and test
	@scripts/list-shell-scripts.sh | xargs -0 shellcheck
	@scripts/format-c.sh --check
# All that is tested, with the features that tests ask of libraries: `cargo build` has others, and a second build of what depends on them.
	@$(CARGO) test --quiet --workspace --exclude latebound-py --no-run
	@scripts/check-docs.sh $(TARGET)/debug/latebound
# Fuzzing belongs to a whole run where no one waits for it. There each run begins with the same inputs; `make fuzz` runs longer.
	@scripts/run-tests.sh all $(if $(CI),10,0)

.PHONY: test-live
test-live: packages-build+test tracefs ## Run the tests of this machine's kernel, as root: they measure latencies and plant delays
	@scripts/run-tests.sh live

.PHONY: test-lab
test-lab: packages-build+test ## Run the tests that boot guests
	@scripts/run-tests.sh lab

.PHONY: test-arm64
test-arm64: packages-build+cross+test ## Build for arm64, and run the binary and the library for Python in QEMU, and the binary in a guest of Debian's arm64 kernel
	@scripts/test-cross.sh aarch64
	@scripts/test-python.sh --arm64

.PHONY: test-riscv64
test-riscv64: packages-build+cross-riscv64 ## Build for riscv64, and run the binary in QEMU's user emulation
	@scripts/test-cross.sh riscv64

# How often each test kills: make kills KILLS=100
KILLS := 500

.PHONY: kills
kills: packages-build+test tracefs ## Kill push, serve (as root) and writers of stores and spools at random, KILLS=500 times in each test
	@LATEBOUND_TEST_KILLS=$(KILLS) scripts/run-kills.sh

.PHONY: deny
deny: packages-build ## Check licences, sources and advisories of all dependencies
	@scripts/deny.sh

# How long each fuzz target runs: make fuzz SECONDS=600
SECONDS := 60

.PHONY: fuzz
fuzz: packages-build+fuzz ## Fuzz every reader of foreign bytes, SECONDS=60 for each (docs/src/reference/fuzzing.md)
	@scripts/fuzz.sh $(SECONDS)

.PHONY: check
check: packages-build+test lint ## The quick loop: format, lints, and every test that needs no root, no kernel and no cluster
	@scripts/format-c.sh --check
	@scripts/run-tests.sh quick

# For which machines: make static ARCH=aarch64
ARCH := $(shell uname -m)
ifeq ($(ARCH),$(shell uname -m))
static: packages-build
STATIC_TARGET = $(HOST)
STATIC_CARGO = $(CARGO) rustc --target $(HOST)
else ifeq ($(ARCH),aarch64)
static: packages-build+cross
STATIC_TARGET = aarch64-unknown-linux-gnu
STATIC_CARGO = scripts/with-cross.sh aarch64 cargo rustc
else ifeq ($(ARCH),riscv64)
static: packages-build+cross-riscv64
STATIC_TARGET = riscv64gc-unknown-linux-gnu
STATIC_CARGO = scripts/with-cross.sh riscv64 cargo rustc
else
STATIC_CARGO = $(error ARCH=$(ARCH): the static binary is built for $(shell uname -m), aarch64 and riscv64; type: make static ARCH=aarch64)
endif

.PHONY: static
static: ## Build a binary that needs no library at all, to copy to a target machine; for others by ARCH=aarch64 or riscv64
# With a target of its own, build scripts and macros stay dynamic, as they have to be.
# Relocations take a megabyte if they are not packed; a linker that cannot pack them says so, and leaves them.
	@RUSTFLAGS="-C target-feature=+crt-static" $(STATIC_CARGO) --quiet --release --package latebound --bin latebound \
		--target-dir $(TARGET)/static -- -C link-arg=-Wl,-z,pack-relative-relocs
	@scripts/check-static.sh $(TARGET)/static/$(STATIC_TARGET)/release/latebound

.PHONY: packages
packages: static packages-package ## Make Debian packages and a tar of the static binary in target/packages; for arm64 by ARCH=aarch64
	@scripts/make-packages.sh $(TARGET)/static/$(STATIC_TARGET)/release/latebound $(TARGET)/packages

.PHONY: test-packages
test-packages: static packages-package+package-test+test ## Install the packages in clean roots and run them there, as root; for arm64 by ARCH=aarch64
ifneq ($(ARCH),$(shell uname -m))
# Its lab boots the guest.
	@$(CARGO) build --quiet --package latebound
endif
	@scripts/test-packages.sh all $(TARGET)/static/$(STATIC_TARGET)/release/latebound
ifeq ($(ARCH),$(shell uname -m))
	@scripts/test-crates.sh
endif

.PHONY: docs
docs: packages-build ## Generate the man pages and completions again, and build the manuals as a book into target/book
	@$(CARGO) build --quiet --package latebound
	@rm -rf docs/man docs/completions && mkdir -p docs/man docs/completions
	@$(TARGET)/debug/latebound generate man docs/man
	@$(TARGET)/debug/latebound generate completions docs/completions
	@echo "latebound: wrote docs/man and docs/completions"
	@scripts/book.sh

.PHONY: install
install: ## Install binary, man pages and completions under PREFIX (after `make build`)
	@[ -x $(TARGET)/release/latebound ] || { echo "latebound: not built yet; type: make build" >&2; exit 1; }
	@install -D -m 755 $(TARGET)/release/latebound $(DESTDIR)$(PREFIX)/bin/latebound
	@for page in docs/man/*.1; do install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man1 "$$page"; done
	@install -D -m 644 docs/completions/latebound.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/latebound
	@install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/zsh/site-functions docs/completions/_latebound
	@install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d docs/completions/latebound.fish
	@echo "latebound: installed under $(DESTDIR)$(PREFIX)"

# A saved trace for the reader's benchmark.
TRACE ?= $(wildcard ../shared/data/hackbench-rt-2cpu.trace.dat)

# BENCH=full has the sizes of the evidence pages' figures.
.PHONY: bench
bench: packages-build+bench+test build tracefs ## Run every bench beside its peers, for an hour; with the sizes of the published figures by BENCH=full, for many hours
# All that benches build, so that none builds while it measures or before.
	@$(CARGO) build --release --package latebound-probe --example observe --example bound_follow
	@$(CARGO) build --release --package latebound-trace --example trace_events
	@$(CARGO) build --release --package latebound-metrics --example scrape
	@$(CARGO) build --release --package latebound-compare --examples
	@$(CARGO) bench --package latebound-analysis --bench bound_views --no-run
	@$(CARGO) build --package latebound
	@$(CARGO) test --package latebound --test live_jobs --no-run
	@scripts/test-python.sh --run true
	@BENCH="$(BENCH)" TRACE="$(TRACE)" benches/all $(TARGET)/release/latebound $(TARGET)/bench

.PHONY: clean
clean: ## Remove what was built
	@$(CARGO) clean --quiet

# The checks of dependencies and of the book build their tools, for minutes, which CI has, and whose cache keeps them. That needs no package but
# those of the build, so it goes on while the others are fetched and unpacked.
.PHONY: packages-and-tools
packages-and-tools: packages-build
	@scripts/install-packages.sh test fuzz & jobs=($$!); \
	for tool in deny book; do \
		if [ -n "$(CI)" ] || scripts/$$tool.sh --is-there; then scripts/$$tool.sh & jobs+=($$!); fi; \
	done; \
	for job in "$${jobs[@]}"; do wait "$$job"; done

packages-%:
	@scripts/install-packages.sh $(subst +, ,$*)

# The tool does without tracefs where BPF does; the programs that the tests compare it with do not.
.PHONY: tracefs
tracefs:
	@if [ ! -e /sys/kernel/tracing/events ]; then \
		if [ "$$(id -u)" -eq 0 ]; then \
			echo "latebound: mounting tracefs at /sys/kernel/tracing: perf, bpftrace and trace-cmd need it"; \
			mount -t tracefs tracefs /sys/kernel/tracing; \
		else \
			echo "latebound: tracefs is not mounted or not for you; live tests need it, and root" >&2; \
		fi; fi
