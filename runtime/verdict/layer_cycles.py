"""The cycles of a layer on a machine that may have extensions: those of its fastest program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from vdla.compiler.extensions import Extension, extension_of
from vdla.compiler.te import Stage
from vdla.hardware.config import Config
from vdla.runtime.verdict.errors import EvaluateError
from vdla.runtime.verdict.kept import kept_or_measured
from vdla.runtime.verdict.layers import EvaluatedLayer, OperandTypes
from vdla.runtime.verdict.measure import MeasureJob
from vdla.runtime.verdict.written_program import written_programs


def layer_cycles(layer: EvaluatedLayer, config: Config, sources: Sequence[str] = ()) -> int:
    """Cycles of a layer: of its plain program, or of one that uses an extension of the machine.

    Programs are compared with what the host lays out, which is no part of the result.

    Raises:
        EvaluateError: the machine cannot run the layer.
    """
    outcomes = [kept_or_measured(job) for job in _jobs(layer, config, tuple(sources))]
    costs = [outcome.cost for outcome in outcomes if outcome.cost is not None]
    if not costs:
        raise EvaluateError(f"evaluate: the machine must run layer {layer.name}, got none; {outcomes[0].reason}")
    return min(costs, key=lambda cost: cost.total).cycles


def _jobs(layer: EvaluatedLayer, config: Config, sources: tuple[str, ...]) -> Iterator[MeasureJob]:
    types = types_of(config)
    yield MeasureJob(name=layer.name, output=layer.plain_expression(types), config=config.plain, sources=())
    make = partial(MeasureJob, name=layer.name, config=config, sources=sources)
    for plug_in in config.extensions:
        declared = [extension_of(config, plug_in)]
        definition = layer.definition(read_types(declared, types))
        written = written_programs(declared, definition, config)
        if plug_in.states and not written:
            continue  # an instruction for the programs of another one
        yield make(output=definition.output, names=(plug_in.name,), written=written)
    if config.stage is not None:
        yield make(output=layer.expression(types), names=(config.stage.name,))


def types_of(config: Config) -> OperandTypes:
    """The types of the operands of a plain machine."""
    return OperandTypes(config.inp_dtype, config.wgt_dtype)


def read_types(declared: Sequence[Extension], plain: OperandTypes) -> OperandTypes:
    """The types of activations and weights that instructions read, those of the machine if none."""
    found = {"inp": plain.inp, "wgt": plain.wgt}
    for extension in declared:
        for tensor in (read for stage in stages_of(extension) for read in stage.reads):
            scope = extension.scopes.get(tensor.name)
            if isinstance(scope, str) and scope in found:
                found[scope] = tensor.dtype
    return OperandTypes(**found)


def stages_of(extension: Extension) -> list[Stage]:
    """What a step computes: its output and the new values of states."""
    outputs = [*([] if extension.output is None else [extension.output]), *extension.updates.values()]
    return [output.stage for output in outputs if isinstance(output.stage, Stage)]
