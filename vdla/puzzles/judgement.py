# SPDX-License-Identifier: Apache-2.0
"""The judgement of a program, in this order: safe, right on data, fast, right for all inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from vdla.compiler.certificates.evaluate import evaluate
from vdla.compiler.certificates.program_run import run_program
from vdla.compiler.certificates.symbols import CertificateError, elements_of, type_bounds, unknowns
from vdla.compiler.interpret import interpret
from vdla.compiler.ir import Function, output_names
from vdla.hardware.program import Program
from vdla.puzzles.attempt import require_tensors
from vdla.simulator.simulate import simulate
from vdla.simulator.stats import RunStats
from vdla.simulator.verify import Finding, verify
from vdla.support.arrays import Array
from vdla.support.errors import Error

_SEEDS = (0, 1)
_PROOF_SEED = 0


class Wrong(Error, ValueError):
    """A program that is no solution; `cycles` are those that it takes, if it may run."""

    def __init__(self, reason: str, cycles: int | None = None) -> None:
        super().__init__(reason)
        self.cycles = cycles


def judged(program: Program, expression: Function, limit: int) -> tuple[str, int]:
    """(the checks that a program passed, its cycles); Wrong with the first that it did not."""
    (output,) = output_names(expression)
    tensors = {name: _described(expression, name, output) for name in expression.params}
    require_tensors(program, tensors)
    verdict = verify(program)
    if not verdict.ok:
        raise Wrong(_found_by(verdict.findings[0]))
    inputs = {name: (shape, dtype) for name, (direction, shape, dtype) in tensors.items() if direction == "input"}
    count = 0
    for data, arrays in data_sets(inputs):
        expected = interpret(expression, arrays)[output]
        _require_equal(output, expected, simulate(program, arrays, mode="function").outputs[output], data)
        count += 1
    stats = simulate(program, mode="timing").statistics
    assert stats is not None, "timing was asked for"
    if stats.total_cycles > limit:
        raise Wrong(_too_slow(stats, limit), stats.total_cycles)
    proven = _proven(program, expression, inputs, output)
    return f"verified, right on {count} sets of data{proven}", stats.total_cycles


def _described(expression: Function, name: str, output: str) -> tuple[str, tuple[int, ...], str]:
    """Direction, shape and dtype of a parameter, whose extents are numbers."""
    buffer = expression.buffers[name]
    return "output" if name == output else "input", buffer.dims, buffer.dtype


def _found_by(finding: Finding) -> str:
    """What the verifier says, and the lines of the try."""
    return "\n".join([f"{finding.kind.value}: {finding.message}", *(f"  at {line}" for line in finding.schedule)])


# --- results --------------------------------------------------------------------------------------


def data_sets(inputs: Mapping[str, tuple[tuple[int, ...], str]]) -> Iterator[tuple[str, dict[str, Array]]]:
    """Names and arrays: random elements, the ends of each type, zeros."""
    for seed in _SEEDS:
        rng = np.random.default_rng(seed)
        yield (
            f"random data, seed {seed}",
            {
                name: rng.integers(*type_bounds(dtype), shape, dtype, endpoint=True)
                for name, (shape, dtype) in inputs.items()
            },
        )
    for what, place in (("the least elements", 0), ("the greatest elements", 1)):
        yield what, {name: np.full(shape, type_bounds(dtype)[place], dtype) for name, (shape, dtype) in inputs.items()}
    yield "zeros", {name: np.zeros(shape, dtype) for name, (shape, dtype) in inputs.items()}


def _require_equal(name: str, expected: Array, got: Array, data: str) -> None:
    """Wrong with the first element that differs."""
    wrong = np.argwhere(expected != got)
    if len(wrong):
        index = tuple(int(i) for i in wrong[0])
        place = f"{name}[{', '.join(map(str, index))}]"
        many = f"{len(wrong)} of {expected.size} elements differ"
        raise Wrong(f"{place} must be {expected[index]}, got {got[index]} ({many}; {data})")


def _proven(
    program: Program, expression: Function, inputs: Mapping[str, tuple[tuple[int, ...], str]], output: str
) -> str:
    """That the program computes its expression for all inputs, by its run on unknowns.

    Empty where an instruction has no meaning on unknowns; Wrong where results differ.
    """
    symbols = {name: unknowns(name, shape, dtype, _PROOF_SEED) for name, (shape, dtype) in inputs.items()}
    try:
        got, expected = run_program(program, symbols)[output], evaluate(expression, symbols)[output]
    except CertificateError:
        return ""
    # a pass that adds 0 makes an element of a maximum
    wrong = np.argwhere(elements_of(got)["value"] != elements_of(expected)["value"])
    if len(wrong):
        place = ", ".join(str(int(i)) for i in wrong[0])
        raise Wrong(
            f"{output}[{place}] is right on the data that was tried, but differs from the expression for other inputs"
        )
    return ", proven for all inputs"


# --- cycles ---------------------------------------------------------------------------------------


def _too_slow(stats: RunStats, limit: int) -> str:
    """That a program takes too many cycles, and where compute spends most of those it waits."""
    waits = {name: count for name, count in stats.counters["compute"].items() if name not in ("busy", "idle")}
    name, count = max(waits.items(), key=lambda item: item[1])
    most = f"compute is busy in {stats.counters['compute']['busy']} of them and waits longest in {name}: {count}"
    return f"cycles must be at most {limit}, got {stats.total_cycles}; {most}"
