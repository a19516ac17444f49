# SPDX-License-Identifier: Apache-2.0
"""The C header of a kernel, for C99 and C++. It is self-contained; one file may include several."""

from __future__ import annotations

import textwrap

from vdla.compiler.abi.signature import (
    ARGUMENT_SHIFT,
    DTYPE_CODES,
    MAX_EXTENT,
    MAX_THREADS,
    STATUS_TEXTS,
    Argument,
    KernelStatus,
    Signature,
    format_shape,
    signature_symbol,
)

_COMMON = """\
#ifndef VDLA_NATIVE_H
#define VDLA_NATIVE_H

#include <stdint.h>

/* An array: dense, row-major, aligned to its element. `shape` has `rank` extents. */
typedef struct {{
    void *data;
    const int64_t *shape;
    int32_t rank;
    int32_t dtype; /* enum vdla_dtype */
}} vdla_tensor;

/* int2 and int4 are stored one to a byte. */
enum vdla_dtype {{
{dtypes}
}};

enum vdla_error {{
{errors}
}};

/* The position of the argument that an error is about. */
static inline int32_t vdla_error_argument(int32_t code) {{
    return code >> {shift};
}}

/* What went wrong. */
static inline const char *vdla_error_text(int32_t code) {{
    switch (code & {mask}) {{
{texts}
    default:
        return "unknown error";
    }}
}}

#endif
"""

_THREADS = """\
#ifndef VDLA_NATIVE_THREADS_H
#define VDLA_NATIVE_THREADS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

/*
 * Limits the threads of a parallel loop, the calling one included, to `count` (at most {limit});
 * 0 restores the default: VDLA_THREADS, else the number of processors.
 */
void vdla_set_threads(int32_t count);
int32_t vdla_threads(void);

#ifdef __cplusplus
}}
#endif

#endif
"""

_KERNEL = """\
#ifdef __cplusplus
extern "C" {{
#endif

/*
{comment}
 */
int32_t {symbol}(const vdla_tensor *arguments, int32_t count);

/* The signature as JSON. */
extern const char {signature}[];

#ifdef __cplusplus
}}
#endif
"""

_INDENT = " " * 4


def kernel_header(signature: Signature, parallel: bool) -> str:
    """The C header of one kernel; `parallel` adds the functions of the thread pool."""
    symbol = signature.symbol
    kernel = _KERNEL.format(symbol=symbol, signature=signature_symbol(symbol), comment=_comment(signature))
    return "\n".join([_common(), *([_THREADS.format(limit=MAX_THREADS)] if parallel else []), kernel])


def _common() -> str:
    """The part that all headers share: types, enumerations, error texts."""
    errors = {"OK" if code is KernelStatus.OK else f"ERROR_{code.name}": int(code) for code in KernelStatus}
    return _COMMON.format(
        dtypes=_enumerators({dtype.upper(): number for dtype, number in DTYPE_CODES.items()}),
        errors=_enumerators(errors),
        shift=ARGUMENT_SHIFT,
        mask=hex((1 << ARGUMENT_SHIFT) - 1),
        texts="\n".join(f'    case {int(code)}:\n        return "{text}";' for code, text in STATUS_TEXTS.items()),
    )


def _enumerators(values: dict[str, int]) -> str:
    return ",\n".join(f"{_INDENT}VDLA_{name} = {value}" for name, value in values.items())


def _comment(signature: Signature) -> str:
    lines = [f"{signature.symbol}: returns 0 or an error. {len(signature.arguments)} arguments:"]
    lines += [_argument_line(position, argument) for position, argument in enumerate(signature.arguments)]
    if signature.scalars:
        names = ", ".join(signature.scalars)
        lines.append(f"{names}: taken from the shapes, from 1 to {MAX_EXTENT}, the same in every argument.")
    wrapped = [part for line in lines for part in textwrap.wrap(line, 97, subsequent_indent=_INDENT)]
    return "\n".join(f" * {line}" for line in wrapped)


def _argument_line(position: int, argument: Argument) -> str:
    role = "output" if argument.output else "input"
    return f"  {position}: {argument.name}, {role}, {argument.dtype} {format_shape(argument.shape)}"
