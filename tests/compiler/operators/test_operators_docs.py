"""docs/operators.md: its code runs and prints the text below; it lists every operator."""

import contextlib
import io
import re

from vdla.compiler import operators

BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)


def test_the_page_of_operators_shows_its_output(root, request):
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
    assert [name for name in operators.__all__ if name not in words] == []
