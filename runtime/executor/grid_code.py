# SPDX-License-Identifier: Apache-2.0
"""The kernels of a network for a GPU, as text that the device compiles."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from vdla.compiler.abi import Argument, Signature, evaluate_extent
from vdla.runtime.executor.errors import ArtifactError
from vdla.runtime.executor.json_fields import from_json, to_json


@dataclass(frozen=True, slots=True)
class GridLaunchCode:
    """How to start a kernel: its name, the arrays it takes, and its grid along x, y, z."""

    kernel: str
    buffers: tuple[str, ...]
    groups: tuple[int, ...]
    threads: tuple[int, ...]
    shared_bytes: int = 0

    @property
    def scalars(self) -> tuple[str, ...]:
        """None: all extents are numbers."""
        return ()


@dataclass(frozen=True, slots=True)
class GridCode:
    """A function of fixed extents as text for a grid device: kernels that run in order.

    `temporaries` are the arrays in device memory that exist during a run; `arch` is what the text
    is for, where the kind of device has several.
    """

    signature: Signature
    text: str
    launches: tuple[GridLaunchCode, ...]
    temporaries: tuple[Argument, ...]
    arch: str = ""

    @staticmethod
    def of(source: Any) -> GridCode:  # noqa: ANN401  any GridSource
        """The same function as another source has it, whose extents must be numbers."""
        launches = tuple(
            GridLaunchCode(
                launch.kernel,
                tuple(launch.buffers),
                tuple(evaluate_extent(extent, {}) for extent in launch.groups),
                tuple(launch.threads),
                getattr(launch, "shared_bytes", 0),
            )
            for launch in source.launches
        )
        return GridCode(source.signature, source.text, launches, source.temporaries, getattr(source, "arch", ""))

    def check(self, where: str) -> None:
        """Refuse launches that name arrays which do not exist, or an empty grid.

        Raises:
            ArtifactError: the message names the kernel.
        """
        known = {argument.name for argument in (*self.signature.arguments, *self.temporaries)}
        for launch in self.launches:
            for name in launch.buffers:
                if name not in known:
                    got = f"{name}, not one of {', '.join(sorted(known))}"
                    raise ArtifactError(f"{where}: {launch.kernel} must take arrays of its function, got {got}")
            for what, extents in (("groups", launch.groups), ("threads", launch.threads)):
                if len(extents) != 3 or min(extents) < 1:
                    rule = f"{what} of {launch.kernel} must be three numbers from 1"
                    raise ArtifactError(f"{where}: {rule}, got {list(extents)}")

    def to_json(self) -> list[Any]:
        """The function as JSON."""
        launches = [to_json(launch) for launch in self.launches]
        return [
            self.signature.to_json(),
            self.text,
            launches,
            [asdict(temporary) for temporary in self.temporaries],
            self.arch,
        ]

    @staticmethod
    def from_json(raw: Sequence[Any], where: str) -> GridCode:
        """The inverse of `to_json`.

        Raises:
            ArtifactError, ValueError, KeyError, TypeError: any other content.
        """
        signature, text, launches, temporaries, arch = raw
        held = Signature.from_json(json.dumps({"name": "temporaries", "arguments": temporaries, "scalars": []}))
        return GridCode(
            Signature.from_json(signature),
            from_json(str, text, where),
            from_json(tuple[GridLaunchCode, ...], launches, where),
            held.arguments,
            from_json(str, arch, where),
        )


@dataclass(frozen=True, slots=True)
class GridPart:
    """The part of a network on a grid device, which `device` names as `vdla.compile` does."""

    device: str
    kernels: tuple[GridCode, ...]
