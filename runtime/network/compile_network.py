# SPDX-License-Identifier: Apache-2.0
"""From a model to one file: import, passes, devices, kernels, programs.

    model = compile_network("model.onnx", "pynq_z1", calibration=images)
    y = model(x)
    model = compile_network("model.onnx", "opencl")

Every pass is a function from graph to graph; `observe` sees the graph before and after each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.compiler.graph import Graph, Node, TensorType
from vdla.compiler.graph.accelerator import (
    CpuModel,
    Decision,
    RegionExpression,
    board_cpu,
    candidates,
    choose,
    expressions_to_bytes,
    modelled_cpu,
    partition,
    region_expressions,
    with_named_inputs,
)
from vdla.compiler.graph.grid import HOST_MODEL
from vdla.compiler.graph.groups import body_of
from vdla.compiler.graph.onnx import specialise
from vdla.compiler.graph.onnx.import_model import input_shapes
from vdla.compiler.graph.passes import (
    GraphPass,
    Observer,
    choose_layouts,
    for_machine,
    for_other_devices,
    resident_caches,
    round_as_machine,
    row_functions,
    run_passes,
    second_factors,
    symmetric_factors,
)
from vdla.compiler.graph.rewriting import Replacement, without_dead_code
from vdla.compiler.target import Target
from vdla.hardware.config import Config
from vdla.runtime.executor.errors import ModelError
from vdla.runtime.executor.model import Model
from vdla.runtime.executor.recipe import Recipe
from vdla.runtime.executor.specialised import SpecialiseModel
from vdla.runtime.grid.registry import GRID_DEVICES, open_grid_device
from vdla.runtime.network.batches import kept_data, sets_of_data
from vdla.runtime.network.bodies import BODIES, FUSION
from vdla.runtime.network.build import ProgramTimer, Progress, build_artifact
from vdla.runtime.network.certificate_choice import certifies
from vdla.runtime.network.evaluate_nodes import INTEGER, PREPARATION, REGIONS, evaluate_node
from vdla.runtime.network.import_network import import_network
from vdla.runtime.network.kernels import GridKernelTable, KernelPoints
from vdla.runtime.network.method_choice import AUTO
from vdla.runtime.network.neighbour_choice import NeighbourChoice
from vdla.runtime.network.place_on_grid import GridChoices
from vdla.runtime.network.plug_in_choice import PlugInChoice
from vdla.runtime.network.specialise import recipe_of, specialiser
from vdla.runtime.network.targets import Extents, Shapes, ShapeSet, common, shape_sets, target_of
from vdla.runtime.numpy_operators import CONTROL_FLOW
from vdla.support.background import Background
from vdla.support.rare_collections import rare_collections
from vdla.support.version import VERSION

if TYPE_CHECKING:
    from vdla.runtime.network.batches import Calibration
    from vdla.runtime.network.import_network import ModelSource

_ALL_ON_GPU = tuple(GRID_DEVICES)
"""Targets that are a GPU with the CPU of this machine beside it."""
_HOST = "host"


def compile_network(
    source: ModelSource,
    target: Config | Target | str = "host",
    *,
    cpu: Target | str | None = None,
    extents: Extents | None = None,
    shapes: Shapes | None = None,
    calibration: Calibration | None = None,
    method: str | None = None,
    keep_float: Sequence[str] = (),
    gpu: str | None = None,
    place: Mapping[str, str] | None = None,
    observe: Observer | None = None,
    kernel_points: KernelPoints | None = None,
    certify: bool | None = None,
    device_caches: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> Model:
    """A model compiled for a machine and the CPU beside it, for a CPU alone, or with a GPU.

    `source` is one of ONNX or TensorFlow Lite, or what `quantise` returned.

    `target` is a configuration or a preset, or a CPU; `cpu` is what runs the operators that the
    machine does not: a target, its name, or "board" for the CPU beside a preset on its board; by
    default this one. `shapes` has the shapes of inputs, {"x": (1, 3, 48, 192)}, or the shape of the
    only input; `extents` gives numbers to symbols in them, {"batch": 1}. Several shapes of an
    input, or several numbers, {"batch": (1, 8)}, make a plan for each, and a run uses the plan for
    the shapes of its inputs. Where extents stay open, the model compiles a plan at the first run
    with new shapes. `calibration` has inputs, with which a float model is quantised by `method`, by
    default "auto", except for the nodes that `keep_float` names (see `vdla.quantise`); extents that
    stay open have a plan for the shape of the data.

    With `gpu`, such as "opencl" or "opencl:NAME", a GPU runs the nodes that are cheaper on it by
    modelled rates, copies between the memories included. The target "opencl" is that GPU beside
    `cpu`: every node with a kernel runs on the GPU, whatever its cost.

    The programs of a machine are certified to compute their operators, and the model keeps the
    certificate, unless `certify` is False, or None with 0 in the environment variable
    VDLA_CERTIFICATE. Plans that are made for new shapes at a run have none.

    With `device_caches`, keys and values of the past that are inputs and results of a decoder stay
    on a machine that has attention of integers, for plans of one token: the model has neither then,
    and its runs must be those of the tokens of a sequence in order.

    `place` names devices, "vdla", "cpu" or "gpu", by the name of a node or of its result, where
    that choice is not wanted. `kernel_points` has the best known schedules of kernels of the CPU by
    their keys.

    Raises:
        OnnxError, TfliteError: the model is not valid.
        UnsupportedError: it has nodes that cannot run here.
        ModelError: an unknown target or device, wrong extents or shapes, nodes without a device, a
            program that computes something else than its operators.
        QuantiseError: wrong options or data of calibration.
        GridDeviceError: no such GPU, or no driver.
    """
    for option, value in (("method", method), ("keep_float", keep_float)):
        if value and calibration is None:
            raise ModelError(f"compile: {option} must be left out without calibration, got {value!r}")
    sets = shape_sets(extents, shapes)
    machine, on_grid = _devices(target, cpu, gpu, place or {})
    config = machine if isinstance(machine, Config) else None
    host = machine if isinstance(machine, Target) else _beside(machine, cpu)
    with Background() as background, rare_collections():
        time = None if config is None else ProgramTimer(config, background)
        progress("import", 0, 1)
        graph = import_network(source, common(sets))
        graph = run_passes(graph, PREPARATION, observe)
        calibration = kept_data(calibration)
        if calibration is not None and graph.nodes:  # all results may be constants
            graph = _quantised(graph, calibration, method or AUTO, keep_float, observe)
        recipe = None
        if len(sets) == 1:
            sets = [] if calibration is None else sets_of_data(graph, calibration)
            recipe = _recipe(graph, machine, host, target, gpu, place or {})
        specialised = [*_specialised(graph, sets, observe), *([graph] if recipe is not None or not sets else [])]
        placed = [
            _placed(item, config, host, place or {}, observe, on_grid, time, device_caches=device_caches)
            for item in specialised
        ]
        if len({item.graph.inputs for item in placed}) > 1:  # the machine has no room for the longest
            placed = [_placed(item, config, host, place or {}, observe, on_grid, time) for item in specialised]
        (graph, decisions), *variants = [(item.graph, item.decisions) for item in placed]
        artifact = build_artifact(
            graph,
            host,
            origin=_origin(source),
            decisions=decisions,
            variants=variants,
            time=time,
            points=kernel_points,
            on_grid=None if on_grid is None else on_grid.kernels,
            progress=progress,
        )
    expressions = partial(_expressions, [item.expressions for item in placed])
    if recipe is None:
        model = Model(artifact, expressions=expressions)
    else:
        specialise = specialiser_of(recipe, artifact.plan.name, kernel_points)
        model = Model(replace(artifact, recipe=recipe), specialise=specialise, expressions=expressions)
    if not artifact.programs or not certifies(certify):
        return model
    from vdla.runtime.network.certify_model import with_certificate

    return with_certificate(model, progress)


def _expressions(plans: Sequence[Callable[[], tuple[RegionExpression, ...]]]) -> bytes:
    """What the programs of each plan must compute."""
    return expressions_to_bytes([regions() for regions in plans])


def specialiser_of(recipe: Recipe, name: str, kernel_points: KernelPoints | None = None) -> SpecialiseModel:
    """What compiles the model `name` for shapes of inputs, as a recipe says."""
    return specialiser(partial(compile_network, kernel_points=kernel_points, certify=False), recipe, name)


def kernel_graphs(
    source: ModelSource,
    cpu: Target | str = "host",
    extents: Extents | None = None,
    shapes: Shapes | None = None,
) -> tuple[Graph, ...]:
    """The graphs of the kernels of a model on a CPU alone, one a step; equal ones repeat.

    Raises:
        OnnxError, UnsupportedError: the model is not valid.
        ModelError: an unknown CPU, or wrong extents.
    """
    host = target_of(cpu, ModelError)
    if isinstance(host, Config):
        raise ModelError(f"kernel_graphs: cpu must be a CPU, got the accelerator {host.name}")
    graph = run_passes(import_network(source, common(shape_sets(extents, shapes))), PREPARATION, None)
    placed = _placed(graph, None, host, {}, None).graph
    return tuple(body_of(placed, node) for node in placed.nodes if node.op not in CONTROL_FLOW)


def _devices(
    target: Config | Target | str, cpu: Target | str | None, gpu: str | None, place: Mapping[str, str]
) -> tuple[Config | Target, GridChoices | None]:
    """The machine or the CPU of a target, and how its GPU is used, if it has one."""
    if isinstance(target, str) and target.partition(":")[0] in _ALL_ON_GPU:
        if gpu is not None:
            raise ModelError(f"compile: gpu must be left out for the target {target}, got {gpu!r}")
        host = cpu if isinstance(cpu, Target) else Target.named(cpu or _HOST)
        return host, GridChoices(GridKernelTable(target, open_grid_device(target)), None, place)
    machine = target_of(target, ModelError)
    if isinstance(machine, Target) and cpu is not None:
        name = cpu.name if isinstance(cpu, Target) else repr(cpu)
        raise ModelError(f"compile: cpu must be left out for the target {machine.name}, a CPU, got {name}")
    if gpu is None:
        return machine, None
    beside = modelled_cpu(machine, _beside(machine, cpu).cpu) if isinstance(machine, Config) else HOST_MODEL
    return machine, GridChoices(GridKernelTable(gpu, open_grid_device(gpu)), beside, place)


def _beside(config: Config, cpu: Target | str | None) -> Target:
    """The CPU beside a machine."""
    if isinstance(cpu, Target):
        return cpu
    return Target.named(board_cpu(config).name if cpu == "board" else cpu or _HOST)


def _specialised(graph: Graph, sets: Sequence[ShapeSet], observe: Observer | None) -> Iterator[Graph]:
    """The graph for each set of shapes."""
    known = {symbol for shape in input_shapes(graph).values() for symbol in shape or () if isinstance(symbol, str)}
    for item in sets:
        numbers = {name: number for name, number in item.extents.items() if name in known}  # others are there already
        yield run_passes(specialise(graph, numbers, item.shapes), PREPARATION, observe)


def _is_of_onnx(node: Node) -> bool:
    """Whether a node's operator is one of ONNX, whose name has a domain of ONNX or none."""
    return "." not in node.op or node.op.startswith("ai.onnx.")


def _recipe(
    graph: Graph,
    machine: Config | Target,
    host: Target,
    target: Config | Target | str,
    gpu: str | None,
    place: Mapping[str, str],
) -> Recipe | None:
    """How a graph is compiled for other shapes; None if those are known, or it has operators that
    ONNX has not.
    """
    shapes = input_shapes(graph).values()
    tensors = [isinstance(graph.types[name], TensorType) for name in graph.inputs]
    static = all(shape is not None and all(isinstance(extent, int) for extent in shape) for shape in shapes)
    if static or not all(tensors) or not all(map(_is_of_onnx, graph.nodes)):
        return None
    all_on_gpu = isinstance(target, str) and target.partition(":")[0] in _ALL_ON_GPU
    return recipe_of(graph, machine, host, str(target) if all_on_gpu else gpu, all_on_gpu, dict(place))


# --- passes ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Placed:
    """A graph on devices, the decisions, and what makes the expressions of its regions."""

    graph: Graph
    decisions: Mapping[str, Decision]
    expressions: Callable[[], tuple[RegionExpression, ...]] = tuple


def _placed(
    graph: Graph,
    config: Config | None,
    host: Target,
    place: Mapping[str, str],
    observe: Observer | None,
    on_grid: GridChoices | None = None,
    time: ProgramTimer | None = None,
    *,
    device_caches: bool = False,
) -> _Placed:
    """The graph in integers, on devices, in layouts and kernels of the CPU."""
    graph = run_passes(graph, INTEGER, observe)
    decisions: Mapping[str, Decision] = {}
    expressions: Callable[[], tuple[RegionExpression, ...]] = tuple
    if config is not None or on_grid is not None:
        _check_places(graph, place, [name for name, has in _has(config, on_grid).items() if has])
    local_names = {node.outputs[0] for node in graph.nodes}
    if config is not None:
        graph = run_passes(graph, (GraphPass("machine_rounding", round_as_machine),), observe)
        device_caches = device_caches and not _is_off_machine(graph, place)
        cpu = modelled_cpu(config, host.cpu)
        regions = _on_devices(graph, config, cpu, place, observe, on_grid, time, device_caches=device_caches)
        graph, decisions, expressions = regions.graph, regions.decisions, regions.expressions
    if on_grid is not None:
        local_names -= {
            name for name, why in decisions.items() if why.device == "vdla"
        }  # those that unpack are not own
        graph, decisions = _on_grid(graph, on_grid, local_names, decisions, observe)
    layouts = GraphPass("layouts", lambda graph: choose_layouts(graph, host))
    return _Placed(run_passes(graph, (layouts, BODIES, FUSION), observe), decisions, expressions)


PASSES = (
    *(graph_pass.name for graph_pass in PREPARATION),
    "quantise",
    *(graph_pass.name for graph_pass in INTEGER),
    "machine_rounding",
    "for_machine",
    "partition",
    *(graph_pass.name for graph_pass in REGIONS),
    "region_inputs",
    "gpu",
    "layouts",
    "bodies",
    "fuse",
)
"""The names of all passes, in order."""


def _quantised(
    graph: Graph, calibration: Calibration, method: str, keep_float: Sequence[str], observe: Observer | None
) -> Graph:
    from vdla.runtime.network.quantise import quantise

    def run(given: Graph) -> Graph:
        return quantise(given, calibration=calibration, method=method, keep_float=keep_float).graph

    return run_passes(graph, (GraphPass("quantise", run),), observe)


def _on_devices(
    graph: Graph,
    config: Config,
    cpu: CpuModel,
    place: Mapping[str, str],
    observe: Observer | None,
    on_grid: GridChoices | None,
    time: ProgramTimer | None,
    *,
    device_caches: bool,
) -> _Placed:
    """The graph in regions of the accelerator, and the decision on each node."""
    replaced: dict[str, Replacement] = {}
    divided: list[Callable[[], tuple[RegionExpression, ...]]] = []

    better = None if time is None or config.plain == config else PlugInChoice(config, time, cpu)

    def prepare(graph: Graph) -> Graph:
        graph = _with_row_functions(graph, better)
        graph = resident_caches(graph, config, evaluate_node) if device_caches and better is not None else graph
        return for_machine(_with_plug_ins(graph, better), evaluate_node, replaced)

    def divide(graph: Graph) -> Graph:
        plain = for_other_devices(graph, choice.calls, replaced)
        if better is None:
            made, calls = partition(plain, config, choice.calls), choice.calls
        else:
            made, calls = NeighbourChoice(better).divided(graph, choice.calls, partial(partition, plain, config))
        divided.append(partial(region_expressions, plain, config, calls, made))
        return made

    graph = run_passes(graph, (GraphPass("for_machine", prepare),), observe)
    elsewhere = {} if on_grid is None else on_grid.decisions(graph)
    on_gpu = {name: why.gpu_seconds for name, why in elsewhere.items() if why.device == "gpu" and why.gpu_seconds}
    count = None if time is None else time.cycles
    choice = choose(graph, config, candidates(graph, config, better), cpu, place, on_gpu, count)
    passes = (
        GraphPass("partition", divide),
        *REGIONS,
        GraphPass("region_inputs", with_named_inputs),
    )
    known = [node for node in graph.nodes if node.name and node.outputs[0] in choice.decisions]
    named = {node.name: choice.decisions[node.outputs[0]] for node in known}
    graph = run_passes(graph, passes, observe)
    return _Placed(graph, named | dict(choice.decisions), divided[0])


def _is_off_machine(graph: Graph, place: Mapping[str, str]) -> bool:
    """Whether attention of integers is placed on another device."""
    names = (name for node in graph.nodes if node.op == "vdla.QAttention" for name in (node.name, node.outputs[0]))
    return any(place.get(name, "vdla") != "vdla" for name in names)


def _with_row_functions(graph: Graph, better: PlugInChoice | None) -> Graph:
    """The graph with the rows' operators of integers that plug-ins have programs of."""
    return graph if better is None else row_functions(graph, better.accepts)


def _with_plug_ins(graph: Graph, better: PlugInChoice | None) -> Graph:
    """The graph with the operators of integers that only plug-ins have programs of."""
    if better is None:
        return graph
    graph = symmetric_factors(graph)
    return without_dead_code(second_factors(graph, better.accepts))


def _on_grid(
    graph: Graph,
    on_grid: GridChoices,
    names: Set[str],
    decisions: Mapping[str, Decision],
    observe: Observer | None,
) -> tuple[Graph, Mapping[str, Decision]]:
    """The graph with kernels of the GPU; why the nodes `names` of the model are where they are."""
    result: dict[str, Decision] = {}

    def place(graph: Graph) -> Graph:
        made, why = on_grid.place(graph, names)
        result.update((name, decision) for name, decision in why.items() if name in names)
        return made

    placed = run_passes(graph, (GraphPass("gpu", place),), observe)
    kept = {name: why for name, why in result.items() if why.gpu_seconds is not None or name not in decisions}
    return placed, {**decisions, **kept}


def _has(config: Config | None, on_grid: GridChoices | None) -> dict[str, bool]:
    """The devices that nodes can be named for."""
    return {"vdla": config is not None, "cpu": True, "gpu": on_grid is not None}


def _check_places(graph: Graph, place: Mapping[str, str], devices: Sequence[str]) -> None:
    names = {name for node in graph.nodes for name in (node.name, node.outputs[0])}
    for name, device in place.items():
        if device not in devices:
            raise ModelError(f"compile: device of {name} must be one of {', '.join(devices)}, got {device}")
        if name not in names:
            raise ModelError(f"compile: place must name nodes or results of {graph.name}, got {name}")


def _origin(source: Any) -> dict[str, str]:  # noqa: ANN401  a file, its content, or a model
    """Where a model comes from, and what compiled it."""
    made = {"vdla": VERSION, "numpy": version("numpy"), "llvmlite": version("llvmlite")}
    if isinstance(source, str | Path):
        made["source"] = Path(source).name
    return made
