# SPDX-License-Identifier: Apache-2.0
"""What runs on a board runs with NumPy 1.21, which PYNQ's images 3.0 and 3.1 have with Python 3.10.

The sources are searched for what NumPy got later, anywhere. Where Python 3.10 and the registry of
packages are at hand, all modules are imported there and a network is run.
"""

from __future__ import annotations

import ast
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from helpers import board_python
from helpers.plans import expected, small_artifact

from vdla.boards.on_board_modules import packed, path_of
from vdla.verification.board_python import ImagePythonError, image_python

ROOT = Path(__file__).resolve().parents[2]
NEWER = frozenset(
    """
    acos acosh asin asinh astype atan atan2 atanh bitwise_count bitwise_invert bitwise_left_shift
    bitwise_right_shift concat cumulative_prod cumulative_sum dtypes exceptions from_dlpack isdtype
    long matrix_transpose matvec permute_dims pow show_runtime strings trapezoid ulong unique_all
    unique_counts unique_inverse unique_values unstack vecdot vecmat linalg.cross linalg.diagonal
    linalg.matmul linalg.matrix_norm linalg.matrix_transpose linalg.outer linalg.svdvals
    linalg.tensordot linalg.trace linalg.vecdot linalg.vector_norm lib.array_utils
    """.split()  # noqa: SIM905
)
"""The names of NumPy that 1.21 lacks, as NumPy 2.4 has them."""
NEWER_ARGUMENTS = frozenset({"method", "equal_nan", "stable", "correction", "max_header_size"})
NEWER_ATTRIBUTES = frozenset({"mT", "to_device", "resolve_dtypes", "__array_namespace__", "spawn"})
INDEXED = frozenset({"np.r_", "np.s_", "np.c_", "np.ix_"})


def newer(source: str) -> Iterator[str]:
    """What a module uses that NumPy 1.21 has not; what only annotations say is never executed."""
    tree = ast.parse(source)
    types = {id(part) for node in ast.walk(tree) for each in annotations(node) for part in ast.walk(each)}
    for node in ast.walk(tree):
        if id(node) in types:
            continue
        match node:
            case ast.Attribute():
                name = ast.unparse(node)
                if (name.removeprefix("np.") in NEWER and name.startswith("np.")) or node.attr in NEWER_ATTRIBUTES:
                    yield name
            case ast.Subscript(value=ast.Attribute() as value) if _is_type(ast.unparse(value)):
                yield ast.unparse(node)
            case ast.Call(func=ast.Attribute() as function):
                name = ast.unparse(function)
                given = {keyword.arg for keyword in node.keywords} if name.startswith("np.") else set()
                yield from (f"{name}({argument}=)" for argument in sorted(given & NEWER_ARGUMENTS))


def annotations(node: ast.AST) -> Iterator[ast.AST]:
    """The annotations of a node."""
    for name in ("annotation", "returns"):
        found = getattr(node, name, None)
        if found is not None:
            yield found


def _is_type(name: str) -> bool:
    """Whether a name is that of a type of NumPy, which 1.21 does not subscript."""
    if not name.startswith("np."):
        return False
    found: object = np
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
    return isinstance(found, type) and name not in INDEXED


def test_nothing_newer_than_numpy_1_21_is_used() -> None:
    found = {module: list(newer(Path(path_of(module) or "").read_text(encoding="utf-8"))) for module in packed()}
    assert {module: uses for module, uses in found.items() if uses} == {}


def test_annotations_are_not_executed() -> None:
    for module in packed():
        source = Path(path_of(module) or "").read_text(encoding="utf-8")
        if any(list(annotations(node)) for node in ast.walk(ast.parse(source))):
            assert "from __future__ import annotations" in source, module


@pytest.mark.parametrize(
    ("source", "uses"),
    [
        ("Ints = npt.NDArray[np.integer[Any]]", ["np.integer[Any]"]),
        ("x = cast(np.dtype[Any], y)", ["np.dtype[Any]"]),
        ("def f(x: np.ndarray[Any, Any]) -> np.dtype[Any]: ...", []),
        ("np.bitwise_count(x), np.linalg.vecdot(x, y), x.mT", ["np.bitwise_count", "np.linalg.vecdot", "x.mT"]),
        ("np.quantile(x, 0.5, method='lower'), x.sort(stable=True)", ["np.quantile(method=)"]),
        ("x[np.int64(1)], np.unique(x)[0], np.pi", []),
    ],
)
def test_what_is_newer_is_found(source: str, uses: list[str]) -> None:
    assert sorted(newer(source)) == sorted(uses)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Python 3.10 with NumPy 1.21.5; skips where it cannot be had."""
    try:
        return image_python(tmp_path_factory.mktemp("numpy-1.21"))
    except ImagePythonError as error:
        pytest.skip(str(error))


@pytest.mark.long
def test_all_modules_import_and_a_network_runs_with_numpy_1_21(python, tmp_path, monkeypatch) -> None:
    lines = "import importlib, numpy, sys\nassert numpy.__version__ == '1.21.5'\n"
    lines += "for module in sys.argv[1:]: importlib.import_module(module)\n"
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [python, "-c", lines, *packed()], capture_output=True, text=True, env=environment, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    monkeypatch.setattr(board_python.sys, "executable", python)
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    artifact = small_artifact()
    outputs, _ = board_python.run_model(artifact, {artifact.plan.inputs[0]: x}, "host", tmp_path)
    (y,) = outputs.values()
    assert np.allclose(y, expected(x), atol=1e-5)
