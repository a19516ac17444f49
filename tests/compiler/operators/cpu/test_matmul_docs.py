# SPDX-License-Identifier: Apache-2.0
"""docs/matmul.md: every step computes the product, and the page's measurement runs."""

import re

import numpy as np

from vdla.compiler.interpret import interpret
from vdla.runtime.native import build

BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
STEPS = 6


def blocks(root, size):
    """The blocks of the page, for matrices of another size."""
    page = (root / "docs" / "matmul.md").read_text().replace("size = 1024", f"size = {size}")
    return BLOCK.findall(page)


def steps(root, size):
    """The function after each block of the page, except the one that measures."""
    names: dict = {}
    for code in blocks(root, size)[: STEPS + 1]:
        exec(code, names)
        yield names["s"].fn


def matrices(size):
    rng = np.random.default_rng(0)
    return (rng.integers(-4, 5, (size, size)).astype(np.float32) for _ in range(2))


def test_every_step_gives_the_product(root):
    a, b = matrices(192)
    functions = list(steps(root, 192))
    assert len(functions) == STEPS + 1
    for fn in functions:
        np.testing.assert_array_equal(build(fn)(a, b), a @ b)


def test_every_step_computes_the_same(root):
    a, b = matrices(20)
    for fn in steps(root, 20):
        np.testing.assert_array_equal(interpret(fn, {"a": a, "b": b})["c"], a @ b)


def test_the_page_measures_a_step(root, capsys):
    names: dict = {}
    for code in blocks(root, 64):
        exec(code, names)
    assert re.fullmatch(r"\d+\.\d ms, \d+ GFLOP/s, \d+\.\d\d of NumPy's speed\n", capsys.readouterr().out)
