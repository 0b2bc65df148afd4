# make test and make demo each set up a virtual environment of their own first, with the versions of
# constraints.txt. They need a Python 3.10 to 3.13, a C++ compiler, and nvcc, with which TileLang builds
# its kernel launchers.
PYTHON ?= python3
PYTEST_ARGS ?=
BENCH_ARGS ?=

EXTRAS_test = cutedsl,test
EXTRAS_demo = cutedsl
EXTRAS_docs = cutedsl,docs
EXTRAS_bench = cutedsl,bench

.PHONY: test demo docs bench lint dist matrix matrix-edges matrix-older clean

test: .venv-test/installed
	.venv-test/bin/python -m pytest $(PYTEST_ARGS)

demo: .venv-demo/installed
	.venv-demo/bin/python -m tl_gridsync_pass demo

# The API reference is read from the sources, tables from the data; the site goes to build/site.
docs: .venv-docs/installed
	PYTHONPATH=tools NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build

# Everything in benchmarks/, on the GPU of this machine.
bench: .venv-bench/installed
	.venv-bench/bin/python benchmarks/run_all.py $(BENCH_ARGS)

# The checks of noxfile.py, each of which makes its own environments.
lint: .venv-nox/installed
	.venv-nox/bin/nox -s lint types

dist: .venv-nox/installed
	.venv-nox/bin/nox -s dist

matrix: .venv-nox/installed
	.venv-nox/bin/nox -s wheel matrix; .venv-nox/bin/nox -s table

matrix-edges: .venv-nox/installed
	.venv-nox/bin/nox -t edges

# The edges but the newest, which `make test` is about.
matrix-older: .venv-nox/installed
	.venv-nox/bin/nox -t older

.venv-nox/installed:
	$(PYTHON) -m venv --clear .venv-nox
	.venv-nox/bin/pip install --quiet nox==2026.10.20
	touch $@

# Editable, so that changed Python files of the package need no new installation; those of startup/ are copied.
.venv-%/installed: pyproject.toml constraints.txt CMakeLists.txt $(wildcard native/* startup/*)
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' || \
	  { echo "Needs Python 3.10 to 3.13, and $(PYTHON) is another. Run make with PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv --clear .venv-$*
	.venv-$*/bin/pip install --quiet -c constraints.txt scikit-build-core apache-tvm-ffi
	command -v cmake >/dev/null || .venv-$*/bin/pip install --quiet -c constraints.txt cmake
	PATH="$(CURDIR)/.venv-$*/bin:$$PATH" .venv-$*/bin/pip install --quiet --no-build-isolation -c constraints.txt -e '.[$(EXTRAS_$*)]'
	touch $@

clean:
	rm -rf .venv-test .venv-demo .venv-docs .venv-bench .venv-nox .nox build dist
