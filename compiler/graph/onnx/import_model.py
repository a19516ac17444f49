"""`import_model`: the way from an ONNX model to a graph."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.compiler.graph.check import check_graph
from vdla.compiler.graph.graph import Graph
from vdla.compiler.graph.onnx.errors import OnnxError

if TYPE_CHECKING:
    import onnx

_ROUNDS = 16  # of expansions of functions in functions


def import_model(
    source: onnx.ModelProto | bytes | str | Path, *, extents: Mapping[str, int] | None = None, name: str | None = None
) -> Graph:
    """The graph of a model, its operators at opset `OPSET`.

    `source` is a file, its content, or a model in memory. `extents` gives numbers to symbols in the
    shapes of the inputs, such as {"batch": 1}; other symbols stay. Initialisers become constants,
    also those that the model lists as inputs with defaults. Functions of the model are inlined, and
    operators without an implementation of their own are replaced by ONNX's definition where there
    is one.

    Raises:
        OnnxError: the model is corrupt or contradicts itself, or `onnx` is not installed.
        UnsupportedError: it has nodes that cannot run here; the error lists all of them.
        OSError: the file cannot be read.
    """
    try:
        import onnx  # noqa: F401
    except ImportError as error:
        raise OnnxError("import_model: onnx must be installed (pip install onnx), got no such package") from error
    from vdla.compiler.graph.onnx.build import build_graph
    from vdla.compiler.graph.onnx.functions import expand_functions
    from vdla.compiler.graph.onnx.infer import infer_types
    from vdla.compiler.graph.onnx.load import load_model
    from vdla.compiler.graph.onnx.support import check_supported
    from vdla.compiler.graph.onnx.upgrade import upgrade_model

    loaded = load_model(source, name=name, extents=extents or {})
    loaded = upgrade_model(loaded)
    check_supported(loaded)
    loaded = infer_types(loaded)
    for _ in range(_ROUNDS):
        expanded = expand_functions(loaded)
        if expanded is loaded:
            break
        check_supported(expanded)
        loaded = infer_types(expanded)
    return check_graph(build_graph(loaded), "import of")
