"""The C signature of a function of the IR."""

from __future__ import annotations

import re

from vdla.compiler import ir
from vdla.compiler.abi import DTYPE_CODES, Argument, ExtentExpr, Signature
from vdla.compiler.abi.signature import EXTENT_OPERATORS
from vdla.compiler.ir import expr_text, output_names
from vdla.support.errors import Error


class SignatureError(Error, ValueError):
    """A function that cannot be called from C."""


def signature_of(fn: ir.Function) -> Signature:
    """The signature of a function, scheduled or lowered.

    Raises:
        SignatureError: the name is no C identifier, a dtype has no code, or a symbolic extent is
            not a whole dimension of any parameter.
    """
    if not re.fullmatch(r"[A-Za-z]\w*", fn.name, re.ASCII):
        rule = "function name must be a C identifier that starts with a letter"
        raise SignatureError(f"native: {rule}, got {fn.name!r}")
    outputs = output_names(fn)
    arguments = []
    for name in fn.params:
        buffer = fn.buffers[name]
        if buffer.dtype not in DTYPE_CODES:
            choices = ", ".join(DTYPE_CODES)
            raise SignatureError(f"{fn.name}: dtype of {name} must be one of {choices}, got {buffer.dtype}")
        shape = tuple(extent_of(f"{fn.name}: extent of {name}", extent) for extent in buffer.shape)
        arguments.append(Argument(name, buffer.dtype, shape, name in outputs))
    for scalar in fn.scalars:
        if not any(scalar in argument.shape for argument in arguments):
            raise SignatureError(f"{fn.name}: {scalar} must be a whole dimension of some parameter, got none")
    return Signature(fn.name, tuple(arguments), fn.scalars)


def extent_of(where: str, extent: ir.Extent) -> ExtentExpr:
    """An extent of the IR in a signature.

    Raises:
        SignatureError: it uses an operator that signatures do not have.
    """
    match extent:
        case int():
            return extent
        case ir.Var(name=name):
            return name
        case ir.Const(value=number):
            return int(number)
        case ir.Binary(op=op, a=a, b=b) if op in EXTENT_OPERATORS:
            return op, extent_of(where, a), extent_of(where, b)
    choices = ", ".join(EXTENT_OPERATORS)
    raise SignatureError(f"{where} must use only the operators {choices}, got {expr_text(extent)}")
