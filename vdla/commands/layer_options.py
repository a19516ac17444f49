"""The options that name layers: of the table, of a network, of a user's file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.commands import CommandError
from vdla.commands.completion import complete_with
from vdla.commands.plain_expressions import returned_by
from vdla.support.suggest import did_you_mean

if TYPE_CHECKING:
    from vdla.runtime.verdict import EvaluatedLayer

SUFFIX = ".onnx"


def add_layer_arguments(parser: argparse.ArgumentParser) -> None:
    """--layers and --model."""
    group = parser.add_mutually_exclusive_group()
    layers = group.add_argument(
        "--layers", nargs="+", metavar="LAYER", help="such as C5, D1-D9, or FILE.py:NAME (default C1-C12 D1-D9)"
    )
    complete_with(layers, _layer_names)
    model = group.add_argument("--model", metavar="NAME", help="a network of vdla networks, or MODEL.onnx")
    complete_with(model, _network_names)


def chosen_layers(command: str, arguments: argparse.Namespace) -> list[EvaluatedLayer]:
    """The layers that the options name.

    Raises:
        CommandError: an unknown network or layer, or a file that does not exist.
    """
    from vdla.runtime.verdict import DEFAULT, layers_named

    if arguments.model:
        return _of_model(command, arguments.model)
    words = arguments.layers or DEFAULT
    own = [_of_file(command, word) for word in words if ".py" in word]
    named = [word for word in words if ".py" not in word]
    return [*layers_named(named), *own]


def _of_file(command: str, where: str) -> EvaluatedLayer:
    """The layer that a function of the user's file returns, or the baseline and the layer."""
    from vdla.compiler import te
    from vdla.compiler.operators.definitions import Definition
    from vdla.runtime.verdict import layer_of

    name, given = returned_by(command, where)
    baseline, layer = given if isinstance(given, tuple) and len(given) == 2 else (None, given)
    if isinstance(baseline, Definition):
        baseline = baseline.output
    if not isinstance(layer, te.Tensor | Definition) or not isinstance(baseline, te.Tensor | None):
        rule = "the function must return a tensor, a definition, or two of them, the baseline first"
        raise CommandError(f"{where}: {rule}, got {given!r}")
    return layer_of(name, layer, baseline)


def _of_model(command: str, name: str) -> list[EvaluatedLayer]:
    from vdla.benchmarks.networks.registry import NETWORKS
    from vdla.runtime.verdict import kept_layers

    if name in NETWORKS:
        return kept_layers(_sources() + name.encode(), NETWORKS[name].build)
    if not name.lower().endswith(SUFFIX):
        hint = did_you_mean(name, NETWORKS)
        raise CommandError(f"{command}: --model must be one of {', '.join(NETWORKS)} or MODEL.onnx, got {name}{hint}")
    return kept_layers(Path(name).read_bytes(), lambda: Path(name))


def _sources() -> bytes:
    """All that the models of networks depend on."""
    from vdla.benchmarks import networks

    return b"".join(path.read_bytes() for path in sorted(Path(networks.__path__[0]).glob("*.py")))


def _layer_names() -> list[str]:
    from vdla.compiler.operators.workloads import workloads

    return list(workloads())


def _network_names() -> list[str]:
    from vdla.benchmarks.networks.registry import NETWORKS

    return list(NETWORKS)
