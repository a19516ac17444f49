# SPDX-License-Identifier: Apache-2.0
"""Copies between the memories of host and GPU as steps: each value once in each direction.

A value of the GPU has a name of its own, so that both copies have types, places and live ranges as
any other value. A copy stands before the first step that reads it, or behind the last step for
results of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from vdla.compiler.graph.grid import GPU_MODEL
from vdla.runtime.executor.plan import CopyStep, GridStep, KernelStep, PlacedOperator, Placement, Step

GPU_SUFFIX = "@gpu"


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """Steps with copies among them; `on_device` names what each value of the GPU is a copy of.

    `aliases` are the values of the GPU that are others of them under another shape.
    """

    steps: tuple[Step, ...]
    on_device: Mapping[str, str]
    aliases: Mapping[str, str]


def plan_copies(
    steps: Sequence[Step],
    inputs: Sequence[str],
    outputs: Sequence[str],
    sources: Mapping[str, str],
    nbytes: Callable[[str], int],
) -> CopyPlan:
    """The plan of steps whose GridSteps name values as the graph does.

    `sources` has the value whose memory an alias is, `nbytes` the bytes of a value.
    """
    named = {name for step in steps for name in (*step.inputs, *step.outputs, *_arguments(step))}
    planning = _Planning(sources, nbytes, set(inputs), used_names={*named, *inputs, *outputs, *sources})
    for step in steps:
        planning.add(step)
    for name in outputs:
        planning.to_host(name)
    return CopyPlan(tuple(planning.steps), planning.on_device, planning.aliases)


@dataclass
class _Planning:
    sources: Mapping[str, str]
    nbytes: Callable[[str], int]
    host: set[str]
    used_names: set[str]
    steps: list[Step] = field(default_factory=list)
    on_device: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    made: dict[str, str] = field(default_factory=dict)  # the values on the GPU, by names of the graph

    def add(self, step: Step) -> None:
        """The step, behind the copies that it needs."""
        if not isinstance(step, GridStep):
            for name in filter(None, step.inputs):
                self.to_host(name)
            self.host.update(filter(None, step.outputs))
            self.steps.append(step)
            return
        renamed = {name: self.to_device(name) for name in step.inputs}
        renamed |= {name: self._new(name) for name in step.outputs}
        self.steps.append(
            replace(
                step,
                arguments=tuple(renamed.get(name, name) for name in step.arguments),
                inputs=tuple(renamed[name] for name in step.inputs),
                outputs=tuple(renamed[name] for name in step.outputs),
            )
        )

    def to_host(self, name: str) -> None:
        """Have a value in the memory of the host; constants always are."""
        source = self.sources.get(name, name)
        if source in self.made and source not in self.host:
            self.host.add(source)
            self._copy(source, self.made[source], source, "the CPU")

    def to_device(self, name: str) -> str:
        """Copies a value to the memory of the GPU unless it is in it; returns its name in that
        memory.
        """
        source = self.sources.get(name, name)
        if source not in self.made:
            self._copy(source, source, self._new(source), "the GPU")
        if name not in self.made:
            self.aliases[self._new(name)] = self.made[source]
        return self.made[name]

    def _new(self, name: str) -> str:
        """The name of a value on the GPU."""
        chosen = f"{name}{GPU_SUFFIX}"
        while chosen in self.used_names:
            chosen += "_"
        self.used_names.add(chosen)
        self.made[name], self.on_device[chosen] = chosen, name
        return chosen

    def _copy(self, value: str, given: str, made: str, where: str) -> None:
        nbytes = self.nbytes(value)
        seconds = GPU_MODEL.seconds_to_copy(nbytes)
        operator = PlacedOperator(op="Copy", name=value, reason=f"to {where}", seconds=seconds)
        placement = Placement("copy", (operator,), nbytes)
        self.steps.append(CopyStep(name=f"{value} to {where}", inputs=(given,), outputs=(made,), placement=placement))


def _arguments(step: Step) -> tuple[str, ...]:
    """The names that a kernel takes, constants included."""
    return step.arguments if isinstance(step, GridStep | KernelStep) else ()
