"""The architecture: which room imports which. `test_on_board` has the rule for boards.

A room is a folder of modules, or a single module where the table names one. The table is exact: an
unlisted import fails, and so does an entry without an import. Imports for type checking count.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("support", "hardware", "compiler", "simulator", "runtime", "boards", "benchmarks", "commands")

# room: the rooms that it imports, lower rooms first. `hardware` stands for its top-level modules.
ROOMS: dict[str, str] = {
    "support": "",
    "hardware.isa": "support",
    "hardware": "support hardware.isa",
    "hardware.generate": "hardware.isa hardware",
    "hardware.program": "support hardware.isa hardware",
    "hardware.fpga": "support hardware hardware.generate",
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
        "support hardware.isa hardware hardware.generate compiler.ir compiler.target compiler.te compiler.tensorize "
        "compiler.codegen.vdla"
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
        "support hardware.isa hardware hardware.program compiler.ir compiler.te compiler.tensorize "
        "compiler.codegen.vdla compiler.schedule compiler.codegen.vdla.intrinsics"
    ),
    "compiler.codegen.llvm.intrinsics": "compiler.target compiler.te compiler.tensorize compiler.codegen.llvm",
    "compiler.intrinsics": (
        "compiler.codegen.vdla compiler.extensions compiler.codegen.vdla.intrinsics compiler.codegen.llvm.intrinsics"
    ),
    "compiler.map": (
        "support hardware.isa hardware hardware.program compiler.ir compiler.arith compiler.te compiler.tensorize "
        "compiler.codegen.vdla compiler.extensions compiler.codegen.vdla.intrinsics compiler.operators.vdla"
    ),
    "compiler.operators": "support hardware compiler.ir compiler.target compiler.te compiler.codegen.llvm.intrinsics",
    "compiler.operators.definitions": (
        "support compiler.ir compiler.te compiler.extensions compiler.codegen.vdla.intrinsics compiler.operators"
    ),
    "compiler.layer_programs": (
        "hardware.isa hardware hardware.program compiler.ir compiler.te compiler.extensions compiler.map"
    ),
    "compiler.operators.cpu": (
        "compiler.ir compiler.target compiler.arith compiler.analysis compiler.tensorize compiler.schedule "
        "compiler.codegen.llvm compiler.codegen.llvm.intrinsics compiler.operators"
    ),
    "compiler.operators.gpu": (
        "compiler.ir compiler.arith compiler.target compiler.tensorize compiler.analysis compiler.schedule "
        "compiler.codegen.llvm.intrinsics compiler.operators compiler.operators.cpu"
    ),
    "compiler.tune.searches": "support compiler.tune",
    "compiler.graph": "support",
    "compiler.graph.passes": "compiler.graph",
    "compiler.graph.rules": (
        "support hardware compiler.ir compiler.target compiler.te compiler.operators compiler.graph"
    ),
    "compiler.graph.layouts": "compiler.ir compiler.target compiler.operators compiler.graph compiler.graph.rules",
    "compiler.graph.integer": "support hardware compiler.operators compiler.graph compiler.graph.passes",
    "compiler.graph.quantise": "support compiler.graph compiler.graph.integer",
    "compiler.graph.onnx": "support compiler.graph compiler.graph.rules",
    "compiler.templates": (
        "support hardware compiler.te compiler.operators.vdla compiler.map compiler.operators.definitions"
    ),
    "compiler.tune": (
        "support hardware hardware.program compiler.ir compiler.target compiler.analysis compiler.te compiler.schedule "
        "compiler.operators.vdla compiler.map compiler.operators compiler.operators.cpu compiler.graph "
        "compiler.graph.rules compiler.templates"
    ),
    "compiler.tune.grid": (
        "compiler.ir compiler.target compiler.arith compiler.analysis compiler.lowering compiler.schedule "
        "compiler.operators.cpu compiler.operators.gpu compiler.tune"
    ),
    "simulator.support": "support hardware.isa hardware hardware.program",
    "simulator.adversary": "hardware.isa hardware hardware.program simulator.support",
    "simulator.function": "support hardware.isa hardware simulator.support",
    "simulator.stats": "support hardware.isa hardware hardware.program simulator.support",
    "simulator.verify": "support hardware.isa hardware hardware.program simulator.support",
    "simulator.timing": "hardware.isa hardware hardware.program simulator.support simulator.stats",
    "simulator": (
        "hardware.isa hardware hardware.program simulator.support simulator.function simulator.stats "
        "simulator.verify simulator.timing"
    ),
    "runtime.devices": (
        "support hardware.isa hardware hardware.generate hardware.program simulator.support "
        "simulator.function simulator.stats simulator.verify simulator.timing"
    ),
    "runtime.native": "support compiler.abi compiler.ir compiler.target compiler.codegen.llvm",
    "runtime.grid": "support compiler.abi compiler.ir compiler.target runtime.native",
    "runtime.opencl": ("compiler.abi compiler.ir compiler.target compiler.codegen.opencl runtime.native runtime.grid"),
    "runtime.cuda": "compiler.abi compiler.ir compiler.target compiler.codegen.ptx runtime.native runtime.grid",
    "runtime.numpy_operators": "support hardware",
    "runtime.evaluate": (
        "support compiler.ir compiler.target compiler.operators.cpu compiler.graph compiler.graph.passes "
        "compiler.graph.rules compiler.graph.integer compiler.graph.onnx runtime.native "
        "runtime.numpy_operators"
    ),
    "runtime.artifact": "support hardware hardware.program compiler.abi simulator.verify",
    "runtime.executor": (
        "support hardware.isa hardware hardware.program simulator.stats runtime.devices runtime.native "
        "runtime.numpy_operators runtime.artifact runtime.grid"
    ),
    "runtime": (
        "support hardware hardware.program compiler.ir compiler.target compiler.codegen.vdla "
        "compiler.te compiler.lowering compiler.analysis compiler.schedule compiler.operators.vdla compiler.operators "
        "compiler.operators.gpu compiler.graph compiler.graph.onnx "
        "compiler.templates compiler.map simulator.support simulator.stats simulator.timing simulator "
        "runtime.devices runtime.native runtime.grid runtime.evaluate runtime.executor "
        "runtime.network runtime.tune"
    ),
    "compiler.graph.accelerator": (
        "hardware compiler.operators.vdla compiler.graph compiler.graph.integer compiler.templates"
    ),
    "compiler.graph.grid": ("compiler.graph compiler.graph.accelerator compiler.graph.layouts compiler.graph.rules"),
    "runtime.network": (
        "support hardware hardware.program compiler.ir compiler.memory_plan compiler.target "
        "compiler.codegen.llvm compiler.operators.cpu compiler.graph compiler.graph.passes "
        "compiler.graph.rules compiler.graph.layouts compiler.graph.onnx compiler.tune simulator.stats "
        "simulator.verify simulator.timing runtime.numpy_operators runtime.evaluate runtime.artifact runtime.executor "
        "compiler.graph.accelerator compiler.graph.grid compiler.operators.gpu runtime.grid runtime.quantise"
    ),
    "runtime.quantise": (
        "support compiler.graph compiler.graph.passes compiler.graph.quantise compiler.graph.onnx runtime.evaluate"
    ),
    "runtime.tune": (
        "support hardware hardware.program compiler.abi compiler.ir compiler.target compiler.te "
        "compiler.operators.vdla compiler.map compiler.tune.searches compiler.graph compiler.graph.rules compiler.tune "
        "compiler.tune.grid simulator.timing runtime.devices runtime.native runtime.grid runtime.artifact "
        "runtime.network"
    ),
    "runtime.check_datapath": (
        "support hardware.isa hardware hardware.generate compiler.ir compiler.te compiler.interpret "
        "compiler.extensions runtime.devices"
    ),
    "runtime.check_intrinsic": (
        "support hardware.isa hardware compiler.ir compiler.target compiler.te compiler.interpret compiler.tensorize "
        "compiler.schedule compiler.codegen.vdla compiler.codegen.vdla.intrinsics simulator.verify simulator "
        "runtime.native runtime.check_datapath"
    ),
    "runtime.verdict": (
        "support hardware.isa hardware hardware.program hardware.fpga compiler.ir compiler.te compiler.interpret "
        "compiler.extensions compiler.map compiler.operators compiler.operators.definitions compiler.layer_programs "
        "compiler.graph compiler.graph.passes compiler.graph.integer compiler.graph.onnx compiler.tune.searches "
        "compiler.tune simulator.verify simulator.timing simulator runtime.evaluate runtime runtime.quantise "
        "runtime.tune"
    ),
    "runtime.explore": (
        "support hardware hardware.fpga compiler.extensions compiler.tune.searches compiler.tune "
        "runtime.tune runtime.verdict"
    ),
    "runtime.compare": (
        "support hardware.isa hardware hardware.program hardware.asm simulator.support simulator.function "
        "simulator.stats simulator.verify runtime.devices runtime.numpy_operators runtime.artifact "
        "runtime.executor runtime"
    ),
    "runtime.selftest": (
        "support hardware.isa hardware hardware.program compiler.operators compiler.templates "
        "simulator.stats simulator.timing simulator runtime.devices runtime"
    ),
    "runtime.remote": (
        "support hardware.isa hardware hardware.program simulator.support simulator.stats simulator.verify "
        "runtime.devices runtime.artifact"
    ),
    "boards": "support hardware hardware.generate",
    "boards.vivado": "hardware hardware.generate hardware.fpga boards",
    "boards.virtual": (
        "support hardware.isa hardware hardware.generate simulator.support simulator.function simulator.stats "
        "simulator.timing simulator runtime.devices boards"
    ),
    "benchmarks.harness": "support hardware hardware.program",
    "benchmarks.isolated_batches": "",
    "benchmarks.networks": "support",
    "benchmarks.fuzz": (
        "support compiler.ir compiler.target compiler.arith compiler.analysis compiler.interpret compiler.te "
        "compiler.tensorize compiler.schedule compiler.codegen.llvm.intrinsics runtime.native "
        "benchmarks.harness benchmarks.isolated_batches"
    ),
    "benchmarks.gpu": (
        "support compiler.ir compiler.target compiler.arith compiler.analysis compiler.interpret compiler.lowering "
        "compiler.te compiler.schedule compiler.operators compiler.operators.gpu compiler.codegen.opencl "
        "compiler.codegen.ptx runtime.native runtime.grid runtime.opencl runtime.cuda runtime "
        "benchmarks.harness benchmarks.isolated_batches benchmarks.fuzz"
    ),
    "benchmarks.cpu": (
        "support compiler.target compiler.te compiler.operators compiler.operators.cpu runtime.native "
        "benchmarks.harness"
    ),
    "benchmarks.network_cpu": (
        "support compiler.target compiler.graph.onnx runtime.native runtime.network runtime.quantise "
        "benchmarks.harness benchmarks.networks benchmarks.cpu"
    ),
    "benchmarks.tune": (
        "support hardware compiler.ir compiler.te compiler.operators compiler.tune.searches compiler.templates "
        "compiler.tune compiler.tune.grid simulator.timing runtime.opencl runtime.tune benchmarks benchmarks.harness "
        "benchmarks.networks benchmarks.cpu"
    ),
    "benchmarks.hostile": (
        "support hardware.program compiler.graph compiler.graph.onnx runtime.native runtime.numpy_operators "
        "runtime.evaluate runtime.artifact runtime.executor runtime runtime.network runtime.opencl "
        "benchmarks.harness benchmarks.isolated_batches"
    ),
    "benchmarks.onnx": "support compiler.graph.onnx runtime benchmarks.harness",
    "benchmarks.programs": (
        "support hardware.isa hardware hardware.program compiler.codegen.vdla compiler.templates simulator.stats "
        "simulator.verify simulator.timing runtime.devices runtime.compare"
    ),
    "benchmarks.board": (
        "support hardware hardware.program simulator.stats runtime.devices runtime.artifact runtime runtime.network "
        "runtime.quantise runtime.remote boards boards.virtual benchmarks.harness benchmarks.networks "
        "benchmarks.hostile benchmarks.programs"
    ),
    "benchmarks.coverage": (
        "hardware.isa hardware hardware.program simulator.verify simulator.stats simulator.timing benchmarks.harness "
        "benchmarks.programs"
    ),
    "benchmarks.generated_tests": (
        "hardware.isa hardware hardware.generate hardware.program hardware.asm compiler.ir compiler.interpret "
        "compiler.te compiler.extensions simulator.support simulator.adversary simulator.function simulator.stats "
        "simulator.verify simulator.timing simulator runtime.devices benchmarks.programs"
    ),
    "benchmarks.evaluate": (
        "support hardware hardware.fpga hardware.generate hardware.program compiler.extensions compiler.te "
        "simulator.timing runtime runtime.devices runtime.verdict benchmarks benchmarks.harness benchmarks.programs "
        "benchmarks.coverage benchmarks.generated_tests"
    ),
    "benchmarks.rtl_mutants": (
        "support hardware.isa hardware hardware.generate hardware.program hardware.fpga simulator.function "
        "simulator.timing runtime.devices benchmarks.harness benchmarks.programs"
    ),
    "benchmarks": (
        "support hardware hardware.program hardware.fpga hardware.asm compiler.target compiler.interpret compiler.te "
        "compiler.codegen.llvm compiler.operators.vdla compiler.map compiler.operators compiler.operators.definitions "
        "compiler.operators.cpu compiler.graph compiler.graph.integer compiler.graph.quantise compiler.templates "
        "compiler.tune simulator.adversary simulator.stats simulator.verify simulator.timing simulator runtime.devices "
        "runtime.native runtime.evaluate runtime.artifact runtime.executor runtime compiler.graph.accelerator "
        "runtime.network runtime.quantise runtime.tune runtime.compare boards benchmarks.harness benchmarks.networks "
        "benchmarks.cpu benchmarks.programs benchmarks.coverage"
    ),
    "commands": (
        "support hardware.isa hardware hardware.generate hardware.program hardware.fpga hardware.asm compiler.ir "
        "compiler.target compiler.te compiler.extensions compiler.codegen.llvm compiler.codegen.ptx "
        "compiler.operators.vdla compiler.operators compiler.operators.definitions compiler.operators.cpu "
        "compiler.operators.gpu compiler.graph compiler.graph.passes "
        "compiler.graph.onnx compiler.graph.quantise compiler.templates compiler.tune compiler.tune.searches "
        "simulator.function simulator.stats simulator.verify simulator.timing "
        "simulator runtime.devices runtime.opencl runtime.cuda runtime.evaluate runtime.artifact runtime.executor "
        "runtime runtime.network runtime.quantise runtime.compare runtime.tune runtime.verdict runtime.explore "
        "benchmarks.harness benchmarks.networks benchmarks.programs benchmarks.generated_tests runtime.check_datapath"
    ),
    "commands.board": (
        "support hardware commands runtime.devices runtime.remote runtime.selftest boards boards.vivado boards.virtual"
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
    found = {}
    for layer in LAYERS:
        folder = ROOT / (f"vdla/{layer}" if layer in ("support", "commands") else layer)
        for path in sorted(folder.rglob("*.py")):
            parts = (layer, *path.relative_to(folder).with_suffix("").parts)
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


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
