# SPDX-License-Identifier: Apache-2.0
"""Functions of one small integer in other spellings, compared by their tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from helpers.integer_layers import IntegerLayers

import vdla
from vdla import Config, te
from vdla.compiler import ir
from vdla.compiler.certificates.evaluate import evaluate
from vdla.compiler.certificates.functions_in_use import using
from vdla.compiler.certificates.network_certificate import region_programs
from vdla.compiler.certificates.region_certificate import RegionCertificate, certify_region
from vdla.compiler.certificates.small_functions import SmallFunctions
from vdla.compiler.certificates.symbols import Symbols, numbers, unknowns
from vdla.compiler.certificates.value_index import ValueIndex
from vdla.compiler.extensions import extend
from vdla.compiler.graph import Node
from vdla.hardware.isa import COL, EXTENSION, Opcode, isa_of, with_fields
from vdla.hardware.program import Program
from vdla.runtime.executor.model import Model
from vdla.runtime.network.compile_network import compile_network

COUNT = 5
Value = te.Value


def wide(x: Value) -> Value:
    return te.cast("int32", x)


# --- expressions ----------------------------------------------------------------------------------


def function(term: Callable[..., Value], dtype: str = "int8", operands: int = 1) -> ir.Function:
    """A term of elements of one or more inputs."""
    inputs = [te.placeholder((COUNT,), dtype, f"x{k}") for k in range(operands)]
    result = te.compute((COUNT,), lambda i: term(*(x[i] for x in inputs)), "y")
    return te.create_function(inputs, [result], "term")


def evaluated(term: Callable[..., Value], functions: SmallFunctions, dtype: str = "int8", operands: int = 1) -> Symbols:
    """A term of unknown elements."""
    fn = function(term, dtype, operands)
    inputs = {f"x{k}": unknowns(f"x{k}", (COUNT,), dtype, 0) for k in range(operands)}
    with using(functions):
        (made,) = evaluate(fn, inputs).values()
        return functions.canonical(made)


def same(one: Callable[..., Value], other: Callable[..., Value], dtype: str = "int8", operands: int = 1) -> bool:
    """Whether two terms are the same symbols; none or all elements are."""
    functions = SmallFunctions()
    values = [evaluated(term, functions, dtype, operands)["value"] for term in (one, other)]
    assert len({bool(equal) for equal in values[0] == values[1]}) == 1
    return bool((values[0] == values[1]).all())


def looked_up(table: np.ndarray) -> Symbols:
    """Elements of a table at unknown places of 8 bits."""
    x, content = te.placeholder((COUNT,), "int8", "x0"), te.placeholder((256,), "int32", "table")
    fn = te.create_function([x, content], [te.compute((COUNT,), lambda i: content[wide(x[i]) + 128], "y")], "look_up")
    (made,) = evaluate(fn, {"x0": unknowns("x0", (COUNT,), "int8", 0), "table": numbers(table)}).values()
    return made


SAME: Mapping[str, tuple[Callable[[Value], Value], Callable[[Value], Value]]] = {
    "a magnitude": (lambda x: te.maximum(wide(x), 0 - wide(x)), lambda x: te.select(x < 0, 0 - wide(x), wide(x))),
    "a quotient": (lambda x: (wide(x) + 128) // 3, lambda x: ((wide(x) + 128) * 171) >> 9),
    "a mask": (lambda x: wide(x) & 1, lambda x: wide(x) - ((wide(x) >> 1) << 1)),
    "a square": (
        lambda x: wide(x) * wide(x),
        lambda x: te.maximum(wide(x), 0 - wide(x)) * wide(x) * ((wide(x) >> 31) * 2 + 1),
    ),
    "a wrapped sum": (lambda x: wide(x + te.const(100, "int8")), lambda x: ((wide(x) + 228) & 255) - 128),
    "a clip": (lambda x: te.maximum(wide(x), 0), lambda x: te.select(x < 0, te.const(0, "int32"), wide(x))),
    "a constant": (lambda x: wide(x) * 0 + 7, lambda x: (wide(x) | 7) & 7),
    "a line": (lambda x: wide(x) * 3 - 5, lambda x: (wide(x) * 6 - 10) >> 1),
    "a comparison": (lambda x: te.cast("int32", x < 3), lambda x: te.cast("int32", x <= 2)),
}


@pytest.mark.parametrize("kind", SAME)
def test_spellings_of_a_function_are_one_symbol(kind: str) -> None:
    assert same(*SAME[kind])


@pytest.mark.parametrize("kind", SAME)
def test_a_function_that_differs_for_one_value_is_another_symbol(kind: str) -> None:
    term = SAME[kind][1]
    for value in (-128, -1, 77, 127):
        assert not same(SAME[kind][0], lambda x: term(x) + te.cast("int32", x == value))  # noqa: B023


def fifth(x: Value) -> Value:
    """A fifth of an integer of 8 bits, rounded down."""
    return (((wide(x) + 130) * 13108) >> 16) - 26


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int4"])
def test_small_types_have_tables(dtype: str) -> None:
    assert same(lambda x: wide(x) // 5, fifth, dtype)
    assert not same(lambda x: wide(x) // 5, lambda x: fifth(x) + te.cast("int32", wide(x) == 5), dtype)


def test_integers_of_16_bits_have_none() -> None:
    assert not same(lambda x: wide(x) // 5, fifth, "int16")


def test_a_table_is_the_function_that_it_has() -> None:
    functions = SmallFunctions()
    values = np.arange(-128, 128)
    table = (values * values) >> 4
    with using(functions):
        tables = [functions.canonical(looked_up(one)) for one in (table, table + (values == 5))]
    formula = evaluated(lambda x: (wide(x) * wide(x)) >> 4, functions)
    assert (tables[0]["value"] == formula["value"]).all()
    assert not (tables[1]["value"] == formula["value"]).any()
    example = functions.counterexample(tables[1][2], formula[2])
    assert example is not None
    assert (example.value, example.first, example.second) == (5, 2, 1)
    assert example.of["value"] == unknowns("x0", (COUNT,), "int8", 0)[2]["value"]


def test_functions_of_other_integers_are_other_symbols() -> None:
    functions = SmallFunctions()
    made = evaluated(lambda x: wide(x) // 3, functions)
    assert len(np.unique(made["value"])) == COUNT
    assert functions.counterexample(made[0], made[1]) is None


def test_terms_of_two_integers_are_those_of_their_functions() -> None:
    def magnitude(x: Value) -> Value:
        return te.maximum(wide(x), 0 - wide(x))

    def another(x: Value) -> Value:
        return te.select(x < 0, 0 - wide(x), wide(x))

    def rounded(function: Callable[[Value], Value], more: int = 0) -> Callable[[Value, Value], Value]:
        return lambda x, y: (function(x) * 6 + 2 * function(y) * 3 + more) >> 2

    assert same(rounded(magnitude), rounded(another), operands=2)
    assert not same(rounded(magnitude), rounded(another, 1), operands=2)
    assert not same(rounded(magnitude), rounded(lambda x: another(x) + te.cast("int32", x == -128)), operands=2)


@pytest.mark.parametrize("kind", SAME)
def test_symbols_have_the_bounds_of_their_tables(kind: str) -> None:
    values = np.arange(-128, 128)
    made = evaluated(SAME[kind][0], SmallFunctions())
    x, fn = te.placeholder((256,), "int8", "x"), SAME[kind][0]
    wanted = vdla.interpret(
        te.create_function([x], [te.compute((256,), lambda i: fn(x[i]), "y")], "all"), {"x": values.astype(np.int8)}
    )["y"]
    assert (made["low"] == wanted.min()).all()
    assert (made["high"] == wanted.max()).all()


def test_an_index_has_the_last_number_of_each_value() -> None:
    rng = np.random.default_rng(0)
    values = rng.choice(1 << 40, 20_000, replace=False).astype(np.uint64)
    index = ValueIndex()
    for begin in range(0, len(values), 3000):
        index.add(values[begin : begin + 3000], np.arange(begin, min(begin + 3000, len(values))))
    index.add(values[:7], np.arange(7) + 100)
    made = index.find(np.concatenate([values, values + np.uint64(1 << 41)]))
    assert made.tolist() == [*range(100, 107), *range(7, 20_000), *[-1] * 20_000]


# --- networks -------------------------------------------------------------------------------------


def power(x: Value) -> Value:
    """Powers of two, 64 for a half, in sixteenths, of elements less 127."""
    below = 127 - x
    return (512 - below % 16 * 16) >> (below // 16 + 2)


def exponential(x: Value) -> Value:
    """127 * exp((x - 127) / 32), with a polynomial between powers of two (Kim et al., I-BERT)."""
    steps = 127 - x
    whole, rest = steps // 22, 0 - steps % 22
    return (((rest + 43) * (rest + 43) + 1062) * 11 >> 8) >> whole


def gelu(x: Value) -> Value:
    """x times a polynomial in place of the error function (Kim et al., I-BERT), of sixteenths."""
    near = te.minimum(te.maximum(x, 0 - x), 40) - 40
    share = 1600 - near * near
    return (x * (1600 + te.select(x < 0, 0 - share, share))) // 3200


def reciprocal(x: Value) -> Value:
    """A quotient by elements plus 160."""
    return 4064 // te.maximum(x + 160, 1)


def wave(x: Value) -> Value:
    """A triangle, whose table is no clip of a line."""
    return te.maximum(x % 64, 63 - x % 64) - 48


FORMULAS = {one.__name__: one for one in (power, exponential, gelu, reciprocal, wave)}


def table_of(formula: Callable[[Value], Value]) -> np.ndarray:
    """The results of a formula for all integers of 8 bits."""
    x = te.placeholder((256,), "int32", "x")
    fn = te.create_function([x], [te.compute((256,), lambda i: formula(x[i]), "y")], "table")
    results = vdla.interpret(fn, {"x": np.arange(-128, 128, dtype=np.int32)})["y"]
    return np.clip(results, -128, 127).astype(np.int8)


def unit_of(formula: Callable[[Value], Value]) -> Callable[[Config], vdla.Extension]:
    """An instruction that computes a formula of sums."""

    def formulation(layer: vdla.NetworkLayer, config: Config) -> vdla.Formulation:
        layer.definition.require("look_up")
        data = layer.definition.inputs[0]
        sums = te.compute(data.shape, lambda *i: formula(wide(data[i])), "sums")
        return vdla.Formulation(vdla.definitions.requantised(sums, 1)[1])  # of an image

    def declare(config: Config) -> vdla.Extension:
        shape = (config.batch, config.block_out)
        old = te.placeholder(shape, "int32", "old")
        return vdla.Extension(
            name="unit",
            doc="A formula.",
            output=te.compute(shape, lambda b, o: formula(old[b, o]), "acc"),
            scopes={"old": "acc", "acc": "acc"},
            in_place="old",
            latency=2,
            formulation=formulation,
        )

    return declare


@cache
def network(formula: str, size: tuple[int, int] = (3, 3), preset: str = "tiny") -> Model:
    """A convolution, a table that an instruction computes by a formula, and another convolution."""
    made = IntegerLayers(3, (1, 6, *size))
    made.layer("conv")
    graph = made.graph()
    (source,) = graph.outputs
    node = Node("vdla.QTable", (source,), ("t",), {"table": table_of(FORMULAS[formula])})
    types = {**graph.types, "t": graph.types[source]}
    graph = replace(graph, nodes=(*graph.nodes, node), outputs=("t",), types=types)
    machine = extend(Config.preset(preset), unit_of(FORMULAS[formula]))
    return compile_network(graph, machine, place={source: "vdla", "t": "vdla"}, certify=False)


def verdict(
    model: Model, words: Callable[[Program], Program] = lambda program: program, explain: bool = True
) -> RegionCertificate:
    """The verdict on the region with the instruction, whose program is changed by `words`."""
    for _, expression, given in region_programs(model):
        if (given.program.columns[:, COL["opcode"]] == EXTENSION).any():
            assert expression is not None
            return certify_region(expression, replace(given, program=words(given.program)), explain=explain)
    raise AssertionError("no region has the instruction")


@pytest.mark.sampled
@pytest.mark.parametrize("formula", FORMULAS)
def test_a_formula_of_a_table_is_certified(formula: str) -> None:
    assert verdict(network(formula)).holds


@pytest.mark.parametrize(("size", "preset"), [((7, 3), "tiny"), ((1, 1), "tiny"), ((5, 6), "pynq_z1")])
def test_a_formula_is_certified_in_other_shapes_and_machines(size: tuple[int, int], preset: str) -> None:
    assert verdict(network("gelu", size, preset)).holds


def changed(field: str, amount: int, opcode: int, which: int = 0) -> Callable[[Program], Program]:
    """A program with a field of an instruction changed: of number `which` of a kind."""

    def change(program: Program) -> Program:
        at = np.flatnonzero(program.columns[:, COL["opcode"]] == opcode)[[which]]
        value = program.columns[at, isa_of(program.config).col[field]] + amount
        words = program.words.copy()
        words[at] = with_fields(program.config, words[at], {field: value})
        assert (words != program.words).any()
        return replace(program, words=words)

    return change


def without(opcode: int, which: int = 0) -> Callable[[Program], Program]:
    """A program in which an instruction is the one before it, once more."""

    def change(program: Program) -> Program:
        (at,) = np.flatnonzero(program.columns[:, COL["opcode"]] == opcode)[[which]]
        words = program.words.copy()
        words[at] = words[at - 1]
        return replace(program, words=words)

    return change


def other_table(model: Model, value: int, amount: int, explain: bool = True) -> RegionCertificate:
    """The verdict where the operator has another table than the program computes."""
    for _, expression, given in region_programs(model):
        if expression is None or not any(node.op == "vdla.QTable" for node in expression.plain.nodes):
            continue
        nodes = []
        for node in expression.plain.nodes:
            if node.op == "vdla.QTable":
                table = node.attributes["table"].copy()
                table[value + 128] += amount
                node = replace(node, attributes={**node.attributes, "table": table})
            nodes.append(node)
        plain = expression.plain.replace(nodes=tuple(nodes))
        return certify_region(replace(expression, plain=plain), given, explain=explain)
    raise AssertionError("no region has a table")


def test_another_entry_of_a_table_is_named() -> None:
    was = int(table_of(wave)[3 + 128])
    text = rf"results differ, the first is t(\[.*\]); it is {was} where v0\1 is 3, and must be {was + 1}; instruction "
    reason = other_table(network("wave"), 3, 1).reason
    assert re.match(rf"vdla.QTable t: \d+ of \d+ {text}", reason), reason


@pytest.mark.sampled
@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("value", [-20, 0, 1, 20])
def test_an_entry_that_random_inputs_may_miss_is_refused(formula: str, value: int) -> None:
    assert not other_table(network(formula), value, 1, explain=False).holds


PROGRAM_FAULTS: Mapping[str, Callable[[Program], Program]] = {
    "another zero point": changed("zero_point", 1, EXTENSION),
    "a higher lower bound": changed("clip_lo", 129, EXTENSION),
    "a lower upper bound": changed("clip_hi", -125, EXTENSION),
    "a formula that is lost": without(EXTENSION),
    "another formula that is lost": without(EXTENSION, -1),
    "elements that are lost": without(Opcode.VECTOR),
    "last elements that are lost": without(Opcode.VECTOR, -1),
    "other sums": changed("acc", 1, EXTENSION, 1),
    "other places of results": changed("out", 1, EXTENSION, 1),
    "results at another place": changed("dram", 1, Opcode.STORE, -1),
    "other scales": changed("scl", 1, EXTENSION),
}


@pytest.mark.sampled
@pytest.mark.parametrize("fault", PROGRAM_FAULTS)
def test_a_fault_in_a_program_with_a_formula_is_refused(fault: str) -> None:
    assert not verdict(network("gelu"), PROGRAM_FAULTS[fault], explain=False).holds
