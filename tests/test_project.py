"""What a public project states about itself agrees with the code: versions, workflows, forms, CONTRIBUTING."""

import ast
import importlib.util
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import cairn
from cairn.cli.main import COMMANDS
from cairn.core import untrusted, untrusted_zip
from cairn.interop.sb3 import safe_unpickle
from cairn.runs import policy_card

yaml = pytest.importorskip("yaml")  # comes with MkDocs
ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PINS = dict(line.lower().replace("_", "-").split("==") for line in (ROOT / "constraints.txt").read_text().split())
FORMS = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def pythons():
    """The supported versions, from the classifiers."""
    found = (re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line) for line in PROJECT["classifiers"])
    return [match[1] for match in found if match]


def make_targets(words):
    """The targets that a text calls make with."""
    return {name for name in re.findall(r"\bmake ([a-z][a-z-]*)\b", words)}


# -- version


def test_the_version_is_stated_once():
    assert "version" in PROJECT["dynamic"] and "version" not in PROJECT
    assert yaml.safe_load(text("CITATION.cff"))["version"] == cairn.__version__
    released = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$", text("CHANGELOG.md"), re.M)
    assert released[0] == cairn.__version__


def test_no_other_file_states_another_version():
    named = re.compile(r"(?:cairn(?:-rl)?|Cairn)(?:==| |-|_)v?(\d+\.\d+\.\d+)")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("this is no checkout")
    kinds = (".md", ".py", ".toml", ".yml", ".yaml", ".cff", ".cfg")
    files = [name for name in listed.stdout.split("\0") if name.endswith(kinds) and (ROOT / name).is_file()]
    assert len(files) > 200
    # the steps of a release show how the next version is tagged
    wrong = [(name, found) for name in files for found in named.findall(text(name)) if found != cairn.__version__]
    assert [name for name, _ in wrong if name != "CONTRIBUTING.md"] == []


def test_the_oldest_python_is_the_same_everywhere():
    assert PROJECT["requires-python"] == f">={pythons()[0]}"
    for name in ("docs/install.md", "docs/install.zh.md", "CONTRIBUTING.md"):
        assert all(version in text(name) for version in pythons()), name


# -- workflows, forms and hooks


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_targets_that_exist(path):
    flow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert flow["name"] == path.stem and flow["permissions"] == {"contents": "read"}
    assert True in flow  # YAML 1.1 reads the key `on` as a boolean
    for job in flow["jobs"].values():
        assert job["timeout-minutes"] <= 60
        steps = job["steps"]
        assert all(re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"]) for step in steps if "uses" in step)
        setup = next(step["with"] for step in steps if step.get("uses", "").startswith("actions/setup-python"))
        assert setup["cache"] == "pip" and "constraints.txt" in setup["cache-dependency-path"]
        called = make_targets(" ".join(step.get("run", "") for step in steps))
        assert called and all(re.search(rf"^{target}:", MAKEFILE, re.M) for target in called), called


def test_workflows_cover_tests_docs_and_wheel_on_every_python():
    flows = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in WORKFLOWS}
    assert set(flows) == {"tests", "docs", "wheel"}
    assert flows["tests"]["jobs"]["test"]["strategy"]["matrix"]["python"] == pythons()
    assert flows["wheel"]["jobs"]["wheel"]["strategy"]["matrix"]["python"] == pythons()
    assert make_targets(text(".github/workflows/tests.yml")) == {"test"}
    assert "playwright install --with-deps chromium" in text(".github/workflows/tests.yml")
    assert "--strict" in re.search(r"^docs:.*?\n\n", MAKEFILE, re.M | re.S)[0]


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_an_issue_form_is_one_that_github_shows(path):
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= set(form)
    asked = [part for part in form["body"] if part["type"] != "markdown"]
    assert asked and all(part["type"] in ("input", "textarea", "checkboxes", "dropdown") for part in asked)
    assert len({part["id"] for part in asked}) == len(asked)
    assert all(part["attributes"]["label"] for part in asked)


@pytest.mark.parametrize("name", ["bug", "does_not_learn"])
def test_reports_of_problems_ask_for_what_explains_them(name):
    form = yaml.safe_load(text(f".github/ISSUE_TEMPLATE/{name}.yml"))
    asked = {part.get("id"): part for part in form["body"]}
    for key, word in {"doctor": "cairn doctor", "version": "cairn --version", "config": "config.json"}.items():
        assert asked[key]["attributes"]["label"] == word
    for key in ("doctor", "version", "command"):
        assert asked[key]["validations"]["required"] is True
    request = text(".github/PULL_REQUEST_TEMPLATE.md")
    assert all(word in request for word in ("test_digests.py", "make test", "CHANGELOG.md"))


def test_hooks_are_pinned_and_check_what_make_lint_checks():
    hooks = [hook for repo in yaml.safe_load(text(".pre-commit-config.yaml"))["repos"] for hook in repo["hooks"]]
    needed = {hook["id"]: hook["additional_dependencies"] for hook in hooks}
    assert set(needed) == {"ruff-format", "ruff-check", "end-of-file", "large-files"}
    assert all(re.fullmatch(r"[\w-]+==[\d.]+", pin) for pins in needed.values() for pin in pins)
    assert needed["ruff-format"] == needed["ruff-check"] == [f"ruff=={PINS['ruff']}"]
    folders = re.search(r"ruff check (src[\w ]*)$", MAKEFILE, re.M)[1].split()
    for hook in hooks[:2]:
        assert hook["files"] == f"^({'|'.join(folders)})/"


# -- CONTRIBUTING, SECURITY, CHANGELOG


def test_contributing_has_a_line_for_every_package():
    packages = {path.parent.name for path in (ROOT / "src" / "cairn").glob("*/__init__.py")}
    table = text("CONTRIBUTING.md").split("| package | holds |")[1].split("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.M)) == packages


def test_what_contributing_names_exists():
    words = text("CONTRIBUTING.md")
    paths = re.findall(r"`((?:src|tests|docs|results|zoo|benchmarks|cli)/[\w./-]*)`", words) + re.findall(
        r"\]\(([\w./-]+)\)", words
    )
    made = {"results/recipes/cartpole-ppo-s1.json"}  # by the command above it
    for path in set(paths) - made:
        place = ROOT / "src" / "cairn" / path if path.startswith("cli/") else ROOT / path
        assert "NAME" in path or place.exists(), path
    assert all(re.search(rf"^{target}:", MAKEFILE, re.M) for target in make_targets(words))
    commands = set(re.findall(r"^\s*cairn ([a-z-]+)|`cairn ([a-z-]+)", words, re.M))
    assert {one or other for one, other in commands} - {"--version"} <= set(COMMANDS)
    for module in re.findall(r"python -m ((?:cairn|benchmarks)[\w.]+)", words + text("SECURITY.md")):
        assert importlib.util.find_spec(module), module


def test_security_states_the_limits_of_the_readers():
    words = text("SECURITY.md")
    mib, gib = 2**20, 2**30
    for limit in (
        f"at most {untrusted.JSON // mib} MiB, {untrusted.JSON_DEPTH} levels, {untrusted.JSON_ITEMS:,} values",
        f"{untrusted.INT_DIGITS} digits per number",
        f"at most {untrusted.TENSORS // gib} GiB and {untrusted.TENSOR_COUNT:,} tensors",
        f"at most {policy_card.SHARE} times the weights",
        f"at most {untrusted_zip.ZIP_MEMBERS:,} members",
        f"at most {untrusted_zip.ZIP_FREE // mib} MiB or {untrusted_zip.ZIP_RATIO} times the file",
        f"never to more than {untrusted_zip.ZIP // gib} GiB",
        f"at most {safe_unpickle.OPERATIONS:,} operations, {safe_unpickle.CLASSES:,} classes",
    ):
        assert limit in words


def test_the_changelog_has_the_sections_of_keep_a_changelog():
    words = text("CHANGELOG.md")
    assert words.index("## [Unreleased]") < words.index(f"## [{cairn.__version__}]")
    assert {"Added", "Changed", "Deprecated", "Fixed"} <= set(re.findall(r"^### (.*)$", words.split("\n## ")[1], re.M))


def test_every_old_import_path_is_listed_as_deprecated():
    table = text("CHANGELOG.md").split("### Deprecated")[1].split("### ")[0]
    listed = dict(re.findall(r"^\| `(cairn[\w.]+)` \| `(cairn[\w.]+)` \|$", table, re.M))
    forwarded = {}
    for path in (ROOT / "src" / "cairn").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "forwards":
                old, new = map(ast.literal_eval, node.args)
                forwarded[old] = new
    assert len(forwarded) >= 3 and listed == forwarded


# -- the page on installation


def test_all_extras_are_those_for_users_and_leave_out_what_has_no_wheel():
    extras = PROJECT["optional-dependencies"]
    always, before = extras["all"]
    for_users = set(extras) - {"all", "dev", "browser", "docs", "bench"}
    assert set(re.findall(r"\w+", always.partition("[")[2])) == for_users - {"bullet"}
    assert before == "cairn-rl[bullet]; python_version < '3.12'" and "python_version" not in always


@pytest.mark.parametrize("name", ["docs/install.md", "docs/install.zh.md"])
def test_the_table_of_extras_is_complete_and_has_the_pinned_versions(name):
    rows = re.findall(r"^\| (.*) \|$", text(name), re.M)[2:]
    extras = {extra for row in rows for extra in re.findall(r"`(\w+)`", row.split(" | ")[0])}
    assert extras == set(PROJECT["optional-dependencies"]) - {"all", "bench"}
    for row in rows:
        cells = row.split(" | ")
        assert len(cells) == 3 + len(pythons())
        for package, version in re.findall(r"([\w-]+) (\d+(?:\.\d+)+)", cells[2]):
            assert PINS[package.lower()] == version, row
        assert ("bullet" in cells[0]) == (cells[-1] != "wheel"), row
