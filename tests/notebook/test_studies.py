# SPDX-License-Identifier: Apache-2.0
"""Studies in notebooks: verdicts by `vdla.evaluate`, explorations, networks on two devices."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest
from helpers.extension_files import again

import vdla
from vdla import te
from vdla.hardware.fpga.area import Usage
from vdla.hardware.fpga.parts import PARTS
from vdla.notebook.studies import MOST_POINTS
from vdla.runtime.diagnosis.network_comparison import NetworkComparison
from vdla.runtime.studies.exploration import Exploration
from vdla.runtime.studies.explored_machine import ExploredMachine, MachineArea
from vdla.runtime.studies.verdict import ExtensionVerdict

TINY = vdla.Config.preset("tiny")
MOST_BYTES = 64 * 1024


def text_of(value: Any) -> str:
    """The text of an output that is one piece, has one style and is small."""
    html = value._repr_html_()
    root = ElementTree.fromstring(html)
    styles = [element for element in root.iter() if element.tag.endswith("style")]
    assert len(styles) == 1
    assert len(html) < MOST_BYTES
    root.remove(styles[0])
    return " ".join(root.itertext())


@pytest.fixture(scope="module")
def verdict(tmp_path_factory: pytest.TempPathFactory) -> ExtensionVerdict:
    """On layers as a tensor, as a definition and by name."""
    path = tmp_path_factory.mktemp("study") / "again.py"
    path.write_text(again())
    a, b = te.placeholder((4, 8), "int8", "a"), te.placeholder((8, 8), "int8", "b")
    k = te.reduce_axis(8, "k")
    product = te.compute(
        (4, 8), lambda i, j: te.sum(te.cast("int32", a[i, k]) * te.cast("int32", b[j, k]), axis=k), "product"
    )
    dense = vdla.definitions.dense(rows=4, in_features=8, out_features=4)
    return vdla.evaluate(path, [product, dense], TINY, workers=0)


def test_layers_are_tensors_definitions_and_names(verdict: ExtensionVerdict) -> None:
    assert [layer.name for layer in verdict.layers] == ["product", "dense"]
    for wrong in (3, None):
        with pytest.raises(vdla.Error) as error:
            vdla.evaluate("again.py", [wrong], TINY)  # type: ignore[list-item]
        assert str(error.value) == (
            "evaluate: a layer must be a name, FILE.py:NAME, a definition, a tensor, or two of these, "
            f"the baseline first, got {wrong!r}"
        )
    with pytest.raises(vdla.Error) as error:
        vdla.evaluate("again.py", ["C12-C1"], TINY)
    assert str(error.value) == "evaluate: a range of layers must be as C1-C12, D1-D9 or CT1-CT3, got C12-C1"


def test_a_verdict_has_its_sentences_layers_and_roofline(verdict: ExtensionVerdict) -> None:
    text = text_of(verdict)
    assert "again on tiny" in text
    assert "applies to 2 of 2 layers" in text
    for layer in verdict.layers:
        assert layer.before.cost is not None
        assert f"{layer.name} 1 {layer.before.cost.cycles:,}" in " ".join(text.split())
    assert "operations per byte" in text
    assert repr(verdict) == f"<ExtensionVerdict on again, tiny: helps {text_helps(verdict)} of 2 layers>"


def text_helps(verdict: ExtensionVerdict) -> int:
    return sum(layer.helps for layer in verdict.layers)


def exploration(count: int) -> Exploration:
    """Machines of which each larger one is faster, and one that cannot be."""
    machines = [
        ExploredMachine({"block_in": k}, MachineArea(Usage(lut=1000 * k, dsp=k), False, 100.0), cycles=1e6 / k)
        for k in range(1, count + 1)
    ]
    rejected = ExploredMachine({"block_in": 99}, None, reason="no")
    return Exploration(name="net", base=TINY, part=PARTS["xc7z020"], machines=(*machines, rejected))


def test_an_exploration_has_its_front_and_its_reasons() -> None:
    text = text_of(exploration(3))
    assert "4 machines: 3 measured, 3 of them on the front, 1 rejected" in text
    assert "LUTs" in text
    assert "1 no" in text
    assert repr(exploration(3)) == "<Exploration of net on xc7z020: 4 machines>"


def test_an_exploration_of_many_machines_has_no_picture() -> None:
    found = exploration(MOST_POINTS + 1)
    assert "<svg" in exploration(MOST_POINTS)._repr_html_()  # type: ignore[operator]
    assert "<svg" not in found._repr_html_()  # type: ignore[operator]
    assert f"… and {MOST_POINTS + 1 - 16} more rows" in text_of(found)


def test_a_network_on_two_devices() -> None:
    text = text_of(NetworkComparison(name="net", devices=("sim", "rtl"), steps=3, cycles=(10, 11), difference=None))
    assert "net on sim and rtl" in text
    assert "equal results: 3 steps; cycles: sim 10, rtl 11" in text
