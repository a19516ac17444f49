# SPDX-License-Identifier: Apache-2.0
"""Programs behind one another compute what they compute one after the other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.resident_programs import APPEND, append, keys_program, row_offset
from helpers.small_programs import small_gemm

from vdla.compiler.codegen.vdla import LoweringError, PlacedProgram, join_programs
from vdla.hardware.config import Config
from vdla.hardware.isa import COL, Opcode
from vdla.hardware.program import UOPS, Program
from vdla.simulator.simulate import simulate
from vdla.simulator.verify import verify

PRESETS = ("tiny", "int4", "batch4", "pynq_z1")


def square(preset: str) -> tuple[Config, Program, dict[str, np.ndarray]]:
    """A product whose results can be the operand of the same product."""
    config = Config.preset(preset)
    program, arrays, _ = small_gemm(config)
    return config, program, arrays


@pytest.mark.parametrize("preset", PRESETS)
def test_independent_programs_give_both_results(preset: str) -> None:
    config, program, arrays = square(preset)
    names = [{tensor.name: f"{part}.{tensor.name}" for tensor in program.tensors} for part in ("a", "b", "c")]
    outputs = [name["out"] for name in names]
    joined = join_programs(config, "three", [PlacedProgram(program, name) for name in names], outputs)
    inputs = {name[key]: array for name in names for key, array in arrays.items()}
    inputs["b.inp"] = arrays["inp"][::-1].copy()
    run = simulate(joined, inputs)
    alone = simulate(program, arrays)
    for output in (outputs[0], outputs[2]):
        np.testing.assert_array_equal(run.outputs[output], alone.outputs["out"])
    wanted = simulate(program, {**arrays, "inp": inputs["b.inp"]}).outputs["out"]
    np.testing.assert_array_equal(run.outputs[outputs[1]], wanted)
    assert run.statistics.total_cycles < 3 * alone.statistics.total_cycles + 400
    assert sum(tensor.name == UOPS for tensor in joined.tensors) == 1


def test_a_tensor_of_two_sizes_is_refused() -> None:
    config, program, _ = square("tiny")
    assert program.tensor("out").nbytes != program.tensor("wgt").nbytes
    parts = [PlacedProgram(program, names) for names in ({"out": "half"}, {"wgt": "half"})]
    with pytest.raises(LoweringError, match=r"tensor half must have [0-9]+ bytes in every program, got"):
        join_programs(config, "two", parts, ["part1.out"])


def test_a_tensor_that_two_programs_write_is_refused() -> None:
    config, program, _ = square("tiny")
    names = {"out": "y"}
    with pytest.raises(LoweringError, match="tensor y must be written by one program, before others read it"):
        join_programs(config, "two", [PlacedProgram(program, names)] * 2, ["y"])


def test_inner_results_are_scratch_and_lines_follow_their_programs() -> None:
    config, program, _ = square("tiny")
    given = replace(
        program, source_lines=("a", "b"), source_of=np.where(np.arange(len(program)) % 2, 1, -1).astype("i4")
    )
    joined = join_programs(config, "two", [PlacedProgram(given, {"out": n}) for n in ("x", "y")], ["y"])
    assert {t.name: t.role for t in joined.tensors if t.name in ("x", "y")} == {"x": "scratch", "y": "output"}
    assert joined.source_lines == ("a", "b", "a", "b")
    second = joined.source_of[-len(given) :]
    np.testing.assert_array_equal(second, np.where(given.source_of < 0, -1, given.source_of + 2))


def test_tables_lie_behind_one_another() -> None:
    config, program, _ = square("pynq_z1")
    joined = join_programs(config, "two", [PlacedProgram(program, {}), PlacedProgram(program, {})], ["part1.out"])
    rows = joined.columns
    uops = [i for i, tensor in enumerate(joined.tensors) if tensor.name == UOPS]
    loads = rows[(rows[:, COL["opcode"]] == Opcode.LOAD) & np.isin(joined.tensor_of, uops)][:, COL["dram"]]
    assert len(loads) >= 2 and sorted(loads) == loads.tolist() and loads[0] == 0 and loads[-1] > 0


def test_programs_share_resident_tensors_and_have_parts_of_their_own() -> None:
    config = Config.preset("tiny")
    program, rng = keys_program(config, 2, 3), np.random.default_rng(0)
    joined = join_programs(config, "two", [PlacedProgram(program, {})] * 2, ["part0.scores", "part1.scores"])
    assert sorted(tensor.name for tensor in joined.tensors if tensor.role == "resident") == ["keys"]
    assert verify(joined).ok
    keys, queries = (rng.integers(-128, 128, (2, 3, 4), np.int8) for _ in range(2))
    given = {f"part{n}.{name}": array[n] for name, array in (("key", keys), ("query", queries)) for n in range(2)}
    offsets = {f"part{n}.row": row_offset(config, place, 3) for n, place in enumerate((6, 1))}
    outputs = simulate(joined, given, offsets=offsets).outputs
    known = np.zeros((8, 12), int)
    for n, place in enumerate((6, 1)):
        known[place] = keys[n].ravel()
        assert (outputs[f"part{n}.scores"].ravel() == known @ queries[n].ravel().astype(int)).all()


def test_resident_tensors_of_two_kinds_are_refused() -> None:
    program = append()
    other = append(APPEND, ("role=resident dtype=int32 shape=8x4", "role=resident dtype=int32 shape=4x8"))
    with pytest.raises(LoweringError, match="tensor sums must be written by one program, before others read it"):
        join_programs(program.config, "two", [PlacedProgram(program, {}), PlacedProgram(other, {})], [])
