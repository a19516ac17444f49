# SPDX-License-Identifier: Apache-2.0
"""Certificates: symbols against numbers, programs that hold, planted faults, differences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from operator import mul

import numpy as np
import pytest

import vdla
from vdla import Config, te, templates
from vdla.compiler.certificates import field
from vdla.compiler.certificates.certify import certify
from vdla.compiler.certificates.evaluate import evaluate
from vdla.compiler.certificates.operations import binary, summed
from vdla.compiler.certificates.products import sums_of_products
from vdla.compiler.certificates.program_run import run_program
from vdla.compiler.certificates.symbols import CertificateError, numbers, unknowns
from vdla.compiler.operators.vdla.operator import Operator
from vdla.hardware.isa import COL, Opcode, with_fields
from vdla.hardware.program import Program

TINY = Config.preset("tiny")
PAIR = (te.placeholder((6,), "int32", "a"), te.placeholder((6,), "int32", "b"))


# --- the field and symbols ------------------------------------------------------------------------


def test_the_field_is_that_of_python_integers() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, field.PRIME, 500, dtype=np.uint64) for _ in range(2))
    a[:4], b[:4] = [0, 1, field.PRIME - 1, field.PRIME - 1], [field.PRIME - 1, 0, field.PRIME - 1, 1]
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    assert field.multiply(a, b).tolist() == [x * y % field.PRIME for x, y in pairs]
    assert field.add(a, b).tolist() == [(x + y) % field.PRIME for x, y in pairs]
    assert field.subtract(a, b).tolist() == [(x - y) % field.PRIME for x, y in pairs]
    assert field.total(a, (0,)).tolist() == [sum(a.tolist()) % field.PRIME]
    integers = [*rng.integers(-(2**63), 2**63 - 1, 100).tolist(), -(2**63), 2**63 - 1, -1, 0, field.PRIME]
    assert field.from_integers(integers).tolist() == [x % field.PRIME for x in integers]


def test_products_of_matrices_are_those_of_python_integers() -> None:
    """More terms than one product of floats takes, and the largest elements."""
    rng = np.random.default_rng(1)
    a = rng.integers(0, field.PRIME, (2, 3, 2100), dtype=np.uint64)
    b = rng.integers(0, field.PRIME, (2, 2100, 2), dtype=np.uint64)
    a[0, 0], b[0, :, 0] = field.PRIME - 1, field.PRIME - 1
    lists = [(x.tolist(), y.T.tolist()) for x, y in zip(a, b, strict=True)]
    wanted = [
        [[sum(map(mul, row, column)) % field.PRIME for column in columns] for row in rows] for rows, columns in lists
    ]
    assert field.matmul(a, b).tolist() == wanted


@pytest.mark.parametrize("second", ["unknown", "numbers"])
def test_sums_of_products_are_the_sums_of_the_products(second: str) -> None:
    """Element by element, with the bounds of padding, of numbers and of unknowns."""
    rng = np.random.default_rng(3)
    a = unknowns("a", (5, 7), "int8", 0)
    a[2, 3], a[1] = numbers(0), numbers(5)
    b = unknowns("b", (7, 4), "int8", 0) if second == "unknown" else numbers(rng.integers(-99, 99, (7, 4)))
    wanted = summed(binary("mul", a[:, None, :], b.T[None], "int32"), (2,), "int32")[..., 0]
    straight, turned = sums_of_products(a, b, "int32"), sums_of_products(b.T, a.T, "int32")
    assert straight is not None
    assert turned is not None
    for part in ("value", "low", "high", "form"):
        assert straight[part].tolist() == turned.T[part].tolist() == wanted[part].tolist()
    assert (straight["norm"] >= wanted["norm"]).all()


Expression = Callable[[te.Value, te.Value], te.Value]


def value_of(expression: Expression, **inputs: object) -> list[int]:
    a, b = PAIR
    out = te.compute((6,), lambda i: expression(a[i], b[i]), "out")
    fn = te.create_function([a, b], [out], "fn")
    given = {"a": unknowns("a", (6,), "int32", 0), "b": unknowns("b", (6,), "int32", 0), **inputs}
    found: list[int] = evaluate(fn, given)["out"]["value"].tolist()
    return found


def long(x: te.Value | int) -> te.Value:
    return te.cast("int64", x) if isinstance(x, te.Value) else te.const(x, "int64")


def clip(x: te.Value) -> te.Value:
    return te.cast("int8", te.clip(x, -128, 127))


EQUAL: list[tuple[Expression, Expression]] = [
    (lambda a, b: (a + b) * (a - b), lambda a, b: a * a - b * b),
    (lambda a, b: a << 3, lambda a, b: a * 8),
    (lambda a, b: te.maximum(a, te.maximum(b, a + b)), lambda a, b: te.maximum(te.maximum(a + b, b), a)),
    (lambda a, b: te.cast("int32", te.cast("int64", a)), lambda a, b: a),
    (lambda a, b: te.cast("int8", a + b), lambda a, b: te.cast("int8", te.cast("int8", a) + te.cast("int8", b))),
    (lambda a, b: (a & 255) & 1023, lambda a, b: a & 255),
    (lambda a, b: te.minimum(te.cast("int32", clip(a)), 200), lambda a, b: te.cast("int32", clip(a))),
    (lambda a, b: te.select(a < b, a, b), lambda a, b: te.select(b > a, a, b)),
]  # fmt: skip
EQUAL += [
    (lambda a, b: a // 32, lambda a, b: ((a >> 1) >> 3) >> 1),
    (lambda a, b: a % 64, lambda a, b: a & 63),
    (lambda a, b: (a & 63) // 64, lambda a, b: a * 0),
    (lambda a, b: te.cast("int32", long(a) >> 3), lambda a, b: a >> 3),
    (lambda a, b: te.minimum(te.maximum(a, -8), 7), lambda a, b: te.maximum(te.minimum(a, 7), -8)),
    (lambda a, b: te.maximum(te.maximum(a, 3), te.maximum(b, 5)), lambda a, b: te.maximum(te.maximum(b, a), 5)),
    (lambda a, b: te.select(a > 0, a, 0), lambda a, b: te.maximum(a, 0)),
    (lambda a, b: te.select(a <= b, b, a), lambda a, b: te.maximum(a, b)),
    (lambda a, b: te.minimum(te.minimum(a, b), te.minimum(a, b)), lambda a, b: te.minimum(b, a)),
]
DIFFERENT: list[tuple[Expression, Expression]] = [
    (lambda a, b: (a + b) >> 1, lambda a, b: (a >> 1) + (b >> 1)),
    (lambda a, b: te.maximum(a, b), lambda a, b: te.minimum(a, b)),
    (lambda a, b: te.maximum(a, b), lambda a, b: a),
    (lambda a, b: te.cast("int64", a) + te.cast("int64", b), lambda a, b: te.cast("int64", a + b)),
    (lambda a, b: te.cast("int32", clip(a)), lambda a, b: te.cast("int32", te.cast("int8", te.clip(a, -127, 127)))),
    (lambda a, b: te.cast("int32", te.cast("int8", a)), lambda a, b: a),
    (lambda a, b: te.select(a < b, a, b), lambda a, b: te.select(a <= b, b, a)),
    (lambda a, b: (a * 3 + b) // 3, lambda a, b: a + b // 3),  # unless it wraps, but there is no lemma
    (lambda a, b: a // 2, lambda a, b: a >> 2),
    (lambda a, b: a % 8, lambda a, b: a & 8),
    (lambda a, b: (a >> 2) >> 3, lambda a, b: a >> 4),
    (lambda a, b: te.minimum(te.maximum(a, -8), 7), lambda a, b: te.maximum(te.minimum(a, 8), -8)),
    (lambda a, b: te.minimum(te.maximum(a, 8), -8), lambda a, b: te.maximum(te.minimum(a, -8), 8)),
    (lambda a, b: te.maximum(te.minimum(a, 3), b), lambda a, b: te.minimum(te.maximum(a, b), 3)),
    (lambda a, b: te.minimum(a, 3), lambda a, b: te.maximum(a, 3)),
    (lambda a, b: te.select(a < b, a, b), lambda a, b: te.maximum(a, b)),
    (  # no minimum or maximum is a sum of its operands
        lambda a, b: te.maximum(a, b) + te.maximum(a + 1, b + 1),
        lambda a, b: te.maximum(a, a + 1) + te.maximum(b, b + 1),
    ),
    (lambda a, b: te.maximum(a, 3) - te.maximum(a, 2), lambda a, b: te.maximum(b, 3) - te.maximum(b, 2)),
    (lambda a, b: te.cast("int8", te.maximum(a, b) + 0 * a), lambda a, b: te.cast("int8", te.minimum(a, b) + 0 * a)),
    (lambda a, b: (a << 31) << 30, lambda a, b: a),  # 2^61 is 1 in the field
    (lambda a, b: a * b * (a << 31) * (b << 30), lambda a, b: a * b * a * b),
    (lambda a, b: long(2**62 - 1) >> long(a & 31), lambda a, b: long(1) >> long(a & 31)),
    (lambda a, b: long(a) * (2**62 - 1), lambda a, b: long(a)),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), EQUAL, ids=range(len(EQUAL)))
def test_spellings_of_one_function_are_one_symbol(one: Expression, other: Expression) -> None:
    assert value_of(one) == value_of(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT, ids=range(len(DIFFERENT)))
def test_other_functions_are_other_symbols(one: Expression, other: Expression) -> None:
    assert all(x != y for x, y in zip(value_of(one), value_of(other), strict=True))


def test_numbers_are_computed_as_the_interpreter_does() -> None:
    """Every operation on inputs that are known, many of which wrap."""
    a, b = PAIR
    shown = te.compute(
        (6,),
        lambda i: (
            te.cast("int16", (a[i] * b[i]) ^ ((a[i] >> (b[i] & 7)) | (b[i] % 13)))
            + te.cast("int16", te.select(a[i] < b[i], a[i] // 7, te.minimum(a[i], b[i]) - te.maximum(b[i], 5)))
        ),
        "out",
    )
    fn = te.create_function([a, b], [shown], "fn")
    rng = np.random.default_rng(2)
    for _ in range(20):
        arrays = {name: rng.integers(-(2**31), 2**31, 6).astype(np.int32) for name in "ab"}
        found = evaluate(fn, {name: numbers(array) for name, array in arrays.items()})["out"]
        assert found["low"].tolist() == found["high"].tolist() == vdla.interpret(fn, arrays)["out"].tolist()


# --- programs -------------------------------------------------------------------------------------


def operators(config: Config) -> list[Operator]:
    image = {"batch": config.batch, "height": 3, "width": 4}
    channels = config.block_out
    return [
        templates.dense(config, rows=3, in_features=8, out_features=8, input_zero_point=-2, activation="relu"),
        templates.conv2d(
            config, **image, in_channels=4, out_channels=channels, kernel=3, pads=(1, 1, 1, 1), zero_point=1
        ),
        templates.conv2d(config, **image, in_channels=4, out_channels=4, kernel=2, strides=2, raw=True),
        templates.depthwise_conv2d(config, **image, channels=channels, kernel=2),
        templates.pool2d(config, **image, channels=channels, kernel=2, kind="max"),
        templates.pool2d(config, **image, channels=channels, kernel=2, kind="average"),
        templates.residual_add(config, **image, channels=channels),
        templates.leaky_relu(config, **image, channels=channels),
    ]


@pytest.mark.parametrize("preset", ["tiny", "int4", "batch4"])
def test_programs_of_templates_hold(preset: str) -> None:
    for operator in operators(Config.preset(preset)):
        certificate = certify(operator)
        assert certificate.holds, certificate
        assert certificate.results > 0


def correlation() -> te.Tensor:
    a, b = te.placeholder((2, 8, 3), "int8", "a"), te.placeholder((2, 8, 5), "int8", "b")
    k = te.reduce_axis(8, "k")
    wide = lambda x: te.cast("int32", x)  # noqa: E731
    return te.compute((2, 3, 5), lambda n, x, u: te.sum(wide(a[n, k, x]) * wide(b[n, k, u]), axis=k), "correlation")


def test_a_mapped_expression_holds_and_another_one_does_not() -> None:
    expression = correlation()
    operator = vdla.map_expression(expression, TINY)
    certificate = certify(operator, expression)
    assert str(certificate) == (
        f"certify correlation: program {operator.program.hash} computes expression {certificate.expression} for all "
        "inputs; 30 results, prime 2^61 - 1, seed 0"
    )
    a, b = te.placeholder((2, 8, 3), "int8", "a"), te.placeholder((2, 8, 5), "int8", "b")
    k = te.reduce_axis(7, "k")
    short = te.compute(
        (2, 3, 5), lambda n, x, u: te.sum(te.cast("int32", a[n, k, x]) * te.cast("int32", b[n, k, u]), axis=k), "short"
    )
    refused = certify(operator, short)
    assert (refused.holds, refused.differing) == (False, 30)
    assert refused.difference is not None
    assert dict(refused.difference.terms) == {"a": ((0, 7, 0),), "b": ((0, 7, 0),)}
    with pytest.raises(CertificateError, match="30 of 30 results differ; result"):
        refused.raise_if_bad()


def changed(program: Program, name: str, by: int, opcode: str) -> Program:
    """A program with a field of the first instruction of a kind that has it changed."""
    rows = program.columns[:, COL["opcode"]] == Opcode[opcode]
    index = int(np.flatnonzero(rows & (program.columns[:, COL[name]] + by >= 0))[0])
    words = program.words.copy()
    value = program.columns[index : index + 1, COL[name]] + by
    words[index] = with_fields(program.config, words[index : index + 1], {name: value})[0]
    return replace(program, words=words)


@pytest.mark.parametrize(
    ("name", "by", "opcode"),
    [("clip_lo", 1, "GEMM"), ("zero_point", 1, "GEMM"), ("src", 1, "GEMM"), ("scl", 1, "GEMM"), ("init", -1, "GEMM"),
     ("wgt", 1, "GEMM"), ("scl0", 1, "GEMM"), ("sram", 1, "STORE")],
)  # fmt: skip
def test_a_changed_field_is_a_difference_with_its_place(name: str, by: int, opcode: str) -> None:
    operator = operators(TINY)[0]
    certificate = certify(operator, program=changed(operator.program, name, by, opcode))
    assert not certificate.holds
    assert certificate.difference is not None
    assert certificate.difference.instruction >= 0
    assert certificate.difference.line


def test_a_result_that_is_not_stored_is_a_difference() -> None:
    operator = operators(TINY)[0]
    certificate = certify(operator, program=changed(operator.program, "x_size", -1, "STORE"))
    assert str(certificate).endswith("differs, already with all inputs 0 alone; no instruction stores it")


def test_a_clip_that_random_data_hides_is_a_difference() -> None:
    """With a small multiplier no result reaches the bound that is wrong."""
    operator = operators(TINY)[0]
    wrong = changed(operator.program, "clip_hi", -1, "GEMM")
    rng = np.random.default_rng(0)
    data = rng.integers(-128, 128, (3, 8)).astype(np.int8)
    weight = rng.integers(-128, 128, (8, 8)).astype(np.int8)
    packed = operator.pack(data, weight, multiplier=2.0**-12)
    results = [vdla.simulate(program, packed).outputs["output"] for program in (operator.program, wrong)]
    assert (results[0] == results[1]).all()
    assert not certify(operator, program=wrong).holds


def test_the_symbolic_run_on_numbers_is_the_simulation() -> None:
    rng = np.random.default_rng(4)
    for operator in operators(TINY):
        arrays = {
            tensor.name: rng.integers(-128, 128, tensor.shape).astype(np.int8)
            if tensor.dtype == "int8"
            else (rng.integers(-99, 99, tensor.shape) & 0xFFFFFFFF) + (rng.integers(1, 99, tensor.shape) << 32)
            for tensor in operator.program.tensors
            if tensor.data is None and tensor.role in ("input", "weight")
        }
        outputs = run_program(operator.program, {name: numbers(array) for name, array in arrays.items()})
        simulated = vdla.simulate(operator.program, arrays).outputs
        assert all((outputs[name]["low"] == simulated[name]).all() for name in simulated), operator.name


def test_another_expression_or_program_is_refused_with_what_differs() -> None:
    operator = vdla.map_expression(correlation(), TINY)
    a, b = te.placeholder((2, 8, 4), "int8", "a"), te.placeholder((2, 8, 5), "int8", "b")
    small = te.compute((2, 3, 5), lambda n, x, u: te.cast("int32", a[n, 0, x]) + te.cast("int32", b[n, 0, u]), "small")
    cases = {
        "certify: expression must be a tensor of te.compute, got a": {"expression": a},
        "certify: expression must be a tensor of te.compute, got int": {"expression": 3},
        "certify: result of the expression must be int32[2, 3, 5], as of the operator, got int32[6]": {
            "expression": te.compute((6,), lambda i: PAIR[0][i] + 1, "other")
        },
        "certify: input a of the expression must be int8[2, 8, 3], as of the operator, got int8[2, 8, 4]": {
            "expression": small
        },
        "certify: program must be a Program, got str": {"program": "c6.vdla"},
        "certify: program must have the tensors a_packed, b_packed, output of the operator, got data, output, scale, "
        "weight": {"program": operators(TINY)[0].program},
        f"certify: program must be for tiny ({TINY.fingerprint}), got one for batch4 "
        f"({Config.preset('batch4').fingerprint})": {"program": operators(Config.preset("batch4"))[0].program},
    }
    for text, options in cases.items():
        with pytest.raises(CertificateError) as caught:
            certify(operator, **options)  # type: ignore[arg-type]
        assert str(caught.value) == text


def test_what_is_no_operator_is_refused() -> None:
    with pytest.raises(CertificateError) as caught:
        certify(operators(TINY)[0].program)  # type: ignore[arg-type]
    rule = "operator must be of a template or of map_expression, a compiled network, a layer's program, or a schedule"
    assert str(caught.value) == f"certify: {rule}, got Program"


# --- sums that wrap -------------------------------------------------------------------------------


def dot(terms: int) -> te.Tensor:
    a, b, k = (
        te.placeholder((1, terms), "int8", "a"),
        te.placeholder((1, terms), "int8", "b"),
        te.reduce_axis(terms, "k"),
    )
    return te.compute((1, 1), lambda n, m: te.sum(te.cast("int32", a[n, k]) * te.cast("int32", b[m, k]), axis=k), "dot")


def test_sums_that_fit_have_bounds_and_others_an_example() -> None:
    """One term more than 2^17 - 1 products of -128 leaves 32 bits; the program wraps as well."""
    fits = certify(vdla.map_expression(dot(2**17 - 1), TINY))
    assert fits.sums == {"int32": (-128 * 127 * (2**17 - 1), 2**14 * (2**17 - 1))}
    assert fits.overflows == ()
    wraps = certify(vdla.map_expression(dot(2**17), TINY))
    assert wraps.holds
    assert str(wraps).split("; ")[-1] == (
        "sums of int32 may reach -2,130,706,432 to 2,147,483,648, which wrap, such as 2,147,483,648 for a = -128, "
        "b = -128"
    )
