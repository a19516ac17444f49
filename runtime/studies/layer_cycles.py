# SPDX-License-Identifier: Apache-2.0
"""The cycles of a layer on a machine that may have extensions: those of its fastest program.

Outcomes are kept: a file for each, named by a hash of all that it depends on, which is the job and
every source file of the toolkit that may change the result.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from vdla.compiler.extensions import Extension, extension_of
from vdla.compiler.layer_programs import written_programs
from vdla.compiler.te import Stage
from vdla.hardware.config import Config
from vdla.runtime.studies.layers import EvaluatedLayer, EvaluateError, OperandTypes
from vdla.runtime.studies.measure import LayerCost, LayerOutcome, MeasureJob, measured
from vdla.support.atomic import write_text
from vdla.support.cache import user_cache
from vdla.support.toolkit_digest import toolkit_digest


def kept(job: MeasureJob) -> LayerOutcome | None:
    """The outcome of an earlier run; None if its file is missing or damaged."""
    try:
        return LayerOutcome.from_dict(json.loads(_path(job).read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep(job: MeasureJob, outcome: LayerOutcome) -> None:
    """Keep an outcome; CacheError or OSError where the cache cannot be written."""
    path = _path(job)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(outcome.to_dict()))


def kept_or_measured(job: MeasureJob) -> LayerOutcome:
    """The outcome of a job, measured in this process and kept if it is new."""
    result = kept(job)
    if result is None:
        result = measured(job)
        keep(job, result)
    return result


def _path(job: MeasureJob) -> Path:
    text = json.dumps([toolkit_digest(), *job.content], sort_keys=True)
    return user_cache("evaluate") / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"


def layer_cycles(layer: EvaluatedLayer, config: Config, sources: Sequence[str] = ()) -> int:
    """Cycles of a layer: of its plain program, or of one that uses an extension of the machine.

    Programs are compared with what the host lays out, which is not part of the result.

    Raises:
        EvaluateError: the machine cannot run the layer.
    """
    outcomes = [kept_or_measured(job) for job in _jobs(layer, config, tuple(sources))]
    cost = _least(outcomes)
    if cost is None:
        raise EvaluateError(f"evaluate: the machine must run layer {layer.name}, got none; {outcomes[0].reason}")
    return cost.cycles


def kept_cost(layer: EvaluatedLayer, config: Config, sources: Sequence[str] = ()) -> LayerCost | None:
    """The same of earlier runs; None where one of them is missing."""
    outcomes = [kept(job) for job in _jobs(layer, config, tuple(sources))]
    known = [outcome for outcome in outcomes if outcome is not None]
    return _least(known) if len(known) == len(outcomes) else None


def _least(outcomes: Sequence[LayerOutcome]) -> LayerCost | None:
    costs = [outcome.cost for outcome in outcomes if outcome.cost is not None]
    return min(costs, key=lambda cost: cost.total, default=None)


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
    types = {"inp": plain.inp, "wgt": plain.wgt}
    for extension in declared:
        for tensor in (read for stage in stages_of(extension) for read in stage.reads):
            scope = extension.scopes.get(tensor.name)
            if isinstance(scope, str) and scope in types:
                types[scope] = tensor.dtype
    return OperandTypes(**types)


def stages_of(extension: Extension) -> list[Stage]:
    """What a step computes: its output and the new values of states."""
    outputs = [*([] if extension.output is None else [extension.output]), *extension.updates.values()]
    return [output.stage for output in outputs if isinstance(output.stage, Stage)]
