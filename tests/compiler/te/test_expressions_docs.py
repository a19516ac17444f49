# SPDX-License-Identifier: Apache-2.0
"""docs/expressions.md: its code prints the text below it; it lists every type and public name."""

import re

import numpy as np
from helpers.documents import check_page

from vdla.compiler import te
from vdla.compiler.ir import DTYPES


def test_the_page_of_expressions_shows_its_output(root, tmp_path, request):
    with np.errstate(all="raise"):
        check_page(root / "docs" / "expressions.md", tmp_path, request.config.getoption("--update-golden"))


def test_every_type_and_every_public_name_is_on_the_page(root):
    page = (root / "docs" / "expressions.md").read_text(encoding="utf-8")
    words = set(re.findall(r"\w+", page))
    assert [dtype for dtype in DTYPES if dtype not in words] == []
    types = {"Dim", "Number", "Operand", "ReduceAxis", "Reducer", "Tensor", "Stage", "TupleReducer", "Value"}
    internal = types | {"as_value", "binary", "const", "divide", "extent_of", "if_then_else"}
    assert [name for name in te.__all__ if name not in words | internal] == []
