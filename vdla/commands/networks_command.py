# SPDX-License-Identifier: Apache-2.0
"""`vdla networks`: lists the networks of the benchmarks, or writes one as an ONNX model."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path

from vdla.commands import OK, CommandError
from vdla.commands.console import output, table
from vdla.commands.files import require_folder
from vdla.commands.options import add_options
from vdla.support.atomic import write_bytes

EXAMPLES = """\
  vdla networks                                  a table with sizes
  vdla networks resnet18                         writes resnet18.onnx
  vdla networks vit_small --batch N -o vit.onnx  with a symbolic batch
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The network, its file, its parameters."""
    names = "vdla.networks.registry:KNOWN"
    add_options(parser, {"name NAME": "the network (default: a table of all)"}, names, nargs="?")
    add_options(
        parser,
        {
            "-o --output FILE": "file of the model (default NAME.onnx)",
            "--batch BATCH = 1": "size of a batch, or a name for a symbolic one (default 1)",
            "--small": "the variant with few channels and small images",
            "--seed SEED = 0": "seed of the weights (default 0)",
        },
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the table, or write a model."""
    from vdla.networks.counts import parameters
    from vdla.networks.decoder import TRAINED, tokens_path
    from vdla.networks.llama_shape import SHAPES
    from vdla.networks.registry import network

    if find_spec("onnx") is None:
        raise CommandError("networks: onnx must be installed, got none (pip install onnx)")
    if arguments.name is None:
        return _list(arguments)
    chosen = network(arguments.name)
    path = arguments.output or Path(f"{arguments.name}.onnx")
    require_folder("networks", "--output", path)
    sizes = chosen.small if arguments.small else {}
    model = chosen.build(batch=_batch(arguments.batch), seed=arguments.seed, **sizes)
    write_bytes(path, model.SerializeToString(deterministic=True))
    shape = SHAPES.get(arguments.name)
    count = parameters(model) if shape is None else shape.parameters  # a model has its embedding twice
    print(f"{path}: {_summary(chosen.title, count, arguments.small)}")
    if arguments.name == TRAINED:
        beside = path.with_name(f"{path.stem}_tokens.json")
        with tokens_path() as tokens:
            write_bytes(beside, tokens.read_bytes())
        print(f"{beside}: its tokens")
    return OK


def _batch(text: str) -> int | str:
    """A positive number, or a name."""
    if text.isidentifier():
        return text
    if not text.isdecimal() or int(text) == 0:
        raise CommandError(f"networks: --batch must be a positive number or a name, got {text}")
    return int(text)


def _summary(title: str, count: int, small: bool) -> str:
    what = f"small variant of {title.split(',')[0]}" if small else title
    return f"{what}, {count:,} parameters"


def _list(arguments: argparse.Namespace) -> int:
    from vdla.networks.counts import macs, parameters
    from vdla.networks.llama_shape import SHAPES
    from vdla.networks.registry import DECODERS, GALLERY, NETWORKS

    listing = table("networks", "name", "network", "parameters", "MACs")
    listing.columns[1].justify = "left"
    listing.columns[1].no_wrap = False
    for name, network in {**NETWORKS, **GALLERY}.items():
        model = network.build(seed=arguments.seed, **(network.small if arguments.small else {}))
        listing.add_row(name, network.title, f"{parameters(model):,}", f"{macs(model):,}")
    output().print(listing)
    output().print()
    decoders = table("decoders", "name", "network", "parameters", "MACs a token")
    decoders.columns[1].justify = "left"
    for name, shape in SHAPES.items():
        decoders.add_row(name, DECODERS[name].title, f"{shape.parameters:,}", f"{shape.macs:,}")
    output().print(decoders)
    return OK
