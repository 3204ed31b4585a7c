# `make demo` answers a question, `make test` runs everything CI runs, `make bench` measures.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.NOTPARALLEL:
.PHONY: help demo test tools fmt tidy clippy test-rust schedules doctest doc test-python bench

QUESTION ?= Why is the sky blue?
export QUESTION
target := $(or $(CARGO_TARGET_DIR),target)

help:
	@echo "make demo    build isopace, fetch a small model once, stream an answer (QUESTION=...)"
	@echo "make test    fmt, tidy, clippy, tests, schedules, doctests, docs, Python tests: what CI runs"
	@echo "make bench   measure peers and isopace side by side"

tools:
	@scripts/check_tools.sh test

demo:
	@scripts/check_tools.sh demo
	cargo build --release --locked -p isopace-lm
	@model="$$(scripts/fetch_model.sh)" && $(target)/release/isopace generate --model "$$model" "$$QUESTION"

# Cheapest first. Clippy and rustdoc share their builds of the dependencies; so do tests, doctests
# and, in the same profile, the Python extension.
test: tools fmt tidy clippy test-rust schedules doctest doc test-python

fmt:
	cargo fmt --all --check

tidy:
	cargo xtask tidy

clippy:
	cargo clippy --locked --workspace --all-targets -- -D warnings

# Tests that need the model fail without it, so it comes first.
test-rust:
	scripts/fetch_model.sh >/dev/null
	if cargo nextest --version >/dev/null 2>&1; then \
	    cargo nextest run --workspace; \
	else \
	    cargo test --workspace --lib --bins --tests; \
	fi

# The compile cache, in orders of threads that shuttle chooses.
schedules:
	cargo test -p isopace-core --features shuttle --test schedules -- --test-threads 1

doctest:
	cargo test --workspace --doc

doc:
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items

test-python:
	scripts/test_python.sh

bench:
	cargo build --release --locked -p isopace-lm
	python3 bench/compare.py --setup
	python3 bench/compare.py --json $(target)/compare.json
