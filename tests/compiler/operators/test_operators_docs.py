"""docs/operators.md: code runs, the text below it is what it prints, and every operator is on the page."""

import contextlib
import importlib
import inspect
import io
import re

BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)
MODULES = [
    "elementwise",
    "broadcast",
    "reduction",
    "softmax",
    "normalisation",
    "pool",
    "movement",
    "pad",
    "gather",
    "resize",
    "conv2d",
    "depthwise_conv2d",
    "winograd",
    "conv_transpose",
    "matmul",
    "recurrent",
]


def test_the_page(root, request):
    path = root / "docs" / "operators.md"
    names: dict = {}

    def printed(match):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(match[1], names)
        return f"```python\n{match[1]}```" + (f"\n\n```text\n{out.getvalue()}```" if out.getvalue() else "")

    new = BLOCK.sub(printed, path.read_text(encoding="utf-8"))
    if request.config.getoption("--update-golden"):
        path.write_text(new, encoding="utf-8")
    assert new == path.read_text(encoding="utf-8")


def test_every_operator_is_on_the_page(root):
    words = set(re.findall(r"\w+", (root / "docs" / "operators.md").read_text(encoding="utf-8")))
    for name in MODULES:
        module = importlib.import_module(f"vdla.compiler.operators.{name}")
        found = [f for f, value in vars(module).items() if is_operator(value, module)]
        assert found, name
        comparisons = {"equal", "less", "less_equal", "greater", "greater_equal"}
        assert [f for f in found if f not in words | comparisons] == []


def is_operator(value, module):
    """Whether a function of the module makes tensors of tensors for users: it takes a name, and a tensor first."""
    if not inspect.isfunction(value) or value.__module__ != module.__name__:
        return False
    parameters = list(inspect.signature(value).parameters.values())
    return (
        parameters[-1].name in ("name", "target")
        and parameters[-1].default is not inspect.Parameter.empty
        and (parameters[0].annotation in ("te.Tensor", "Sequence[te.Tensor]"))
    )
