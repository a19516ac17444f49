"""Features of GPU schedules: what a launch does, by its form, as logarithms to base 2.

They mean the same for all operators and shapes, so that tasks can share a cost model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.tune.cost_model import ESTIMATE
from vdla.compiler.tune.grid.form_of import OPERATORS
from vdla.compiler.tune.grid.model import GridMachine, GridWork, modelled_cycles

_WORK = tuple(field.name for field in fields(GridWork))
KNOBS = (
    "rows", "columns", "depth", "blocks", "channels", "threads", "groups", "lanes",
    "thread_rows", "thread_columns", "thread_channels", "warp_rows", "warp_columns",
)  # fmt: skip
"""The fields of all tiles."""

GRID_FEATURES = (
    ESTIMATE,
    *(f"is_{name}" for name in OPERATORS),
    *_WORK,  # of the draft: groups, and what one of them holds and does
    "warps", "occupancy",
    "bytes_operation", "passes_operation",  # of memory and of banks, for each operation
    *(f"knob_{name}" for name in KNOBS),
)  # fmt: skip


def draft_work(works: Sequence[GridWork]) -> GridWork:
    """The work of several points as columns."""
    columns = [asdict(work) for work in works]
    return GridWork(**{name: np.array([float(column[name]) for column in columns]) for name in _WORK})


def grid_features(
    operator: str, work: GridWork, knobs: dict[str, NDArray[np.int64]], machine: GridMachine
) -> NDArray[np.float32]:
    """[point, feature], in the order of GRID_FEATURES; knobs that a form lacks are 0."""
    count = len(np.asarray(work.threads))
    known = {name: np.log2(1 + np.asarray(getattr(work, name))) for name in _WORK}
    known |= {f"is_{name}": np.full(count, float(name == operator)) for name in OPERATORS}
    known |= {f"knob_{name}": np.log2(1.0 + knobs.get(name, np.zeros(count))) for name in KNOBS}
    operations = np.maximum(work.operations, 1)
    known |= {
        ESTIMATE: np.log2(modelled_cycles(work, machine)),
        "warps": np.log2(work.warps),
        "occupancy": np.asarray(work.occupancy(machine)),
        "bytes_operation": np.asarray(work.memory_bytes / operations),
        "passes_operation": np.asarray(work.shared_passes / operations),
    }
    return np.stack([known[name] for name in GRID_FEATURES], axis=1).astype(np.float32)
