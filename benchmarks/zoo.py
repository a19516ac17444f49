# SPDX-License-Identifier: Apache-2.0
"""Models as exporters write them, on the CPU and quantised on the machine, against ONNX Runtime.

`wrong` counts models whose outputs on the CPU differ from the reference, `refused` those that end
in a `vdla.Error`, and `crashed` those that end in any other error. `on_numpy` is the share of the
operators of networks that run as NumPy functions. `cpu_ratio` is the geometric mean of ONNX
Runtime's time over ours on one thread, `cpu_ratio_trees` that of models of tables. Networks with
layers to quantise are then compiled in int8 for the machine, of which `int8_on_machine` have
programs there; the others are faster on the CPU beside it, with equal results. `int8_loss` counts
those with an output whose signal-to-noise ratio over 16 held-out samples is more than 1 dB below
that of ONNX Runtime's static quantiser on the same data, `int8_constant` those with an output that
lost all of its values without a warning, and `not_compared` those that ONNX Runtime cannot run or
quantise, with its reason in their rows.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from vdla.benchmarks.harness import (
    BenchmarkResult,
    Figures,
    LibraryError,
    Row,
    geomean,
    host_receipt,
    paired_times,
    require_libraries,
)
from vdla.compiler.graph.quantise import QuantiseError
from vdla.runtime.executor.model import Model
from vdla.runtime.native import set_threads
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.quantisation_report import snr_db
from vdla.runtime.network.quantise import quantise
from vdla.support.arrays import Array
from vdla.support.errors import Error
from vdla.support.progress import Progress, numbered, silent
from vdla.verification.zoo.archive import (
    ZooModel,
    archives,
    largest_error,
    onnxruntime_runs,
    onnxruntime_session,
    read,
)

_MACHINE = "pynq_z1"
_CALIBRATION = range(1, 9)  # seeds; 0 is that of the reference outputs
_HELD_OUT = range(100, 116)  # single samples of one network differ by several dB
_LOSS_DB = 1.0
_EXACT_DB = 60.0  # above it, an output has lost nothing that matters
_LIBRARIES = ("onnx", "onnxruntime")


def run(progress: Progress = silent, seed: int = 0, only: Sequence[str] = ()) -> BenchmarkResult:
    """Run every model, or those whose names begin with one of `only`."""
    require_libraries("zoo", _LIBRARIES)
    if not archives():
        raise LibraryError("bench zoo: tests/zoo must hold the models, got none (run it in the source tree)")
    models = [model for path in archives() for model in read(path) if model.entry.name.startswith(tuple(only) or "")]
    step = numbered(progress, len(models))
    set_threads(1)
    rows: list[Row] = []
    try:
        for model in models:
            step(model.entry.name)
            rows.append(row_of(model))
    finally:
        set_threads(0)
    step("done")
    return BenchmarkResult("zoo", _figures(rows), rows, host_receipt(seed, "vdla bench zoo --json -", _LIBRARIES))


def row_of(model: ZooModel) -> Row:
    """What became of one model."""
    row: Row = {"model": model.entry.name, "kind": model.entry.kind, "exporter": model.entry.exporter}
    try:
        compiled = compile_network(model.content)
        row |= {**_on_cpu(model, compiled), **_times(model, compiled)}
        if model.entry.kind == "network":
            row |= _on_machine(model)
    except Error as error:
        row["refused"] = str(error)
    except Exception as error:  # the benchmark counts them
        row["crashed"] = f"{type(error).__name__}: {error}"
    return row


def _outputs(compiled: Model, inputs: Mapping[str, Array]) -> list[Array]:
    return [np.asarray(value) for value in compiled.run(inputs).outputs.values()]


def _on_cpu(model: ZooModel, compiled: Model) -> Row:
    """The error, and the operators by device."""
    placements = [step.placement for step in compiled.artifact.plan.steps]
    on_numpy = [operator.op for placed in placements if placed.device == "numpy" for operator in placed.operators]
    return {
        "error": largest_error(_outputs(compiled, model.entry.draw()), model.outputs),
        "tolerance": model.entry.tolerance,
        "operators": sum(len(placed.operators) for placed in placements),
        "on_numpy": len(on_numpy),
        "numpy_operators": sorted(set(on_numpy)),
    }


def _times(model: ZooModel, compiled: Model) -> Row:
    """ONNX Runtime's time over ours."""
    fed = model.entry.draw()
    try:
        session = onnxruntime_session(model.content)
    except Exception as error:  # of another library: a domain that it does not know
        return {"not_compared": f"{type(error).__name__}: {error}"}
    names = {item.name for item in session.get_inputs()}
    theirs = {name: value for name, value in fed.items() if name in names}
    times = paired_times(lambda: compiled.run(fed), lambda: session.run(None, theirs), rounds=5)
    return {"ours_us": round(1e6 * times.ours, 1), "ratio": round(times.ratio, 4)}


# --- the machine ----------------------------------------------------------------------------------


def _on_machine(model: ZooModel) -> Row:
    """Ratios of signal to noise of the outputs in int8, ours on the machine and ONNX Runtime's."""
    opset = _float_opset(model.content)
    if opset is None:
        return {"not_quantised": "has quantised operators"}
    samples = [model.entry.draw(seed) for seed in _CALIBRATION]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            quantised = quantise(model.content, calibration=samples)
        except QuantiseError as error:
            return {"not_quantised": str(error)}
        compiled = compile_network(quantised.graph, _MACHINE)
    row: Row = {"programs": len(compiled.artifact.programs)}
    held_out = [model.entry.draw(seed) for seed in _HELD_OUT]
    try:
        exact = onnxruntime_runs(model.content, held_out)
        ours = _ratios([_outputs(compiled, sample) for sample in held_out], exact)
        row["int8_db"] = [round(value, 2) for value in ours]
        theirs = _ratios(onnxruntime_runs(_statically_quantised(model, samples, opset), held_out), exact)
    except Error:
        raise
    except Exception as error:  # of another library, whose quantiser writes models that it refuses
        return {**row, "not_compared": f"{type(error).__name__}: {error}"}
    losses = [min(their, _EXACT_DB) - our for our, their in zip(ours, theirs, strict=True)]
    return {
        **row,
        "onnxruntime_db": [round(value, 2) for value in theirs],
        "int8_loss": any(loss > _LOSS_DB for loss in losses),
        "int8_constant": not said and any(our <= 0 < their for our, their in zip(ours, theirs, strict=True)),
    }


def _ratios(runs: Sequence[Sequence[Array]], exact: Sequence[Sequence[Array]]) -> list[float]:
    """Decibels of each float output over all samples."""
    outputs, expected = map(_joined, (runs, exact))
    pairs = zip(outputs, expected, strict=True)
    return [snr_db({"": right}, {"": output}) for output, right in pairs if right.dtype.kind == "f"]


def _joined(runs: Sequence[Sequence[Array]]) -> list[Array]:
    """Each output of all samples as one array."""
    return [np.concatenate([np.ravel(x) for x in results]) for results in zip(*runs, strict=True)]


def _float_opset(content: bytes) -> int | None:
    """The opset of a model; None if it has quantised operators."""
    import onnx

    model = onnx.load_model_from_string(content)
    operators = [node.op_type for node in model.graph.node]
    if any(name.startswith("Q") or "Quant" in name or "Integer" in name for name in operators):
        return None
    return int(next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")))


_BY_CHANNEL = 13  # the opset from which DequantizeLinear has scales by channel


def _statically_quantised(model: ZooModel, samples: Sequence[Mapping[str, Array]], opset: int) -> bytes:
    """The model of ONNX Runtime's static quantiser: int8, weights by channel if the opset can."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

    class Samples(CalibrationDataReader):  # type: ignore[misc]  # a library without types
        def __init__(self) -> None:
            self._samples = iter(samples)

        def get_next(self) -> Mapping[str, Array] | None:
            return next(self._samples, None)

    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "float.onnx", Path(folder) / "int8.onnx"
        source.write_bytes(model.content)
        quantize_static(source, target, Samples(), quant_format=QuantFormat.QDQ, per_channel=opset >= _BY_CHANNEL)
        return target.read_bytes()


# --- figures --------------------------------------------------------------------------------------


def _figures(rows: Sequence[Row]) -> Figures:
    ran = [row for row in rows if "error" in row]
    networks = [row for row in ran if row["kind"] == "network"]
    tables = [row for row in ran if row["kind"] == "table"]
    operators = sum(row["operators"] for row in networks)
    figures: Figures = {
        "models": len(rows),
        "wrong": sum(row["error"] > row["tolerance"] for row in ran),
        "crashed": sum("crashed" in row for row in rows),
        "refused": sum("refused" in row for row in rows),
        "on_numpy": round(sum(row["on_numpy"] for row in networks) / max(operators, 1), 4),
        "int8_networks": sum("int8_db" in row for row in rows),
        "int8_on_machine": sum(row.get("programs", 0) > 0 for row in rows),
        "int8_loss": sum(row.get("int8_loss", False) for row in rows),
        "int8_constant": sum(row.get("int8_constant", False) for row in rows),
        "not_compared": sum("not_compared" in row for row in rows),
    }
    ratios = {"cpu_ratio": ran, "cpu_ratio_trees": tables}
    measured = {name: [row["ratio"] for row in chosen if "ratio" in row] for name, chosen in ratios.items()}
    return figures | {name: round(geomean(values), 4) for name, values in measured.items() if values}
