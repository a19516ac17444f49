# SPDX-License-Identifier: Apache-2.0
"""`vdla generate`: text from a decoder, as it comes, and how fast it came."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.commands import OK, CommandError
from vdla.commands.console import listing, output, progress
from vdla.commands.device_options import add_device_arguments, device_options
from vdla.commands.files import require_folder, write_json
from vdla.commands.options import add_options, given
from vdla.support.atomic import write_text
from vdla.support.text_table import text_table

if TYPE_CHECKING:
    from vdla.hardware.config import Config
    from vdla.runtime.executor.artifact import Artifact
    from vdla.runtime.executor.model import Model
    from vdla.runtime.executor.token_rates import TokenRates
    from vdla.runtime.generate.generation import Generation
    from vdla.runtime.generate.tokens import Tokens

EXAMPLES = """\
  vdla generate docstrings --prompt "Return the"   the trained one, on the CPU
  vdla generate docstrings --prompt "Return the" --target pynq_z1
                                             in int8, on the simulator
  vdla generate docstrings --prompt "Return" --target pynq_z1_lm --weights int4
  vdla generate docstrings --prompt "Return" --temperature 0.8 --seed 3
  vdla generate model.onnx --tokens tokenizer.json --prompt "Once upon a time"
  vdla generate model.onnx --tokens tokenizer.json --prompt "Once" \\
      --target kv260 --calibration text.txt  a float model, quantised first
"""
_COLUMNS = ("figure", "value")
_COMPILED = ".vdla"
_TYPES = ("weights", "sums", "attention")
_FOR_COMPILING = (*_TYPES, "calibration", "output")
_PLUG_INS = {
    "weights of int4": ("int4_group",),
    "sums": ("norm", "rotary", "lut"),
    "attention": ("softmax", "transpose"),
}
"""The instructions of machines by what needs them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The decoder, the prompt, the choice of tokens, the machine."""
    add_options(
        parser,
        {
            "model NAME": "a decoder of vdla networks, MODEL.onnx, or MODEL.vdla as --output writes it",
            "--prompt TEXT": "what the text begins with",
            "--tokens FILE": "the tokenizer, tokenizer.json (default: that of docstrings)",
            "--length N = 64": "at most N new tokens (default 64)",
            "--temperature T = 0": "0 takes the likeliest token (default); higher draws less likely ones",
            "--top-k N": "draw among the N likeliest tokens",
            "--seed SEED = 0": "seed of the draws, and of weights (default 0)",
            "--cache N = 256": "places for tokens, prompt included (default 256)",
            "--chunk N": "tokens of the prompt at a time (default 16, or the lanes of a machine that has the cache)",
            "--cache-type TYPE = float32": "keys and values in float32 (default) or int8",
            "--target TARGET = host": "the CPU, host (default), or a machine, such as pynq_z1",
            "--weights TYPE": "quantise to weights of int8 (default on machines) or int4, in groups of 32",
            "--sums TYPE": "sums between layers, norms and rotations: float (default) or int8",
            "--attention TYPE": "attention: float (default), or int8 with its cache on the machine",
            "--calibration FILE": "text with which a float model is quantised",
        },
    )
    add_device_arguments(parser)
    add_options(parser, {"-o --output FILE": "write the compiled decoder with its tokenizer; no --prompt is needed"})
    add_options(parser, {"--picture FILE": "draw the accelerator's programs of the last token as SVG"})
    add_options(parser, {"--json": "write JSON to FILE, or to standard output in place of text"})


def run(arguments: argparse.Namespace) -> int:
    """Print the text as it comes, then what a token took."""
    from vdla.runtime.generate.generation import generate

    if arguments.prompt is None and arguments.output is None:
        raise CommandError("generate: --prompt must be given, got none")
    if arguments.prompt is None and arguments.picture is not None:
        raise CommandError(f"generate: --picture must have --prompt, whose token it draws, got {arguments.picture}")
    if arguments.picture is not None:
        require_folder("generate", "--picture", arguments.picture)
    arguments.temperature = _temperature(arguments.temperature)
    with _opened(arguments) if arguments.model.endswith(_COMPILED) else _compiled(arguments) as model:
        if arguments.prompt is None:
            return OK
        if arguments.picture is not None and model.artifact.config is None:
            raise CommandError("generate: --picture must be of a machine's programs, got the CPU")
        generation = generate(
            model,
            arguments.prompt,
            length=arguments.length,
            temperature=arguments.temperature,
            top_k=arguments.top_k,
            seed=arguments.seed,
            cache_type=arguments.cache_type,
        )
        if arguments.json:
            text = "".join(generation)
            write_json(arguments.json, {"text": text, **_document(generation)})
        else:
            _show(arguments.prompt, generation)
        if arguments.picture is not None:
            _draw(arguments.picture, model, generation)
    return OK


def _opened(arguments: argparse.Namespace) -> Model:
    """A compiled decoder."""
    from vdla.runtime.executor.artifact import Artifact
    from vdla.runtime.generate.tokens import Tokens

    for option, value in given(arguments, _FOR_COMPILING):
        rule = f"generate: {option} must be left out for {arguments.model}, which is compiled"
        raise CommandError(f"{rule}, got {value}")
    artifact = Artifact.load(arguments.model)
    if arguments.tokens is not None:
        artifact = replace(artifact, tokens=Tokens(arguments.tokens).content)
    if artifact.config is None and arguments.device != "sim":
        raise CommandError(f"generate: --device must be left out for {arguments.model}, got {arguments.device}")
    return _on_device(arguments, artifact)


def _compiled(arguments: argparse.Namespace) -> Model:
    """A decoder, compiled, and written where a file is asked for."""
    if arguments.output is not None:
        require_folder("generate", "--output", arguments.output)
    source, tokens = _source(arguments), _tokens(arguments)
    model = _model(arguments, source, tokens)
    if arguments.output is not None:
        model.artifact.save(arguments.output)
        print(f"{arguments.output}: {model.name} with its tokenizer")
    return model


def _on_device(arguments: argparse.Namespace, artifact: Artifact) -> Model:
    from vdla.runtime.devices import open_device
    from vdla.runtime.executor.model import Model

    options = device_options("generate", arguments)
    if artifact.config is None:
        return Model(artifact)
    return Model(artifact, open_device(arguments.device, artifact.config, **options) if options else arguments.device)


def _temperature(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise CommandError(f"generate: --temperature must be a number from 0, got {text}") from None


def _tokens(arguments: argparse.Namespace) -> Tokens:
    from vdla.networks.decoder import TRAINED, tokens_path
    from vdla.runtime.generate.tokens import Tokens

    if arguments.tokens is not None:
        return Tokens(arguments.tokens)
    if arguments.model != TRAINED:
        raise CommandError(f"generate: --tokens must name the tokenizer's file of {arguments.model}, got none")
    with tokens_path() as path:
        return Tokens(path)


def _model(arguments: argparse.Namespace, source: Any, tokens: Tokens) -> Model:  # noqa: ANN401
    """The decoder, compiled; a float one is quantised for a machine."""
    from vdla.hardware.config import Config
    from vdla.runtime.executor.errors import ModelError
    from vdla.runtime.generate.compile_decoder import compile_decoder, has_groups, is_quantised
    from vdla.runtime.network.targets import target_of

    machine = target_of(arguments.target, ModelError)
    on_machine = isinstance(machine, Config)
    if not on_machine and arguments.device != "sim":
        raise CommandError(f"generate: --device must be left out for {arguments.target}, got {arguments.device}")
    with progress(f"compile {arguments.model}") as show:
        quantised = is_quantised(source)
        types = dict(given(arguments, _TYPES))
        for option, value in types.items() if quantised else ():
            rule = f"generate: {option} must be left out for {arguments.model}, whose weights are quantised"
            raise CommandError(f"{rule}, got {value}")
        if not quantised and (on_machine or types):
            show("quantising", 0, 2)
            source = _quantised(arguments, source, tokens)
        show("compiling", 1, 2)
        if isinstance(machine, Config):
            needs = {"weights of int4": has_groups(source), "sums": arguments.sums == "int8"}
            needs["attention"] = arguments.attention == "int8"
            machine = _with_plug_ins(machine, [what for what, is_needed in needs.items() if is_needed])
        model = compile_decoder(source, machine, cache=arguments.cache, chunk=arguments.chunk)
    return _on_device(arguments, replace(model.artifact, tokens=tokens.content))


def _with_plug_ins(machine: Config, needs: Sequence[str]) -> Config:
    """The machine with the instructions of what is needed."""
    from vdla.compiler.extensions import ExtensionError, extend

    name = machine.name
    for what in needs:
        try:
            machine = extend(machine, *_PLUG_INS[what])
        except ExtensionError as error:
            reason = str(error).rpartition("Error: ")[2].rpartition(": ")[2]
            kind = what if "int4" in what else f"{what} of int8"
            raise CommandError(f"generate: target must be a machine for {kind}, got {name} ({reason})") from None
    return machine


def _source(arguments: argparse.Namespace) -> Any:  # noqa: ANN401  a path, or a model of ONNX
    from vdla.networks.registry import DECODERS
    from vdla.support.suggest import one_of

    if arguments.model in DECODERS:
        return DECODERS[arguments.model].build(seed=arguments.seed)
    if not arguments.model.endswith(".onnx"):
        raise CommandError(
            f"generate: model must be {one_of(arguments.model, DECODERS, ' or MODEL.onnx or MODEL.vdla')}"
        )
    return Path(arguments.model)


def _quantised(arguments: argparse.Namespace, source: Any, tokens: Tokens) -> Any:  # noqa: ANN401
    from vdla.compiler.graph.onnx.export import export_model
    from vdla.networks.decoder import TRAINED, calibration_text
    from vdla.runtime.generate.quantise_decoder import quantise_decoder

    if arguments.calibration is not None:
        text = arguments.calibration.read_text("utf-8")
    elif arguments.model == TRAINED:
        text = calibration_text()
    else:
        rule = f"generate: --calibration must name a text for a float model on {arguments.target}"
        raise CommandError(f"{rule}, got none")
    weights = arguments.weights or "int8"
    sums, attention = arguments.sums or "float", arguments.attention or "float"
    made = quantise_decoder(source, tokens.encode(text), weights=weights, sums=sums, attention=attention)
    return export_model(made.graph)


def _show(prompt: str, generation: Generation) -> None:
    print(prompt, end="", flush=True)
    for piece in generation:
        print(piece, end="", flush=True)
    print()
    rates = generation.rates
    print(
        f"{rates.steps} tokens in {rates.step_seconds:.2f} s, a prompt of {rates.prompt_tokens} in "
        f"{rates.prompt_seconds:.2f} s, on this machine",
        file=sys.stderr,
    )
    rows = _rows(rates)
    if rows:
        print()
        output().print(listing(text_table("the accelerator's part of a token", _COLUMNS, rows)))


def _draw(path: Path, model: Model, generation: Generation) -> None:
    """The picture of the last token, of an accelerator."""
    from vdla.commands.step_picture import step_picture

    result = generation.last_step
    if result is None:
        raise CommandError("generate: --picture must be of a token behind the first, got a text of one token")
    write_text(path, step_picture(model.name, model.artifact, result))


def _rows(rates: TokenRates) -> list[tuple[str, str]]:
    """Figures of the prompt, and of the tokens behind the first new one, where there are any."""
    rows = []
    if rates.prompt_cycles_a_token:
        rows += [
            ("cycles, in the prompt", f"{rates.prompt_cycles_a_token:,.0f}"),
            ("tokens of the prompt a second", f"{rates.accelerator_prompt_tokens_a_second:.1f}"),
        ]
    if rates.cycles_a_token:
        rows += [
            ("cycles", f"{rates.cycles_a_token:,.0f}"),
            ("tokens a second at its clock", f"{rates.accelerator_tokens_a_second:.1f}"),
            ("bytes of weights", f"{rates.weight_bytes:,}"),
            ("share of what its port can move", f"{rates.bound_share:.3f}"),
        ]
    return rows


def _document(generation: Generation) -> dict[str, Any]:
    rates = generation.rates
    return {
        "prompt_tokens": rates.prompt_tokens,
        "prompt_seconds": rates.prompt_seconds,
        "tokens": generation.new,
        "step_seconds": rates.step_seconds,
        "tokens_a_second": rates.tokens_a_second,
        "prompt_cycles_a_token": rates.prompt_cycles_a_token,
        "accelerator_prompt_tokens_a_second": rates.accelerator_prompt_tokens_a_second,
        "cycles_a_token": rates.cycles_a_token,
        "accelerator_tokens_a_second": rates.accelerator_tokens_a_second,
        "weight_bytes": rates.weight_bytes,
        "bound_share": rates.bound_share,
    }
