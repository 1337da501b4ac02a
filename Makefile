# make help lists the targets. CMake does the building; this is the short way in.

PROMPT ?= In one sentence, what is a key-value cache good for?
export PROMPT
KVASIR := build/release/kvasir

.DEFAULT_GOAL := help
.PHONY: help deps build run serve test bench format clean

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 16

deps:
	@tools/install-deps

build: deps  ## build/release/kvasir, optimised
	@test -f build/release/build.ninja || cmake --preset release
	@cmake --build build/release --target kvasir

run: build  ## answer PROMPT="..." with a small model, fetched on first use
	@model=$$(tools/fetch-model) && $(KVASIR) run -m "$$model" -p "$$PROMPT"

serve:  ## the HTTP server
	@echo "make serve: the HTTP server is not built yet; 'make run PROMPT=\"...\"' answers in the terminal" >&2; exit 1

test: deps  ## everything that has to pass (20 to 45 minutes on two cores)
	@tools/ci.sh

bench: build  ## speed of a small model on this machine
	@model=$$(tools/fetch-model) && $(KVASIR) bench -m "$$model"

format: deps  ## clang-format over every C++ file
	@tools/format.sh

clean:  ## remove build/
	@rm -rf build
