# SPDX-License-Identifier: Apache-2.0
"""Programs of layers that an author writes by hand, for instructions that the mapper cannot use,
and those that the mapper makes for the others.

builder = ProgramBuilder(config, "depthwise")
builder.input(packed_data)
builder.add([Load(Buffer.INP, x_size=8)], tensor="data", signals=["compute"])
"""

from vdla.compiler.layer_programs.attention_sizes import LEAST_SCORE
from vdla.compiler.layer_programs.cached_attention import CachedAttention
from vdla.compiler.layer_programs.channel_product import channel_product
from vdla.compiler.layer_programs.formulated import formulated, placeholders
from vdla.compiler.layer_programs.int4_dense import Int4Dense
from vdla.compiler.layer_programs.layer_program import LayerProgram, ProgramBuilder
from vdla.compiler.layer_programs.mapped import mapped_programs, weight_dtype
from vdla.compiler.layer_programs.row_strips import RowPiece, RowStrip, row_pieces, row_strips
from vdla.compiler.layer_programs.through_stage import all_staged, through_stage
from vdla.compiler.layer_programs.written import WrittenProgram, written_programs

__all__ = [
    "LEAST_SCORE",
    "CachedAttention",
    "Int4Dense",
    "LayerProgram",
    "ProgramBuilder",
    "RowPiece",
    "RowStrip",
    "WrittenProgram",
    "all_staged",
    "channel_product",
    "formulated",
    "mapped_programs",
    "placeholders",
    "row_pieces",
    "row_strips",
    "through_stage",
    "weight_dtype",
    "written_programs",
]
