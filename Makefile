# Two commands do everything, environment included, on a machine that has only Python:
#   make demo    both programs are killed in mid-epoch, resume, and are compared with undisturbed runs; a report of it
#   make test    the tests
# and two take long:
#   make bench   the speed of both programs, beside Model.fit and a plain Estimator; what saves and starts cost; what a resume
#                costs by number of records; and how well the shuffles mix; about three quarters of an hour
#   make soak    hundreds of kills, signals and time limits for each program; SOAK='--kills=50 --seed=1' for another number
# PYTHON=... chooses the interpreter; by default 3.11, 3.10 or 3.9 (both programs), else a newer one (all but the estimator).

PYTHON ?= $(shell for python in python3.11 python3.10 python3.9 python3.13 python3.12 python3; do \
	$$python -c 'import sys; assert sys.version_info >= (3, 9)' 2>/dev/null && echo $$python && break; done)
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
VENV := .venv-$(VERSION)
RUN := $(VENV)/bin/python

.PHONY: demo test bench soak env

env: $(VENV)/installed

$(VENV)/installed: setup.py
	@test -n "$(PYTHON)" || { echo "error: no Python 3.9 or newer found; install Python 3.11 or set PYTHON="; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --upgrade pip setuptools
	$(VENV)/bin/pip install --quiet --editable .[test,report]
	@touch $@

demo: env
	$(RUN) -m compare --least_accuracy=0.9

test: env
	$(RUN) -m pytest -n 2 --dist loadfile

bench: env
	$(RUN) -m compare.bench.speed
	$(RUN) -m compare.bench.saving
	$(RUN) -m compare.bench.pipelines
	$(RUN) -m compare.bench.scale
	$(RUN) -m compare.bench.mixing

soak: env
	$(RUN) -m compare.soak $(SOAK)
