"""The mapper: from a plain tensor expression to programs, by the declared intrinsics alone.

found = candidates(output, config)
operator = found.found[0].with_best_tiles(threads=2)
"""

from vdla.compiler.map.applications import Applications, applications
from vdla.compiler.map.candidates import MappingCandidates, candidates
from vdla.compiler.map.errors import MapError, Refusal
from vdla.compiler.map.gather import gather, is_gather
from vdla.compiler.map.mapped_operator import MappedOperator
from vdla.compiler.map.mapping import Mapping
from vdla.compiler.map.staged import why_not_staged

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
    "is_gather",
    "why_not_staged",
]
