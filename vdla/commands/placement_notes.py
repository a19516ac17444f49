# SPDX-License-Identifier: Apache-2.0
"""Sentences on a compiled network: the reason for every operator, its times, its memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from vdla.commands.placement_tables import least_sentences, placed_rows, sentence, to_change

if TYPE_CHECKING:
    from vdla.hardware.config import Config
    from vdla.runtime.executor.artifact import Artifact
    from vdla.runtime.studies.explanation import Explanation


def notes_of(explanation: Explanation) -> Iterator[str]:
    """All sentences: the reasons first."""
    yield from reasons(explanation.artifact)
    yield from totals(explanation.artifact)


def totals(artifact: Artifact) -> Iterator[str]:
    """Where times come from, the whole in a sentence, the memory, other plans."""
    if artifact.config is not None and any(row.operator.seconds for row in placed_rows(artifact)):
        yield _origin_of_estimates(artifact.config, artifact.cpu.name)
    yield sentence(artifact)
    yield from least_sentences(artifact)
    yield _memory(artifact)
    for plan in artifact.variants:
        yield f"Another plan takes {plan.input_shapes}."


def reasons(artifact: Artifact) -> Iterator[str]:
    """Operators with the same reason stand together."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for row in placed_rows(artifact):
        if row.operator.reason:
            used = row.operator.extensions
            device = f"{row.device}, by {', '.join(used)}" if used else row.device
            key = (device, row.operator.reason, row.operator.change)
            groups.setdefault(key, []).append(row.operator.name)
    for (device, reason, change), names in groups.items():
        yield f"{', '.join(names)} on {device}: {reason}{to_change(change)}"
    refused: dict[str, list[str]] = {}
    for row in placed_rows(artifact):
        if row.operator.no_extension:
            refused.setdefault(row.operator.no_extension, []).append(row.operator.name)
    for reason, names in refused.items():
        yield f"{', '.join(names)} without an extension: it must {reason}"


def _origin_of_estimates(config: Config, cpu: str) -> str:
    """The source of the CPU times: no model of a board's CPU was ever measured."""
    from vdla.compiler.graph.accelerator import modelled_cpu

    model = modelled_cpu(config, cpu)
    return (
        f"Times of the CPU are estimates for {model.name} ({model.source}); no board was "
        "measured, so their error is unknown."
    )


def _memory(artifact: Artifact) -> str:
    from vdla.runtime.executor.resident_program import activation_bytes

    planned, without_reuse = artifact.plan.memory_bytes
    text = f"{planned:,} bytes of memory hold its values; without reuse they would take {without_reuse:,}."
    device = max(map(activation_bytes, artifact.programs), default=0)
    on_gpu = artifact.plan.device_bytes
    text += f" On the GPU, {on_gpu:,} bytes hold its values." if on_gpu else ""
    return f"{text} On the accelerator, {device:,} bytes hold those of a program." if device else text
