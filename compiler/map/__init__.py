# SPDX-License-Identifier: Apache-2.0
"""The mapper: from a plain tensor expression to programs, by the declared intrinsics alone.

found = candidates(output, config)
operator = found.found[0].with_best_tiles(threads=2)
"""

from vdla.compiler.map.candidates import Applications, MappingCandidates, applications, candidates, is_alone
from vdla.compiler.map.expression_parts import MapError, Refusal
from vdla.compiler.map.mapped_operator import MappedOperator
from vdla.compiler.map.mapping import Mapping
from vdla.compiler.map.packing import gather, is_gather
from vdla.compiler.map.stage_function import is_function, stage_table, staged
from vdla.compiler.map.way_out import why_not_staged

__all__ = [
    "Applications",
    "MapError",
    "MappedOperator",
    "Mapping",
    "MappingCandidates",
    "Refusal",
    "applications",
    "candidates",
    "gather",
    "is_alone",
    "is_function",
    "is_gather",
    "stage_table",
    "staged",
    "why_not_staged",
]
