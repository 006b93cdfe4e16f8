# Everything runs from a fresh clone: each target sets up what it needs first.

ifndef PYTHON
PYTHON := $(shell sh .ci/python)
endif
VENV := .venv
BIN := $(VENV)/bin
PROCESSORS := $(shell nproc)
WORKERS := $(shell echo $$(($(PROCESSORS) + 2)))
ENGINE := $(wildcard capture/*.[ch] capture/*/*.[ch] capture/*/*/*.[ch] telemetry/probe/*.[ch] sql/compaction/*.[ch])

# What has to be on the machine in addition to Python. Installed by apt where that is possible.
BUILD_PACKAGES := gcc libc6-dev libpcap-dev zlib1g-dev libzstd-dev liblzma-dev libbpf-dev clang
RELEASE_PACKAGES := $(BUILD_PACKAGES) dpkg-dev flex bison make pkg-config debhelper dh-python bash-completion git
TEST_PACKAGES := tshark tcpdump chromium-headless-shell iproute2 ethtool zstd xz-utils poppler-utils e2fsprogs xfsprogs libfuse3-3 openjdk-17-jre-headless

.DEFAULT_GOAL := help
.PHONY: help setup demo gallery test test-fast lint format asan docs fuzz faults soak bench lock wheel deb release test-packages test-collector test-engines audit clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/ready ## build mburst into .venv

demo: $(VENV)/demo-ready ## make a cache server's incast, record it, find its bursts, write a report
	@[ "$$(id -u)" != 0 ] || sh .ci/packages iproute2
	$(BIN)/mburst demo -o demo

gallery: $(VENV)/test-ready ## regenerate the pictures of docs/gallery.md, of the simulated demo
	$(BIN)/python docs/gallery.py docs/gallery

# Bytecode is kept, whatever the environment says: tests start hundreds of interpreters. Some tests wait more than they
# compute, so there are more workers than processors; the costliest files begin first (tests/lib/selection.py). They are
# collected once before, which keeps what pytest makes of each file: else each worker would make it. A test that hangs
# prints where, and ends the run: in another worker, its file would begin again and hang.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest
HANGS := -o faulthandler_timeout=900 -o faulthandler_exit_on_timeout=true
PARALLEL := --dist loadfile --no-loadscope-reorder --max-worker-restart 0 $(HANGS)

test: $(VENV)/test-ready ## run the tests, except test-packages, test-collector, test-engines (PYTEST_OPTIONS: run those one after the other)
ifdef PYTEST_OPTIONS
	$(PYTEST) $(PYTEST_OPTIONS)
else
	$(PYTEST) -qq --collect-only >/dev/null || :
	$(PYTEST) -q -n $(WORKERS) $(PARALLEL) -m "not alone and not timed and not packages"
	$(PYTEST) -q -n $(WORKERS) $(PARALLEL) -m timed
	$(PYTEST) -q -m alone --durations 15 $(HANGS)
endif

test-fast: $(VENV)/test-ready ## run the tests that need no root, no browser and little time
	$(PYTEST) -q -n $(PROCESSORS) $(PARALLEL) -m fast

lint: $(VENV)/test-ready ## check style, layout and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $$(git ls-files '*.c' '*.h')
	$(BIN)/mypy

format: $(VENV)/test-ready ## format Python and C (ruff, clang-format)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $$(git ls-files '*.c' '*.h')

# The module is loaded by tests/lib/asan_engine.py; the drivers that tests compile are always sanitized. Leaks are found in the
# drivers by `make test`: Python itself has some.
asan: $(VENV)/test-ready ## run the tests of the engine in an engine built with ASan and UBSan (PYTEST_OPTIONS)
	CC="gcc -g -fsanitize=address,undefined -fno-sanitize-recover=all" $(BIN)/python setup.py --quiet build_ext \
		--build-lib build/asan --build-temp build/asan-objects
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0 \
		PYTHONPATH=tests/lib $(BIN)/python -m pytest -q -p asan_engine -m "not alone and not timed" $(or $(PYTEST_OPTIONS),tests/capture)

docs: $(VENV)/ready ## regenerate docs/cli.md, docs/trino.sql, the views in docs/schema.md and the deliveries in docs/operate.md
	$(BIN)/python docs/write_cli.py
	$(BIN)/python docs/write_schema.py
	$(BIN)/python docs/write_deliveries.py
	$(BIN)/python docs/write_trino.py

fuzz: ## fuzz the file readers over FUZZ_CORPUS, or FUZZ_WHAT=exchange, for FUZZ_SECONDS
	@sh .ci/packages clang libpcap-dev zlib1g-dev libzstd-dev liblzma-dev
	@sh .ci/packages libclang-rt-$$(clang -dumpversion | cut -d. -f1)-dev
	tests/fuzz/run

faults: $(VENV)/test-ready ## kill recorders, fill disks, cut the power: the long set, as root (hours; MBURST_FAULTS)
	MBURST_FAULTS=100 PYTHONPATH=tests/lib $(BIN)/python -m pytest -q -p outcomes tests/services/test_record_again.py \
		tests/services/test_record_gaps.py tests/faults/test_killed_files.py::test_killed_then_again
	MBURST_FAULTS=$${MBURST_FAULTS:-32} $(BIN)/python -m pytest -q tests/faults --deselect tests/faults/test_flips.py
	MBURST_FAULTS=10000 $(BIN)/python -m pytest -q tests/faults/test_flips.py

soak: $(VENV)/test-ready ## run an agent for an hour while senders change all the time, as root (MBURST_SOAK: seconds)
	MBURST_SOAK=$${MBURST_SOAK:-3600} $(BIN)/python -m pytest -q -s tests/faults/test_soak.py

bench: $(VENV)/test-ready ## measure speed beside libpcap, capinfos and tshark (minutes; 1.1 GB in TMPDIR)
	for question in bench/bench_*.py; do $(BIN)/python $$question || exit 1; done

COMPILE := $(VENV)/uv/bin/uv pip compile - --universal --python-version 3.11 --upgrade --generate-hashes --no-header \
	--no-annotate --no-emit-index-url --quiet
lock: $(VENV)/uv ## update the lock files of .ci/ and release/
	echo pip | $(COMPILE) --output-file .ci/pip.lock
	$(PYTHON) .ci/build-requirements | $(COMPILE) pyproject.toml --extra test --output-file .ci/requirements.lock
	$(PYTHON) .ci/build-requirements | $(COMPILE) release/requirements.in --output-file release/requirements.lock

wheel: $(VENV)/release/ready ## build the wheel, with all libraries inside, and the source archive, into dist/
	release/wheel dist

deb: wheel ## build the Debian package of that wheel, for the Debian release of this machine, into dist/
	release/deb dist

release: ## build all packages of a tagged, clean tree, with checksums (RELEASE_TESTS=no: without tests)
	release/check $(CURDIR)
ifneq ($(RELEASE_TESTS),no)
	$(MAKE) test
endif
	rm -rf dist
	$(MAKE) deb
ifneq ($(RELEASE_TESTS),no)
	MBURST_RELEASE=yes $(MAKE) test-packages
endif
	cd dist && sha256sum mburst* >SHA256SUMS
	@[ "$(RELEASE_TESTS)" != no ] || echo "no test was run (RELEASE_TESTS=no)"
	@echo "dist/ has the release; nothing was uploaded"

test-packages: $(VENV)/test-ready ## test the packages in dist/ on fresh systems, as root (minutes; make deb makes them)
	@[ "$$(id -u)" != 0 ] || sh .ci/packages debootstrap iproute2 man-db zsh fish buildah
	$(PYTEST) -q -rs -m packages tests/packages

test-collector: $(VENV)/test-ready ## test with an OpenTelemetry Collector in between and with telemetrygen, built of their Go modules (three minutes)
	$(PYTEST) -q -rs -m packages tests/collector

test-engines: $(VENV)/test-ready ## ask the questions of docs/fleet.md on Trino, fetched from Maven Central (0.5 GB), and in Spark SQL (four minutes)
	$(PYTEST) -q -rs -m packages tests/engines

audit: $(VENV)/pip-audit ## look for known flaws in what the locks of .ci/ and release/ name
	$(PYTHON) .ci/audit $(VENV)/pip-audit/bin/pip-audit .ci/pip.lock .ci/requirements.lock release/requirements.lock

clean: ## remove what was built
	rm -rf $(VENV) build demo dist *.egg-info capture/*.so telemetry/probe/*.so sql/compaction/*.so

# setuptools warns of a folder here that is called as the package is: it is the package.
INSTALL := env PYTHONWARNINGS='ignore:Editable installation' $(BIN)/pip install --quiet

# The headers of Python itself are needed where python3 is the system's own. A new pip installs in half the time of that which
# Python 3.11 brings; where it cannot be had, that one does as well.
$(VENV)/python:
	@sh .ci/packages $$($(PYTHON) .ci/python-packages)
	$(PYTHON) -m venv $(VENV)
	@$(INSTALL) --require-hashes --requirement .ci/pip.lock || :
	@touch $@

$(VENV)/ready: $(VENV)/python setup.py pyproject.toml $(ENGINE)
	@sh .ci/packages $(BUILD_PACKAGES)
	$(INSTALL) --editable .
	@touch $@

$(VENV)/demo-ready: $(VENV)/ready
	$(INSTALL) --editable '.[demo]'
	@touch $@

# Exactly what was locked, by hashes, and nothing else fetched to build with; of that, what is imported is compiled when it is.
# Debian's packages come meanwhile.
$(VENV)/test-ready: $(VENV)/python setup.py pyproject.toml .ci/requirements.lock $(ENGINE)
	@{ sh .ci/packages $(BUILD_PACKAGES) $(TEST_PACKAGES); sh .ci/promtool $(BIN); } & \
	$(INSTALL) --no-compile --require-hashes --requirement .ci/requirements.lock && done=0 || done=1; \
	wait; exit $$done
	@$(INSTALL) --no-build-isolation --no-deps --editable .
	@touch $@ $(VENV)/ready

# What builds packages has an environment of its own, locked as that of the tests is.
export MBURST_RELEASE_PYTHON := $(CURDIR)/$(VENV)/release/bin/python
$(VENV)/release/ready: release/requirements.lock | $(VENV)/python
	@sh .ci/packages $(RELEASE_PACKAGES)
	$(PYTHON) -m venv $(VENV)/release
	$(VENV)/release/bin/pip install --quiet --require-hashes --requirement release/requirements.lock
	@touch $@

# Tools with environments of their own.
$(VENV)/uv $(VENV)/pip-audit: | $(VENV)/python
	$(PYTHON) -m venv $@
	$@/bin/pip install --quiet $(notdir $@)
