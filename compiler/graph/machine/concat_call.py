"""Concatenations of channels on the accelerator, which cost nothing.

Blocks of channels are the outermost dimension of a packed tensor of one block of images, so that
those who make the operands write them behind one another.
"""

from __future__ import annotations

from vdla.compiler.graph.machine.call import MachineNode, OperatorCall
from vdla.compiler.graph.machine.errors import decline
from vdla.compiler.graph.machine.packing import Channels


def concat(at: MachineNode) -> OperatorCall:
    """Operands that the accelerator makes, joined along their channels."""
    names, config = at.node.inputs, at.config
    for name in names:
        at.shape(name)
        if name not in at.made:
            decline(f"join results of the accelerator, got {name}")
        if names.count(name) > 1:
            decline(f"join each operand once, got {name} twice")
    channels = at.made[names[0]].channels
    result = at.result(channels)
    axis = 1 if channels is Channels.IMAGE else len(result.shape) - 1
    if at.options["axis"] % len(result.shape) != axis or channels is Channels.MATRICES:
        decline(f"join channels, dimension {axis}, got {at.options['axis']}")
    if result.packed_shape[0] > 1:
        decline(f"have at most {config.batch} images, got {result.image[0]}")
    parts = [at.made[name] for name in names]
    for name, part in zip(names, parts, strict=True):
        if part.channels is not channels or part.block != result.block:
            decline(f"join operands of one layout, got {part.tag} for {name} and {parts[0].tag}")
        if part.image[1] % part.block and name != names[-1]:
            decline(f"join whole blocks of {part.block} channels, got {part.image[1]} of {name}")
    inputs = {f"part{index}": (name, part) for index, (name, part) in enumerate(zip(names, parts, strict=True))}
    return OperatorCall(None, inputs, {}, result)
