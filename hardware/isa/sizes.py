# SPDX-License-Identifier: Apache-2.0
"""The sizes of a machine that its instruction set depends on; every `Config` has them.

A protocol: the instruction set lies below the configuration, whose validity depends on it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol

from vdla.hardware.isa.plug_in import PlugIn, PlugInStage


class Sizes(Hashable, Protocol):
    """Depths are in entries, widths in bits or bytes as named; tuples are indexed by `Buffer`."""

    @property
    def extensions(self) -> Sequence[PlugIn]:
        """The plug-ins of the machine, in the order of their numbers."""

    @property
    def stage(self) -> PlugInStage | None:
        """The stage on the way out, where the machine has one."""

    @property
    def inp_bits(self) -> int:
        """Width of an activation."""

    @property
    def acc_bits(self) -> int:
        """Width of a sum."""

    @property
    def out_bits(self) -> int:
        """Width of a requantised result."""

    @property
    def axi_bytes(self) -> int:
        """Bytes of one AXI beat."""

    @property
    def depths(self) -> Sequence[int]:
        """Entries of each buffer."""

    @property
    def inp_depth(self) -> int:
        """Entries of the input buffer."""

    @property
    def wgt_depth(self) -> int:
        """Entries of the weight buffer."""

    @property
    def scl_depth(self) -> int:
        """Entries of the scale buffer."""

    @property
    def uop_depth(self) -> int:
        """Entries of the micro-op buffer."""

    @property
    def acc_depth(self) -> int:
        """Entries of the accumulator."""

    @property
    def out_depth(self) -> int:
        """Entries of the output buffer."""

    @property
    def entry_bytes(self) -> Sequence[int]:
        """Bytes of an entry of each buffer."""

    @property
    def inp_entry_bytes(self) -> int:
        """Bytes of an entry of the input buffer."""

    @property
    def wgt_entry_bytes(self) -> int:
        """Bytes of an entry of the weight buffer."""

    @property
    def uop_entry_bytes(self) -> int:
        """Bytes of a micro-op."""

    @property
    def out_entry_bytes(self) -> int:
        """Bytes of an entry of the output buffer."""

    @property
    def inp_vectors(self) -> int:
        """Vectors of batch x block_out activations in the input buffer."""

    @property
    def wgt_vector_bytes(self) -> int:
        """Bytes of block_out weights."""

    @property
    def wgt_vectors(self) -> int:
        """Vectors of block_out weights in the weight buffer."""

    @property
    def out_slots(self) -> int:
        """Slots of one accumulator entry in the output buffer."""
