# SPDX-License-Identifier: Apache-2.0
"""The architecture: which room imports which. `test_on_board` has the rule for boards.

A room is a folder of modules, or a single module where the table names one. The table is exact: an
unlisted import fails, and so does an entry without an import. Imports for type checking count.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter

import pytest
from helpers.source_tree import LAYERS, source_files

# room: the rooms that it imports, lower rooms first. `hardware` stands for its top-level modules.
ROOMS: dict[str, str] = {
    "support": "",
    "hardware.isa": "support",
    "hardware": "support hardware.isa",
    "hardware.generate": "hardware.isa hardware",
    "hardware.program": "support hardware.isa hardware",
    "hardware.fpga": "support hardware hardware.generate",
    "hardware.asic": "support hardware hardware.generate hardware.fpga",
    "hardware.asm": "support hardware.isa hardware hardware.program",
    "compiler": "",
    "compiler.abi": "",
    "compiler.ir": "support",
    "compiler.memory_plan": "support",
    "compiler.target": "support",
    "compiler.arith": "support compiler.ir",
    "compiler.analysis": "support compiler.ir compiler.arith",
    "compiler.interpret": "support compiler.ir compiler.arith",
    "compiler.te": "support compiler.ir compiler.arith",
    "compiler.tensorize": "support compiler.ir compiler.arith compiler.te",
    "compiler.codegen.vdla": (
        "support hardware.isa hardware hardware.program compiler.ir compiler.memory_plan compiler.arith "
        "compiler.tensorize"
    ),
    "compiler.lowering": "support compiler.ir compiler.target compiler.arith compiler.analysis compiler.tensorize",
    "compiler.schedule": "support compiler.ir compiler.arith compiler.analysis compiler.tensorize",
    "compiler.extensions": (
        "support hardware.isa hardware hardware.generate compiler.ir compiler.target compiler.arith compiler.te "
        "compiler.tensorize compiler.codegen.vdla"
    ),
    "compiler.codegen.vdla.intrinsics": (
        "hardware.isa hardware compiler.ir compiler.te compiler.tensorize compiler.codegen.vdla compiler.extensions"
    ),
    "compiler.codegen.llvm": (
        "support compiler.abi compiler.ir compiler.target compiler.arith compiler.tensorize compiler.lowering"
    ),
    "compiler.codegen": "support compiler.abi compiler.ir compiler.codegen.llvm",
    "compiler.codegen.opencl": (
        "support compiler.abi compiler.ir compiler.target compiler.arith compiler.lowering compiler.codegen.llvm "
        "compiler.codegen"
    ),
    "compiler.codegen.ptx": (
        "support compiler.abi compiler.ir compiler.target compiler.arith compiler.tensorize compiler.lowering "
        "compiler.codegen.llvm compiler.codegen"
    ),
    "compiler.operators.vdla": (
        "support hardware.isa hardware hardware.program compiler.ir compiler.analysis compiler.te "
        "compiler.tensorize compiler.codegen.vdla compiler.schedule compiler.codegen.vdla.intrinsics"
    ),
    "compiler.codegen.llvm.intrinsics": "compiler.target compiler.te compiler.tensorize compiler.codegen.llvm",
    "compiler.intrinsics": (
        "compiler.codegen.vdla compiler.extensions compiler.codegen.vdla.intrinsics compiler.codegen.llvm.intrinsics"
    ),
    "compiler.map": (
        "support hardware.isa hardware hardware.program compiler.ir compiler.arith compiler.interpret compiler.te "
        "compiler.tensorize compiler.codegen.vdla compiler.extensions compiler.codegen.vdla.intrinsics "
        "compiler.operators.vdla"
    ),
    "compiler.operators": (
        "support hardware.isa hardware compiler.ir compiler.target compiler.te compiler.codegen.llvm.intrinsics"
    ),
    "compiler.operators.definitions": (
        "support hardware compiler.ir compiler.te compiler.extensions compiler.codegen.vdla.intrinsics "
        "compiler.operators"
    ),
    "compiler.layer_programs": (
        "support hardware.isa hardware hardware.program compiler.ir compiler.te compiler.tensorize "
        "compiler.codegen.vdla compiler.extensions compiler.codegen.vdla.intrinsics compiler.operators.vdla "
        "compiler.map compiler.operators.definitions"
    ),
    "compiler.operators.cpu": (
        "compiler.ir compiler.target compiler.arith compiler.analysis compiler.tensorize compiler.schedule "
        "compiler.codegen.llvm compiler.codegen.llvm.intrinsics compiler.operators"
    ),
    "compiler.operators.gpu": (
        "compiler.ir compiler.target compiler.arith compiler.analysis compiler.tensorize compiler.schedule "
        "compiler.codegen.llvm.intrinsics compiler.operators compiler.operators.cpu"
    ),
    "compiler.graph": "support",
    "compiler.graph.rules": (
        "support hardware compiler.ir compiler.target compiler.te compiler.operators "
        "compiler.operators.definitions compiler.graph"
    ),
    "compiler.templates": (
        "support hardware compiler.ir compiler.te compiler.operators.vdla compiler.map compiler.operators.definitions"
    ),
    "compiler.graph.layouts": "compiler.ir compiler.target compiler.operators compiler.graph compiler.graph.rules",
    "compiler.graph.integer": "support hardware compiler.operators compiler.operators.definitions compiler.graph",
    "compiler.graph.machine": (
        "support hardware.isa hardware hardware.program compiler.ir compiler.te compiler.tensorize "
        "compiler.extensions compiler.operators.vdla compiler.map compiler.operators.definitions "
        "compiler.layer_programs compiler.graph compiler.templates"
    ),
    "compiler.graph.operators": (
        "support compiler.ir compiler.target compiler.te compiler.operators compiler.graph compiler.graph.rules "
        "compiler.templates compiler.graph.layouts compiler.graph.integer compiler.graph.machine"
    ),
    "compiler.tune": (
        "support hardware hardware.program compiler.ir compiler.target compiler.analysis compiler.te "
        "compiler.schedule compiler.operators.vdla compiler.map compiler.operators compiler.operators.cpu "
        "compiler.graph compiler.graph.rules compiler.templates compiler.graph.operators"
    ),
    "compiler.tune.searches": "support compiler.tune",
    "compiler.graph.passes": (
        "support hardware compiler.ir compiler.target compiler.operators.definitions compiler.layer_programs "
        "compiler.graph compiler.graph.rules compiler.graph.layouts compiler.graph.integer compiler.graph.machine "
        "compiler.graph.operators"
    ),
    "compiler.graph.quantise": (
        "support compiler.graph compiler.graph.integer compiler.graph.operators compiler.graph.passes"
    ),
    "compiler.graph.onnx": "support compiler.graph compiler.graph.integer compiler.graph.operators",
    "compiler.graph.tflite": "support hardware compiler.graph compiler.graph.integer compiler.graph.onnx",
    "compiler.tune.grid": (
        "compiler.ir compiler.target compiler.arith compiler.lowering compiler.operators.cpu "
        "compiler.operators.gpu compiler.tune"
    ),
    "simulator.support": "support hardware.isa hardware hardware.program",
    "simulator.function": "support hardware.isa hardware simulator.support",
    "simulator.stats": "support hardware.isa hardware hardware.program hardware.asm simulator.support",
    "simulator.verify": "support hardware.isa hardware hardware.program simulator.support",
    "simulator.timing": "support hardware.isa hardware hardware.program simulator.support simulator.stats",
    "simulator": (
        "support hardware.isa hardware hardware.program simulator.support simulator.function simulator.stats "
        "simulator.verify simulator.timing"
    ),
    "simulator.energy": "support hardware.isa hardware hardware.program simulator.stats simulator.timing",
    "runtime.devices": (
        "support hardware.isa hardware hardware.generate hardware.program simulator.support simulator.function "
        "simulator.stats simulator.verify simulator.timing simulator.energy"
    ),
    "runtime.native": "support compiler.abi compiler.ir compiler.target compiler.codegen.llvm",
    "runtime.grid": (
        "support compiler.abi compiler.ir compiler.target compiler.analysis compiler.lowering compiler.schedule "
        "compiler.codegen.opencl compiler.codegen.ptx runtime.native"
    ),
    "runtime.numpy_operators": "support hardware",
    "runtime.executor": (
        "support hardware.isa hardware hardware.program compiler.abi simulator.stats simulator.verify "
        "runtime.devices runtime.native runtime.grid runtime.numpy_operators"
    ),
    "compiler.graph.accelerator": (
        "hardware compiler.operators.vdla compiler.operators compiler.graph compiler.graph.machine "
        "compiler.graph.operators compiler.graph.passes"
    ),
    "compiler.graph.grid": "compiler.graph compiler.graph.operators compiler.graph.passes compiler.graph.accelerator",
    "runtime.remote": (
        "support hardware.isa hardware hardware.program simulator.support simulator.stats simulator.verify "
        "runtime.devices runtime.executor"
    ),
    "boards": "support hardware hardware.generate hardware.fpga",
    "boards.vivado": "hardware hardware.generate hardware.fpga boards",
    "boards.virtual": (
        "support hardware.isa hardware hardware.generate simulator.support simulator.function simulator.stats "
        "simulator.timing simulator runtime.devices boards"
    ),
    "networks": "support",
    "verification": "support",
    "verification.isolated_batches": "",
    "verification.zoo": "",
    "verification.vivado": "support hardware hardware.fpga boards boards.vivado",
    "verification.adversary": "support hardware.isa hardware hardware.program simulator.support",
    "verification.tflite_models": "support",
    "runtime.diagnosis": (
        "support hardware.isa hardware hardware.program hardware.asm compiler.operators.vdla compiler.operators "
        "compiler.templates simulator.support simulator.function simulator.stats simulator.verify simulator.timing "
        "simulator runtime.devices runtime.numpy_operators runtime.executor"
    ),
    "verification.coverage": (
        "support hardware.isa hardware hardware.program simulator.stats simulator.verify simulator.timing"
    ),
    "verification.programs": (
        "support hardware.isa hardware hardware.program compiler.codegen.vdla compiler.templates simulator.stats "
        "simulator.verify simulator.timing runtime.devices runtime.diagnosis verification.coverage"
    ),
    "verification.generated_tests": (
        "support hardware.isa hardware hardware.generate hardware.program hardware.asm compiler.ir "
        "compiler.interpret compiler.te compiler.extensions simulator.support simulator.function simulator.stats "
        "simulator.verify simulator.timing simulator runtime.devices verification.adversary verification.programs"
    ),
    "verification.rtl_mutants": (
        "support hardware.isa hardware hardware.generate hardware.program hardware.fpga compiler.extensions "
        "simulator.function simulator.timing runtime.devices verification.programs verification.generated_tests"
    ),
    "benchmarks.harness": "support compiler.target hardware hardware.program",
    "benchmarks.cpu": (
        "support compiler.target compiler.te compiler.operators compiler.operators.cpu runtime.native "
        "benchmarks.harness"
    ),
    "charts": "hardware",
    "runtime.checks": (
        "support hardware.isa hardware hardware.generate compiler.ir compiler.target compiler.interpret "
        "compiler.te compiler.tensorize compiler.codegen.vdla compiler.schedule compiler.extensions "
        "compiler.codegen.vdla.intrinsics simulator.verify simulator runtime.devices runtime.native"
    ),
    "compiler.certificates": (
        "support hardware.isa hardware hardware.program compiler.ir compiler.target compiler.arith "
        "compiler.interpret compiler.te compiler.lowering compiler.schedule compiler.extensions "
        "compiler.codegen.vdla.intrinsics compiler.operators.vdla compiler.map compiler.operators.definitions "
        "compiler.layer_programs compiler.graph compiler.graph.machine compiler.graph.operators "
        "compiler.graph.passes compiler.graph.accelerator"
    ),
    "runtime.network": (
        "support hardware hardware.program compiler.ir compiler.memory_plan compiler.target compiler.interpret "
        "compiler.codegen.vdla compiler.extensions compiler.codegen.llvm compiler.operators.vdla "
        "compiler.operators.definitions compiler.layer_programs compiler.operators.cpu compiler.operators.gpu "
        "compiler.graph compiler.graph.rules compiler.graph.machine compiler.graph.operators compiler.tune "
        "compiler.graph.passes compiler.graph.quantise compiler.graph.onnx compiler.graph.tflite simulator.stats "
        "simulator.verify simulator.timing simulator runtime.native runtime.grid runtime.numpy_operators "
        "runtime.executor compiler.graph.accelerator compiler.graph.grid compiler.certificates"
    ),
    "runtime.tune": (
        "support hardware hardware.program compiler.abi compiler.ir compiler.target compiler.te "
        "compiler.operators.vdla compiler.map compiler.graph compiler.graph.rules compiler.graph.operators "
        "compiler.tune compiler.tune.searches compiler.tune.grid simulator.timing runtime.devices runtime.native "
        "runtime.grid runtime.executor runtime.network"
    ),
    "runtime": (
        "support hardware hardware.program compiler.ir compiler.target compiler.codegen.vdla compiler.schedule "
        "compiler.operators.vdla compiler.operators.gpu runtime.native runtime.grid runtime.executor "
        "runtime.network runtime.tune"
    ),
    "verification.hostile": (
        "support hardware.program compiler.graph compiler.graph.onnx compiler.graph.tflite runtime.native "
        "runtime.grid runtime.numpy_operators runtime.executor runtime.network verification.tflite_models"
    ),
    "verification.grids": "support compiler.target compiler.graph compiler.graph.onnx runtime.network",
    "benchmarks.network_cpu": (
        "support compiler.graph.onnx runtime.native runtime.network networks benchmarks.harness benchmarks.cpu"
    ),
    "runtime.studies": (
        "support hardware.isa hardware hardware.program hardware.fpga compiler.ir compiler.interpret compiler.te "
        "compiler.extensions compiler.map compiler.operators compiler.operators.definitions "
        "compiler.layer_programs compiler.graph compiler.tune compiler.tune.searches compiler.graph.passes "
        "simulator.verify simulator.timing simulator simulator.energy runtime.executor runtime.network "
        "runtime.tune"
    ),
    "verification.fuzz": (
        "compiler.ir compiler.target compiler.arith compiler.analysis compiler.interpret compiler.te "
        "compiler.tensorize compiler.schedule compiler.codegen.llvm.intrinsics runtime.native "
        "compiler.certificates"
    ),
    "verification.grid": (
        "support compiler.ir compiler.target compiler.arith compiler.analysis compiler.interpret compiler.te "
        "compiler.lowering compiler.schedule compiler.codegen.opencl runtime.grid verification.isolated_batches "
        "verification.fuzz"
    ),
    "benchmarks.gpu": (
        "support compiler.ir compiler.target compiler.te compiler.schedule compiler.codegen.ptx compiler.operators "
        "compiler.operators.gpu runtime.native runtime.grid runtime benchmarks.harness verification.grid"
    ),
    "verification.lemmas": "compiler.ir compiler.certificates",
    "benchmarks.board": (
        "support hardware hardware.program simulator.stats runtime.devices runtime.executor runtime.network "
        "runtime.remote boards boards.virtual networks verification verification.vivado verification.hostile "
        "runtime.diagnosis verification.programs benchmarks.harness"
    ),
    "puzzles": (
        "support hardware.isa hardware hardware.program hardware.asm compiler.ir compiler.interpret compiler.te "
        "compiler.tensorize compiler.codegen.vdla compiler.schedule compiler.extensions "
        "compiler.codegen.vdla.intrinsics simulator.stats simulator.verify simulator runtime.checks "
        "compiler.certificates"
    ),
    "playground": "support hardware.isa simulator.stats simulator puzzles",
    "viewer": (
        "support hardware.isa hardware hardware.program hardware.asm simulator.support simulator.stats "
        "simulator.verify simulator.timing runtime.executor runtime.diagnosis"
    ),
    "debugger": (
        "support hardware.isa hardware hardware.program hardware.asm simulator.support simulator.function "
        "simulator.stats simulator.verify simulator.timing simulator runtime.executor"
    ),
    "runtime.generate": (
        "support hardware.isa hardware hardware.program compiler.target compiler.graph.integer "
        "compiler.graph.quantise runtime.devices runtime.executor runtime.network"
    ),
    "commands": (
        "support hardware.isa hardware hardware.generate hardware.program hardware.fpga hardware.asic "
        "hardware.asm compiler.ir compiler.target compiler.te compiler.extensions compiler.codegen.llvm "
        "compiler.codegen.ptx compiler.operators.vdla compiler.map compiler.operators "
        "compiler.operators.definitions compiler.operators.cpu compiler.operators.gpu compiler.graph "
        "compiler.templates compiler.tune compiler.tune.searches compiler.graph.passes compiler.graph.quantise "
        "compiler.graph.onnx simulator.function simulator.stats simulator.verify simulator.timing simulator "
        "simulator.energy runtime.devices runtime.grid runtime.executor compiler.graph.accelerator runtime.remote "
        "boards networks runtime.diagnosis verification.programs verification.generated_tests benchmarks.harness "
        "charts runtime.checks compiler.certificates runtime.network runtime.tune runtime.studies puzzles viewer "
        "debugger runtime.generate"
    ),
    "commands.board": (
        "support hardware compiler.templates simulator runtime.devices runtime.network runtime.remote boards "
        "boards.vivado boards.virtual networks runtime.diagnosis charts commands"
    ),
    "commands.on_board": (
        "support hardware hardware.program runtime.devices runtime.executor runtime.diagnosis commands"
    ),
    "notebook": (
        "support hardware hardware.program compiler.ir compiler.schedule compiler.operators.vdla compiler.map "
        "simulator.stats simulator.verify runtime.executor runtime.diagnosis charts runtime.studies commands"
    ),
    "verification.proofs": "support hardware.isa hardware hardware.generate hardware.fpga verification.programs",
    "compiler.plug_ins": (
        "hardware.isa hardware compiler.te compiler.extensions compiler.operators.definitions compiler.layer_programs"
    ),
    "benchmarks": (
        "support hardware.isa hardware hardware.program hardware.fpga hardware.asm compiler.ir compiler.target "
        "compiler.interpret compiler.te compiler.codegen.vdla compiler.lowering compiler.schedule "
        "compiler.extensions compiler.codegen.llvm compiler.operators.vdla compiler.map compiler.operators "
        "compiler.operators.definitions compiler.layer_programs compiler.operators.cpu compiler.graph "
        "compiler.templates compiler.graph.operators compiler.tune compiler.graph.passes compiler.graph.quantise "
        "compiler.graph.onnx simulator.function simulator.stats simulator.verify simulator.timing simulator "
        "simulator.energy runtime.devices runtime.native runtime.executor compiler.graph.accelerator boards "
        "networks verification.isolated_batches verification.zoo verification.adversary "
        "verification.tflite_models runtime.diagnosis verification.coverage verification.programs "
        "verification.generated_tests verification.rtl_mutants benchmarks.harness compiler.certificates "
        "runtime.network runtime.tune verification.hostile verification.grids verification.fuzz verification.grid "
        "verification.lemmas playground viewer runtime.generate commands verification.proofs compiler.plug_ins charts"
    ),
    "benchmarks.tune": (
        "support hardware compiler.ir compiler.te compiler.operators compiler.templates compiler.tune "
        "compiler.tune.searches compiler.tune.grid simulator.stats simulator.timing runtime.grid runtime.tune "
        "networks benchmarks.harness charts benchmarks"
    ),
    "benchmarks.evaluate": (
        "support hardware hardware.generate hardware.program hardware.fpga compiler.te compiler.extensions "
        "compiler.graph.passes simulator.timing runtime.devices runtime.network runtime.tune networks "
        "verification.programs verification.coverage verification.generated_tests benchmarks.harness "
        "runtime.studies benchmarks"
    ),
    "benchmarks.paper": (
        "support hardware compiler.te compiler.schedule compiler.operators compiler.tune compiler.tune.searches "
        "simulator.stats runtime.native runtime.grid compiler.graph.accelerator runtime networks runtime.diagnosis "
        "benchmarks.harness benchmarks.cpu benchmarks.network_cpu charts benchmarks benchmarks.tune"
    ),
    "benchmarks.peers": (
        "support hardware hardware.fpga compiler.graph runtime.executor runtime.network boards networks "
        "benchmarks.harness benchmarks"
    ),
    "benchmarks.kernels": (
        "support runtime.native runtime.numpy_operators runtime.executor benchmarks.harness benchmarks.cpu "
        "runtime.network"
    ),
}

# Modules that import each other, each with the reason.
CYCLES: dict[frozenset[str], str] = {
    frozenset({"compiler.ir.nodes", "compiler.ir.printer"}): "str(function) prints it; the printer takes nodes apart",
    frozenset({"compiler.graph.graph", "compiler.graph.text"}): "str(graph) prints it; the printer takes graphs apart",
    frozenset({"compiler.schedule.schedule", "compiler.schedule.trace"}): "a replay makes the schedule that it traces",
    frozenset({"hardware.program.placement", "hardware.program.program"}): "link checks the placement of its program",
}


# --- modules and their imports --------------------------------------------------------------------


@cache
def modules() -> Mapping[str, ast.Module]:
    """name below `vdla`: the parsed module; a package has the name of its folder."""
    return {name: file.tree for name, file in source_files().items()}


def imported(tree: ast.AST) -> list[str]:
    """The dotted names of all imports below `tree`; `from a import b` gives a.b."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports must be absolute"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def modules_imported(tree: ast.AST, known: Mapping[str, object]) -> set[str]:
    """The modules of VDLA that a tree imports: the longest prefix of each name that is a module."""
    found = set()
    for name in imported(tree):
        parts = name.split(".")
        if parts[0] != "vdla":
            continue
        prefixes = (".".join(parts[1:end]) for end in range(len(parts), 1, -1))
        found |= set(next(([p] for p in prefixes if p in known), []))
    return found


def room_of(module: str) -> str:
    """The room of a module: itself if it is a package or in the table, else its package."""
    is_package = any(name.startswith(f"{module}.") for name in modules()) or module in LAYERS
    return module if module in ROOMS or is_package else module.rpartition(".")[0]


@cache
def rooms_imported() -> Mapping[str, set[str]]:
    """room: the other rooms that its modules import."""
    found: dict[str, set[str]] = {}
    for module, tree in modules().items():
        room = room_of(module)
        used = {room_of(name) for name in modules_imported(tree, modules())}
        found[room] = found.get(room, set()) | used - {room}
    return found


# --- the rules ------------------------------------------------------------------------------------


def test_every_room_is_in_the_table() -> None:
    assert set(rooms_imported()) == set(ROOMS)


def test_a_room_imports_exactly_what_the_table_lists() -> None:
    listed = {room: sorted(names.split()) for room, names in ROOMS.items()}
    assert {room: sorted(names) for room, names in rooms_imported().items()} == listed


def test_rooms_have_no_cycle() -> None:
    order = list(TopologicalSorter({room: names.split() for room, names in ROOMS.items()}).static_order())
    assert len(order) == len(ROOMS)


def test_modules_have_only_the_listed_cycles() -> None:
    graph = {name: modules_imported(tree, modules()) - {name} for name, tree in modules().items()}
    for cycle in CYCLES:
        for name in cycle:
            graph[name] -= cycle
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"modules import each other: {' -> '.join(error.args[1])}")


@pytest.mark.parametrize("cycle", CYCLES, ids=lambda cycle: ", ".join(sorted(cycle)))
def test_listed_cycles_still_exist(cycle: frozenset[str]) -> None:
    for name in cycle:
        assert modules_imported(modules()[name], modules()) & (cycle - {name})


def test_the_check_sees_imports_inside_functions_and_for_types() -> None:
    known = {"compiler": 0, "compiler.te": 0, "runtime": 0, "hardware.isa": 0}
    inside = ast.parse("def f():\n    from vdla.compiler.te import compute\n")
    typed = ast.parse("if TYPE_CHECKING:\n    from vdla.hardware.isa import Load\n")
    assert modules_imported(inside, known) == {"compiler.te"}
    assert modules_imported(typed, known) == {"hardware.isa"}
    assert modules_imported(ast.parse("from vdla import runtime\nimport numpy\n"), known) == {"runtime"}
