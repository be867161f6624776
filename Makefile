# Everything runs from .venv, which is built here from uv.lock. It needs Python >= 3.11 with venv, git, make and gcc.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
UV_VERSION := 0.13.8
# uv trusts the certificates of the machine where it has some, as pip does: it may reach PyPI through a proxy of the site.
CERTIFICATES := $(if $(wildcard /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt),1,0)
UV := UV_SYSTEM_CERTS=$(CERTIFICATES) UV_PYTHON_DOWNLOADS=never UV_PROJECT_ENVIRONMENT=.venv .venv/bin/uv
# Python keeps what it has parsed: some tests start new interpreters, which read it.
RUN := env -u PYTHONDONTWRITEBYTECODE OMP_NUM_THREADS=1 .venv/bin

.PHONY: demo test explore test-slow test-slurm test-slurm-acceptance test-digests lint format docs bench clean
.DEFAULT_GOAL := demo

demo: .venv/installed  ## the whole story on a synthetic log
	$(RUN)/jobcast demo

# Three for two processors: a worker waits a fifth of its time for sockets, files and other processes.
test: .venv/developer  ## every fast test, doctests included
	$(RUN)/python -m pytest -q -n 3 --dist worksteal -m "not slow"

# What fails is printed with a decorator that repeats it, and drawn again by the next run until it is mended.
MINUTES = 10
explore: .venv/developer  ## new random examples for `MINUTES=10`, shared equally by the tests that draw any
	$(RUN)/python -m pytest -q -n 2 --dist worksteal -m "hypothesis and not slow" --hypothesis-profile explore \
	  -p tests.support.explore --minutes $(MINUTES) tests

test-slow: .venv/developer  ## tests longer than a few seconds, or of several processes
	$(RUN)/python -m pytest -q -n 2 --dist worksteal -m "slow and not digests_whole and not slurm"

# They need root, mmdebstrap and a Debian mirror, and skip with the reason where one is missing. The chroots, 1.2 GB, stay
# below build/slurm, or in the folder that JOBCAST_SLURM_ROOTS names.
REAL_SLURM = tests/predictors/schedulers tests/predictors/probes tests/experiments/site/live tests/schedsim/sites/slurm
test-slurm: .venv/developer  ## the adapter beside real Slurms in chroots: some minutes
	$(RUN)/python -m pytest -q -n 0 -rs -m slurm $(REAL_SLURM)

test-slurm-acceptance: .venv/developer  ## the closed loop alone, of half a minute
	$(RUN)/python -m pytest -q -n 0 -rs -m slurm -k acceptance tests/predictors/schedulers

test-digests: .venv/developer  ## schedules and predictions of whole logs, bit for bit: some minutes
	$(RUN)/python -m pytest -q -n 2 --dist worksteal -m digests_whole

lint: .venv/developer  ## style, types, import boundaries
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

format: .venv/developer
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

docs: .venv/developer  ## the site, into build/site: strict, without network
	NO_MKDOCS_2_WARNING=1 $(RUN)/python -m mkdocs build --quiet --strict
	@echo "Open build/site/index.html; with search: .venv/bin/python -m http.server --directory build/site"

bench: .venv/developer  ## speed, beside the last stored figures; what needs real logs or a real Slurm says so
	for file in tests/bench/bench_*.py; do $(RUN)/python $$file || exit 1; done

clean:
	rm -rf .venv build dist reports .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "jobcast needs Python 3.11 or newer; found: $$($(PYTHON) --version 2>&1). Set PYTHON=/path/to/python3.11." >&2; exit 1; }
	@$(PYTHON) -m venv .venv \
	  || { echo "Python's venv module is missing; on Debian: apt-get install python3-venv" >&2; rm -rf .venv; exit 1; }
	.venv/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@touch $@

.venv/installed: .venv/uv pyproject.toml uv.lock
	$(UV) sync --quiet --frozen --inexact --no-dev --extra all
	@touch $@

.venv/developer: .venv/uv pyproject.toml uv.lock
	$(UV) sync --quiet --frozen --inexact --extra all
	@touch $@ .venv/installed
