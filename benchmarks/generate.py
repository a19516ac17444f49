# SPDX-License-Identifier: Apache-2.0
"""Language models: cycles a token, the share of the memory's bound, and exact decoding.

`docstrings`, the trained decoder: `perplexity_share`, the perplexity of held-out text in int8 over
that in float; `mismatches`, scores of all steps until its cache is full that differ between the
simulator and the integers on the CPU.

`stories15m` has seeded weights. Of each machine, `bound_share` is the bytes of weights that its
programs read for a token over those that its port could move in their cycles, `tokens_a_second`
those of the programs alone at the machine's clock: attention and norms are on the CPU, and take no
time there. `smollm2_135m` takes some GiB and is run where it is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from vdla.benchmarks.harness import BenchmarkResult, Row, Section, host_receipt, joined, subjects_of
from vdla.compiler.graph.onnx.export import export_model
from vdla.networks.decoder import TRAINED, calibration_text, held_out_texts, tokens_path
from vdla.networks.llama_shape import SHAPES
from vdla.networks.registry import DECODERS
from vdla.runtime.executor.token_rates import token_rates
from vdla.runtime.generate.compile_decoder import compile_decoder
from vdla.runtime.generate.generation import DecoderRun
from vdla.runtime.generate.interface import LOGITS
from vdla.runtime.generate.quantise_decoder import perplexity, quantise_decoder
from vdla.runtime.generate.tokens import Tokens
from vdla.support.progress import Progress, ReportStep, numbered, silent

USUAL = (TRAINED, "stories15m")
MACHINES = ("pynq_z1", "pynq_z1_lm", "kv260", "kv260_lm")
CACHE, CALIBRATED = 256, 64  # places; tokens with which shapes are calibrated


def run(progress: Progress = silent, seed: int = 0, subjects: Sequence[str] = ()) -> BenchmarkResult:
    """The figures of the subjects, `docstrings` and `stories15m` by default.

    Raises:
        SubjectError: an unknown subject.
    """
    chosen = subjects_of("generate", "subject", subjects, DECODERS) if subjects else list(USUAL)
    step = numbered(progress, len(chosen) * len(MACHINES))
    sections = [_trained(step) if name == TRAINED else _shape(name, seed, step) for name in chosen]
    section = joined(sections)
    command = " ".join(["vdla bench generate", *subjects, f"--seed {seed}"])
    return BenchmarkResult(
        "generate", section.figures, section.rows, host_receipt(seed, command, ("onnx", "tokenizers"))
    )


def _trained(step: ReportStep) -> Section:
    """Perplexity, exactness of every step on one machine, and the rates of all."""
    with tokens_path() as path:
        tokens = Tokens(path)
    texts = [tokens.encode(text) for text in held_out_texts()]
    model = DECODERS[TRAINED].build()
    int8 = export_model(quantise_decoder(model, tokens.encode(calibration_text())).graph)
    with compile_decoder(model, cache=CACHE) as compiled:
        exact = perplexity(compiled, texts)
    rows: list[Row] = []
    with compile_decoder(int8, cache=CACHE) as on_cpu:
        rounded = perplexity(on_cpu, texts)
        words = np.random.default_rng(0).integers(1, tokens.count, CACHE).tolist()
        for machine in MACHINES:
            step(f"{TRAINED} on {machine}")
            with compile_decoder(int8, machine, cache=CACHE, chunk=1) as model_on:
                count = CACHE if machine == MACHINES[0] else 2
                differing = sum(_differences(DecoderRun(on_cpu), DecoderRun(model_on), words[:count]))
                rows.append({**_rates(TRAINED, machine, DecoderRun(model_on), words[:2]), "mismatches": differing})
    figures = {"perplexity": exact, "perplexity_int8": rounded, "perplexity_share": rounded / exact}
    figures["mismatches"] = float(sum(row["mismatches"] for row in rows))
    return Section({**figures, **_figures(rows)}, rows)


def _differences(one: DecoderRun, other: DecoderRun, words: Iterable[int]) -> Iterator[int]:
    """How many scores of each step differ between two decoders."""
    for word in words:
        scores = [np.array(run.advance([word]).outputs[LOGITS]) for run in (one, other)]
        yield int((scores[0] != scores[1]).sum())


def _shape(name: str, seed: int, step: ReportStep) -> Section:
    """The rates of a decoder with seeded weights."""
    model, rng = DECODERS[name].build(seed=seed), np.random.default_rng(seed)
    words = rng.integers(0, SHAPES[name].words, CALIBRATED).tolist()
    int8 = export_model(quantise_decoder(model, words, method="minmax").graph)
    rows = []
    for machine in MACHINES:
        step(f"{name} on {machine}")
        with compile_decoder(int8, machine, cache=CACHE, chunk=1) as compiled:
            rows.append(_rates(name, machine, DecoderRun(compiled), words[:2]))
    return Section(_figures(rows), rows)


def _rates(name: str, machine: str, run: DecoderRun, words: Sequence[int]) -> Row:
    """A step's cycles, which do not depend on its data."""
    timed = [(run.advance([word]), 0.0) for word in words]
    rates = token_rates(run.model.artifact, 0, [], timed[1:])
    share, speed = rates.bound_share, rates.accelerator_tokens_a_second
    assert share is not None
    assert speed is not None
    return {
        "decoder": name,
        "machine": machine,
        "cycles": rates.cycles_a_token,
        "weight_bytes": rates.weight_bytes,
        "bound_share": round(share, 4),
        "tokens_a_second": round(speed, 2),
    }


def _figures(rows: Iterable[Row]) -> dict[str, float]:
    return {
        f"{row['decoder']}_{row['machine']}_{key}": row[key]
        for row in rows
        for key in ("bound_share", "tokens_a_second")
    }
