"""Packages import one way only, and nothing evades that.

The rules are checked on the syntax tree, so imports inside functions and under TYPE_CHECKING count as well.
"""

import ast
import subprocess
import sys
from functools import cache
from itertools import accumulate
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src" / "cairn"

# A package may import itself and those of the lines above its own; packages of one line do not import each other.
LAYERS = (
    ("core",),
    ("nets", "replay", "envs"),
    ("native", "explore"),
    ("vector",),
    ("collect",),
    ("algorithms",),
    ("recipes", "interop"),
    ("runs",),
    ("evidence", "doctor"),
    ("report",),
    ("search",),
    ("api", "cli"),
)
ABOVE = accumulate(LAYERS, lambda above, layer: above + layer, initial=())
DOORS = {package: set(above) for layer, above in zip(LAYERS, ABOVE, strict=False) for package in layer}
DOORS |= {"agents": {"core"}}  # an old name of cairn.algorithms.registry
DOORS |= {"__init__": set(DOORS), "__main__": {"cli"}}  # the public names, loaded when asked for; python -m cairn
THIRD_PARTY = {"core": {"torch", "numpy"}}  # what a package may use from outside, where that is limited

# Agents made of other agents, as their papers make them. No other agent imports another one.
COMPOSED = {
    "algorithms/hiro/agent.py": {"dqn", "sac", "td3", "hiro.config", "hiro.exploring", "hiro.subgoals"},
    "algorithms/imitation/dagger.py": {"imitation.bc"},
    "algorithms/imitation/aggrevated.py": {"ppo", "reinforce"},
}
# Modules that are imported by a name which is not written there.
BY_NAME = {
    "__init__.py": "public names (PEP 562)",
    "core/deprecated.py": "old module paths",
    "envs/families.py": "packages that register environments; none is Cairn's (see below)",
}
# the registry and the questions about configs that it answers may read fields by name
REGISTRY = ("algorithms/registry.py", "algorithms/settings.py")
# What is still to be put right. A line that is no longer true fails the test too.
EXPECTED: set[str] = set()


def files() -> list[Path]:
    return sorted(SRC.rglob("*.py"))


def imports(tree: ast.AST) -> list[tuple[str, str]]:
    """(module, name) of every import; the name is "" for `import module`. A relative one begins with a dot."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [("." * node.level + (node.module or ""), alias.name) for alias in node.names]
    return found


def module_of(module: str, name: str) -> str:
    """The module that `from module import name` reads: `name` itself where it is one."""
    path = SRC.parent / Path(*module.split("."), name)
    return f"{module}.{name}" if name and (path.is_dir() or path.with_suffix(".py").exists()) else module


def is_agent(tree: ast.AST) -> bool:
    """A file that defines an algorithm: a class that acts, and one of settings, here or in a config.py beside it."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    acts = [f for c in classes for f in c.body if isinstance(f, ast.FunctionDef) and f.name == "act"]
    settings = [c.name for c in classes] + [name for module, name in imports(tree) if module.endswith(".config")]
    return bool(acts) and any(name.endswith("Config") for name in settings)


@cache
def fields() -> set[str]:
    """Fields and properties of Task, Recipe and every config; methods and attributes of every agent."""
    names = set()
    for path in [SRC / "envs/task.py", SRC / "recipes/recipe.py", *(SRC / "algorithms").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ClassDef):
                continue
            methods = {f.name for f in node.body if isinstance(f, ast.FunctionDef)}
            if node.name in ("Task", "Recipe") or node.name.endswith("Config"):
                names |= methods | {part.target.id for part in node.body if isinstance(part, ast.AnnAssign)}
            elif "act" in methods:
                stored = [a for a in ast.walk(node) if isinstance(a, ast.Attribute) and isinstance(a.ctx, ast.Store)]
                names |= methods | {a.attr for a in stored if ast.unparse(a.value) == "self"}
    return {name for name in names if not name.startswith("_")}


def violations(path: Path, name: str) -> list[str]:
    """What a file does that it must not. `name` is its place in src/cairn."""
    tree = ast.parse(path.read_text())
    return [f"{name} {fault}" for check in (_doors, _agents, _evasions, _strings) for fault in check(tree, name)]


def _doors(tree: ast.AST, name: str) -> list[str]:
    package = name.split("/")[0].removesuffix(".py")
    bad = []
    for module, what in imports(tree):
        top, *rest = module_of(module, what).split(".")
        if module.startswith("."):
            bad.append(f"has a relative import of {module}")
        elif top == "cairn":
            whole = ".".join([top, *rest])
            if not rest and not (what.startswith("__") and what.endswith("__")):
                bad.append(f"imports cairn itself, for {what or 'its attributes'}")
            elif rest and rest[0] != package and rest[0] not in DOORS[package]:
                bad.append(f"imports {whole}")
        elif package in THIRD_PARTY and top not in THIRD_PARTY[package] and top not in sys.stdlib_module_names:
            bad.append(f"imports {module}")
    return bad


def _agents(tree: ast.AST, name: str) -> list[str]:
    """Agents see no environment, run, logger, path or command line, and no agent that they are not made of."""
    if not name.startswith("algorithms/") or not is_agent(tree):
        return []
    bad = []
    for module, what in imports(tree):
        top, *rest = module_of(module, what).split(".")
        if top in {"gymnasium", "pathlib", "logging", "sys", "os", "argparse", "tyro"}:
            bad.append(f"is an agent that imports {top}")
        elif top == "cairn" and rest[0] not in ("core", "nets", "replay"):
            other = ".".join(rest[1:])
            if rest[0] != "algorithms" or other not in COMPOSED.get(name, ()):
                bad.append(f"is an agent that imports {module}")
    return bad


def _evasions(tree: ast.AST, name: str) -> list[str]:
    """No module replaces its class, imports another by a name that is not written there, or looks one up."""
    bad = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "__class__" and isinstance(node.ctx, ast.Store):
            bad.append("replaces a class")
        elif isinstance(node, ast.ClassDef) and any(ast.unparse(b).endswith("ModuleType") for b in node.bases):
            bad.append("defines a class of modules")
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__"):
            given = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else ""
            if name not in BY_NAME and (not given or given.startswith(("cairn", "."))):
                bad.append("imports a module by name")
        elif isinstance(node, ast.Subscript) and ast.unparse(node.value) == "sys.modules":
            key = node.slice.value if isinstance(node.slice, ast.Constant) else ""
            if not key or key.startswith("cairn"):
                bad.append("looks a module up in sys.modules")
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "sys.modules.get":
            if not isinstance(node.args[0], ast.Constant) or node.args[0].value.startswith("cairn"):
                bad.append("looks a module up in sys.modules")
    return bad


def _strings(tree: ast.AST, name: str) -> list[str]:
    """No attribute of a task, a config, an agent or a module of Cairn is read by a string."""
    modules = {what for module, what in imports(tree) if what and module_of(module, what) != module}
    bad = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id in ("getattr", "hasattr", "setattr") and len(node.args) > 1:
            owner, attribute = node.args[:2]
            if isinstance(attribute, ast.Constant) and attribute.value in fields() and name not in REGISTRY:
                bad.add("reads fields of a task, config or agent by string")
            if isinstance(owner, ast.Name) and owner.id in modules:
                bad.add(f"reads the module {owner.id} by string")
    return sorted(bad)


def test_no_file_breaks_a_rule_but_those_that_are_known():
    found = {fault for path in files() for fault in violations(path, str(path.relative_to(SRC)))}
    assert sorted(found - EXPECTED) == [] and sorted(EXPECTED - found) == []


def test_every_package_is_listed():
    packages = {path.name for path in SRC.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    modules = {path.stem for path in SRC.glob("*.py")}
    assert packages | modules == set(DOORS)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("core/intruder.py", "from cairn.nets.mlp import MLP"),
        ("core/intruder.py", "import gymnasium"),
        ("nets/intruder.py", "from cairn import algorithms"),
        ("nets/intruder.py", "from cairn import PPO"),
        ("nets/intruder.py", "import cairn"),
        ("nets/intruder.py", "from cairn.replay import ring"),
        ("vector/intruder.py", "import cairn.replay.ring, cairn.collect"),
        ("envs/intruder.py", "from cairn.vector.protocol import Vector"),
        ("runs/intruder.py", "from cairn.doctor.watchers import watching"),
        ("runs/intruder.py", "from cairn.cli import main"),
        ("report/intruder.py", "from cairn.search.sweep import sweep"),
        ("vector/intruder.py", "from .protocol import Vector"),
        ("vector/intruder.py", "from .. import envs"),
        ("vector/intruder.py", "if TYPE_CHECKING:\n        from cairn.runs.run import Run"),
        ("vector/intruder.py", "importlib.import_module('cairn.runs.run')"),
        ("vector/intruder.py", "import_module(name)"),
        ("vector/intruder.py", "__import__('cairn.runs')"),
        ("vector/intruder.py", "sys.modules['cairn.runs.run'].Run"),
        ("vector/intruder.py", "sys.modules[name]"),
        ("vector/intruder.py", "sys.modules.get('cairn.runs.run')"),
        ("runs/intruder.py", "sys.modules[__name__].__class__ = Callable"),
        ("runs/intruder.py", "class Callable(types.ModuleType): pass"),
        ("vector/intruder.py", "from cairn.envs import task\n    getattr(task, 'Task')"),
        ("vector/intruder.py", "getattr(task, 'time_limit', None)"),
        ("runs/intruder.py", "hasattr(cfg, 'capacity')"),
        ("report/intruder.py", "getattr(agent, 'positions', None)"),
    ],
)
def test_the_check_itself_fails_when_a_door_is_forced(tmp_path, name, line):
    path = tmp_path / "intruder.py"
    path.write_text(f"def f():\n    {line}\n")
    assert violations(path, name)


AGENT = "class MineConfig: ...\nclass Mine:\n    def act(self, obs): ...\n"


@pytest.mark.parametrize(
    "line",
    [
        "from cairn.algorithms.sac import SAC",
        "from cairn.algorithms import registry",
        "from cairn.vector.protocol import Vector",
        "from cairn.runs.run import Run",
        "import gymnasium as gym",
        "from pathlib import Path",
    ],
)
def test_agents_see_no_environment_run_path_or_other_agent(tmp_path, line):
    path = tmp_path / "mine.py"
    path.write_text(AGENT)
    assert violations(path, "algorithms/mine.py") == []
    path.write_text(f"{AGENT}\ndef f():\n    {line}\n")
    assert violations(path, "algorithms/mine.py")


def test_the_agents_are_found():
    agents = {str(path.relative_to(SRC)) for path in files() if is_agent(ast.parse(path.read_text()))}
    assert agents >= {f"algorithms/{name}.py" for name in ("a2c", "dqn", "ppo", "reinforce", "sac", "td3")}
    assert agents >= set(COMPOSED)


def test_packages_that_register_environments_are_not_ours():
    from cairn.envs.families import _PLUGINS

    assert not [package for _, package, _ in _PLUGINS if package.split(".")[0] == "cairn"]


def test_ppo_reads_in_under_650_lines():
    """From environment to gradient: the batch, the vector, the collector, the loop, the agent, its network, returns."""
    path = [
        "vector/env_batch.py",
        "vector/in_process.py",
        "collect/local.py",
        "algorithms/on_policy.py",
        "algorithms/ppo.py",
        "nets/actor_critic.py",
        "core/returns.py",
    ]
    lines = sum(len((SRC / p).read_text().splitlines()) for p in path)
    assert lines < 650, lines


@pytest.mark.parametrize("module", ["cairn.vector.processes", "cairn.envs.task", "cairn.vector.choose"])
def test_workers_do_not_pay_for_torch(module):
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
