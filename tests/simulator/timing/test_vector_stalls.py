# SPDX-License-Identifier: Apache-2.0
"""The stalls of VECTOR instructions against a list of iterations, by hand and on random kernels."""

import numpy as np
import pytest
from helpers.hand_programs import program

from vdla.hardware.config import Config
from vdla.hardware.isa import Buffer, Load, MicroOp, Operand, Source, Vector, VectorOp
from vdla.simulator.timing.vector_stalls import vector_stalls

TINY = Config.preset("tiny")
HALF = TINY.acc_depth // 2


def stalls(vector, *uops):
    """The extra cycles of a VECTOR with these micro-ops in the buffer."""
    return int(vector_stalls(program(Load(Buffer.UOP, x_size=len(uops)), vector, uops=uops))[1])


SAME, NEXT = (MicroOp(), MicroOp()), (MicroOp(), MicroOp(acc=1))


@pytest.mark.parametrize(
    ("fields", "uops", "extra"),
    [
        ({"op": VectorOp.MUL, "operand": Operand.IMM}, SAME, 1),
        ({"op": VectorOp.MUL, "operand": Operand.WGT}, SAME, 1),
        ({"op": VectorOp.MUL, "operand": Operand.IMM}, NEXT, 0),
        ({"op": VectorOp.MUL, "operand": Operand.IMM}, (MicroOp(), MicroOp(acc=1), MicroOp()), 0),  # two slots apart
        ({"op": VectorOp.ADD, "operand": Operand.IMM}, SAME, 0),
        ({"op": VectorOp.MUL, "operand": Operand.IMM, "init": 1}, (MicroOp(), MicroOp(first=1)), 0),  # b alone
        ({"op": VectorOp.MUL, "source": Source.INP}, SAME, 1),
        ({"op": VectorOp.MUL, "src": HALF}, NEXT, 0),
        ({"op": VectorOp.MUL}, (MicroOp(acc=HALF), MicroOp(src=HALF)), 1),  # the second operand
        ({"op": VectorOp.MUL, "src": 9}, SAME, 2),  # conflicts, which cover the dependent product
        ({"op": VectorOp.MAC, "operand": Operand.WGT, "source": Source.INP}, SAME, 0),  # only the sum
        ({"op": VectorOp.MAC, "operand": Operand.WGT, "src": HALF}, SAME, 0),
        ({"op": VectorOp.MAC, "operand": Operand.WGT, "src": HALF}, (MicroOp(acc=HALF), MicroOp()), 2),
        ({"op": VectorOp.MAC, "operand": Operand.IMM, "src": HALF, "init": 1}, (MicroOp(acc=HALF, first=1),) * 2, 1),
        ({"op": VectorOp.ADD, "src": 5}, SAME, 2),
        ({"op": VectorOp.MOV, "src": 5}, SAME, 0),
    ],
)
def test_stalls_of_two_iterations_equal_a_hand_count(fields, uops, extra):
    form = {"operand": Operand.SRC, **fields}
    assert stalls(Vector(uop_end=len(uops), **form), *uops) == extra


def naive(vector, uops):
    """Iterations with two reads of a half, or a product of the entry written by the one before."""
    reads_source = vector.source == Source.ACC and (vector.operand == Operand.SRC or vector.op == VectorOp.MAC)
    count, written = 0, None
    for i in range(vector.loop0):
        for j in range(vector.loop1):
            for uop in uops:
                a = vector.acc + i * vector.acc0 + j * vector.acc1 + uop.acc
                s = vector.src + i * vector.src0 + j * vector.src1 + uop.src
                old = vector.op != VectorOp.MOV and not (vector.init and uop.first)
                factors = [s] if reads_source and (old or vector.op == VectorOp.MAC) else []
                factors += [a] if old and vector.op == VectorOp.MUL else []
                multiplies = vector.op in (VectorOp.MUL, VectorOp.MAC)
                count += (reads_source and old and a // HALF == s // HALF) or (multiplies and written in factors)
                written = a
    return count


@pytest.mark.parametrize("seed", range(100))
def test_stalls_equal_a_list_of_iterations(seed):
    rng = np.random.default_rng(seed)
    uops = [MicroOp(*(int(v) for v in rng.integers(0, (3, 3, 1, 2, 1)))) for _ in range(int(rng.integers(1, 5)))]
    op = VectorOp(int(rng.choice([VectorOp.MUL, VectorOp.MAC, rng.integers(len(VectorOp))])))
    operand = Operand(int(rng.integers(3)))
    names = ("acc", "src") if operand == Operand.SRC or op == VectorOp.MAC else ("acc",)
    indices = {name: int(rng.integers(2)) * (HALF - 1) for name in names}
    indices |= {f"{name}{loop}": int(rng.integers(3)) for name in names for loop in range(2)}
    source = Source(int(rng.integers(2)) if "src" in names else 0)
    loops = {"init": int(rng.integers(2)), "loop0": int(rng.integers(1, 4)), "loop1": int(rng.integers(1, 4))}
    vector = Vector(op, operand, source, uop_end=len(uops), **indices, **loops)
    assert stalls(vector, *uops) == naive(vector, uops)
