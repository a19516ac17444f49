"""The verdict on an extension: real layers on a machine before it has the extension and after.

verdict = evaluate("my.py", layers_named(["C1-C12"]), Config.preset("pynq_z1"))
"""

from vdla.runtime.verdict.accuracy import Accuracy, accuracy_of
from vdla.runtime.verdict.added_area import AddedArea
from vdla.runtime.verdict.bounds import Bound, Point, network_point, point_of
from vdla.runtime.verdict.errors import EvaluateError
from vdla.runtime.verdict.kept import toolkit_digest
from vdla.runtime.verdict.layer_cycles import layer_cycles, types_of
from vdla.runtime.verdict.layers import (
    DEFAULT,
    EvaluatedLayer,
    OperandTypes,
    layer_of,
    layers_named,
    least_cycles,
    steps_of,
)
from vdla.runtime.verdict.measure import SEARCH, LayerCost, LayerOutcome
from vdla.runtime.verdict.network import kept_layers, layers_of
from vdla.runtime.verdict.network_error import AccuracyJob, NetworkAccuracy, OutputErrors, network_accuracy
from vdla.runtime.verdict.report import report_of
from vdla.runtime.verdict.verdict import ExtensionVerdict, LayerVerdict, evaluate, with_accuracy

__all__ = [
    "DEFAULT",
    "SEARCH",
    "Accuracy",
    "AccuracyJob",
    "AddedArea",
    "Bound",
    "EvaluateError",
    "EvaluatedLayer",
    "ExtensionVerdict",
    "LayerCost",
    "LayerOutcome",
    "LayerVerdict",
    "NetworkAccuracy",
    "OperandTypes",
    "OutputErrors",
    "Point",
    "accuracy_of",
    "evaluate",
    "kept_layers",
    "layer_cycles",
    "layer_of",
    "layers_named",
    "layers_of",
    "least_cycles",
    "network_accuracy",
    "network_point",
    "point_of",
    "report_of",
    "steps_of",
    "toolkit_digest",
    "types_of",
    "with_accuracy",
]
