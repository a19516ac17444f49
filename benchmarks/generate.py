# SPDX-License-Identifier: Apache-2.0
"""Language models: cycles a token, the share of the memory's bound, and exact decoding.

`docstrings`, the trained decoder: `perplexity_share`, the perplexity of held-out text in int8 over
that in float, with weights of four bits and with a cache of eight too; `mismatches`, scores of all
steps until its cache is full that differ between the simulator and the integers on the CPU. In the
long form, `rtl_mismatches` and `rtl_cycles_apart` are of 16 steps on RTL and simulator. Figures of
`one_program` are of steps in int8 throughout, or with weights of four bits, with the cache on the
machine: the programs of the last step, and its tokens a second.

The others have seeded weights. Of each machine, `bound_share` is the bytes of weights that its
programs read for a token over those that its ports could move in their cycles, `tokens_a_second`
those of the programs alone at the machine's clock, `memory_share` the bytes of weights a second
over those of its DDR4. Attention, its cache and norms are on the CPU there: they take no time, and
the cache no bytes. The simulated memory is the machine's own or, of the larger decoders, that of
the board with pages and refresh. `smollm2_135m` and `llama3_8b_layer` take some GiB and are run
where they are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vdla.benchmarks.harness import BenchmarkResult, Row, Section, host_receipt, joined, subjects_of
from vdla.compiler.extensions import extend
from vdla.compiler.graph import Graph
from vdla.compiler.graph.onnx.export import export_model
from vdla.hardware.config import Config
from vdla.hardware.dram import PARTS
from vdla.networks.decoder import TRAINED, calibration_text, held_out_texts, tokens_path
from vdla.networks.llama_shape import SHAPES
from vdla.networks.registry import DECODERS
from vdla.runtime.executor.model import Model
from vdla.runtime.executor.token_rates import token_rates
from vdla.runtime.generate.compile_decoder import compile_decoder
from vdla.runtime.generate.generation import DecoderRun
from vdla.runtime.generate.interface import LOGITS
from vdla.runtime.generate.quantise_decoder import perplexity, quantise_decoder
from vdla.runtime.generate.tokens import Tokens
from vdla.support.progress import Progress, ReportStep, numbered, silent

if TYPE_CHECKING:
    from onnx import ModelProto


@dataclass(frozen=True, slots=True)
class MeasuredMachine:
    """A preset with other fields and, where `memory` is given, that part behind its ports."""

    preset: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    memory: str = ""

    def config(self, weights: str) -> Config:
        """The machine, with the instructions that its weights need."""
        config = replace(Config.preset(self.preset), **self.fields)
        if self.memory:
            config = replace(config, dram=config.dram.with_part(self.memory, config.clock_mhz))
        return extend(config, "int4_group") if weights == INT4 else config

    @property
    def bandwidth(self) -> float | None:
        """The bytes a second of the memory part."""
        part = PARTS.get(self.memory)
        return None if part is None else part.mega_transfers * part.bytes * 1e6


INT8, INT4 = "int8", "int4"
USUAL = (TRAINED, "stories15m")
MACHINES = {
    "pynq_z1": MeasuredMachine("pynq_z1"),
    "pynq_z1_lm": MeasuredMachine("pynq_z1_lm"),
    "pynq_z1_4_ports": MeasuredMachine("pynq_z1_lm", {"batch": 2, "axi_bits": 256, "axi_ports": 4}),
    "kv260": MeasuredMachine("kv260"),
    "kv260_lm": MeasuredMachine("kv260_lm"),
    "kv260_4_ports": MeasuredMachine("kv260_lm", {"batch": 4, "axi_bits": 512, "axi_ports": 4}),
}
"""Machines by name; those with four ports are no presets: entries need a batch to fill a beat."""
DDR4 = {name: replace(MACHINES[name], memory="ddr4-2400-x64") for name in ("kv260_lm", "kv260_4_ports")}
RUNS: Mapping[str, Sequence[tuple[str, MeasuredMachine]]] = {
    INT8: tuple(MACHINES.items()),
    INT4: tuple((name, machine) for name, machine in MACHINES.items() if name != "kv260"),  # it has 32 inputs
}
LARGE = {"smollm2_135m": {INT4: tuple(DDR4.items())}, "llama3_8b_layer": {INT4: tuple(DDR4.items())}}
CACHE, CALIBRATED = 256, 64  # places; tokens with which shapes are calibrated
RTL_STEPS, RTL_MACHINE = 16, "pynq_z1_lm"
PLUG_INS = ("norm", "rotary", "lut", "softmax", "transpose")
"""The instructions with which a whole step is one program."""


def run(
    progress: Progress = silent, seed: int = 0, subjects: Sequence[str] = (), long: bool = False
) -> BenchmarkResult:
    """The figures of the subjects, `docstrings` and `stories15m` by default.

    Raises:
        SubjectError: an unknown subject.
    """
    chosen = subjects_of("generate", "subject", subjects, DECODERS) if subjects else list(USUAL)
    count = sum(len(machines) for name in chosen for machines in LARGE.get(name, RUNS).values())
    step = numbered(progress, count + len(RUNS) * (TRAINED in chosen))
    sections = [_trained(step, long) if name == TRAINED else _shape(name, seed, step) for name in chosen]
    section = joined(sections)
    command = " ".join(["vdla bench generate", *subjects, *(["--long"] if long else []), f"--seed {seed}"])
    return BenchmarkResult(
        "generate", section.figures, section.rows, host_receipt(seed, command, ("onnx", "tokenizers"))
    )


def _trained(step: ReportStep, long: bool) -> Section:
    """Perplexity, exactness of every step on one machine, and the rates of all."""
    with tokens_path() as path:
        tokens = Tokens(path)
    texts = [tokens.encode(text) for text in held_out_texts()]
    model, text = DECODERS[TRAINED].build(), tokens.encode(calibration_text())
    with compile_decoder(model, cache=CACHE) as compiled:
        exact = perplexity(compiled, texts)
    words = np.random.default_rng(0).integers(1, tokens.count, CACHE).tolist()
    rows: list[Row] = []
    figures = {"perplexity": exact}
    for weights, machines in RUNS.items():
        made = export_model(quantise_decoder(model, text, weights=weights).graph)
        with compile_decoder(made, cache=CACHE) as on_cpu:
            for cache in ("", "int8"):
                name = f"{_of(weights)}{'_int8_cache' if cache else ''}"
                figures[f"perplexity_{weights}{name.removeprefix(_of(weights))}"] = rounded = perplexity(
                    on_cpu, texts, cache_type=cache or "float32"
                )
                figures[f"perplexity_share{name}"] = rounded / exact
            for label, machine in machines:
                step(f"{TRAINED}, {weights}, on {label}")
                with compile_decoder(made, machine.config(weights), cache=CACHE, chunk=1) as model_on:
                    count = CACHE if label == machines[0][0] else 2
                    differing = sum(_differences(DecoderRun(on_cpu), DecoderRun(model_on), words[:count]))
                    rates = _rates(TRAINED, label, machine, weights, DecoderRun(model_on), words[:2])
                    rows.append({**rates, "mismatches": differing})
                    if long and label == RTL_MACHINE:
                        figures |= _on_rtl(model_on, words[:RTL_STEPS], _of(weights))
    figures["mismatches"] = float(sum(row["mismatches"] for row in rows))
    for weights in RUNS:
        step(f"{TRAINED}, {weights}, with its cache on {RTL_MACHINE}")
        made = export_model(quantise_decoder(model, text, weights=weights, sums=INT8, attention=INT8).graph)
        figures |= _on_device(made, words, weights, long=long)
    return Section({**figures, **_figures(rows)}, rows)


def _of(weights: str) -> str:
    """What names of figures have for a type of weights."""
    return "" if weights == INT8 else f"_{weights}"


def _on_rtl(model: Model, words: Iterable[int], of: str) -> dict[str, float]:
    """The scores and the cycles of all programs that differ between simulator and RTL."""
    simulated, built = DecoderRun(model), DecoderRun(Model(model.artifact, "rtl"))
    wrong = apart = 0
    for word in words:
        one, other = simulated.advance([word]), built.advance([word])
        wrong += int((one.outputs[LOGITS] != other.outputs[LOGITS]).sum())
        for left, right in zip(one.steps, other.steps, strict=True):
            if left.statistics is not None and right.statistics is not None:
                apart += abs(left.statistics.total_cycles - right.statistics.total_cycles)
    built.model.close()
    return {f"rtl_mismatches{of}": float(wrong), f"rtl_cycles_apart{of}": float(apart)}


def _on_device(source: ModelProto, words: Sequence[int], weights: str, *, long: bool) -> dict[str, float]:
    """Steps with the cache on the machine: scores that differ from the same integers on the CPU,
    programs and rates of the last one; in the long form, the RTL too.
    """
    machine, nodes = extend(MACHINES[RTL_MACHINE].config(weights), *PLUG_INS), dict[str, str]()

    def observe(name: str, _: Graph, after: Graph) -> None:
        if name == "machine_rounding":
            nodes.update({node.outputs[0]: "cpu" for node in after.nodes})

    with compile_decoder(source, machine, cache=CACHE, chunk=1, observe=observe) as model:
        run = DecoderRun(model)
        with compile_decoder(source, machine, cache=CACHE, chunk=1, lengths=run.lengths, place=nodes) as on_cpu:
            differing = sum(_differences(DecoderRun(on_cpu), run, words[: CACHE - 1]))
        last = run.advance(words[CACHE - 1 : CACHE])
        speed = token_rates(model.artifact, 0, [], [(last, 0.0)]).accelerator_tokens_a_second
        assert speed is not None
        of = f"one_program{_of(weights)}"
        made = {
            f"{of}_mismatches": float(differing),
            f"{of}_programs": float(sum(item.statistics is not None for item in last.steps)),
            f"{of}_tokens_a_second": speed,
        }
        return {**made, **(_on_rtl(model, words[:RTL_STEPS], f"_{of}") if long else {})}


def _differences(one: DecoderRun, other: DecoderRun, words: Iterable[int]) -> Iterator[int]:
    """How many scores of each step differ between two decoders."""
    for word in words:
        scores = [np.array(run.advance([word]).outputs[LOGITS]) for run in (one, other)]
        yield int((scores[0] != scores[1]).sum())


def _shape(name: str, seed: int, step: ReportStep) -> Section:
    """The rates of a decoder with seeded weights."""
    model, rng = DECODERS[name].build(seed=seed), np.random.default_rng(seed)
    words = rng.integers(0, SHAPES[name].words, CALIBRATED).tolist()
    rows = []
    for weights, machines in LARGE.get(name, RUNS).items():
        made = export_model(quantise_decoder(model, words, method="minmax", weights=weights).graph)
        for label, machine in machines:
            step(f"{name}, {weights}, on {label}")
            with compile_decoder(made, machine.config(weights), cache=CACHE, chunk=1) as compiled:
                rows.append(_rates(name, label, machine, weights, DecoderRun(compiled), words[:2]))
    return Section(_figures(rows), rows)


def _rates(name: str, label: str, machine: MeasuredMachine, weights: str, run: DecoderRun, words: Sequence[int]) -> Row:
    """A step's cycles, which do not depend on its data."""
    timed = [(run.advance([word]), 0.0) for word in words]
    rates = token_rates(run.model.artifact, 0, [], timed[1:])
    share, speed = rates.bound_share, rates.accelerator_tokens_a_second
    assert share is not None
    assert speed is not None
    bandwidth = machine.bandwidth
    return {
        "decoder": name,
        "machine": label,
        "weights": weights,
        "memory": machine.memory or "simple",
        "cycles": rates.cycles_a_token,
        "weight_bytes": rates.weight_bytes,
        "bound_share": round(share, 4),
        "tokens_a_second": round(speed, 2),
        "memory_share": None if bandwidth is None else round(rates.weight_bytes * speed / bandwidth, 4),
    }


def _figures(rows: Iterable[Row]) -> dict[str, float]:
    return {
        f"{row['decoder']}_{row['machine']}{_of(row['weights'])}_{key}": row[key]
        for row in rows
        for key in ("bound_share", "tokens_a_second", "memory_share")
        if row[key] is not None
    }
