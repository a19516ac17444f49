# SPDX-License-Identifier: Apache-2.0
"""Attention over a cache that stays on the device, against its integers in NumPy."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from helpers.resident_programs import APPEND, append

import vdla
from vdla.compiler import te
from vdla.compiler.codegen.vdla import LoweringError
from vdla.compiler.extensions import LayerError
from vdla.compiler.interpret import interpret
from vdla.compiler.layer_programs import CachedAttention
from vdla.compiler.operators.definitions.row_softmax import SHARE_BITS, row_shares
from vdla.compiler.operators.vdla import Chain, ChainStep, WrittenOperator
from vdla.compiler.templates import dense
from vdla.hardware.numerics import pack_scale, requantise, scales_from_floats
from vdla.runtime.devices import open_device
from vdla.runtime.devices.residents import Residents
from vdla.runtime.devices.run import run
from vdla.simulator.simulate import simulate
from vdla.simulator.verify import verify
from vdla.verification.adversary import Harm, attack

DECODER = {"heads": 6, "kv_heads": 2, "size": 32, "places": 64, "score": 4e-4, "factor": 9000, "result": 4e-3}
FOUR = replace(vdla.Config.preset("kv260_lm"), name="four", batch=4, axi_bits=512, axi_ports=4)
SIZES = {
    "a decoder": ("pynq_z1_lm", {}),
    "heads of their own": ("pynq_z1", {"heads": 4, "kv_heads": 4, "size": 64, "places": 48}),
    "one head of keys": ("kv260", {"heads": 5, "kv_heads": 1, "size": 64}),
    "bounds of results": ("pynq_z1", {"places": 32, "zero_point": 5, "low": -60, "high": 70}),
    "a batch of two": ("kv260_lm", {}),
    "a batch of four": (FOUR, {"heads": 4, "kv_heads": 1, "size": 16, "places": 32, "result": 2e-3}),
    "entries of four": ("tiny", {"heads": 3, "kv_heads": 3, "size": 4, "places": 12, "score": 2e-3}),
    "masks twice": ("pynq_z1", {"places": 32, "score": 3e-4, "masks": 2}),
}


@cache
def machine(preset):
    plain = vdla.Config.preset(preset) if isinstance(preset, str) else preset
    return vdla.extend(plain, "softmax", "transpose")


def attention(preset="pynq_z1_lm", **fields):
    return CachedAttention(config=machine(preset), **{**DECODER, **fields})


class Model:
    """The integers, with a cache of its own."""

    def __init__(self, of: CachedAttention) -> None:
        self.keys, self.values = np.zeros((2, of.kv_heads, of.places, of.size), int)
        self.present = np.zeros(of.places, np.bool_)

    def step(self, of, place, query, key, value):
        """The results of attention over the first places of the cache, behind a new token."""
        self.keys[:, place], self.values[:, place], self.present[place] = key, value, True
        shared = [np.repeat(x[:, : of.places], of.heads // of.kv_heads, axis=0) for x in (self.keys, self.values)]
        lack = -128 * 127 * of.config.block_out * of.masks
        sums = np.where(self.present[: of.places], np.einsum("hd,hpd->hp", query.astype(int), shared[0]), lack)
        shares = scaled(softmax(scaled(sums, of.score), of.factor), 254 / (1 << SHARE_BITS), -127, -127)
        results = np.einsum("hp,hpd->hd", shares.astype(int) + 127, shared[1])
        return np.minimum(scaled(results, of.result, of.zero_point, of.low), of.high)


def token(of, rng):
    """A query, a key and a value."""
    shapes = {"query": of.heads, "key": of.kv_heads, "value": of.kv_heads}
    return {name: rng.integers(-127, 128, (heads, of.size), np.int8) for name, heads in shapes.items()}


def scaled(sums, factor, zero_point=0, low=-128):
    lanes = np.broadcast_to(pack_scale(0, *scales_from_floats(factor)), sums.shape[-1:])
    return requantise(sums, lanes, zero_point, low, 127)


def softmax(scores, factor):
    data = te.placeholder(scores.shape, "int8", "data")
    return interpret(te.create_function([data], [row_shares(data, factor)], "softmax"), {"data": scores})["shares"]


def differences(of, device, places, seed=0):
    """The elements of results that differ over tokens at places, and the cycles of each."""
    layer, model, rng = of.program(), Model(of), np.random.default_rng(seed)
    wrong, cycles = 0, []
    with Residents(device, [layer.program]) as kept:
        for place in places:
            given = token(of, rng)
            result = run(layer.program, layer.pack(given), device, residents=kept, offsets=of.offsets(place))
            expected = model.step(of, place, **given)
            assert expected.any()
            wrong += int((layer.unpack(result.outputs) != expected).sum())
            cycles.append(result.statistics.total_cycles)
    return wrong, cycles


@pytest.mark.sampled
@pytest.mark.parametrize("name", SIZES)
def test_results_are_the_integers_of_all_places_so_far(name):
    preset, fields = SIZES[name]
    of = attention(preset, **fields)
    with open_device("sim", of.config) as device:
        wrong, _ = differences(of, device, [0, 1, 2, of.places - 1, 5, 1, of.config.block_out])
    assert wrong == 0


# --- chunks

CHUNKS = {
    "a group of places": ("pynq_z1_lm", {"tokens": 16}),
    "a part of a group": ("pynq_z1_lm", {"tokens": 4}),
    "two groups": ("pynq_z1_lm", {"tokens": 32}),
    "heads of their own": ("pynq_z1", {"heads": 4, "kv_heads": 4, "size": 64, "places": 48, "tokens": 8}),
    "one head of keys": ("kv260", {"heads": 5, "kv_heads": 1, "size": 64, "tokens": 16}),
    "bounds of results": ("pynq_z1", {"places": 32, "zero_point": 5, "low": -60, "high": 70, "tokens": 2}),
    "masks twice": ("pynq_z1", {"places": 32, "score": 3e-4, "masks": 2, "tokens": 8}),
    "strips of a token": ("pynq_z1", {"heads": 34, "kv_heads": 2, "size": 16, "tokens": 2}),
    "entries of four": ("tiny", {"heads": 3, "kv_heads": 3, "size": 4, "places": 12, "score": 2e-3, "tokens": 4}),
    "half an entry of four": ("tiny", {"heads": 3, "kv_heads": 1, "size": 4, "places": 8, "score": 2e-3, "tokens": 2}),
}


def chunk(name, **fields):
    preset, sizes = CHUNKS[name]
    return attention(preset, **{"score": 6e-4, **sizes, **fields})


def chunk_differences(of, device, runs, seed=0):
    """The elements of results that differ over runs at places, of all tokens or one, and cycles."""
    one, model, rng = replace(of, tokens=1), Model(of), np.random.default_rng(seed)
    layers = {of.tokens: of.program(), 1: one.program()}
    wrong, cycles = 0, []
    with Residents(device, [layer.program for layer in layers.values()]) as kept:
        for place, count in runs:
            tokens, layer = [token(of, rng) for _ in range(count)], layers[count]
            given = {name: np.stack([item[name] for item in tokens]) for name in tokens[0]}
            inputs = layer.pack(given if count > 1 else tokens[0])
            offsets = (of if count > 1 else one).offsets(place)
            result = run(layer.program, inputs, device, residents=kept, offsets=offsets)
            expected = np.stack([model.step(of, place + i, **item) for i, item in enumerate(tokens)])
            assert expected.any()
            wrong += int((layer.unpack(result.outputs).reshape(expected.shape) != expected).sum())
            cycles.append(result.statistics.total_cycles)
    return wrong, cycles


@pytest.mark.parametrize("name", CHUNKS)
def test_a_chunk_has_the_integers_of_its_tokens_one_by_one(name):
    of = chunk(name)
    last = (of.places - of.tokens) // of.alignment * of.alignment
    runs = [(0, of.tokens), (of.tokens, 1), (max(last, of.tokens), of.tokens)]
    with open_device("sim", of.config) as device:
        assert chunk_differences(of, device, runs)[0] == 0


@pytest.mark.parametrize("name", ["a group of places", "a part of a group", "entries of four"])
def test_a_chunk_leaves_the_cache_that_its_tokens_leave(name):
    of = chunk(name)
    rng = np.random.default_rng(7)
    tokens = [token(of, rng) for _ in range(of.tokens)]
    one, caches = replace(of, tokens=1), []
    layers = {count: item.program() for count, item in ((of.tokens, of), (1, one))}
    for count, layer in layers.items():
        with open_device("sim", of.config) as device, Residents(device, [layer.program]) as kept:
            for place in range(0, of.tokens, count):
                part = tokens[place : place + count]
                given = {name: np.stack([item[name] for item in part]) for name in part[0]}
                inputs = layer.pack(given if count > 1 else part[0])
                offsets = (of if count > 1 else one).offsets(place)
                run(layer.program, inputs, device, residents=kept, offsets=offsets)
            caches.append({name: kept.read(name) for name in ("keys", "rows", "values")})
    for name, kept_array in caches[0].items():
        np.testing.assert_array_equal(kept_array, caches[1][name])


def test_a_token_does_not_attend_those_behind_it_where_all_its_scores_are_low():
    of = chunk("a group of places")
    shapes = {"query": of.heads, "key": of.kv_heads, "value": of.kv_heads}
    given = {name: np.full((of.tokens, heads, of.size), 127, np.int8) for name, heads in shapes.items()}
    given["key"][:] = -127  # the least score, as of places that are not attended
    given["value"][0] = 0
    layer, model = of.program(), Model(of)
    with open_device("sim", of.config) as device, Residents(device, [layer.program]) as kept:
        made = run(layer.program, layer.pack(given), device, residents=kept, offsets=of.offsets(0))
    expected = [model.step(of, i, **{name: x[i] for name, x in given.items()}) for i in range(of.tokens)]
    np.testing.assert_array_equal(layer.unpack(made.outputs), np.stack(expected))
    assert not layer.unpack(made.outputs)[0].any()


@pytest.mark.parametrize("name", CHUNKS)
def test_chunks_are_safe_wherever_they_are(name):
    of = chunk(name)
    program = of.program().program
    assert verify(program).ok
    assert verify(program).warnings == ()
    if of.config.name == "tiny" and of.tokens == 2:
        assert attack(program).harm == Harm.NONE


@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.parametrize("name", ["a part of a group", "entries of four"])
def test_chunks_take_the_same_cycles_on_the_rtl(name):
    of = chunk(name)
    runs = []
    for device_name in ("sim", "rtl"):
        with open_device(device_name, of.config) as device:
            runs.append(chunk_differences(of, device, [(0, of.tokens), (of.tokens, 1), (2 * of.tokens, of.tokens)]))
    assert runs[0] == runs[1]
    assert runs[1][0] == 0


def test_a_chain_has_the_results_of_a_chunk():
    of = chunk("a part of a group")
    layer = of.program()
    names = {t.name: t.name for t in layer.program.tensors if t.role in ("input", "output")}
    step = ChainStep("attention", WrittenOperator("attention", layer.program, 1, 1, ()), names)
    program, results = Chain(of.config, "one", [step], ["result"]).program, []
    rng = np.random.default_rng(5)
    tokens = [token(of, rng) for _ in range(of.tokens)]
    inputs = layer.pack({name: np.stack([item[name] for item in tokens]) for name in tokens[0]})
    for made, prefix in ((layer.program, ""), (program, "link0.")):
        with open_device("sim", of.config) as device, Residents(device, [made]) as kept:
            offsets = {f"{prefix}{part}": offset for part, offset in of.offsets(8).items()}
            results.append(run(made, inputs, device, residents=kept, offsets=offsets).outputs["result"])
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("name", SIZES)
def test_programs_are_safe_wherever_the_token_is(name):
    preset, fields = SIZES[name]
    program = attention(preset, **fields).program().program
    assert verify(program).ok
    assert verify(program).warnings == ()
    if preset == "tiny":
        assert attack(program).harm == Harm.NONE


def test_every_token_of_a_cache_of_256_places_is_exact():
    of = attention(places=256)
    with open_device("sim", of.config) as device:
        wrong, cycles = differences(of, device, range(256))
    assert wrong == 0
    assert len(set(cycles)) == 1


@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.parametrize("name", ["a decoder", "a batch of two"])
def test_the_rtl_takes_the_same_cycles(name):
    preset, fields = SIZES[name]
    of = attention(preset, **fields)
    runs = []
    for name in ("sim", "rtl"):
        with open_device(name, of.config) as device:
            runs.append(differences(of, device, range(0, 64, 4)))
    assert runs[0] == runs[1]
    assert runs[1][0] == 0


def test_programs_of_several_lengths_share_a_cache():
    short, long = attention(places=32), attention(places=64)
    layers, model, rng = {of: of.program() for of in (short, long)}, Model(long), np.random.default_rng(3)
    programs = [layer.program for layer in layers.values()]
    with open_device("sim", short.config) as device, Residents(device, programs) as kept:
        for of, place in ((short, 0), (short, 7), (short, 31), (long, 32), (long, 50), (short, 9)):
            given = token(of, rng)
            result = run(layers[of].program, layers[of].pack(given), device, residents=kept, offsets=of.offsets(place))
            assert (layers[of].unpack(result.outputs) == model.step(of, place, **given)).all()


# --- in a chain -----------------------------------------------------------------------------------

KEPT = ("keys", "rows", "values", "key_row", "value_row", "value_rows", "value_squares")


def layer_of(of: CachedAttention) -> Chain:
    """Products that make a query, a key and a value, attention, and the product behind it."""
    features = of.heads * of.size
    widths = {"query": features, "key": of.kv_heads * of.size, "value": of.kv_heads * of.size}
    made = [
        ChainStep(name, dense(of.config, rows=1, in_features=64, out_features=width), {"data": "x", "output": name})
        for name, width in widths.items()
    ]
    names = {f"{name}_entries": name for name in widths} | {"result": "attended"} | {name: name for name in KEPT}
    attended = ChainStep("attention", WrittenOperator("attention", of.program().program, 0, 1, ()), names)
    behind = dense(of.config, rows=1, in_features=features, out_features=48)
    last = ChainStep("out", behind, {"data": "attended", "output": "y"})
    return Chain(of.config, "layer", (*made, attended, last), ("y",))


@pytest.mark.parametrize(
    ("name", "in_turn"), [("sim", False), ("sim", True), pytest.param("rtl", False, marks=pytest.mark.rtl)]
)
def test_it_is_one_program_with_the_products_around_it(name, in_turn, monkeypatch):
    if in_turn:
        monkeypatch.setattr("vdla.compiler.codegen.vdla.chain.list_schedule", lambda config, parts, ahead: None)
    of, rng = attention(places=32), np.random.default_rng(5)
    chain, model, constants, weights = layer_of(of), Model(of), {}, {}
    shapes = {"query": (192, 64), "key": (64, 64), "value": (64, 64), "out": (48, 192)}
    for step, shape in shapes.items():
        weights[step] = rng.integers(-127, 128, shape, np.int8), np.full(shape[0], 1 / 256)
        constants |= chain.pack_constants(step, weights[step][0], multiplier=weights[step][1])
    program = chain.program
    assert verify(program).ok
    cycles = simulate(program, mode="timing").statistics.total_cycles
    with open_device(name, of.config) as device, Residents(device, [program]) as kept:
        for place in (0, 1, 20, 1):
            x = rng.integers(-127, 128, (1, 64), np.int8)
            given = chain.pack_input("x", x) | constants
            result = run(program, given, device, residents=kept, offsets=of.offsets(place))
            got = chain.unpack("y", result.outputs)
            token = {step: product(x, *weights[step]).reshape(-1, of.size) for step in ("query", "key", "value")}
            attended = model.step(of, place, **token).reshape(1, -1)
            assert (got == product(attended, *weights["out"])).all()
            assert result.statistics.total_cycles == cycles


def product(x, weight, scale):
    """The requantised product of a row."""
    return scaled(x.astype(int) @ weight.T.astype(int), scale[0])


def chained(*programs, names=None):
    """A chain of written programs with inputs of their own."""
    steps = [
        ChainStep(f"s{n}", WrittenOperator("w", program, 0, 1, ()), {"total": f"y{n}", **(names or {})})
        for n, program in enumerate(programs)
    ]
    return Chain(programs[0].config, "two", steps, [f"y{n}" for n in range(len(programs))])


def test_a_resident_tensor_is_of_one_link():
    both = chained(append(), append())
    assert sorted(t.name for t in both.program.tensors if t.role == "resident") == ["link0.sums", "link1.sums"]
    with pytest.raises(LoweringError) as error:
        _ = chained(append(), append(), names={"sums": "sums"}).program
    assert str(error.value) == "compile_chain two: resident tensor sums must be of one link, got links 0 and 1"


def test_a_link_stores_to_a_resident_tensor_before_it_loads_it():
    early = append(APPEND, ("load acc dram=x", "load acc dram=sums sram=9\nload acc dram=x"))
    with pytest.raises(LoweringError) as error:
        _ = chained(early).program
    rule = "resident tensor link0.sums must be stored to before it is loaded"
    assert str(error.value) == f"compile_chain two: {rule}, got a LOAD before a STORE in link 0"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"size": 24}, "size must be a multiple of 16, got 24"),
        ({"places": 0}, "places must be a multiple of 16, got 0"),
        ({"places": 64.0}, "places must be a multiple of 16, got 64.0"),
        ({"size": "32"}, "size must be a multiple of 16, got 32"),
        ({"kv_heads": 0}, "kv_heads must be a positive integer, got 0"),
        ({"kv_heads": -1}, "kv_heads must be a positive integer, got -1"),
        ({"heads": True, "kv_heads": 1}, "heads must be a positive integer, got True"),
        ({"factor": 1.5}, "factor must be from 1 to 262143, got 1.5"),
        ({"score": 0.0}, "score must be a positive number, got 0.0"),
        ({"score": float("nan")}, "score must be a positive number, got nan"),
        ({"result": float("inf")}, "result must be a positive number, got inf"),
        ({"result": "a"}, "result must be a positive number, got a"),
        ({"zero_point": 128}, "zero_point must be from -128 to 127, got 128"),
        ({"low": -1.5}, "low must be from -128 to 127, got -1.5"),
        ({"heads": 5}, "heads must be a multiple of 2, got 5"),
        ({"heads": 66}, "heads must be at most 64, got 66"),
        ({"factor": 1 << 18}, "factor must be from 1 to 262143, got 262144"),
        ({"places": 8192}, "places must fit 2048 entries of the pynq_z1_lm's buffers, got 3078 entries"),
        ({"tokens": 3}, "tokens must divide 16 or be a multiple of it, up to the 64 places, got 3"),
        ({"tokens": 80}, "tokens must divide 16 or be a multiple of it, up to the 64 places, got 80"),
        ({"tokens": 2.0}, "tokens must divide 16 or be a multiple of it, up to the 64 places, got 2.0"),
        ({"masks": 0}, "masks must be from 1 to 2047, got 0"),
        (
            {"tokens": 2},
            "masks must make scores -127.5 or less at places without a key, for several tokens, got -104.0",
        ),
        ({"size": 1024}, "size must fit 2048 entries of the pynq_z1_lm's buffers, got 2438 entries"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(fields, message):
    with pytest.raises(LayerError) as error:
        attention(**fields)
    assert str(error.value) == f"cached_attention: {message}"


def test_a_machine_must_have_the_extensions():
    for config, got in (
        (vdla.Config.preset("pynq_z1"), "pynq_z1 without transpose"),
        (vdla.extend(vdla.Config.preset("pynq_z1"), "transpose"), "pynq_z1 without softmax"),
    ):
        with pytest.raises(LayerError) as error:
            CachedAttention(config=config, **DECODER)
        rule = "cached_attention: machine must have the extensions softmax and transpose"
        assert str(error.value) == f"{rule}, got {got}"


def test_a_token_beyond_the_places_is_refused():
    with pytest.raises(LayerError) as error:
        attention().offsets(64)
    assert str(error.value) == "cached_attention: place must be from 0 to 63, got 64"
    with pytest.raises(LayerError) as error:
        attention().offsets(1.5)
    assert str(error.value) == "cached_attention: place must be from 0 to 63, got 1.5"


def test_a_chunk_begins_at_a_multiple_of_its_tokens_or_of_a_group():
    for tokens, place in ((4, 6), (4, 61), (32, 8), (32, 48)):
        of = attention(score=6e-4, tokens=tokens)
        with pytest.raises(LayerError) as error:
            of.offsets(place)
        rule = f"place must be a multiple of {min(tokens, 16)} from 0 to {64 - tokens}"
        assert str(error.value) == f"cached_attention: {rule}, got {place}"
    assert attention(score=6e-4, tokens=32).offsets(16)["key_row"] > 0
