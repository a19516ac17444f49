"""Functions of the C library for float64, called for one lane after another: what no polynomial here does."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir as llvm

from vdla.compiler.codegen.llvm.types import DOUBLE, I32, Value, lanes, undefined


def library(name: str) -> Callable[..., Value]:
    """The function of that name, as one of a builder and arguments."""

    def function(builder: Value, *args: Value) -> Value:
        kind = llvm.FunctionType(DOUBLE, [DOUBLE] * len(args))
        callee = builder.module.globals.get(name) or llvm.Function(builder.module, kind, name)
        count = lanes(args[0])
        if count is None:
            return builder.call(callee, args)
        result = undefined(args[0].type)
        for lane in range(count):
            one = builder.call(callee, [builder.extract_element(arg, I32(lane)) for arg in args])
            result = builder.insert_element(result, one, I32(lane))
        return result

    return function
