# SPDX-License-Identifier: Apache-2.0
"""docs/verifier.md: its code prints the text below it; it names every kind of finding."""

from __future__ import annotations

import re

from vdla.simulator.verify import Kind


def blocks(root, language):
    text = (root / "docs" / "verifier.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_verifier_page_shows_the_output_of_its_examples(root, capsys):
    namespace: dict[str, object] = {}
    _, race, deadlock = blocks(root, "python")
    for code, text in zip((race, deadlock), blocks(root, "text"), strict=True):
        exec(compile(code, "docs/verifier.md", "exec"), namespace)
        assert capsys.readouterr().out == text


def test_the_example_with_a_verdict_runs(root):
    use, _, _ = blocks(root, "python")
    namespace: dict[str, object] = {}
    exec(use, namespace)
    assert namespace["verdict"].ok


def test_the_remedies_that_the_page_names_work(root):
    namespace: dict[str, object] = {}
    exec(blocks(root, "python")[1], namespace)
    exec("from dataclasses import replace", namespace)
    giving, waiting = "(replace(product[0], push_prev=1), -1)", "(replace(second[0], pop_next=1), 0)"
    elsewhere = "(replace(second[0], sram=16), 0)"
    for steps in (f"{giving}, result, {waiting}", f"product, result, {elsewhere}"):
        assert eval(f"verify(assemble(uops, weight, data, {steps})).ok", namespace)


def test_every_kind_of_finding_is_on_the_page(root):
    text = (root / "docs" / "verifier.md").read_text(encoding="utf-8")
    for kind in Kind:
        assert f"| `{kind.value}` |" in text
