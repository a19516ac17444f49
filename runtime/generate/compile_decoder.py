# SPDX-License-Identifier: Apache-2.0
"""Decoders of ONNX, compiled for a cache of a given size: a plan for one token, one for a chunk.

Quantised matrix products are placed on the accelerator, whose memory is what decoding is bound by.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.compiler.graph.integer.attention import SCORE_SCALE
from vdla.hardware.config import Config
from vdla.hardware.isa import isa_of
from vdla.runtime.executor.model import Model
from vdla.runtime.generate.errors import GenerateError
from vdla.runtime.generate.generation import is_resident
from vdla.runtime.generate.interface import DecoderInterface, Shape
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.targets import target_of
from vdla.support.integers import is_int

if TYPE_CHECKING:
    import onnx

    from vdla.compiler.target import Target

CACHE, CHUNK = 256, 16
"""Places of the cache, and tokens of a prompt at a time, where nothing else is said."""
_LEAST_LENGTH = 64
"""The least places that there is a plan for; fewer would save few cycles."""
_INT4 = 22  # of TensorProto
_GROUPED = "GroupQueryAttention"
_IN_PLACE = (_GROUPED, "TensorScatter")
"""Operators that write new keys and values to places of the cache; the second is of ONNX."""
_TABLES = {
    ("", "RotaryEmbedding"): (1, 3),
    ("com.microsoft", "RotaryEmbedding"): (2, 4),
    ("com.microsoft", _GROUPED): (7, 9),
}
"""Where operators have the cosines and sines of positions."""


def compile_decoder(
    source: onnx.ModelProto | str | Path,
    target: Config | Target | str = "host",
    *,
    cache: int = CACHE,
    chunk: int | None = None,
    lengths: Sequence[int] | None = None,
    **options: Any,  # noqa: ANN401  of compile_network
) -> Model:
    """A decoder with a cache of `cache` places, for one token and for `chunk` tokens of a prompt,
    by default 16.

    Attention of integers, as `quantise_decoder(..., attention="int8")` makes it, has its cache on a
    machine with the extensions softmax and transpose: one program is a whole step there, or a whole
    chunk of the prompt. A chunk divides the lanes of an entry there, or is a multiple of them, as
    does its first place; by default it has as many tokens as lanes. Each of `lengths` is a number
    of places that there is a plan for, by default powers of two from 64 on where the cache is on a
    machine: a step uses the least that has its place.

    Raises:
        GenerateError: the model is no decoder, or a chunk or length does not fit the cache.
        Error: whatever `vdla.compile` raises.
    """
    given_options = dict(options)
    model = loaded_model(source)
    interface = interface_of(model)
    positions = positions_of(model)
    machine = target_of(target, GenerateError) if isinstance(target, str) else target
    on_device = isinstance(machine, Config) and _keeps_caches(machine, model)
    is_chosen = chunk is None
    if chunk is None:
        chunk = _chunk_on(machine, cache, lengths) if isinstance(machine, Config) and on_device else CHUNK
    if not 1 <= chunk <= cache:
        raise GenerateError(
            f"generate: chunk must be an integer from 1 to the {cache} places of the cache, got {chunk}"
        )
    if positions is not None and cache > positions:
        raise GenerateError(
            f"generate: cache must be at most the {positions} positions of {interface.name}, got {cache}"
        )
    known = _lengths(cache, chunk, lengths, on_device=on_device)
    given_shapes = input_shapes(model)
    sizes = [(places, tokens) for places in known for tokens in sorted({1, chunk})]
    if on_device:  # where tokens are all places, there is no past that a machine could keep
        sizes = [(places, tokens) for places, tokens in sizes if tokens == 1 or tokens < places]
    sets = [interface.shapes(given_shapes, places, tokens) for places, tokens in sizes]
    shapes = {name: sorted({item[name] for item in sets}) for name in sets[0]}
    if len(sets) > 1:
        shapes = {
            name: [item[name] for item in sets] if len(several) > 1 else several for name, several in shapes.items()
        }
    if isinstance(machine, Config):
        options = {"place": dict.fromkeys(_quantised_products(model), "vdla"), **options}
    if on_device:
        options = {"device_caches": True, **options}
    given = source if isinstance(source, str | Path) else model
    made = compile_network(given, machine, shapes=shapes, **options)
    if is_chosen and on_device and chunk > 1 and not any(map(is_resident, made.artifact.programs)):
        return compile_decoder(source, machine, cache=cache, chunk=1, lengths=lengths, **given_options)
    return made


def _chunk_on(machine: Config, cache: int, lengths: Sequence[int] | None) -> int:
    """The tokens of a chunk on a machine that keeps the cache: those of a group of places, where
    all lengths have one; 1 with a batch.
    """
    lanes = machine.block_out
    fits = all(is_int(places) and places >= lanes for places in (cache, *(lengths or ())))
    return lanes if fits and machine.batch == 1 else 1


def _keeps_caches(machine: Config, model: onnx.ModelProto) -> bool:
    """Whether a machine may keep the cache of a decoder: it has the instructions, and attention is
    one of integers.
    """
    attention = [node for node in model.graph.node if node.op_type == "Attention"]
    scaled = [any(entry.key == SCORE_SCALE for entry in node.metadata_props) for node in attention]
    has_steps = all(isa_of(machine).format_named(name) is not None for name in ("softmax", "transpose"))
    return has_steps and bool(scaled) and all(scaled)


def _lengths(cache: int, chunk: int, lengths: Sequence[int] | None, *, on_device: bool) -> list[int]:
    """The numbers of places that there are plans for, in order, the last one all of the cache."""
    if lengths is None:
        powers = (_LEAST_LENGTH << index for index in range(cache.bit_length()))
        lengths = [length for length in powers if length < cache] if on_device else []
    is_list = isinstance(lengths, Sequence) and not isinstance(lengths, str)
    for length in lengths if is_list else [lengths]:
        if not is_list or not is_int(length) or not chunk <= length <= cache:
            rule = f"lengths must be integers from {chunk} to the {cache} places of the cache"
            raise GenerateError(f"generate: {rule}, got {length!r}")
    return sorted({*lengths, cache})


def interface_of(model: onnx.ModelProto) -> DecoderInterface:
    """What the inputs of a decoder of ONNX are for; GenerateError if it is none."""
    held = {tensor.name for tensor in model.graph.initializer}
    inputs = [value.name for value in model.graph.input if value.name not in held]
    in_place = any(node.op_type in _IN_PLACE for node in model.graph.node)
    return DecoderInterface.of(
        model.graph.name, inputs, [value.name for value in model.graph.output], in_place=in_place
    )


def positions_of(model: onnx.ModelProto) -> int | None:
    """The positions that a decoder's tables of rotation have; None if it has no such constants."""
    rows = {tensor.name: tensor.dims[0] for tensor in model.graph.initializer if len(tensor.dims) == 2}
    tables = (
        name
        for node in model.graph.node
        for name in node.input[slice(*_TABLES.get((node.domain, node.op_type), (0, 0)))]
    )
    return min((rows[name] for name in tables if name in rows), default=None)


def is_quantised(source: onnx.ModelProto | str | Path) -> bool:
    """Whether a decoder has matrix products of integers."""
    return any(_quantised_products(loaded_model(source)))


def has_groups(source: onnx.ModelProto | str | Path) -> bool:
    """Whether a decoder has weights of four bits in groups, as `quantise_decoder` makes them."""
    model = loaded_model(source)
    kinds = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    return any(
        node.op_type == "DequantizeLinear"
        and kinds.get(node.input[0]) == _INT4
        and any(attribute.name == "block_size" and attribute.i for attribute in node.attribute)
        for node in model.graph.node
    )


def loaded_model(source: onnx.ModelProto | str | Path) -> onnx.ModelProto:
    """A model of ONNX without the weights that it has in other files."""
    import onnx

    if not isinstance(source, str | Path):
        return source
    if not Path(source).exists():
        raise GenerateError(f"generate: {source}: no such file")
    try:
        return onnx.load(source, load_external_data=False)
    except Exception as error:  # of protobuf
        raise GenerateError(f"generate: {source} must be a model of ONNX, got {error}") from None


def input_shapes(model: onnx.ModelProto) -> Mapping[str, Shape]:
    """The shapes of all inputs, with the names of symbols."""
    dims = {value.name: value.type.tensor_type.shape.dim for value in model.graph.input}
    return {
        name: tuple(dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in extents)
        for name, extents in dims.items()
    }


def _quantised_products(model: onnx.ModelProto) -> Iterator[str]:
    """The names of matrix products of dequantised values with dequantised weights; of those without
    one, their results as the compiler knows them.
    """
    held = {tensor.name for tensor in model.graph.initializer}
    dequantised = {node.output[0]: node.input[0] for node in model.graph.node if node.op_type == "DequantizeLinear"}
    quantised = {node.input[0]: node.output[0] for node in model.graph.node if node.op_type == "QuantizeLinear"}
    for node in model.graph.node:
        is_product = node.op_type in ("MatMul", "Gemm") and set(node.input[:2]) <= dequantised.keys()
        if is_product and dequantised[node.input[1]] in held:
            yield node.name or quantised.get(node.output[0], node.output[0])
