# SPDX-License-Identifier: Apache-2.0
"""The on-chip buffers of the RTL as arrays of entries, from the memories of its model.

A buffer is a memory of lanes: entry after entry, their beats side by side. The names of the lanes
follow from the hierarchy of the RTL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import uop_columns
from vdla.hardware.numerics import unpack_elements
from vdla.runtime.devices.device import DeviceError

Bytes = NDArray[np.uint8]

_LANE = re.compile(
    r"u_(?P<buffer>inp|wgt|scl|uop|out|accumulator)"
    r"(\.gen_half\[(?P<half>\d+)\])?(\.gen_beat\[(?P<beat>\d+)\]\.gen_kept)?"
    r"\.u_ram\.gen_lane\[(?P<lane>\d+)\]\.gen_memory$"
)
_STORED = re.compile(
    r"u_stored\.(u_ram\.gen_lane\[(?P<lane>\d+)\]\.gen_memory|gen_entry\[(?P<entry>\d+)\]\.u_(?P<writer>load|step))$"
)
"""What steps write of the input buffer: entries of a word, and bits that say which are newer."""
COUNTERS = ("u_activity", "u_steps")
"""The instances of counters of events, beside the memories."""
_NAMES = {**{buffer.name.lower(): buffer for buffer in Buffer}, "accumulator": Buffer.ACC}


def buffer_contents(config: Config, memories: Mapping[str, Bytes]) -> dict[Buffer, NDArray[Any]]:
    """The entries of each buffer, `[depth, elements]`, from `uint8[elements, bytes]` by name."""
    packed = _packed(config, memories)
    return {buffer: _elements(config, buffer, packed[buffer]) for buffer in Buffer}


def _packed(config: Config, memories: Mapping[str, Bytes]) -> dict[Buffer, Bytes]:
    """The entries of each buffer in the format of DRAM, `uint8[depth, bytes]`."""
    lanes: dict[Buffer, dict[tuple[int, int], Bytes]] = {buffer: {} for buffer in Buffer}
    by_steps = {match: content for name, content in memories.items() if (match := _STORED.search(name))}
    for name, content in memories.items():
        match = _LANE.search(name)
        if name.rpartition(".")[2] in COUNTERS or _STORED.search(name):
            continue
        if match is None:
            raise DeviceError(f"device rtl: memory must be a lane of a buffer, got {name}")
        half, beat, lane = (int(match[part] or 0) for part in ("half", "beat", "lane"))
        lanes[_NAMES[match["buffer"]]][half, beat + lane] = content
    packed = {buffer: _entries(config, buffer, lanes[buffer]) for buffer in Buffer}
    return packed | ({Buffer.INP: _newest(packed[Buffer.INP], by_steps)} if by_steps else {})


def _newest(loaded: Bytes, by_steps: Mapping[re.Match[str], Bytes]) -> Bytes:
    """The entries of the input buffer, of load or of steps."""
    stored = {int(match["lane"]): content for match, content in by_steps.items() if match["lane"]}
    flags = {(int(match["entry"]), match["writer"]): c[:, 0] for match, c in by_steps.items() if match["entry"]}
    order = sorted(stored)
    newer = np.stack([flags[entry, "load"] != flags[entry, "step"] for entry in order], axis=1)
    entries = np.stack([_padded(stored[entry], loaded.shape[1]) for entry in order], axis=1)
    return np.where(newer.reshape(-1, 1), entries.reshape(loaded.shape), loaded)


def _entries(config: Config, buffer: Buffer, lanes: Mapping[tuple[int, int], Bytes]) -> Bytes:
    """The halves of a memory on top of each other, their lanes side by side."""
    width = config.out_entry_bytes if buffer == Buffer.OUT else config.axi_bytes
    halves = sorted({half for half, _ in lanes})
    rows = [
        np.concatenate([_padded(lanes[key], width) for key in sorted(lanes) if key[0] == half], axis=1)
        for half in halves
    ]
    entry_bytes = config.entry_bytes[buffer]
    whole = np.concatenate(rows) if rows else np.zeros((0, 0), np.uint8)
    if buffer == Buffer.UOP and len(rows):  # beats that hold no field are not stored
        whole = _padded(whole, entry_bytes)
    if whole.size != config.depths[buffer] * entry_bytes:
        raise DeviceError(
            f"device rtl: memories of {buffer.name.lower()} must have {config.depths[buffer] * entry_bytes} bytes, "
            f"got {whole.size}"
        )
    return np.ascontiguousarray(whole).reshape(-1, entry_bytes)


def _padded(content: Bytes, width: int) -> Bytes:
    """Elements of `width` bytes: the model stores them in as many bytes as are convenient."""
    rest = width - content.shape[1]
    return np.pad(content, ((0, 0), (0, rest))) if rest > 0 else content[:, :width]


def _elements(config: Config, buffer: Buffer, packed: Bytes) -> NDArray[Any]:
    if buffer in (Buffer.INP, Buffer.WGT):
        bits = config.inp_bits if buffer == Buffer.INP else config.wgt_bits
        return packed.view(np.int8) if bits == 8 else unpack_elements(packed, bits)
    if buffer == Buffer.UOP:
        return uop_columns(config, packed)
    return packed if buffer == Buffer.OUT else packed.view("<i8" if buffer == Buffer.SCL else "<i4")
