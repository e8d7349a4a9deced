# Two commands matter: `make demo` and `make test`. Each makes the environment in .venv when it is not there yet.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
FOLDERS := schemas parsers pipeline

.PHONY: demo test explore check lint format types docs dist bench fuzz clean

demo: $(READY)
	@$(BIN)/aftershock run examples/demo/logs --config examples/demo/aftershock.toml --out build/demo --overwrite

test: $(READY)
	$(BIN)/python -m pytest

# The properties with new examples in each run; `make test` draws the same ones each time.
explore: $(READY)
	HYPOTHESIS_PROFILE=explore $(BIN)/python -m pytest -m hypothesis

check: lint types dist

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# mypy does not follow an editable install: it is given the tree as it is installed, made of links.
types: $(READY)
	rm -rf build/typing && mkdir -p build/typing/aftershock
	for folder in $(FOLDERS); do ln -s ../../../$$folder build/typing/aftershock/$$folder; done
	for file in aftershock/*; do ln -s ../../../$$file build/typing/aftershock/; done
	MYPYPATH=build/typing $(BIN)/mypy -p aftershock

docs: $(READY)
	$(BIN)/python docs/refresh.py

# The wheel is installed into an empty environment and has to run there, outside this folder.
dist: $(READY)
	rm -rf build/dist build/lib build/bdist.* build/empty
	$(BIN)/python -m build --no-isolation --outdir build/dist
	$(PYTHON) -m venv build/empty
	build/empty/bin/python -m pip install -q -c constraints.txt build/dist/*.whl
	cd build/empty && bin/aftershock --version && bin/aftershock formats --check

bench: $(READY)
	$(BIN)/python benchmarks/kernel_scan.py

# A minute by default; FUZZ_SECONDS=3600 for an hour. What it finds is written to build/.
FUZZ_SECONDS ?= 60
fuzz: $(READY)
	$(BIN)/python -m pip install -q -c constraints.txt --no-build-isolation -e '.[fuzz]'
	$(BIN)/python tests/fuzz/kernel_fuzz.py build/fuzz -artifact_prefix=build/ -max_total_time=$(FUZZ_SECONDS)

$(READY): setup.py pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q -c constraints.txt setuptools wheel
	$(BIN)/python -m pip install -q -c constraints.txt --no-build-isolation -e '.[dev]'
	$(BIN)/python -m compileall -q $(FOLDERS) aftershock
	touch $(READY)

clean:
	rm -rf build .venv *.egg-info
