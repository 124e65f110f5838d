# make demo   set up, train, evaluate, film        make test   set up, lint, types, tests (what CI runs)
# make quick  the tests for every save
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
# PyBullet has no wheels for Python 3.12 and newer. There the tests of its tasks are skipped.
BULLET := $(shell "$(or $(wildcard $(BIN)/python),$(PYTHON))" -c "import sys; print('bullet,' if sys.version_info < (3, 12) else '')" 2> /dev/null)
EXTRAS := $(BULLET)atari,box2d,robotics,envpool,ray,sb3,onnx,together,tune,plot,video,wandb,mlflow,dev,browser,docs
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export SDL_VIDEODRIVER ?= dummy
# Under LC_ALL=C pip and Python read paths as ASCII, and a checkout under a path such as "中文" cannot be installed.
ifneq (,$(filter C POSIX,$(LC_ALL)))
export LC_ALL := C.UTF-8
endif

# The demo ends well without a film where nothing on the machine can draw one, and only there.
NO_FILM := { ! $(BIN)/python -m cairn.envs.rendering && echo "The demo ends here, without a film."; }

# pip notes the path of the checkout in the locale's encoding. As a relative path it is ASCII, and any locale can read it.
define RELATIVE
import os, pathlib, sysconfig
site = pathlib.Path(sysconfig.get_path("purelib"))
for note in site.glob("__editable__.cairn_rl-*.pth"):
    note.write_text(os.path.relpath("src", site) + "\n", encoding="ascii")
endef
export RELATIVE

.PHONY: demo test quick fmt lint type unit docs bench release clean

# Set-up happens once: the stamp is newer than what it was made from. Everything stays inside this folder.
$(VENV)/.ready: pyproject.toml constraints.txt $(wildcard src/cairn/native/*.cpp src/cairn/native/*.h)
	@test -n "$(PYTHON)" || { echo "Cairn needs Python 3.11 or newer on the PATH."; exit 2; }
	test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt torch setuptools
	$(BIN)/python -m pip install --quiet -c constraints.txt --no-build-isolation -e '.[$(EXTRAS)]'
	$(BIN)/python -c "$$RELATIVE"
	touch $@

demo: $(VENV)/.ready
	rm -rf runs/demo
	$(BIN)/python -m cairn train fetch-reach-her --seed 1 --out runs/demo
	$(BIN)/python -m cairn eval runs/demo --episodes 100
	$(BIN)/python -m cairn watch runs/demo --out runs/demo/video.mp4 --episodes 10 || $(NO_FILM)

test: lint type unit

lint: $(VENV)/.ready
	$(BIN)/python -m ruff format --check src tests benchmarks
	$(BIN)/python -m ruff check src tests benchmarks

type: $(VENV)/.ready
	$(BIN)/python -m mypy

# Two processes of tests; those that share what is costly to start (Ray, ...: tests/conftest.py) stay in one of them.
PYTEST := $(BIN)/python -m pytest -n 2

unit: $(VENV)/.ready
	$(PYTEST)

# Arithmetic, contracts, layering, recorded results, and the digests of the two cheapest agents; nothing costly to start.
QUICK := core nets replay recipes vector/test_contract.py runs/test_curves.py test_docstrings.py test_layering.py test_results.py
QUICK += $(foreach name,configs dqn loops ppo seeding segments values,algorithms/test_$(name).py)
QUICK += $(foreach name,dqn ppo-discrete,"test_digests.py::test_a_short_run_ends_in_the_recorded_weights_metrics_and_files[$(name)]")
quick: $(VENV)/.ready
	$(PYTEST) -m "not together" $(addprefix tests/,$(QUICK))

fmt: $(VENV)/.ready
	$(BIN)/python -m ruff format src tests benchmarks
	$(BIN)/python -m ruff check --fix src tests benchmarks

# The guide, in English and Chinese, without any request to the network. Its packages (pure Python, some 25 MB to fetch) are part of
# EXTRAS, though only this target and tests/test_docs.py use them: so CI proves at every commit that each page builds.
docs: $(VENV)/.ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "build/site/index.html, build/site/zh/index.html"

bench: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench]' --no-build-isolation
	$(BIN)/python -m benchmarks.speed.run

# a wheel in dist/, tried in an environment of its own with every extra
release:
	PYTHON="$(PYTHON)" .ci/release

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
