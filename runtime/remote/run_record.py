# SPDX-License-Identifier: Apache-2.0
"""The statistics of a run as a message: counters as JSON, the times of instructions as bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.config import Config
from vdla.hardware.isa import COUNTERS, UNITS
from vdla.hardware.program import Program
from vdla.runtime.remote.errors import RemoteError
from vdla.runtime.remote.messages import RunRecord
from vdla.simulator.stats import RunStats

_NARROW, _WIDE = 4, 8  # bytes of a number
_TIMES = 3  # dispatch, start, end


def to_record(statistics: RunStats, device_s: float) -> tuple[RunRecord, list[bytes]]:
    """The message, and its arrays as bytes."""
    arrays = [statistics.dispatches, statistics.starts, statistics.ends]
    waits = statistics.waits
    arrays += [] if waits is None else [waits]
    item_bytes = _NARROW if all(_fits(array) for array in arrays) else _WIDE
    record = RunRecord(
        total_cycles=int(statistics.total_cycles),
        counters={unit: {c: int(n) for c, n in counts.items()} for unit, counts in statistics.counters.items()},
        instructions=len(statistics.starts),
        wait_columns=0 if waits is None else waits.shape[1],
        item_bytes=item_bytes,
        macs=int(statistics.macs),
        bytes_read=int(statistics.bytes_read),
        bytes_written=int(statistics.bytes_written),
        device_s=device_s,
    )
    return record, [np.ascontiguousarray(array, f"<i{item_bytes}").tobytes() for array in arrays]


def _fits(array: NDArray[Any]) -> bool:
    return not array.size or (int(array.max()) < 1 << 31 and int(array.min()) >= -(1 << 31))


def from_record(record: RunRecord, data: memoryview, program: Program, config: Config, where: str) -> RunStats:
    """The statistics of a run of `program`; RemoteError where the message does not fit it."""
    count, columns, item = len(program), record.wait_columns, record.item_bytes
    if record.instructions != count or columns not in (0, len(COUNTERS)) or item not in (_NARROW, _WIDE):
        raise RemoteError(f"{where}: statistics must be of {count} instructions, got {record.instructions}")
    expected = item * count * (_TIMES + columns)
    if len(data) != expected:
        raise RemoteError(f"{where}: times must have {expected} bytes, got {len(data)}")
    if any(set(record.counters.get(unit, ())) != set(COUNTERS) for unit in UNITS):
        raise RemoteError(f"{where}: counters must be those of {', '.join(UNITS)}, got {', '.join(record.counters)}")
    numbers = np.frombuffer(data, f"<i{item}").astype(np.int64)
    times = numbers[: _TIMES * count].reshape(_TIMES, count)
    return RunStats(
        config=config,
        program=program.name,
        program_hash=program.hash,
        total_cycles=record.total_cycles,
        counters={unit: dict(counts) for unit, counts in record.counters.items()},
        starts=times[1],
        ends=times[2],
        dispatches=times[0],
        waits=numbers[_TIMES * count :].reshape(count, columns) if columns else None,
        macs=record.macs,
        bytes_read=record.bytes_read,
        bytes_written=record.bytes_written,
    )
