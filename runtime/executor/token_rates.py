# SPDX-License-Identifier: Apache-2.0
"""`TokenRates`: tokens a second, and the share of what the accelerator's port can move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.executor.executor import NetworkResult
from vdla.runtime.executor.plan import ProgramStep

Timed = Sequence[tuple[NetworkResult, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRates:
    """Of a generation: tokens of the prompt and of steps, seconds as measured here.

    With an accelerator also the cycles of its programs a token, of the prompt and of steps,
    `weight_bytes`, those of constants that they read, and the bytes that its port can move in a
    cycle.
    """

    prompt_tokens: int
    prompt_seconds: float
    steps: int
    step_seconds: float
    prompt_cycles_a_token: float | None = None
    cycles_a_token: float | None = None
    weight_bytes: int = 0
    port_bytes: int = 0
    hertz: float = 0.0

    @property
    def tokens_a_second(self) -> float:
        """New tokens a second of this machine, whatever simulates the accelerator included."""
        return self.steps / self.step_seconds if self.step_seconds else 0.0

    @property
    def accelerator_tokens_a_second(self) -> float | None:
        """New tokens a second if nothing but the accelerator's programs took time, at its clock."""
        return self.hertz / self.cycles_a_token if self.cycles_a_token else None

    @property
    def accelerator_prompt_tokens_a_second(self) -> float | None:
        """As `accelerator_tokens_a_second`, of the prompt, whose tokens come in chunks."""
        return self.hertz / self.prompt_cycles_a_token if self.prompt_cycles_a_token else None

    @property
    def bound_share(self) -> float | None:
        """The bytes of weights over those that the port can move in the cycles of a token."""
        if not self.cycles_a_token:
            return None
        return self.weight_bytes / (self.port_bytes * self.cycles_a_token)


def token_rates(artifact: Artifact, prompt_tokens: int, prefill: Timed, steps: Timed) -> TokenRates:
    """The rates of runs, each with its seconds."""
    rates = TokenRates(
        prompt_tokens=prompt_tokens,
        prompt_seconds=sum(seconds for _, seconds in prefill),
        steps=len(steps),
        step_seconds=sum(seconds for _, seconds in steps),
    )
    config = artifact.config
    if config is None:
        return rates
    rates = replace(rates, port_bytes=config.axi_bits // 8, hertz=config.clock_mhz * 1e6)
    if prefill:
        rates = replace(rates, prompt_cycles_a_token=sum(result.cycles for result, _ in prefill) / prompt_tokens)
    if not steps:
        return rates
    cycles = sum(result.cycles for result, _ in steps) / len(steps)
    return replace(rates, cycles_a_token=cycles, weight_bytes=weight_bytes(artifact, steps[0][0]))


def weight_bytes(artifact: Artifact, result: NetworkResult) -> int:
    """The bytes of constants that the programs of a run read, as they are packed."""
    sizes = {
        step.tensors[tensor.name]: tensor.nbytes
        for step in result.plan.steps
        if isinstance(step, ProgramStep)
        for tensor in artifact.programs[step.program].tensors
        if step.tensors.get(tensor.name) in artifact.constants
    }
    return sum(sizes.values())
