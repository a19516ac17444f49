"""docs/expressions.md: code blocks run and print the text below; `--update-golden` rewrites it."""

import contextlib
import io
import re

import numpy as np

from vdla.compiler import te
from vdla.compiler.ir import DTYPES

EXAMPLE = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)


def test_the_page_of_expressions_shows_its_output(root, request):
    path = root / "docs" / "expressions.md"
    page = path.read_text(encoding="utf-8")
    assert page.count("```python") == len(EXAMPLE.findall(page))
    names: dict = {}

    def printed(match):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), np.errstate(all="raise"):
            exec(match[1], names)
        return f"```python\n{match[1]}```\n\n```text\n{out.getvalue()}```"

    new = EXAMPLE.sub(printed, page)
    if request.config.getoption("--update-golden"):
        path.write_text(new, encoding="utf-8")
    assert new == path.read_text(encoding="utf-8")


def test_every_type_and_every_public_name_is_on_the_page(root):
    page = (root / "docs" / "expressions.md").read_text(encoding="utf-8")
    words = set(re.findall(r"\w+", page))
    assert [dtype for dtype in DTYPES if dtype not in words] == []
    types = {"Dim", "Number", "Operand", "ReduceAxis", "Reducer", "Tensor", "Stage", "TupleReducer", "Value"}
    internal = types | {"as_value", "binary", "const", "divide", "extent_of", "if_then_else"}
    assert [name for name in te.__all__ if name not in words | internal] == []
