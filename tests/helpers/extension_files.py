# SPDX-License-Identifier: Apache-2.0
"""Files of extensions, as a user writes them."""


def again(interval: int = 1) -> str:
    """The text of a file that declares what GEMM does, an instruction with steps of some cycles."""
    return _AGAIN.replace("INTERVAL", str(interval))


_AGAIN = """
import vdla
from vdla import te


def declare(config):
    inp = te.placeholder((config.batch, config.block_in), config.inp_dtype, "inp")
    wgt = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "wgt")
    i = te.reduce_axis(config.block_in, "i")
    product = lambda b, o: te.sum(te.cast("int32", inp[b, i]) * te.cast("int32", wgt[o, i]), axis=i)
    output = te.compute((config.batch, config.block_out), product, "acc")
    scopes = {"inp": "inp", "wgt": "wgt", "acc": "acc"}
    return vdla.Extension(name="again", doc="As GEMM.", output=output, scopes=scopes, interval=INTERVAL)
"""
