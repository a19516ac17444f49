# SPDX-License-Identifier: Apache-2.0
"""docs/schedule.md: every code block runs, and the text below it is what it prints;
`--update-golden` rewrites it."""

import re
from importlib import import_module
from inspect import isfunction
from pkgutil import iter_modules

import numpy as np

from vdla.compiler import schedule
from vdla.compiler.arith import specialise
from vdla.compiler.interpret import interpret
from vdla.compiler.schedule import Schedule
from vdla.compiler.schedule.trace import is_primitive
from vdla.compiler.tensorize import apply as tensorize

EXAMPLE = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)


def test_the_page_of_schedules_shows_its_output(root, request):
    path = root / "docs" / "schedule.md"
    page = path.read_text()
    names: dict = {}

    def printed(match):
        exec(match[1], names)
        return f"```python\n{match[1]}```\n\n```text\n{names['s'].fn}\n```"

    new = EXAMPLE.sub(printed, page)
    if request.config.getoption("--update-golden"):
        path.write_text(new)
    assert new == path.read_text()


def test_examples_of_the_page_preserve_results(root):
    rng = np.random.default_rng(0)
    arrays = {"a": rng.integers(-9, 9, (10, 8)).astype(np.int8), "w": rng.integers(-9, 9, 8).astype(np.int8)}
    expected = np.maximum(arrays["a"].astype(np.int32) @ arrays["w"].astype(np.int32), 0)
    names: dict = {}
    for code, _ in EXAMPLE.findall((root / "docs" / "schedule.md").read_text()):
        exec(code, names)
        fn = names["s"].fn
        if fn.name == "dense":
            np.testing.assert_array_equal(interpret(fn, arrays)["d"], expected)
        for rows in (1, 4, 6) if fn.name == "rows" else ():
            x = rng.integers(-9, 9, (rows, 8)).astype(np.int32)
            special = specialise(fn, {"n": rows})
            np.testing.assert_array_equal(interpret(special, {"x": x})["total"], 2 * x.sum(axis=1))


def test_every_primitive_is_on_the_page(root):
    page = (root / "docs" / "schedule.md").read_text()
    own = [name for name in vars(Schedule) if not name.startswith("_")]
    assert len(own) > 15
    assert [name for name in own if name not in page] == []


def test_every_primitive_shows_before_and_after():
    names = {name for name, method in vars(Schedule).items() if is_primitive(method)}
    modules = [import_module(f"vdla.compiler.schedule.{m.name}") for m in iter_modules(schedule.__path__)]
    functions = [f for m in (*modules, tensorize) for f in vars(m).values() if isfunction(f)]
    found = {f.__name__: f for f in functions if f.__name__ in names}
    assert found.keys() == names
    assert [name for name, function in found.items() if not re.search(r"->|before:", function.__doc__)] == []
