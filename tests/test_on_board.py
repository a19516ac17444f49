# SPDX-License-Identifier: Apache-2.0
"""On-board modules need only NumPy and the standard library.

A board has no Numba, llvmlite, ml_dtypes or onnx, so the modules that `boards/on_board_modules.py`
lists must not import them, directly or through other modules of VDLA. Imports inside functions of
listed modules count; imports for type checking do not.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from vdla.boards.on_board_modules import ELSEWHERE, imports, imports_of, listed, modules_of, packed

LIBRARIES = {"numpy", *sys.stdlib_module_names}
# Imported inside functions: for element types that NumPy lacks, which are refused without it; the
# board's own PYNQ and Pillow, and gRPC, which comes with PYNQ on a host.
OPTIONAL = {"ml_dtypes", "pynq", "grpc", "PIL"}


LISTED = listed()


def violations(first: str) -> Iterator[str]:
    """Imports of other libraries by a module, directly or through modules of VDLA."""
    importers, todo = {first: ""}, [first]
    while todo:
        module = todo.pop()
        at_import = {name.partition(".")[0] for name in imports_of(module, inside_functions=False)}
        for name in imports_of(module, inside_functions=module == first or module in LISTED):
            root = name.partition(".")[0]
            if root not in LIBRARIES | {"vdla"} | (OPTIONAL - at_import):
                yield f"{chain(module, importers)} imports {root}"
            for ours in modules_of(name) if root == "vdla" else ():
                if ours in ELSEWHERE:
                    yield f"{chain(module, importers)} imports {ours}: {ELSEWHERE[ours]}"
                elif ours not in importers:
                    importers[ours] = module
                    todo.append(ours)


def chain(module: str, importers: dict[str, str]) -> str:
    return chain(importers[module], importers) + " -> " + module if importers[module] else module


@pytest.mark.parametrize("module", LISTED)
def test_board_modules_need_only_numpy_and_the_standard_library(module: str) -> None:
    assert list(violations(module)) == []


def test_imports_inside_functions_count_and_those_for_types_do_not() -> None:
    assert list(imports("def f():\n    import numba\n")) == ["numba"]
    assert list(imports("def f():\n    import numba\nimport os\n", inside_functions=False)) == ["os"]
    assert list(imports("try:\n    import pynq\nexcept ImportError:\n    pynq = None\n")) == ["pynq"]
    assert list(imports("if TYPE_CHECKING:\n    import pynq\nelse:\n    import numpy\n")) == ["numpy"]


def test_imports_are_followed_transitively() -> None:
    found = list(violations("vdla.simulator.timing"))
    assert any(text.endswith("-> vdla.simulator.support.jit imports numba") for text in found)
    assert list(modules_of("vdla.hardware.program.Program")) == ["vdla", "vdla.hardware", "vdla.hardware.program"]


def test_what_is_packed_for_a_board_is_what_is_listed_and_what_that_imports() -> None:
    assert set(LISTED) <= set(packed())
    assert not set(packed()) & set(ELSEWHERE)
    elsewhere = ("vdla.compiler.te", "vdla.commands.run", "vdla.commands.console", "vdla.boards.virtual")
    assert not [module for module in packed() if module.startswith(elsewhere)]
