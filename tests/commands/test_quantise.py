# SPDX-License-Identifier: Apache-2.0
"""`vdla quantise`: the model, the table, the picture, refusals."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model

from vdla.cli import main
from vdla.commands import BAD_INPUT, OK
from vdla.commands.quantise_command import layer_chart
from vdla.networks.digits import digits
from vdla.networks.digits_images import training_digits
from vdla.runtime.network.quantisation_report import LayerReport, QuantisationReport

Capture = pytest.CaptureFixture[str]
NAMESPACE = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    onnx.save(digits(batch=50), "digits.onnx")
    np.save("images.npy", training_digits().images[:100])
    return tmp_path


def test_model_table_and_picture(folder: Path, capsys: Capture) -> None:
    words = ["quantise", "digits.onnx", "--calibration", "images.npy", "--float", "conv1", "--picture", "layers.svg"]
    assert main(words) == OK
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split() == ["digits"]
    assert [line.split()[0] for line in printed[2:-1]] == [
        "conv2",
        "conv3",
        "conv4",
        "add",
        "average",
        "logits",
        "logits",
    ]
    assert printed[-1] == "digits_int8.onnx: 6 layers quantised, ranges by minmax"
    ops = [node.op_type for node in onnx.load(folder / "digits_int8.onnx").graph.node]
    assert ops.count("QuantizeLinear") == 9
    tree = ElementTree.parse(folder / "layers.svg").getroot()
    rows = {bar.get("data-row") for bar in tree.iter(f"{NAMESPACE}rect")} - {None}
    assert len(rows) == 6


def test_several_files_are_batches(folder: Path, capsys: Capture) -> None:
    images = np.load("images.npy")
    np.savez("a.npz", image=images[:50])
    np.savez("b.npz", image=images[50:])
    words = ["quantise", "digits.onnx", "--fast", "--method", "minmax"]
    assert main([*words, "--calibration", "a.npz", "b.npz", "-o", "two.onnx"]) == OK
    assert main([*words, "--calibration", "images.npy", "-o", "one.onnx"]) == OK
    assert onnx.load("one.onnx").graph == onnx.load("two.onnx").graph


def test_notes_and_warnings_follow_the_table(capsys: Capture) -> None:
    weight = np.array([1e-8, 1, 1e-3]).reshape(3, 1, 1, 1)
    biases = np.array([1, 0, 0], np.float32)
    made = parse_model('<ir_version: 8, opset_import: ["" : 17]> g (float[1,1,4,4] x) => (float[1,3,4,4] y)'
                       "{ y = Conv(x, w, b) }")  # fmt: skip
    for name, value in (("w", weight), ("b", biases)):
        made.graph.initializer.append(onnx.numpy_helper.from_array(value.astype(np.float32), name))
    onnx.save(made, "channels.onnx")
    np.save("x.npy", np.linspace(-1, 1, 16, dtype=np.float32).reshape(1, 1, 4, 4))
    assert main(["quantise", "channels.onnx", "--calibration", "x.npy", "--fast"]) == OK
    *_, note, warning, last = capsys.readouterr().out.splitlines()
    assert note == "y: the weight scale of output 0 of 3 is raised so that bias and sums fit into int32"
    assert warning.startswith("warning: y: 0.0 dB in channel 2 of dimension 1, where the whole has ")
    assert last == "channels_int8.onnx: 1 layers quantised, ranges by minmax"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--calibration images.npy -o absent/x.onnx", "quantise: folder of --output must exist, got absent"),
        (
            "--calibration images.npy --method best",
            "quantise: method must be one of auto, minmax, percentile, mse, entropy, got 'best'",
        ),
        ("--calibration text.npy", "text.npy: file must be arrays in .npy or .npz format, got one that begins with "),
    ],
)
def test_wrong_arguments_are_refused(words: str, message: str, folder: Path, capsys: Capture) -> None:
    Path("text.npy").write_text("none")
    assert main(["quantise", "digits.onnx", *words.split()]) == BAD_INPUT
    assert capsys.readouterr().err.startswith(f"vdla: {message}")
    assert not (folder / "digits_int8.onnx").exists()


def test_bars_have_the_lengths_of_their_ratios() -> None:
    layers = [
        LayerReport(name="a & b", op="Conv", snr_db=30.0, saturated=0.0, low=0.0, high=1.0, alone_db=float("inf")),
        LayerReport(name="c", op="Add", snr_db=15.0, saturated=0.5, low=0.0, high=1.0, alone_db=60.0),
    ]
    tree = ElementTree.fromstring(layer_chart(QuantisationReport("net", tuple(layers), {"y": 1.0})))
    bars = [bar for bar in tree.iter(f"{NAMESPACE}rect") if bar.get("data-row")]
    drawn = [(bar.get("data-row"), bar.get("class"), float(bar.get("width", 0))) for bar in bars]
    assert drawn == [("0", "network", 346), ("0", "alone", 692), ("1", "network", 173), ("1", "alone", 692)]
    assert "a & b" in [text.text for text in tree.iter(f"{NAMESPACE}text")]
    assert bars[2].findtext(f"{NAMESPACE}title") == "Add: 15.0 dB, 50.000 % saturated"
