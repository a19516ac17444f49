"""The C header of a kernel: C99 and C++, on its own; headers of several kernels go together in one file."""

from __future__ import annotations

import textwrap

from vdla.compiler.abi.codes import ARGUMENT_SHIFT, DTYPES, MAX_EXTENT, TEXTS, Code
from vdla.compiler.abi.signature import Argument, Signature, shape_text

COMMON = """\
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

/* The argument that an error is about, where it is about one. */
static inline int32_t vdla_error_argument(int32_t code) {{
    return code >> {shift};
}}

/* The rule that was broken. */
static inline const char *vdla_error_text(int32_t code) {{
    switch (code & {mask}) {{
{texts}
    default:
        return "unknown error";
    }}
}}

#endif
"""

THREADS = """\
#ifndef VDLA_NATIVE_THREADS_H
#define VDLA_NATIVE_THREADS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The most threads of a parallel loop, the caller among them; 0 is what VDLA_THREADS says, else all processors. */
void vdla_set_threads(int32_t count);
int32_t vdla_threads(void);

#ifdef __cplusplus
}
#endif

#endif
"""

KERNEL = """\
#ifdef __cplusplus
extern "C" {{
#endif

/*
{comment}
 */
int32_t {symbol}(const vdla_tensor *arguments, int32_t count);

/* The same as JSON. */
extern const char {symbol}_signature[];

#ifdef __cplusplus
}}
#endif
"""

INDENT = " " * 4


def header(signature: Signature, parallel: bool) -> str:
    """The header of one kernel; `parallel` where its object has the thread pool."""
    kernel = KERNEL.format(symbol=signature.symbol, comment=_comment(signature))
    return "\n".join([common(), *([THREADS] if parallel else []), kernel])


def common() -> str:
    """What all headers have."""
    return COMMON.format(
        dtypes=_enumerators({dtype.upper(): number for dtype, number in DTYPES.items()}),
        errors=_enumerators({f"{'OK' if code is Code.OK else f'ERROR_{code.name}'}": int(code) for code in Code}),
        shift=ARGUMENT_SHIFT,
        mask=hex((1 << ARGUMENT_SHIFT) - 1),
        texts="\n".join(f'    case {int(code)}:\n        return "{text}";' for code, text in TEXTS.items()),
    )


def _enumerators(values: dict[str, int]) -> str:
    return ",\n".join(f"{INDENT}VDLA_{name} = {value}" for name, value in values.items())


def _comment(signature: Signature) -> str:
    lines = [f"{signature.symbol}: 0, or an error. {len(signature.arguments)} arguments:"]
    lines += [_argument_line(position, argument) for position, argument in enumerate(signature.arguments)]
    if signature.scalars:
        names = ", ".join(signature.scalars)
        lines.append(f"{names}: known from the shapes, from 1 to {MAX_EXTENT}, the same in every argument.")
    wrapped = [part for line in lines for part in textwrap.wrap(line, 110, subsequent_indent=INDENT)]
    return "\n".join(f" * {line}" for line in wrapped)


def _argument_line(position: int, argument: Argument) -> str:
    role = "output" if argument.output else "input"
    return f"  {position}: {argument.name}, {role}, {argument.dtype} {shape_text(argument.shape)}"
