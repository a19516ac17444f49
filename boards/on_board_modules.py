# SPDX-License-Identifier: Apache-2.0
"""The modules of VDLA that run on a board, which has NumPy and the standard library only.

`tests/test_on_board.py` checks their imports; `on_board_wheel` packs them, with what they import.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "vdla"
"""The folder of the package `vdla`, in the repository."""

ON_BOARD: tuple[str, ...] = (
    "vdla",
    "vdla.support",
    "vdla.hardware",
    "vdla.hardware.asm",
    "vdla.hardware.generate.registers",
    "vdla.hardware.isa",
    "vdla.hardware.program",
    "vdla.simulator.stats",
    "vdla.simulator.support.errors",
    "vdla.simulator.verify",
    "vdla.compiler.abi",
    "vdla.runtime.devices",
    "vdla.runtime.executor",
    "vdla.runtime.native.library",
    "vdla.runtime.numpy_operators",
    "vdla.runtime.diagnosis.device_checks",
    "vdla.runtime.remote",
    "vdla.commands.on_board",
    "vdla.commands.serving",
    "vdla.boards",
)
"""Packages with all their modules, and single modules."""

ELSEWHERE: dict[str, str] = {
    "vdla.__main__": "the command line",
    "vdla.cli": "the command line",
    "vdla.definitions": "the compiler",
    "vdla.devices": "names parts of the simulator too, which load at their first use",
    "vdla.graph": "the compiler",
    "vdla.intrinsics": "the compiler",
    "vdla.native": "names the compiler of object files too, which loads at its first use",
    "vdla.onnx_backend": "the compiler",
    "vdla.operators": "the compiler",
    "vdla.te": "the compiler",
    "vdla.templates": "the compiler",
    "vdla.boards.on_board_modules": "makes the wheel for boards",
    "vdla.boards.on_board_wheel": "makes the wheel for boards",
    "vdla.boards.handoff_file": "reads the files of a bitstream where they are packed",
    "vdla.boards.handoff_check": "checks the files of a bitstream where they are packed",
    "vdla.boards.overlay_package": "makes the wheel of an overlay",
    "vdla.boards.wheel_file": "writes the wheels for boards",
    "vdla.runtime.remote.board_watch": "asks boards on behalf of a workstation",
    "vdla.runtime.remote.certificates": "makes certificates with the package cryptography",
    "vdla.runtime.remote.channel": "calls over gRPC, which a board's image does not have",
    "vdla.runtime.remote.farm": "reads TOML, which Python 3.10 does not",
    "vdla.runtime.remote.grpc_listener": "listens for gRPC, which a board's image does not have",
    "vdla.runtime.remote.pynq_board": "asks boards on behalf of a workstation",
    "vdla.runtime.remote.pynq_status": "asks boards on behalf of a workstation",
    "vdla.runtime.devices.pynq_messages": "messages of PYNQ.remote, which a board does not send itself",
    "vdla.runtime.devices.rtl": "builds the RTL with Verilator and a C++ compiler",
    "vdla.runtime.devices.rtl_activity": "reads counters of the built RTL",
    "vdla.runtime.devices.rtl_build": "builds the RTL with Verilator and a C++ compiler",
    "vdla.runtime.devices.rtl_library": "loads the built RTL",
    "vdla.runtime.devices.sim": "runs the simulator, which Numba compiles",
}
"""Modules of those packages that run on a workstation only, with the reason."""


@cache
def path_of(module: str) -> Path | None:
    """The file of a module or package of VDLA, or None."""
    path = PACKAGE / Path(*module.split(".")[1:])
    files = (path / "__init__.py", path.with_suffix(".py")) if module != "vdla" else (path / "__init__.py",)
    return next((file for file in files if file.is_file()), None)


def listed() -> list[str]:
    """The modules of ON_BOARD, one by one, without those that run elsewhere."""
    result = []
    for name in ON_BOARD:
        path = path_of(name)
        assert path is not None, name
        result.append(name)
        if path.name == "__init__.py":
            result += [f"{name}.{module.stem}" for module in sorted(path.parent.glob("*.py")) if module != path]
    return [name for name in result if name not in ELSEWHERE]


def imports(source: str, *, inside_functions: bool = True) -> Iterator[str]:
    """The dotted names that statements import; `from a import b` gives a.b. Those for types do not
    count.
    """
    todo: list[ast.AST] = [ast.parse(source)]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            todo += node.orelse
            continue
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not inside_functions:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        todo += ast.iter_child_nodes(node)


def modules_of(name: str) -> Iterator[str]:
    """The modules of VDLA that importing a dotted name executes, packages included."""
    parts = name.split(".")
    names = [".".join(parts[: end + 1]) for end in range(len(parts))]
    return (module for module in names if path_of(module) is not None)


@cache
def imports_of(module: str, *, inside_functions: bool = True) -> tuple[str, ...]:
    """The dotted names that a module imports."""
    path = path_of(module)
    assert path is not None, module
    return tuple(imports(path.read_text(encoding="utf-8"), inside_functions=inside_functions))


@cache
def packed() -> tuple[str, ...]:
    """The listed modules, and those that they import when they are imported themselves."""
    modules, todo = set[str](), listed()
    while todo:
        module = todo.pop()
        if module in modules:
            continue
        modules.add(module)
        names = [*imports_of(module, inside_functions=False), module]  # a module's packages are executed too
        todo += [ours for name in names if name.startswith("vdla") for ours in modules_of(name)]
    return tuple(sorted(modules))
