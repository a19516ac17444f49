"""The upgrades by operator and by the opset in which its older meaning began.

An operator whose newest meaning includes the older one needs no entry: its later versions admit
more element types, or have attributes whose defaults say what was meant before.
"""

from __future__ import annotations

from collections.abc import Mapping

from vdla.compiler.graph.onnx.old_node import Upgrade
from vdla.compiler.graph.onnx.upgrades_of_images import IMAGES
from vdla.compiler.graph.onnx.upgrades_of_networks import NETWORKS
from vdla.compiler.graph.onnx.upgrades_of_opset_6 import OPSET_6
from vdla.compiler.graph.onnx.upgrades_of_parameters import PARAMETERS

_TABLES = (PARAMETERS, IMAGES, NETWORKS, OPSET_6)

UPGRADES: Mapping[str, Mapping[int, Upgrade]] = {
    op: {since: upgrade for table in _TABLES for since, upgrade in table.get(op, {}).items()}
    for op in sorted({op for table in _TABLES for op in table})
}
