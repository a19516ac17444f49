"""The upgrades by operator and by the opset in which its older meaning began.

An operator whose newest meaning includes the older one needs no entry: its later versions admit
more element types, or have attributes whose defaults say what was meant before.
"""

from __future__ import annotations

from collections.abc import Mapping

from vdla.compiler.graph.onnx.old_node import Upgrade
from vdla.compiler.graph.onnx.upgrades_of_images import IMAGES
from vdla.compiler.graph.onnx.upgrades_of_networks import NETWORKS
from vdla.compiler.graph.onnx.upgrades_of_parameters import PARAMETERS

UPGRADES: Mapping[str, Mapping[int, Upgrade]] = {**PARAMETERS, **IMAGES, **NETWORKS}
