# SPDX-License-Identifier: Apache-2.0
"""The options that name layers: of the table, of a network, of a user's file."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.commands import CommandError
from vdla.commands.files import calibration_data
from vdla.commands.model_shapes import shapes_of
from vdla.commands.options import add_options, refuse
from vdla.support.file_kind import MODEL_SUFFIXES
from vdla.support.suggest import one_of
from vdla.support.user_file import UserFileError

if TYPE_CHECKING:
    from onnx import ModelProto

    from vdla.runtime.studies.accuracy import AccuracyJob
    from vdla.runtime.studies.layers import EvaluatedLayer


def add_layer_arguments(parser: argparse.ArgumentParser) -> None:
    """--layers and --model."""
    options = {
        "--layers LAYER...": "such as C5, D1-D9, or FILE.py:NAME (default C1-C12 D1-D9)",
        "--model NAME": "a network of vdla networks, MODEL.onnx, MODEL.tflite or MODEL.pt2",
    }
    add_options(parser.add_mutually_exclusive_group(), options, default=None)
    add_options(parser, {"--shape NAME=NxN...": "shapes of inputs of MODEL.onnx: x=1x3x48x192"}, action="extend")


def chosen_layers(command: str, arguments: argparse.Namespace) -> list[EvaluatedLayer]:
    """The layers that the options name.

    Raises:
        CommandError: an unknown network or layer, or a file that does not exist.
    """
    from vdla.runtime.studies.layers import DEFAULT, given_layers, layers_named

    if arguments.model:
        return _of_model(command, arguments.model, arguments.shape)
    refuse(command, arguments, ("shape",), "without --model")
    words = arguments.layers or DEFAULT
    files = [word for word in words if ".py" in word]
    named = [word for word in words if ".py" not in word]
    try:
        layers = given_layers(files)
    except UserFileError as error:
        raise CommandError(str(error).replace("evaluate:", f"{command}:", 1)) from error
    return [*layers_named(named), *layers]


def _of_model(command: str, name: str, shapes: Sequence[str]) -> list[EvaluatedLayer]:
    from vdla.runtime.studies.network import kept_layers

    return kept_layers(*model_named(command, name, shapes))


def model_named(command: str, name: str, shapes: Sequence[str]) -> tuple[bytes, Callable[[], Any]]:
    """What tells a model apart, and a function that gives it, for inputs of these shapes."""
    from vdla.networks.registry import NETWORKS

    if name in NETWORKS:
        if shapes:
            raise CommandError(f"{command}: --shape must be left out for the network {name}, got {shapes[0]}")
        return _sources() + name.encode(), NETWORKS[name].build
    if not name.lower().endswith(MODEL_SUFFIXES):
        raise CommandError(f"{command}: --model must be {one_of(name, NETWORKS, ' or MODEL.onnx')}")
    content = Path(name).read_bytes()
    given = shapes_of(command, shapes)
    return content + " ".join(shapes).encode(), lambda: Path(name) if given is None else _in_shapes(Path(name), given)


def _in_shapes(path: Path, shapes: dict[str, list[tuple[int, ...]]]) -> ModelProto:
    """A model for inputs of these shapes."""
    from vdla.compiler.graph.onnx.export import export_model
    from vdla.runtime.network.import_network import import_network
    from vdla.runtime.network.targets import common, shape_sets

    return export_model(import_network(path, common(shape_sets(None, shapes))))


def accuracy_job(
    command: str, name: str, samples: int, data: Sequence[Path], seed: int, shapes: Sequence[str]
) -> AccuracyJob:
    """What the accuracy of a model is measured on: the content of files, or as many random samples
    of a network of `vdla networks`.
    """
    from vdla.networks.registry import NETWORKS
    from vdla.runtime.studies.accuracy import AccuracyJob

    content, model = model_named(command, name, shapes)
    if data:
        arrays = [calibration_data(path) for path in data]
        return AccuracyJob(content + b"".join(path.read_bytes() for path in data), model, lambda made: arrays)
    if name not in NETWORKS:
        raise CommandError(f"{command}: --accuracy must have --calibration FILE for a model of yours, got none")
    content_key = content + f"{samples} {seed}".encode()
    return AccuracyJob(
        content_key, model, lambda made: [NETWORKS[name].inputs(made, 1, seed + k) for k in range(samples)]
    )


def _sources() -> bytes:
    """All that the models of networks depend on."""
    from vdla import networks

    return b"".join(path.read_bytes() for path in sorted(Path(networks.__path__[0]).glob("*.py")))
