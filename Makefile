# make demo    the first thing to run            make test     every gate
# make bench   the benchmarks in full            make help     the rest
#
# PYTHON=python3.12 make …    chooses the interpreter that .venv is made with
PYTHON ?= python3
export PYTHON
# which benchmarks: a regular expression on their names
BENCH ?= .

BIN := .venv/bin
# asv keeps a file about the machine in the home directory; here it stays in the checkout.
ASV = HOME="$(CURDIR)/.asv/home" $(BIN)/asv
ASV_RUN = $(ASV) run --config asv_bench/asv.conf.json -E existing:$(CURDIR)/$(BIN)/python --show-stderr

.PHONY: help demo test test-fast test-long coverage asv bench bench-quick bench-compare accuracy-compare release-check docs pictures readme-table clean

help:
	@echo "make demo                         calibrate real streams: a table, a picture and scores in demo/"
	@echo "make test                         every gate: style, types, wheel, benchmarks once, tests"
	@echo "make test-fast                    the tests of a change's inner loop: no JVM, browser or document"
	@echo "make coverage                     the same tests, and the lines of Python that none of them ran"
	@echo "make test-long                    the tests as on other processors; each extra installed alone"
	@echo "make bench [BENCH=regex]          the benchmarks in full"
	@echo "make bench-quick                  each benchmark once"
	@echo "make bench-compare BASE=revision  this tree against a revision; fails on a regression"
	@echo "make accuracy-compare BASE=rev    losses on small streams, this tree against a revision"
	@echo "make release-check                a release up to its tag: archive, wheels, each installed and used"
	@echo "make docs                         the documentation as a site in site/"
	@echo "make pictures                     the pictures in docs/pictures/ anew"
	@echo "make readme-table                 the README's table anew, from the demo's own output"
	@echo "make clean                        remove everything that is made here"

demo:
	@.ci/venv cli,jax
	$(BIN)/streamcal demo --out demo

test:
	@.ci/run

# `tests/conftest.py` names what is left out. FAST="tests/test_x.py" runs some of these.
FAST ?=
test-fast:
	@.ci/venv test
	@CI=1 $(BIN)/python -m pytest --quiet --numprocesses auto --fast $(FAST)

coverage:
	@.ci/venv test
	@CI=1 $(BIN)/python -m pytest --quiet --numprocesses auto --fast -p tests.measured $(FAST)

test-long:
	@.ci/long

# `asv machine` writes the file that asv would otherwise ask for at the terminal.
asv:
	@.ci/venv test
	@mkdir -p .asv/home
	@$(ASV) machine --config asv_bench/asv.conf.json --yes >/dev/null

bench: asv
	$(ASV_RUN) --bench "$(BENCH)" --set-commit-hash "$$(git rev-parse HEAD)"

# Each benchmark once, to see that it runs; the times are worth nothing and are not kept.
bench-quick: asv
	STREAMCAL_BENCH_LARGEST=1000 $(ASV_RUN) --bench "$(BENCH)" --quick --launch-method forkserver

bench-compare:
	$(if $(BASE),,$(error say which revision to compare with: make bench-compare BASE=revision))
	@$(MAKE) --no-print-directory asv
	HOME="$(CURDIR)/.asv/home" $(BIN)/python asv_bench/compare.py "$(BASE)" --bench "$(BENCH)"

accuracy-compare:
	$(if $(BASE),,$(error say which revision to compare with: make accuracy-compare BASE=revision))
	@.ci/venv test
	@$(BIN)/python benchmarks/accuracy.py "$(BASE)"

release-check:
	@.ci/release-check

# Strict: what a reader would find broken fails. The environment is kept outside the site. The gate
# names another SPHINX, which finds nothing but what the extra `docs` brings.
SPHINX = $(BIN)/python -m sphinx
docs:
	@.ci/venv docs
	$(SPHINX) --fail-on-warning --keep-going --quiet --doctree-dir build/docs docs site

pictures:
	@.ci/venv docs
	$(BIN)/python docs/pictures.py

readme-table:
	@.ci/venv test
	$(BIN)/python docs/readme_table.py

clean:
	rm -rf .venv .asv build dist demo site docs/reference docs/notebooks .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
