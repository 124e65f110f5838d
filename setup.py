"""What pyproject.toml cannot state: policies and results are copied into the package, the native core is compiled.

A machine without a C++ compiler installs Cairn without that core; `cairn native --build` makes it later.

A recipe that begins from a saved policy (an expert, a low level, an earlier stage) finds it there once the package is
installed. A checkout and an editable install read zoo/ itself.
"""

import runpy
import tomllib
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

PROJECT = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
FILES = [
    f"zoo/{name}/policy.{kind}" for name in PROJECT["tool"]["cairn"]["policies"] for kind in ("json", "safetensors")
]
FILES += sorted(map(str, Path("results/recipes").glob("*.json")))  # `cairn list` and `cairn results` show them


class BuildWithPolicies(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            for source, target in zip(FILES, self._targets(), strict=True):
                self.mkpath(str(Path(target).parent))
                self.copy_file(source, target)

    def _targets(self) -> list[str]:
        return [str(Path(self.build_lib, "cairn", *source.split("/"))) for source in FILES]

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        return super().get_outputs(include_bytecode) + ([] if self.editable_mode else self._targets())

    def get_source_files(self) -> list[str]:
        """With the policies, so that an sdist holds them too."""
        return [*super().get_source_files(), *FILES]


# It is no module of Python's: cairn.native.library loads it by its path.
FLAGS = runpy.run_path("src/cairn/native/flags.py")
CORE = Extension(
    "cairn.native._core",
    [f"src/cairn/native/{source.name}" for source in FLAGS["SOURCES"]],
    depends=[str(header) for header in FLAGS["HEADERS"]],
    extra_compile_args=FLAGS["FLAGS"],
    extra_link_args=["-pthread"],
    define_macros=[FLAGS["macro"]()],
    language="c++",
    optional=True,
)

setup(cmdclass={"build_py": BuildWithPolicies}, ext_modules=[CORE])
