# SPDX-License-Identifier: Apache-2.0
"""External data are read from the folder of the model, and from no other place."""

import re

import numpy as np
import pytest
from onnx import TensorProto, helper

from vdla.compiler.graph.onnx import OnnxError, import_model

WEIGHTS = np.arange(24, dtype=np.float32).reshape(4, 6)


def saved(folder, **entries):
    """A model in `folder` whose weights are external; `entries` say where."""
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    weight.dims.extend(WEIGHTS.shape)
    for key, value in entries.items():
        weight.external_data.add(key=key, value=value)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "outside", [x], [y], [weight])
    path = folder / "model.onnx"
    path.write_bytes(helper.make_model(graph).SerializeToString())
    return path


def test_data_of_a_file(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "w.bin").write_bytes(bytes(8) + WEIGHTS.tobytes() + bytes(8))
    graph = import_model(saved(tmp_path, location="data/w.bin", offset="8", length="96"))
    np.testing.assert_array_equal(graph.constants["w"], WEIGHTS)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"location": "../w.bin"}, "external data must lie in the folder of the model, got '../w.bin'"),
        ({"location": "/etc/passwd"}, "external data must lie in the folder of the model, got '/etc/passwd'"),
        ({}, "external data must lie in the folder of the model, got ''"),
        ({"location": "link"}, "external data must lie in the folder of the model, got 'link'"),
        ({"location": "q.bin"}, "external data must be a file, got 'q.bin', which does not exist"),
        (
            {"location": "w.bin", "offset": "8"},
            "the data must fill it (type 1, extents [4, 6]), got: cannot reshape array of size 22 into shape (4,6)",
        ),
        (
            {"location": "w.bin", "offset": "8", "length": "96"},
            "external data must lie within w.bin (96 bytes), got bytes 8 to 104",
        ),
        ({"location": "w.bin", "offset": "-4"}, "offset of its external data must be a number of bytes, got '-4'"),
    ],
)
def test_wrong_places(tmp_path, entries, message):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(WEIGHTS.tobytes())
    (folder / "w.bin").write_bytes(WEIGHTS.tobytes())
    (folder / "link").symlink_to(tmp_path / "w.bin")
    with pytest.raises(OnnxError, match=f"^tensor w: {re.escape(message)}$"):
        import_model(saved(folder, **entries))


def test_a_model_in_memory_has_no_folder(tmp_path):
    content = saved(tmp_path, location="w.bin").read_bytes()
    message = "tensor w: a model with external data must be read from a file, got it in memory"
    with pytest.raises(OnnxError, match=f"^{message}$"):
        import_model(content)
