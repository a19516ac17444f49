# SPDX-License-Identifier: Apache-2.0
"""Certificates: programs that are certified, planted faults, equivalent programs, and their cost.

`certified` counts programs of templates and of the kinds of operators of the mapper, `refused`
those that are not; `layers` are those of networks. `planted` are verified programs with a fault of
one of many kinds; `accepted` are certified although a simulation of random data differs, and must
be 0. `hidden` are refused although one simulation of random data agrees; `hidden_always` although
all do; `suite_planted` and so on are those in larger programs, `nest_planted` those in loop nests
of CPUs and kernels of GPUs, `pass_planted` those in graphs that passes make. `passes` counts the
passes of networks that are certified, `passes_without_lemma` those that change more than lemmas
say. `networks` are programs of networks, small ones, that are certified against the integer
operators of their graphs, `networks_refused` those that are not, vit_small with PLUG_INS too;
`plug_ins` are programs of layers that plug-ins come with; `network_cost` is the CPU time of
certifying the whole networks of NETWORKS_OF_COST over that of compiling them, of the first
certificate of each; `network_cost_again` is that of later ones, whose loops are in memory.
`resnet18_first_s` and `resnet18_again_s` are the seconds for one of these. `equivalent` are
programs with other mappings, tiles and threads, and expressions with operations that change
nothing, of which `equivalent_refused` are not certified. `cost` is the CPU time of certifying over
that of compiling and verifying, for the layers of ResNet-18. `lemmas` are proven; `wrong_lemmas`
counts those with a planted fault that are proven although small integers contradict them, and must
be 0.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from statistics import median
from typing import Any

import numpy as np
from numpy.random import Generator, default_rng

from vdla.benchmarks.certify_faults import KINDS, ProgramFault, planted_faults
from vdla.benchmarks.certify_nests import planted_in_nests
from vdla.benchmarks.certify_passes import certified_passes, planted_in_passes
from vdla.benchmarks.certify_plug_ins import certified_plug_ins
from vdla.benchmarks.certify_schedule_faults import (
    OPTION_KIND,
    SCHEDULE_KINDS,
    planted_schedule_faults,
    wrong_options,
)
from vdla.benchmarks.fault_counts import FaultCounts, verdict
from vdla.benchmarks.harness import BenchmarkResult, Row, Section, host_receipt, joined, subjects_of
from vdla.benchmarks.map import KINDS_OF_OPERATORS, PRESETS, random_definition
from vdla.benchmarks.mapped_layers import mapped_layers
from vdla.compiler import te, templates
from vdla.compiler.certificates.certify import certify, source_of
from vdla.compiler.certificates.graph_run import run_graph
from vdla.compiler.certificates.lemmas import LEMMAS
from vdla.compiler.certificates.network_certificate import region_programs
from vdla.compiler.certificates.region_certificate import certify_region
from vdla.compiler.certificates.region_program import RegionProgram
from vdla.compiler.certificates.symbols import CertificateError, numbers
from vdla.compiler.extensions import extend
from vdla.compiler.graph import Graph
from vdla.compiler.graph.accelerator import RegionExpression
from vdla.compiler.graph.accelerator import candidates as candidates_on_machine
from vdla.compiler.graph.passes import for_machine, run_passes
from vdla.compiler.ir import limits
from vdla.compiler.map import MapError, MappedOperator, candidates, gather
from vdla.compiler.operators.vdla import Operator
from vdla.compiler.operators.vdla.tile_candidates import fitting_candidates
from vdla.compiler.operators.workloads import resnet18_layers
from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.networks.registry import NETWORKS, Network
from vdla.runtime.diagnosis.layers import layer_operator
from vdla.runtime.executor.model import Model
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.evaluate_nodes import INTEGER, PREPARATION, evaluate_node
from vdla.runtime.network.quantise import quantise
from vdla.simulator.simulate import simulate
from vdla.simulator.verify import verify
from vdla.support.progress import Progress, numbered, silent
from vdla.verification.lemmas.exhaustion import holds_exhaustively
from vdla.verification.lemmas.faults import planted_lemma_faults
from vdla.verification.programs import suite
from vdla.verification.programs.random_data import random_array, random_arrays

MACHINES = ("tiny", "int4", "batch4")
FAULTS = 8
"""Faults of each kind, of each small program."""
SUITE_FAULTS = 1
"""Faults of each kind, of each program of the suite."""
SCHEDULE_FAULTS = 4
"""Faults of each kind, of each schedule."""
SIMULATIONS = 4
TILINGS = 12
"""Tilings of each mapping."""
MAPPINGS = 4
NETWORKS_OF_COST = ("resnet18", "mobilenet_v2", "vit_small")
AGAIN = 3
"""Certificates of a network behind the first one."""
NETWORKS_OF_FAULTS = ("deep_q_network", "vit_small")
PLUG_INS = {"vit_small": ("softmax", "norm", "transpose", "lut")}
"""With which networks are certified once more."""
FLOAT_NETWORKS = ("lstm_language_model",)
"""Networks of which nothing runs on a machine."""


def run(progress: Progress = silent, seed: int = 0, subjects: Sequence[str] = ()) -> BenchmarkResult:
    """The parts `subjects`, or all."""
    parts: dict[str, Callable[[Progress, int], Section]] = {
        "certified": certified,
        "layers": certified_layers,
        "networks": certified_networks,
        "plug_ins": lambda progress, seed: certified_plug_ins(progress, seed, PRESETS),
        "network_cost": network_cost,
        "network_planted": planted_in_networks,
        "planted": planted,
        "suite": planted_in_suite,
        "nests": planted_in_nests,
        "passes": certified_passes,
        "pass_planted": planted_in_passes,
        "equivalent": equivalent,
        "cost": cost,
        "lemmas": wrong_lemmas,
    }
    section = joined([parts[name](progress, seed) for name in subjects_of("certify", "part", subjects, parts)])
    command = " ".join(["vdla bench certify", *subjects, f"--seed {seed} --json -"])
    return BenchmarkResult("certify", section.figures, section.rows, host_receipt(seed, command, **section.details))


# --- programs that must hold ----------------------------------------------------------------------


def small_operators(config: Config) -> list[Operator]:
    """Small programs of every template."""
    image: dict[str, Any] = {"batch": config.batch, "height": 3, "width": 4}
    channels = config.block_out
    two: dict[str, Any] = {"in_channels": channels, "out_channels": channels}
    return [
        templates.dense(config, rows=3, in_features=8, out_features=8, input_zero_point=-2, activation="relu"),
        templates.conv2d(config, **image, **two, kernel=3, pads=(1, 0, 1, 1), zero_point=1),
        templates.conv2d(config, **image, in_channels=4, out_channels=4, kernel=2, strides=2, raw=True),
        templates.depthwise_conv2d(config, **image, channels=channels, kernel=2),
        templates.conv2d_transpose(config, **image, **two, kernel=2, strides=2),
        templates.pool2d(config, **image, channels=channels, kernel=2, kind="max"),
        templates.pool2d(config, **image, channels=channels, kernel=2, kind="average"),
        templates.residual_add(config, **image, channels=channels),
        templates.leaky_relu(config, **image, channels=channels),
        templates.rescale(config, **image, channels=channels),
    ]


def certified(progress: Progress, seed: int) -> Section:
    """The suite; small templates and the mapper's kinds of operators, on three presets."""
    step = numbered(progress, 1 + len(PRESETS) * (1 + len(KINDS_OF_OPERATORS)))
    step("suite")
    refused = [one.name for one in suite.operators() if not certify(one, seed=seed, explain=False).holds]
    counts = Counter(certified=len(suite.NAMES) - len(refused), refused=len(refused))
    for preset in PRESETS:
        config = Config.preset(preset)
        step(f"templates on {preset}")
        operators: list[Any] = small_operators(config)
        for kind in KINDS_OF_OPERATORS:
            step(f"{kind} on {preset}")
            definition = random_definition(default_rng([seed, *kind.encode()]), kind)
            operators.append(candidates(definition.output, config).found[0])
        for operator in operators:
            holds = certify(operator, seed=seed, explain=False).holds
            counts["certified" if holds else "refused"] += 1
            refused += [] if holds else [f"{operator.name} on {preset}"]
    return Section({name: counts[name] for name in ("certified", "refused")}, (), {"refused": refused})


def certified_layers(progress: Progress, seed: int) -> Section:
    """The layers of networks, on the first preset."""
    layers, config = mapped_layers(), Config.preset(PRESETS[0])
    step = numbered(progress, len(layers))
    rows: list[Row] = []
    for layer in layers:
        step(layer.name)
        certificate = certify(layer.template(config), seed=seed, explain=False)
        rows.append({"layer": layer.name, "results": certificate.results, "differing": certificate.differing})
    wrong = sum(row["differing"] > 0 for row in rows)
    return Section({"layers": len(rows) - wrong, "layers_refused": wrong}, rows)


def certified_networks(progress: Progress, seed: int) -> Section:
    """The programs of every network whose layers are quantised, with parameters for tests; all that
    the machine can run is on it.
    """
    networks = [one for one in NETWORKS.values() if one.name not in FLOAT_NETWORKS]
    step = numbered(progress, len(networks) + len(PLUG_INS))
    rows: list[Row] = []
    for network in networks:
        step(network.name)
        rows.append(network_row(network, network.small, seed, all_on_machine))
    machine = Config.preset(PRESETS[0])
    for name, plug_ins in PLUG_INS.items():
        step(f"{name} with plug-ins")
        rows.append(network_row(NETWORKS[name], NETWORKS[name].small, seed, by_cost, extend(machine, *plug_ins)))
    count = sum(row["programs"] for row in rows)
    certified = sum(row["certified"] for row in rows)
    return Section({"networks": certified, "networks_refused": count - certified}, rows)


def all_on_machine(graph: Graph) -> dict[str, str]:
    """The machine as the place of all that it can run, whatever it costs."""
    integers = run_passes(graph, (*PREPARATION, *INTEGER))
    names = {name for node in integers.nodes for name in node.outputs}
    calls = candidates_on_machine(for_machine(integers, evaluate_node, {}), Config.preset(PRESETS[0])).calls
    return {name: "vdla" for name in calls if name in names}


def by_cost(graph: Graph) -> dict[str, str]:
    """No places, so that the compiler chooses them."""
    return {}


def network_row(
    network: Network,
    parameters: Mapping[str, Any],
    seed: int,
    place: Callable[[Graph], dict[str, str]],
    machine: Config | None = None,
) -> Row:
    """The programs of a network, how many are certified, and the CPU time of it."""
    compiled, compile_seconds = compiled_network(network, parameters, seed, place, machine)
    start = time.process_time()
    certificate = certify(compiled, seed=seed)
    seconds = time.process_time() - start
    return {
        "network": network.name,
        "programs": len(certificate.regions),
        "certified": sum(region.holds for region in certificate.regions),
        "operators": sum(region.nodes for region in certificate.regions),
        "compile_s": compile_seconds,
        "certify_s": seconds,
    }


def compiled_network(
    network: Network,
    parameters: Mapping[str, Any],
    seed: int,
    place: Callable[[Graph], dict[str, str]],
    machine: Config | None = None,
) -> tuple[Model, float]:
    """A quantised network, compiled for a machine or the first preset, and the CPU time of that."""
    model = network.build(**parameters, seed=seed)
    data = [network.inputs(model, seed=seed + number) for number in range(2)]
    quantised = quantise(model, calibration=data, method="minmax").graph
    places = place(quantised)
    start = time.process_time()
    compiled = compile_network(quantised, machine or Config.preset(PRESETS[0]), place=places, certify=False)
    return compiled, time.process_time() - start


def network_cost(progress: Progress, seed: int) -> Section:
    """CPU time of certifying whole networks over that of compiling them, verified and timed: of the
    first certificate of a network, in which loops are loaded or compiled, and of the median of
    AGAIN later ones.
    """
    step = numbered(progress, len(NETWORKS_OF_COST))
    rows: list[Row] = []
    for name in NETWORKS_OF_COST:
        step(name)
        rows.append(_cost_row(name, seed))
    compiling = sum(row["compile_s"] for row in rows)
    figures = {
        "network_cost": round(sum(row["first_s"] for row in rows) / compiling, 2),
        "network_cost_again": round(sum(row["again_s"] for row in rows) / compiling, 2),
        **{f"{rows[0]['network']}_{name}": round(rows[0][name], 2) for name in ("first_s", "again_s")},
        "network_cost_refused": sum(row["programs"] - row["certified"] for row in rows),
    }
    return Section(figures, rows)


def _cost_row(name: str, seed: int) -> Row:
    compiled, compile_seconds = compiled_network(NETWORKS[name], {}, seed, by_cost)
    seconds = []
    for _ in range(1 + AGAIN):
        start = time.process_time()
        certificate = certify(compiled, seed=seed)
        seconds.append(time.process_time() - start)
    return {
        "network": name,
        "programs": len(certificate.regions),
        "certified": sum(region.holds for region in certificate.regions),
        "compile_s": compile_seconds,
        "first_s": seconds[0],
        "again_s": median(seconds[1:]),
    }


def equivalent(progress: Progress, seed: int) -> Section:
    """Mappings, tiles and threads of the same operators."""
    step = numbered(progress, len(MACHINES) * len(KINDS_OF_OPERATORS))
    count, refused = 0, []
    for machine in MACHINES:
        for kind in KINDS_OF_OPERATORS:
            step(f"{kind} on {machine}")
            rng = default_rng([seed, *kind.encode()])
            different = {operator.program.hash: operator for operator in rewritings(kind, Config.preset(machine), rng)}
            for number, operator in enumerate(different.values()):
                others = spellings(_result_of(operator)) if number == 0 else {}
                for spelling, expression in {"": None, **others}.items():
                    count += 1
                    if not certify(operator, expression, seed=seed, explain=False).holds:
                        refused.append(f"{kind} on {machine}: {operator.description}{spelling}")
    return Section({"equivalent": count, "equivalent_refused": len(refused)}, (), {"equivalent_refused": refused})


def rewritings(kind: str, config: Config, rng: Generator) -> Iterator[MappedOperator]:
    """Programs of one operator: random mappings with random tiles, of one and two threads."""
    definition = random_definition(rng, kind)
    try:
        every = candidates(definition.output, config).found
    except MapError:  # such as a table of 8 bits on a machine of 4
        return
    for place in rng.permutation(len(every))[:MAPPINGS]:
        operator = every[int(place)]
        tilings = [
            table.tiling(index)
            for threads in (1, 2)
            for table in fitting_candidates(config, operator.problem, threads)
            for index in range(min(len(table), 50))
        ]
        for choice in rng.permutation(len(tilings))[:TILINGS]:
            yield operator.with_tiles(tilings[int(choice)])


def _result_of(operator: MappedOperator) -> te.Tensor:
    """The plain result of a mapping."""
    return operator.form.output if operator.view is None else operator.view


def spellings(result: te.Tensor) -> dict[str, te.Tensor]:
    """The same result, spelled with operations that change nothing, by what was added."""
    (low, high), zero, one = limits(result.dtype), te.const(0, result.dtype), te.const(1, result.dtype)
    same: dict[str, Callable[[te.Value], te.Value]] = {
        " + 0": lambda x: x + zero,
        " - 0": lambda x: x - zero,
        " * 1": lambda x: x * one,
        ", the maximum with itself": lambda x: te.maximum(x, x),
        ", the minimum with itself": lambda x: te.minimum(x, x),
        ", clipped at the bounds of its type": lambda x: te.clip(x, low, high),
    }
    return {
        name: te.compute(result.shape, lambda *i, change=change: change(result[i]), "spelled")
        for name, change in same.items()
    }


# --- faults ---------------------------------------------------------------------------------------


def planted(progress: Progress, seed: int) -> Section:
    """Faults of every kind in small programs, schedules and options of every template."""
    small = [one for name in MACHINES for one in small_operators(Config.preset(name))]
    step = numbered(progress, 2 * len(small) + len(MACHINES))
    judged_faults = _JudgedFaults(seed)
    for number, operator in enumerate(small):
        step(f"{operator.name} on {operator.config.name}")
        judged_faults.plant(operator, FAULTS, default_rng([seed, number]))
    for number, operator in enumerate(small):
        step(f"schedules of {operator.name} on {operator.config.name}")
        for kind in SCHEDULE_KINDS:
            for fault in planted_schedule_faults(operator, kind, SCHEDULE_FAULTS, default_rng([seed, number])):
                judged_faults.judge(operator, fault)
    for machine in MACHINES:
        step(f"options on {machine}")
        for operator, fault in wrong_options(Config.preset(machine)):
            judged_faults.judge(operator, fault)
    return Section({**judged_faults.total(), "kinds": judged_faults.kinds}, judged_faults.rows())


def planted_in_suite(progress: Progress, seed: int) -> Section:
    """Faults of every kind in the programs of the suite."""
    operators = suite.operators()
    step = numbered(progress, len(operators))
    judged_faults = _JudgedFaults(seed)
    for number, operator in enumerate(operators):
        step(operator.name)
        judged_faults.plant(operator, SUITE_FAULTS, default_rng([seed, number]))
    return Section({f"suite_{name}": count for name, count in judged_faults.total().items()})


class _JudgedFaults(FaultCounts):
    """Counts of faults by kind and by what certificates and simulations say of them."""

    def __init__(self, seed: int) -> None:
        super().__init__((*KINDS, *SCHEDULE_KINDS, OPTION_KIND))
        self._seed = seed

    def plant(self, operator: Operator, count: int, rng: Generator) -> None:
        """Plant and judge at most `count` faults of each kind in a program."""
        for kind in KINDS:
            for fault in planted_faults(operator.program, kind, count, rng):
                self.judge(operator, fault)

    def judge(self, operator: Operator, fault: ProgramFault) -> None:
        """Judge a fault, unless the verifier refuses the program."""
        if verify(fault.program).ok:
            self.add(fault.kind, judged(operator, fault.program, self._seed))


def planted_in_networks(progress: Progress, seed: int) -> Section:
    """A fault of every kind in each program of NETWORKS_OF_FAULTS."""
    counts = FaultCounts()
    for name in NETWORKS_OF_FAULTS:
        compiled = compiled_network(NETWORKS[name], NETWORKS[name].small, seed, all_on_machine)[0]
        regions = list(region_programs(compiled))
        step = numbered(progress, len(regions))
        for number, (region, expression, given) in enumerate(regions):
            step(f"{name}, {region}")
            assert expression is not None
            rng = default_rng([seed, number])
            faults = (fault for kind in KINDS for fault in planted_faults(given.program, kind, 1, rng))
            for fault in faults:
                if verify(fault.program).ok:
                    counts.add(fault.kind, judged_region(expression, given, fault.program, seed))
    return Section({f"network_{name}": count for name, count in counts.total().items()}, ())


def judged_region(expression: RegionExpression, given: RegionProgram, program: Program, seed: int) -> str:
    """What the certificate and simulations of another program of a region say."""
    outputs = [
        _plain_results(expression, given, one, seed + n) for n in range(SIMULATIONS) for one in (given.program, program)
    ]
    agrees = [one == other for one, other in zip(outputs[::2], outputs[1::2], strict=True)]
    certificate = certify_region(expression, replace(given, program=program), seed, explain=False)
    return verdict(certificate.holds, iter(agrees))


def _plain_results(expression: RegionExpression, given: RegionProgram, program: Program, seed: int) -> list[Any]:
    """The results of a program for random activations, without what lies in gaps of blocks."""
    arrays = {**random_arrays(given.program, seed), **given.constants}
    shapes = {tensor.name: tensor.shape for tensor in program.tensors}
    inputs = {name: array.reshape(shapes[name]) for name, array in arrays.items() if name in shapes}
    outputs = simulate(program, inputs).outputs
    graph = expression.unpacked
    packed = {
        name: numbers(outputs[expression.outputs[name]].reshape(graph.tensor(name).extents)) for name in graph.inputs
    }
    values = run_graph(graph, packed)
    return [values[name]["low"].tolist() for name in graph.outputs]


def judged(operator: Operator, program: Program, seed: int) -> str:
    """What the certificate and simulations of a program say."""
    agrees = (_agrees(operator, program, seed + number) for number in range(SIMULATIONS))
    try:
        holds = certify(operator, program=program, seed=seed, explain=False).holds
    except CertificateError:  # such as half of an element that is moved
        holds = False
    return verdict(holds, agrees)


def _agrees(operator: Operator, other: Program, seed: int) -> bool:
    """Whether the program of an operator and another one give the same results for random data.

    Both are plain: the host packs inputs, so that what it fills with zeros is 0, and unpacks.
    """
    mapped, rng = operator.mapped, default_rng(seed)
    sources: dict[str, Any] = {}
    arrays = {}
    for name, tensor in mapped.packing.items():
        source = source_of(tensor)
        if source.name not in sources:
            sources[source.name] = random_array(source.shape, source.dtype, rng)
        arrays[name] = gather(tensor, sources[source.name])
    result = source_of(mapped.unpacking).name
    one, two = (
        gather(mapped.unpacking, simulate(version, arrays).outputs[result]) for version in (operator.program, other)
    )
    return np.array_equal(one, two)


# --- cost -----------------------------------------------------------------------------------------


def cost(progress: Progress, seed: int) -> Section:
    """CPU time of certifying over that of compiling and verifying, layers of ResNet-18."""
    layers, config = resnet18_layers(), Config.preset(PRESETS[0])
    step = numbered(progress, len(layers))
    rows: list[Row] = []
    for layer in layers:
        step(layer.name)
        start = time.process_time()
        operator = layer_operator(layer, config, 2)
        verify(operator.program).raise_if_bad()
        compiled = time.process_time()
        certify(operator, seed=seed, explain=False)
        seconds = time.process_time() - compiled
        rows.append({"layer": layer.name, "compile_s": compiled - start, "certify_s": seconds})
    ratio = sum(row["certify_s"] for row in rows) / sum(row["compile_s"] for row in rows)
    return Section({"cost": round(ratio, 2)}, rows)


# --- lemmas ---------------------------------------------------------------------------------------


def wrong_lemmas(progress: Progress, seed: int) -> Section:
    """Lemmas, and lemmas with planted faults, by their proofs and by trying small integers."""
    missing = [name for name in ("bitwuzla", "cvc5") if find_spec(name) is None]
    if missing:
        return Section({}, (), {"lemmas": f"not decided without {' and '.join(missing)}"})
    from vdla.verification.lemmas.proof import proof_holds
    from vdla.verification.lemmas.roundings import ROUNDINGS, WRONG_ROUNDINGS, rounding_is_proven

    faults = list(planted_lemma_faults())
    step = numbered(progress, len(LEMMAS) + len(faults))
    proven = 0
    for lemma in LEMMAS:
        step(lemma.name)
        proven += proof_holds(lemma)
    proven += sum(map(rounding_is_proven, ROUNDINGS))
    counts: dict[str, Counter[str]] = {fault.kind: Counter() for fault in faults}
    for fault in faults:
        step(fault.lemma.name)
        true, accepted = holds_exhaustively(fault.lemma), proof_holds(fault.lemma)
        counts[fault.kind]["true" if true else "wrong" if accepted else "refused"] += 1
    wrongly = sum(map(rounding_is_proven, WRONG_ROUNDINGS))
    counts["another rounding"] = Counter(refused=len(WRONG_ROUNDINGS) - wrongly, wrong=wrongly)
    total = sum(counts.values(), Counter())
    figures = {"lemmas": proven, "lemmas_unproven": len(LEMMAS) + len(ROUNDINGS) - proven}
    wrong = {"lemma_faults": total["refused"] + total["wrong"], "wrong_lemmas": total["wrong"]}
    names = ("refused", "wrong", "true")
    rows = [{"kind": kind, **{name: count[name] for name in names}} for kind, count in counts.items()]
    return Section({**figures, **wrong, "true_lemma_faults": total["true"]}, rows)
