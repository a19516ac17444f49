# SPDX-License-Identifier: Apache-2.0
"""The configuration of a machine: buffer sizes, operand widths, queue depths, DRAM model.

The invariant: every `Config` that exists is valid, and every part of the project implements it.
Sizes are in KiB, depths in entries, latencies in clock cycles.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from os import PathLike
from typing import Any

from vdla.hardware.checks import ConfigError, require_integer, require_known, require_power
from vdla.hardware.dram import Dram
from vdla.hardware.extensions import find_plug_in, find_stage, require_formats, require_plug_ins
from vdla.hardware.isa.formats import misfit
from vdla.hardware.isa.instructions import Buffer
from vdla.hardware.isa.plug_in import PlugIn, PlugInStage
from vdla.hardware.presets import PRESET_FIELDS
from vdla.support.html_repr import shown_by
from vdla.support.integers import fields_to_python
from vdla.support.json_file import read_table
from vdla.support.keywords import checked_keywords
from vdla.support.suggest import did_you_mean

__all__ = ["MIN_COMMAND_DEPTH", "MIN_TOKEN_DEPTH", "PRESETS", "Buffer", "Config", "ConfigError", "Dram"]

MIN_COMMAND_DEPTH = 4  # the verifier proves programs free of deadlock for these depths
MIN_TOKEN_DEPTH = 8
MAX_QUEUE_DEPTH = 4096
MIN_ENTRIES = 4
MIN_PORT_BITS = 32
MAX_PORT_BEATS = 256
SCALE_LANE_BYTES = 8
ACC_BITS = 32

NOT_IN_FINGERPRINT = frozenset({"name", "dram", "clock_mhz", "array_rate", "axi_ports", "command_depth", "token_depth"})


_POWERS = {
    "batch": (1, 64),
    "block_in": (1, 256),
    "block_out": (1, 256),
    "inp_bits": (2, 8),
    "wgt_bits": (2, 8),
    "array_rate": (1, 2),
    "inp_kib": (1, 65536),
    "wgt_kib": (1, 65536),
    "scl_kib": (1, 65536),
    "uop_kib": (1, 65536),
    "acc_kib": (1, 65536),
    "out_kib": (1, 65536),
    "axi_bits": (32, 512),
    "axi_ports": (1, 4),
}
_INTEGERS = {
    "command_depth": (MIN_COMMAND_DEPTH, MAX_QUEUE_DEPTH),
    "token_depth": (MIN_TOKEN_DEPTH, MAX_QUEUE_DEPTH),
    "burst_beats": (1, 256),
}


@checked_keywords(ConfigError)
@dataclass(frozen=True)
class Config:
    """A machine; see `Config.preset` for known ones and `Config.load` for those of a JSON file."""

    name: str = "custom"
    batch: int = 1
    block_in: int = 16
    block_out: int = 16
    inp_bits: int = 8
    wgt_bits: int = 8
    array_rate: int = 1  # clocks of the multipliers per clock of the machine
    inp_kib: int = 32
    wgt_kib: int = 256
    scl_kib: int = 8
    uop_kib: int = 32
    acc_kib: int = 128
    out_kib: int = 32
    command_depth: int = 16
    token_depth: int = 16
    axi_bits: int = 64  # of all ports together
    axi_ports: int = 1
    burst_beats: int = 16
    dram: Dram = field(default_factory=Dram)
    clock_mhz: float = 100
    extensions: tuple[PlugIn, ...] = ()  # made by vdla.extend, as is
    stage: PlugInStage | None = None

    def __post_init__(self) -> None:
        fields_to_python(self)
        if not isinstance(self.name, str) or not self.name.isprintable() or not 1 <= len(self.name) <= 64:
            raise ConfigError(f"config: name must be a printable string of 1 to 64 characters, got {self.name!r}")
        self._check_fields()
        self._check_buffers()
        self._check_encoding()

    @property
    def _where(self) -> str:
        return f"config {self.name}"

    def _check_fields(self) -> None:
        for name, (low, high) in _POWERS.items():
            require_power(self._where, name, getattr(self, name), low, high)
        for name, (low, high) in _INTEGERS.items():
            require_integer(self._where, name, getattr(self, name), low, high)
        if not isinstance(self.dram, Dram):
            raise ConfigError(f"{self._where}: dram must be a Dram, got {self.dram!r}")
        clock = self.clock_mhz
        if isinstance(clock, bool) or not isinstance(clock, (int, float)) or not 0 < clock <= 10_000:
            raise ConfigError(f"{self._where}: clock_mhz must be a number above 0 and at most 10000, got {clock!r}")

        if self.port_bits < MIN_PORT_BITS:
            raise ConfigError(
                f"{self._where}: a port must have at least {MIN_PORT_BITS} bits, got axi_bits {self.axi_bits} "
                f"for {self.axi_ports} ports"
            )
        if self.burst_beats * self.axi_ports > MAX_PORT_BEATS:
            raise ConfigError(
                f"{self._where}: a burst must have at most {MAX_PORT_BEATS} beats of a port, got burst_beats "
                f"{self.burst_beats} for {self.axi_ports} ports"
            )

    def _check_buffers(self) -> None:
        vector_bits = self.block_out * self.wgt_bits
        if vector_bits < 8:
            raise ConfigError(f"{self._where}: a vector of block_out weights must fill a byte, got {vector_bits} bits")
        for buffer in Buffer:
            self._check_entry(buffer.name.lower(), self._entry_bits[buffer], self.buffer_bytes[buffer])
        if self.inp_vectors < MIN_ENTRIES:
            self._reject("inp_kib", MIN_ENTRIES, "vectors of batch x block_out elements", self.inp_vectors)
        if self.out_slots < MIN_ENTRIES:
            self._reject("out_kib", MIN_ENTRIES, "raw int32 results", self.out_slots)

    def _check_entry(self, name: str, entry_bits: int, size_bytes: int) -> None:
        if entry_bits % self.axi_bits:
            raise ConfigError(
                f"{self._where}: an entry of the {name} buffer must be a whole number of "
                f"{self.axi_bits}-bit AXI beats, got {entry_bits} bits"
            )
        if size_bytes * 8 // entry_bits < MIN_ENTRIES:
            self._reject(
                f"{name}_kib", MIN_ENTRIES, f"entries of {entry_bits // 8} bytes", size_bytes * 8 // entry_bits
            )

    def _reject(self, what: str, least: int, things: str, got: int) -> None:
        raise ConfigError(f"{self._where}: {what} must hold at least {least} {things}, got {got}")

    def _check_encoding(self) -> None:
        require_plug_ins(self._where, self)
        problem = misfit(self)
        if problem is not None:
            raise ConfigError(f"{self._where}: {problem}")
        require_formats(self._where, self)

    def __hash__(self) -> int:
        return self._hash  # configurations are the keys of many caches

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(getattr(self, f.name) for f in fields(self)))

    def __getstate__(self) -> dict[str, object]:
        """The fields alone: hashes of strings differ from process to process."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @cached_property
    def plain(self) -> Config:
        """The machine without its extensions."""
        return replace(self, extensions=(), stage=None) if self.extensions or self.stage else self

    _repr_html_ = shown_by("programs", "config_html")

    # --- presets and files

    @staticmethod
    def preset(name: str) -> Config:
        """The preset called `name`; ConfigError lists the presets."""
        if not isinstance(name, str) or name not in PRESETS:
            raise ConfigError(
                f"config: preset must be one of {', '.join(PRESETS)}, got {name}{did_you_mean(name, PRESETS)}"
            )
        return PRESETS[name]

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON-compatible values, the inverse of `from_dict`.

        Plug-ins and the stage are named with their digests; a plain machine has no such fields.
        """
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("extensions", "stage")}
        values["dram"] = self.dram.to_dict()
        values |= {"extensions": [extension.label for extension in self.extensions]} if self.extensions else {}
        return values | ({"stage": self.stage.label} if self.stage else {})

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Config:
        """The configuration with these fields; the others have their defaults.

        Plug-ins must be loaded (`vdla.load_extension`), with the digests given.
        """
        if not isinstance(values, Mapping):
            raise ConfigError(f"config: description must be a table of fields, got {values!r}")
        require_known("config", Config, values)
        dram = values.get("dram", {})
        if not isinstance(dram, Mapping):
            raise ConfigError(f"config: dram must be a table of fields, got {dram!r}")
        require_known("config dram", Dram, dram)
        plain = {name: v for name, v in values.items() if name not in ("extensions", "stage")}
        return _extended(Config(**plain | {"dram": Dram(**dram)}), values)

    @staticmethod
    def load(path: str | PathLike[str]) -> Config:
        """The configuration in a JSON file with the fields of `to_dict`."""
        if not isinstance(path, str | PathLike) or "\0" in str(path):
            raise ConfigError(f"config: path must be a string or a path, got {path!r}")
        values = read_table(path, ConfigError)
        try:
            return Config.from_dict(values)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None

    @cached_property
    def fingerprint(self) -> str:
        """Twelve hex digits that identify the fields a program depends on."""
        relevant = {k: v for k, v in self.to_dict().items() if k not in NOT_IN_FINGERPRINT}
        return hashlib.sha256(json.dumps(relevant, sort_keys=True).encode()).hexdigest()[:12]

    def mismatch(self, device: Config) -> str | None:
        """Why a program compiled for this configuration cannot run on `device`, or None."""
        names = [f.name for f in fields(self) if f.name not in NOT_IN_FINGERPRINT]
        different = [n for n in names if getattr(self, n) != getattr(device, n)]
        if not different:
            return None
        ours = ", ".join(f"{n}={_shown(getattr(self, n))}" for n in different)
        if len(different) == 1:
            return f"program was compiled for {ours}, device has {_shown(getattr(device, different[0]))}"
        return f"program was compiled for {ours}, device has " + ", ".join(
            f"{n}={_shown(getattr(device, n))}" for n in different
        )

    # --- widths and sizes

    @property
    def acc_bits(self) -> int:
        """Bits of a sum."""
        return ACC_BITS

    @property
    def out_bits(self) -> int:
        """Bits of a requantised result, which are those of an activation."""
        return self.inp_bits

    @property
    def inp_dtype(self) -> str:
        """Dtype of activations, such as int8."""
        return f"int{self.inp_bits}"

    @property
    def wgt_dtype(self) -> str:
        """Dtype of weights."""
        return f"int{self.wgt_bits}"

    @property
    def out_dtype(self) -> str:
        """Dtype of requantised results."""
        return f"int{self.out_bits}"

    @property
    def acc_dtype(self) -> str:
        """Dtype of sums."""
        return f"int{ACC_BITS}"

    @cached_property
    def axi_bytes(self) -> int:
        """Bytes of a beat, of all ports together."""
        return self.axi_bits // 8

    @property
    def port_bits(self) -> int:
        """Bits of a beat of one AXI port."""
        return self.axi_bits // self.axi_ports

    @cached_property
    def macs_per_cycle(self) -> int:
        """Multiply-accumulates of the GEMM core per cycle."""
        return self.batch * self.block_in * self.block_out

    @property
    def peak_gops(self) -> float:
        """Peak throughput in 1e9 operations per second; a multiply-accumulate counts as two."""
        return 2 * self.macs_per_cycle * self.clock_mhz / 1000

    @property
    def peak_bytes_per_cycle(self) -> float:
        """Peak bandwidth of the AXI read channels together."""
        return self.axi_bytes / self.dram.beat_cycles

    @cached_property
    def _entry_bits(self) -> tuple[int, ...]:
        return (
            self.batch * self.block_in * self.inp_bits,
            self.block_out * self.block_in * self.wgt_bits,
            self.block_out * SCALE_LANE_BYTES * 8,
            max(64, self.axi_bits),
            self.batch * self.block_out * ACC_BITS,
            self.batch * self.block_out * self.inp_bits,
        )

    @cached_property
    def entry_bytes(self) -> tuple[int, ...]:
        """Bytes of an entry of each buffer, indexed by `Buffer`."""
        return tuple(bits // 8 for bits in self._entry_bits)

    @cached_property
    def buffer_bytes(self) -> tuple[int, ...]:
        """Bytes of each buffer, indexed by `Buffer`."""
        sizes = (self.inp_kib, self.wgt_kib, self.scl_kib, self.uop_kib, self.acc_kib, self.out_kib)
        return tuple(size * 1024 for size in sizes)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Entries of each buffer, indexed by `Buffer`."""
        return tuple(size // entry for size, entry in zip(self.buffer_bytes, self.entry_bytes, strict=True))

    @cached_property
    def inp_entry_bytes(self) -> int:
        """Bytes of batch x block_in activations."""
        return self.entry_bytes[Buffer.INP]

    @cached_property
    def wgt_entry_bytes(self) -> int:
        """Bytes of block_out x block_in weights."""
        return self.entry_bytes[Buffer.WGT]

    @cached_property
    def scl_entry_bytes(self) -> int:
        """Bytes of block_out lanes of requantisation parameters."""
        return self.entry_bytes[Buffer.SCL]

    @cached_property
    def uop_entry_bytes(self) -> int:
        """Bytes of one micro-op."""
        return self.entry_bytes[Buffer.UOP]

    @cached_property
    def acc_entry_bytes(self) -> int:
        """Bytes of batch x block_out sums."""
        return self.entry_bytes[Buffer.ACC]

    @cached_property
    def out_entry_bytes(self) -> int:
        """Bytes of batch x block_out results."""
        return self.entry_bytes[Buffer.OUT]

    @cached_property
    def inp_depth(self) -> int:
        """Entries of the input buffer."""
        return self.depths[Buffer.INP]

    @cached_property
    def wgt_depth(self) -> int:
        """Entries of the weight buffer."""
        return self.depths[Buffer.WGT]

    @cached_property
    def scl_depth(self) -> int:
        """Entries of the scale buffer."""
        return self.depths[Buffer.SCL]

    @cached_property
    def uop_depth(self) -> int:
        """Entries of the micro-op buffer."""
        return self.depths[Buffer.UOP]

    @cached_property
    def acc_depth(self) -> int:
        """Entries of the accumulator."""
        return self.depths[Buffer.ACC]

    @cached_property
    def out_depth(self) -> int:
        """Entries of the output buffer."""
        return self.depths[Buffer.OUT]

    @cached_property
    def inp_vectors(self) -> int:
        """Vectors of batch x block_out activations in the input buffer, as VECTOR indexes it."""
        return self.buffer_bytes[Buffer.INP] // self.out_entry_bytes

    @cached_property
    def wgt_vector_bytes(self) -> int:
        """Bytes of block_out weights."""
        return self.block_out * self.wgt_bits // 8

    @cached_property
    def wgt_vectors(self) -> int:
        """Vectors of block_out weights in the weight buffer, as VECTOR indexes it."""
        return self.buffer_bytes[Buffer.WGT] // self.wgt_vector_bytes

    @cached_property
    def out_slots(self) -> int:
        """Slots of one accumulator entry in the output buffer, as RAW results index it."""
        return self.buffer_bytes[Buffer.OUT] // self.acc_entry_bytes


def _extended(plain: Config, values: Mapping[str, Any]) -> Config:
    """A plain machine with the loaded extensions that a description names."""
    labels, stage = values.get("extensions", []), values.get("stage")
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise ConfigError(f"config: extensions must be a list of names, got {labels!r}")
    if stage is not None and not isinstance(stage, str):
        raise ConfigError(f"config: stage must be a name, got {stage!r}")
    if not labels and stage is None:
        return plain
    plug_ins = tuple(find_plug_in(label, plain) for label in labels)
    return replace(plain, extensions=plug_ins, stage=find_stage(stage, plain) if stage is not None else None)


def _shown(value: object) -> str:
    """A field in a message; plug-ins by name and digest."""
    if value is None or value == ():
        return "none"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


PRESETS = {name: Config(name=name, **values) for name, values in PRESET_FIELDS.items()}
"""The known machines by name."""
