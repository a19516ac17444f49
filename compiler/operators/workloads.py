# SPDX-License-Identifier: Apache-2.0
"""The single-operator workloads of the VTA paper's evaluation, read from workloads.csv."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from vdla.support.errors import Error
from vdla.support.suggest import did_you_mean


class WorkloadError(Error, ValueError):
    """An unknown workload name."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One operator; `kernel`, `strides` and `pads` are equal in both directions."""

    name: str
    operator: str
    batch: int
    height: int
    width: int
    in_channels: int
    out_channels: int
    kernel: int
    strides: int
    pads: int
    note: str

    @property
    def out_height(self) -> int:
        """Rows of the result."""
        return self._out(self.height)

    @property
    def out_width(self) -> int:
        """Columns of the result."""
        return self._out(self.width)

    def _out(self, size: int) -> int:
        if self.operator == "conv2d_transpose":
            return (size - 1) * self.strides - 2 * self.pads + self.kernel
        return (size + 2 * self.pads - self.kernel) // self.strides + 1

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the operator, without padding of channels."""
        channels = self.out_channels if self.operator == "depthwise_conv2d" else self.in_channels * self.out_channels
        pixels = self.height * self.width if self.operator == "conv2d_transpose" else self.out_height * self.out_width
        return self.batch * pixels * channels * self.kernel * self.kernel


SELF_TEST = Workload(
    name="self_test",
    operator="conv2d",
    batch=1,
    height=8,
    width=8,
    in_channels=20,
    out_channels=12,
    kernel=3,
    strides=1,
    pads=1,
    note="",
)
"""A small convolution whose channels fill no whole blocks, to try a machine or a device."""


@cache
def workloads() -> dict[str, Workload]:
    """All workloads by name, in the order of the table."""
    text = files("vdla.compiler.operators").joinpath("workloads.csv").read_text(encoding="utf-8")
    return {row["name"]: _workload(row) for row in csv.DictReader(text.splitlines())}


def _workload(row: dict[str, str]) -> Workload:
    words = {"name", "operator", "note"}
    return Workload(**{key: value if key in words else int(value) for key, value in row.items()})  # type: ignore[arg-type]


def workload(name: str) -> Workload:
    """The workload called `name` (any case)."""
    table = workloads()
    if name.upper() not in table:
        hint = did_you_mean(name, table)
        raise WorkloadError(f"workload: name must be one of {', '.join(table)}, got {name!r}{hint}")
    return table[name.upper()]


def resnet18_layers() -> list[Workload]:
    """C2 to C12, the convolutions that the accelerator is measured on."""
    return [workload(f"C{number}") for number in range(2, 13)]
