# SPDX-License-Identifier: Apache-2.0
"""What a loop nest reads and writes, for schedules, lowering and default schedules.

Nothing here changes a function.

| question | module |
|---|---|
| which loops lie around a block or loop; the function with a statement replaced | `tree` |
| which buffers and elements a block reads and writes, by the loops around it | `access` |
| which region of a buffer is read while the outer loops are fixed | `read_region` |
| which region is written meanwhile, if it has no gaps | `written_region` |
| does each read still find its value after a block has moved | `dataflow` |
| may the iterations of a loop run at once | `independence` |
| which terms does a reduction combine | `combiner` |
| how do bounds compare where extents are symbols | `symbols` |

Functions are immutable, so an analysis holds for the function that it was given; a rewrite analyses
its result anew.
"""

from vdla.compiler.analysis.access import (
    Indices,
    LeafBlock,
    is_leaf,
    leaves,
    loads,
    read_buffers,
    read_indices,
    readers_of,
    readers_of_any,
    store_to,
    stores,
    writers_of,
    written_buffers,
)
from vdla.compiler.analysis.combiner import reduction_terms, replace_terms
from vdla.compiler.analysis.independence import (
    ROOT,
    elements_differ,
)
from vdla.compiler.analysis.read_region import (
    Limit,
    Span,
    access_region,
    index_form,
    limits_of,
    region_read,
    span_of,
)
from vdla.compiler.analysis.symbols import Domains, ceil_div, domains_of, extent_form, extent_of
from vdla.compiler.analysis.thread_accesses import ThreadProgram, barrier_violation
from vdla.compiler.analysis.thread_races import MeetingTable, Race, check_threads, races
from vdla.compiler.analysis.tree import (
    ScheduleError,
    block_path,
    loops_on,
    replace_at,
    used_names,
)
from vdla.compiler.analysis.written_region import region_written

__all__ = [
    "ROOT",
    "Domains",
    "Indices",
    "LeafBlock",
    "Limit",
    "MeetingTable",
    "Race",
    "ScheduleError",
    "Span",
    "ThreadProgram",
    "access_region",
    "barrier_violation",
    "block_path",
    "ceil_div",
    "check_threads",
    "domains_of",
    "elements_differ",
    "extent_form",
    "extent_of",
    "index_form",
    "is_leaf",
    "leaves",
    "limits_of",
    "loads",
    "loops_on",
    "races",
    "read_buffers",
    "read_indices",
    "readers_of",
    "readers_of_any",
    "reduction_terms",
    "region_read",
    "region_written",
    "replace_at",
    "replace_terms",
    "span_of",
    "store_to",
    "stores",
    "used_names",
    "writers_of",
    "written_buffers",
]
