"""Docstrings say what linters cannot see: every public method has one, and the Python interface names every argument.

Ruff's rules D (pyproject.toml) check modules, classes, functions and the form of docstrings. Methods are checked here,
because a method that implements a documented one of a base class or of a Protocol needs no docstring of its own.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from typing import Any

import pytest

import cairn
from cairn.api import Model

SRC = Path(cairn.__file__).parent
Function = ast.FunctionDef | ast.AsyncFunctionDef
# Methods that classes of other libraries document.
FOREIGN = {
    "Env": {"reset", "step", "render", "close"},
    "Wrapper": {"reset", "step", "render", "close"},
    "VecEnv": {"reset", "step_async", "step_wait", "close"},
    "Module": set[str](),
}


@dataclass
class Class:
    """A class of the source: its methods, those that are documented, and the names of its bases."""

    where: str
    bases: list[str]
    protocol: bool
    methods: dict[str, Function] = field(default_factory=dict)
    documented: set[str] = field(default_factory=set)


def named_in(doc: str | None) -> set[str]:
    """The names in backticks: `step`, `act(obs)`."""
    return set(re.findall(r"`(\w+)[`(]", doc or ""))


def is_stub(node: Function) -> bool:
    """Whether a method of a Protocol has no body but `...`."""
    last = node.body[-1]
    return isinstance(last, ast.Expr) and isinstance(last.value, ast.Constant) and last.value.value is ...


def is_property(node: Function) -> bool:
    return any(isinstance(one, ast.Name) and one.id == "property" for one in node.decorator_list)


def read_class(node: ast.ClassDef, where: str) -> Class:
    bases = [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]
    found = Class(f"{where}: {node.name}", bases, "Protocol" in bases)
    found.documented = named_in(ast.get_docstring(node)) if found.protocol else set()
    for one in node.body:
        if isinstance(one, Function) and one.name not in found.methods:  # not the setter of a property
            found.methods[one.name] = one
            # A property of a Protocol is an attribute: its name and its type say what it is.
            if ast.get_docstring(one) or (found.protocol and is_stub(one) and is_property(one)):
                found.documented.add(one.name)
    return found


def read_classes(text: str, where: str = "module.py") -> dict[str, Class]:
    tree = ast.parse(text)
    return {node.name: read_class(node, where) for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def lineage(name: str, classes: dict[str, Class]) -> Iterator[Class]:
    """A class and its bases, as far as they are known."""
    if name in classes:
        yield classes[name]
        for base in classes[name].bases:
            yield from lineage(base, classes)


def undocumented(classes: dict[str, Class]) -> list[str]:
    """Public methods that are documented neither in their class nor in a base or a Protocol that it implements."""
    missing = []
    for name, one in classes.items():
        family = list(lineage(name, classes))
        own = {method for relative in family for method in relative.methods}
        known = {method for relative in family for method in relative.documented}
        known |= {method for relative in family for base in relative.bases for method in FOREIGN.get(base, ())}
        for other in (two for two in classes.values() if two.protocol):
            wanted = {method for method, node in other.methods.items() if not is_property(node)}
            if wanted and wanted <= own:
                known |= other.documented
        public = [method for method in one.methods if not method.startswith("_") and not name.startswith("_")]
        missing += [f"{one.where}.{method}" for method in public if method not in known]
    return missing


def test_every_public_method_is_documented() -> None:
    classes: dict[str, Class] = {}
    for path in sorted(SRC.rglob("*.py")):
        for name, one in read_classes(path.read_text(encoding="utf-8"), str(path.relative_to(SRC))).items():
            classes[name if name not in classes else f"{path.stem}.{name}"] = one
    assert undocumented(classes) == []


EXAMPLE = '''
class Store(Protocol):
    """`write` a value."""
    @property
    def size(self): ...
    def write(self, value): ...
    def clear(self):
        """Remove all values."""

class Base:
    def read(self):
        """The value."""

class Plain(Base):
    def read(self): return 0
    def write(self, value): return 0
    def clear(self): return 0
    def more(self): return 0
    def _own(self): return 0
'''


def test_what_is_missing_is_found() -> None:
    assert undocumented(read_classes(EXAMPLE)) == ["module.py: Plain.more"]
    assert undocumented(read_classes(EXAMPLE.replace('"""The value."""', "pass"))) == [
        "module.py: Base.read",
        "module.py: Plain.read",
        "module.py: Plain.more",
    ]
    assert "module.py: Plain.clear" in undocumented(read_classes(EXAMPLE.replace('"""Remove all values."""', "...")))


def interface() -> list[tuple[str, Any, str]]:
    """What users of the Python interface call: a name, the callable and the docstring that explains its arguments."""
    found = []
    for name in cairn.__all__:
        one = getattr(cairn, name)
        if inspect.isfunction(one) or (inspect.isclass(one) and not (is_dataclass(one) and name.endswith("Config"))):
            found.append((f"cairn.{name}", one, inspect.getdoc(one) or ""))
    for name in ("learn", "predict", "evaluate", "save", "export", "load"):
        method = getattr(Model, name)
        found.append((f"Model.{name}", method, inspect.getdoc(method) or ""))
    return found


def lacking(one: Any, doc: str) -> list[str]:
    """The parts that a docstring in Google's form lacks: arguments, the return value, errors."""
    if inspect.isclass(one) and is_dataclass(one) and "Args:" not in doc:
        return []  # comments explain its fields: tests/test_help.py
    if inspect.isclass(one) and issubclass(one, Exception):
        return []
    parts = re.split(r"^(Args|Returns|Yields|Raises|Attributes):$", doc, flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    explained = set(re.findall(r"^    \**(\w+):", sections.get("Args", ""), flags=re.MULTILINE))
    parameters = [name for name in inspect.signature(one).parameters if name not in ("self", "cls")]
    missing = [name for name in parameters if name not in explained]
    returns = "None" if inspect.isclass(one) else str(inspect.signature(one).return_annotation)
    if returns != "None" and not {"Returns", "Yields"} & sections.keys():
        missing.append("Returns")
    return missing if "Raises" in sections else [*missing, "Raises"]


@pytest.mark.parametrize(("one", "doc"), [x[1:] for x in interface()], ids=[x[0] for x in interface()])
def test_the_interface_explains_arguments_return_values_and_errors(one: Any, doc: str) -> None:
    assert lacking(one, doc) == []


def example(first: int, *more: int, named: str = "", **rest: str) -> int:
    """Add.

    Args:
        first: A number.
        *more: Numbers.
        named: A name.

    Raises:
        CairnError: Never.
    """
    return first


def test_a_missing_argument_is_found() -> None:
    assert lacking(example, inspect.getdoc(example) or "") == ["rest", "Returns"]
