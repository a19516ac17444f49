# SPDX-License-Identifier: Apache-2.0
"""Kernels of extensions: the loops of an instruction around the text of one step, compiled.

A step reads its operands and the old rows of private states, and computes a new accumulator entry
and new rows; all are written behind the step, as if at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import numpy as np

from vdla.hardware.isa import COL, PlugIn, PlugInStage, StatePort
from vdla.simulator.function import kernels
from vdla.simulator.function.kernel_file import compiled
from vdla.support.arrays import Ints

_HEADER = '''"""The kernel of an extension, generated; see simulator/function/extension_kernel.py."""

import numpy as np

from vdla.simulator.function.extension_arithmetic import (
    divide, narrow, one_bits, remainder, shift_left, shift_right,
)
from vdla.simulator.function.kernels import (
    ACC, ACC0, ACC1, EMIT, EMIT_NONE, INIT, LOOP0, LOOP1, OUT, SCL, SCL0, SCL1, SRC, SRC0, SRC1,
    U_ACC, U_FIRST, U_LAST, U_SRC, U_WGT, WGT, WGT0, WGT1, send,
)
from vdla.simulator.support.jit import entry_point, helper


@helper
'''

_INDEX = {"acc": "row[ACC] + a", "src": "s + uops[u, U_SRC]", "wgt": "w + uops[u, U_WGT]"}


@lru_cache(maxsize=64)
def extension_kernel(plug_in: PlugIn) -> Callable[..., None]:
    """The compiled instruction: `run(row, uops, src, wgt, fields, acc, scl, out, raw, bits)`, and
    then the states in the order of their ports. `acc` is what it writes: sums, or inputs.
    """
    return compiled(_HEADER + plug_in.kernel + "\n".join(_loops(plug_in)) + "\n")


def _loops(plug_in: PlugIn) -> Iterator[str]:
    states = "".join(f", {_name(port)}" for port in plug_in.states)
    yield f"\n\n@entry_point\ndef run(row, uops, src, wgt, fields, acc, scl, out, raw, bits{states}):"
    yield f"    new = np.zeros(acc.shape[1], np.{'int8' if plug_in.writes_inputs else 'int32'})"
    for port in plug_in.states:
        if port.writes:
            yield f"    {_new(port)} = np.zeros({_name(port)}.shape[1], {_name(port)}.dtype)"
    yield from (f"    {line}" for line in _NEST)
    yield from (f"                {line}" for line in _step(plug_in))


_NEST = (
    "for i in range(row[LOOP0]):",
    "    for j in range(row[LOOP1]):",
    "        offset = i * row[ACC0] + j * row[ACC1]",
    "        s = row[SRC] + i * row[SRC0] + j * row[SRC1]",
    "        w = row[WGT] + i * row[WGT0] + j * row[WGT1]",
    "        scale = scl[row[SCL] + i * row[SCL0] + j * row[SCL1]]",
    "        for u in range(len(uops)):",
    "            a = offset + uops[u, U_ACC]",
)


def _step(plug_in: PlugIn) -> Iterator[str]:
    """The lines of one step."""
    src = f"src[{_INDEX['src']}]" if plug_in.src is not None else "src[0]"
    wgt = f"wgt[{_INDEX['wgt']}]" if plug_in.wgt is not None else "wgt[0]"
    yield f"sums = acc[{_INDEX['acc']}]" if plug_in.has_result else "sums = new"
    yield "begin = row[INIT] != 0 and uops[u, U_FIRST] != 0"
    yield f"step({', '.join(['new', 'sums', src, wgt, 'fields', 'begin', *_arguments(plug_in.states)])})"
    for port in plug_in.states:
        if port.writes:
            yield f"for n in range(len({_new(port)})):"
            yield f"    {_name(port)}[{_row(port)}, n] = {_new(port)}[n]"
    if plug_in.has_result:
        yield "for n in range(len(new)):"
        yield "    sums[n] = new[n]"
    if plug_in.writes_sums:
        yield "if row[EMIT] != EMIT_NONE and uops[u, U_LAST] != 0:"
        yield "    send(row, sums, scale, row[OUT] + a, out, raw, bits)"


def _arguments(ports: Sequence[StatePort]) -> list[str]:
    """States as arguments of the step: values before it, then the rows that it computes."""
    read = [port for port in ports if port.operand is not None]
    old = [_name(port) if port.whole else f"{_name(port)}[{_row(port)}]" for port in read]
    return old + [_new(port) for port in ports if port.writes]


def _name(port: StatePort) -> str:
    return f"state_{port.state.name}"


def _new(port: StatePort) -> str:
    return f"new_{port.state.name}"


def _row(port: StatePort) -> str:
    return "0" if port.index is None else _INDEX[port.index]


# --- stages on the way out ------------------------------------------------------------------------
# The kernel of a stage on the way out: requantised entries of the output buffer, in place.
#
# An instruction writes requantised entries, then the stage replaces each. Its states stay as they
# are during the instruction, so it does not matter that results go through it after the last step.


_STAGE_HEADER = '''"""The kernel of a stage, generated; see simulator/function/extension_kernel.py."""

import numpy as np

from vdla.simulator.function.extension_arithmetic import (
    divide, pack_entry, remainder, shift_left, shift_right, unpack_entry,
)
from vdla.simulator.support.jit import entry_point, helper


@helper
'''

_STAGE_LOOP = """

@entry_point
def run(entries, out, bits{states}):
    new = np.zeros(8 * out.shape[1] // bits, np.int8)
    value = np.zeros(len(new), np.int8)
    for k in range(len(entries)):
        unpack_entry(out[entries[k]], bits, value)
        stage(new, value{states})
        pack_entry(new, bits, out[entries[k]])
"""


@lru_cache(maxsize=64)
def stage_kernel(stage: PlugInStage) -> Callable[..., None]:
    """The compiled stage: `run(entries, out, bits)`, and then the flat states in their order."""
    states = "".join(f", state_{port.state.name}" for port in stage.states)
    return compiled(_STAGE_HEADER + stage.kernel + _STAGE_LOOP.format(states=states))


def emitted_entries(row: Ints, uops: Ints) -> Ints:
    """The entries of the output buffer that a compute instruction writes, each once."""
    last = uops[uops[:, kernels.U_LAST] != 0, kernels.U_ACC]
    loops = np.add.outer(
        np.arange(row[COL["loop0"]]) * row[COL["acc0"]], np.arange(row[COL["loop1"]]) * row[COL["acc1"]]
    )
    return np.unique(row[COL["out"]] + np.add.outer(loops.ravel(), last))
