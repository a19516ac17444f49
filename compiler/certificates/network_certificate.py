# SPDX-License-Identifier: Apache-2.0
"""The certificate of a compiled network: every program against the integer operators of its region.

Kernels of the CPU are not looked at: their results are unknown inputs of regions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from vdla.compiler.certificates.blas_threads import one_blas_thread
from vdla.compiler.certificates.region_certificate import RegionCertificate, RegionVerdict, certify_region
from vdla.compiler.certificates.region_program import RegionProgram
from vdla.compiler.certificates.symbols import CertificateError
from vdla.compiler.certificates.work_limit import work_limit
from vdla.compiler.graph.accelerator import RegionExpression, expressions_from_bytes
from vdla.hardware.program import Program
from vdla.support.progress import Progress, silent

Array = np.ndarray[Any, np.dtype[Any]]


class RegionStep(Protocol):
    """A step of a plan that runs a program."""

    name: str
    program: int
    tensors: Mapping[str, str]
    lines: tuple[int, ...]


class NetworkContent(Protocol):
    """What a compiled network has."""

    @property
    def plans(self) -> Sequence[Any]:
        """The plans."""

    @property
    def programs(self) -> Sequence[Program]:
        """The programs."""

    @property
    def constants(self) -> Mapping[str, Array]:
        """The constants by name."""


@runtime_checkable
class CertifiableNetwork(Protocol):
    """A compiled network; `expressions` say what the programs of each plan must compute."""

    @property
    def name(self) -> str:
        """The name of the model."""

    @property
    def artifact(self) -> NetworkContent:
        """The content of its file."""

    @property
    def expressions(self) -> bytes:
        """The expressions as `expressions_to_bytes` gives them; nothing if they were not kept."""


@dataclass(frozen=True, slots=True)
class NetworkCertificate:
    """The verdicts on the programs of a network, in order; it holds if all are certified."""

    name: str
    seed: int
    regions: tuple[RegionCertificate, ...]

    @property
    def holds(self) -> bool:
        """Whether every program computes its operators, for all inputs."""
        return all(region.holds for region in self.regions)

    def raise_if_bad(self) -> None:
        """CertificateError with the verdicts unless all programs are certified."""
        if not self.holds:
            raise CertificateError(str(self))

    @property
    def summary(self) -> str:
        """One line for the whole network."""
        counts = Counter(region.verdict for region in self.regions)
        if not self.regions:
            return f"certify {self.name}: no program runs on the accelerator"
        if self.holds:
            what = f"{len(self.regions)} programs compute" if len(self.regions) > 1 else "1 program computes"
            return (
                f"certify {self.name}: {what} the integer operators of the graph for all inputs; "
                f"prime 2^61 - 1, seed {self.seed}"
            )
        shown = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in RegionVerdict if counts[verdict])
        return f"certify {self.name}: of {len(self.regions)} programs, {shown}"

    def __str__(self) -> str:
        return "\n".join([*map(str, self.regions), self.summary])

    __repr__ = __str__


def certify_network(network: CertifiableNetwork, seed: int = 0, progress: Progress = silent) -> NetworkCertificate:
    """Whether the programs of a network compute the integer operators of its graph.

    Raises:
        CertificateError: the expressions of the regions were not kept, or are of another network.
        GraphError: they are damaged.
    """
    regions = list(region_programs(network))
    verdicts = []
    with work_limit(), one_blas_thread():
        for done, (name, expression, given) in enumerate(regions):
            progress(name, done, len(regions))
            unknown = _without_expression(name, given.program)
            verdicts.append(unknown if expression is None else certify_region(expression, given, seed))
    known = {given.program.hash for _, _, given in regions}
    others = (program for program in network.artifact.programs if program.hash not in known)
    verdicts += [_without_expression(f"program {program.name}", program) for program in others]
    return NetworkCertificate(network.name, seed, tuple(verdicts))


def region_programs(network: CertifiableNetwork) -> Iterator[tuple[str, RegionExpression | None, RegionProgram]]:
    """The name, the expression and the program of each step that runs one.

    Raises: as `certify_network`.
    """
    artifact, where = network.artifact, f"certify {network.name}"
    if not artifact.programs:
        return
    if not network.expressions:
        remedy = f"vdla compile MODEL.onnx --expressions -o {network.name}.vdla"
        raise CertificateError(f"{where}: the expressions of its programs must be kept, got none ({remedy})")
    plans = expressions_from_bytes(network.expressions, where)
    if len(plans) != len(artifact.plans):
        raise CertificateError(f"{where}: expressions must be of {len(artifact.plans)} plans, got {len(plans)}")
    for plan, known in zip(artifact.plans, plans, strict=True):
        by_name = {expression.name: expression for expression in known}
        for step in plan.steps:
            if hasattr(step, "program"):
                yield step.name, by_name.get(step.name), _program_of(artifact, step)


def _program_of(content: NetworkContent, step: RegionStep) -> RegionProgram:
    known = content.constants
    return RegionProgram(
        program=content.programs[step.program],
        constants={tensor: known[name] for tensor, name in step.tensors.items() if name in known},
        activations={tensor: name for tensor, name in step.tensors.items() if name not in known},
        lines=step.lines,
    )


def _without_expression(name: str, program: Program) -> RegionCertificate:
    return RegionCertificate(
        region=name,
        verdict=RegionVerdict.UNKNOWN,
        program=program.hash,
        expression="",
        nodes=0,
        results=0,
        reason="what it must compute is not known",
    )
