"""Running an operator on the simulator: the one place where benchmarks and commands do it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vdla.compiler.templates.operator import Array, Operator
from vdla.hardware.isa import columns
from vdla.hardware.numerics import pack_elements, unpack_elements
from vdla.hardware.program import STREAM, place
from vdla.simulator.function import execute
from vdla.simulator.stats import RunStats
from vdla.simulator.timing import time_program


def run_operator(operator: Operator, arrays: Mapping[str, Array]) -> tuple[dict[str, Array], RunStats]:
    program = operator.program
    addresses, size = place(program)
    dram = np.zeros(-(-size // 4096) * 4096, np.uint8)
    def put(name, b):
        dram[addresses[name]:addresses[name]+len(b)] = b
    put(STREAM, program.words.reshape(-1))
    for t in program.tensors:
        if t.data is not None:
            put(t.name, np.frombuffer(t.data, np.uint8))
        elif t.name in arrays:
            a = np.ascontiguousarray(arrays[t.name])
            bits = int(t.dtype.removeprefix("int"))
            put(t.name, pack_elements(a.reshape(-1), bits) if bits < 8 else a.reshape(-1).view(np.uint8))
    execute(program.config, columns(program.config, program.link(addresses)), dram)
    out = {}
    for t in program.tensors:
        if t.role == "output":
            raw = dram[addresses[t.name]:addresses[t.name]+t.nbytes]
            bits = int(t.dtype.removeprefix("int"))
            out[t.name] = (unpack_elements(raw, bits) if bits < 8 else raw.view(t.dtype)).reshape(t.shape)
    return out, time_program(program)
