# SPDX-License-Identifier: Apache-2.0
"""The certificate of a region: its program against the integer operators of its nodes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from vdla.compiler.certificates.networks.graph_run import run_graph
from vdla.compiler.certificates.program_run import SymbolicRun
from vdla.compiler.certificates.symbols import CertificateError, Symbols, numbers, unknowns
from vdla.compiler.graph import Graph
from vdla.compiler.graph.accelerator.region_expression import RegionExpression
from vdla.hardware.program import Program

Array = np.ndarray[Any, np.dtype[Any]]


class Verdict(Enum):
    """What is known about the program of a region."""

    CERTIFIED = "certified"
    DIFFERS = "differs"
    UNKNOWN = "not certified"


@dataclass(frozen=True, slots=True)
class RegionCertificate:
    """The verdict on a region of `nodes` operators, whose program hands on `results` elements.

    `program` and `expression` are hashes; `reason` says what differs, or why nothing is known.
    """

    region: str
    verdict: Verdict
    program: str
    expression: str
    nodes: int
    results: int
    reason: str = ""

    @property
    def holds(self) -> bool:
        """Whether the program computes the operators, for all inputs."""
        return self.verdict is Verdict.CERTIFIED

    def __str__(self) -> str:
        if self.holds:
            return (
                f"{self.region}: certified, program {self.program} computes {self.nodes} operators, "
                f"{self.results:,} results"
            )
        return f"{self.region}: {self.verdict.value}, {self.reason}"


def certify_region(
    expression: RegionExpression, program: Program, constants: Mapping[str, Array], seed: int = 0
) -> RegionCertificate:
    """Whether a program with these constants, by tensor, computes the operators of its region."""
    verdict, reason = _judged(expression, program, constants, seed)
    return RegionCertificate(
        region=expression.name,
        verdict=verdict,
        program=program.hash,
        expression=hash_of(expression),
        nodes=len(expression.unpacked.outputs),
        results=sum(int(np.prod(expression.plain.tensor(name).extents)) for name in expression.results),
        reason=reason,
    )


def _judged(
    expression: RegionExpression, program: Program, constants: Mapping[str, Array], seed: int
) -> tuple[Verdict, str]:
    try:
        wanted = run_graph(expression.plain, _unknown_inputs(expression.plain, seed))
        inputs = {tensor: wanted[name] for name, tensor in expression.packing.items()}
        run = SymbolicRun(program, {**inputs, **{name: numbers(array) for name, array in constants.items()}})
        with np.errstate(all="ignore"):
            outputs = run.run()
        found = run_graph(expression.unpacked, _in_shapes(expression.unpacked, outputs))
    except CertificateError as error:
        return Verdict.UNKNOWN, str(error)
    for name in expression.unpacked.outputs:
        if (found[name]["value"] != wanted[name]["value"]).any():
            return Verdict.DIFFERS, name
    return Verdict.CERTIFIED, ""


def _unknown_inputs(graph: Graph, seed: int) -> dict[str, Symbols]:
    kinds = {name: graph.tensor(name) for name in graph.inputs}
    return {name: unknowns(name, kind.extents, kind.dtype, seed) for name, kind in kinds.items()}


def _in_shapes(graph: Graph, arrays: Mapping[str, Symbols]) -> dict[str, Symbols]:
    """The inputs of a graph in their shapes."""
    return {name: arrays[name].reshape(graph.tensor(name).extents) for name in graph.inputs}


def hash_of(expression: RegionExpression) -> str:
    """The hash of an expression, constants included."""
    digest = hashlib.sha256(str(expression.plain).encode())
    for name, value in expression.plain.constants.items():
        digest.update(f"{name} {value.dtype} {value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()[:16]
