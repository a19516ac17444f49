# SPDX-License-Identifier: Apache-2.0
"""The signature of a kernel: its arguments and symbolic extents. Every object carries it as JSON.

An extent is a number, the name of a symbolic extent, or a tuple `(operator, left, right)` of
extents. `Signature.scalars` lists the names in the order in which the kernel's body takes them.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any

ARGUMENT_SHIFT = 8
"""The bit from which on a return value holds the position of the offending argument."""

MAX_EXTENT = 2**31 - 1
"""The largest extent of a dimension: indices are int32."""

MAX_THREADS = 256
"""The most threads of a parallel loop, as in the pool, `codegen/llvm/pool.ll`."""


class KernelStatus(IntEnum):
    """The low ARGUMENT_SHIFT bits of a kernel's return value."""

    OK = 0
    COUNT = 1
    NULL = 2
    RANK = 3
    DTYPE = 4
    SHAPE = 5
    SYMBOL = 6
    ALIGNMENT = 7
    OVERLAP = 8
    MEMORY = 9


STATUS_TEXTS = {
    KernelStatus.OK: "no error",
    KernelStatus.COUNT: "the number of arguments must match the kernel",
    KernelStatus.NULL: "arguments, data and shapes must not be null",
    KernelStatus.RANK: "the rank must match the kernel",
    KernelStatus.DTYPE: "the element type must match the kernel",
    KernelStatus.SHAPE: "the shape must match the kernel, every extent at least 1",
    KernelStatus.SYMBOL: "a symbolic extent must be the same in every argument",
    KernelStatus.ALIGNMENT: "the data must be aligned to the element size",
    KernelStatus.OVERLAP: "an output must not overlap another argument",
    KernelStatus.MEMORY: "cannot allocate memory for the intermediate results",
}
"""The rule that was broken, or the resource that ran out."""

DTYPE_CODES = {
    "bool": 1,
    "int2": 2,
    "int4": 3,
    "int8": 4,
    "int16": 5,
    "int32": 6,
    "int64": 7,
    "uint8": 8,
    "uint16": 9,
    "uint32": 10,
    "uint64": 11,
    "float16": 12,
    "bfloat16": 13,
    "float32": 14,
    "float64": 15,
}
"""The number of each element type."""

_BYTES = {"16": 2, "32": 4, "64": 8}


def element_bytes(dtype: str) -> int:
    """The bytes of one element in memory; int2 and int4 take a whole byte."""
    return _BYTES.get(dtype[-2:], 1)


def decode_status(status: int) -> tuple[KernelStatus, int]:
    """A kernel's return value as a status and the position of the argument it is about, or 0."""
    return KernelStatus(status & ((1 << ARGUMENT_SHIFT) - 1)), status >> ARGUMENT_SHIFT


_KEYWORDS = """
auto break case char const continue default do double else enum extern float for goto if inline int long register
restrict return short signed sizeof static struct switch typedef union unsigned void volatile while main asm typeof
alignas alignof and and_eq bitand bitor bool catch class compl concept const_cast consteval constexpr constinit co_await
co_return co_yield decltype delete dynamic_cast explicit export false friend mutable namespace new noexcept not not_eq
nullptr operator or or_eq private protected public reinterpret_cast requires static_assert static_cast template this
thread_local throw true try typeid typename using virtual xor xor_eq
linux unix i386 errno stdin stdout stderr
"""
_MATH = """
abs acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 exp10 expm1 fabs fdim floor fma
fmax fmin fmod frexp gamma hypot ilogb j0 j1 jn ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround modf
nan nearbyint nextafter nexttoward pow pow10 remainder remquo rint round roundeven scalb scalbln scalbn significand sin
sincos sinh sqrt tan tanh tgamma trunc y0 y1 yn cabs cacos cacosh carg casin casinh catan catanh ccos ccosh cexp cimag
clog conj cpow cproj creal csin csinh csqrt ctan ctanh drem finite fpclassify isfinite isgreater isgreaterequal isinf
isless islessequal islessgreater isnan isnormal isunordered signbit
"""
_LIBRARY = """
abort aligned_alloc atexit atof atoi atol atoll bsearch calloc div exit free getenv labs ldiv llabs lldiv malloc mblen
posix_memalign qsort quick_exit rand realloc srand strtod strtof strtol strtold strtoll strtoul strtoull system
memchr memcmp memcpy memmove mempcpy memset strcat strchr strcmp strcoll strcpy strcspn strdup strerror strlen strncat
strncmp strncpy strndup strpbrk strrchr strspn strstr strtok strxfrm bcmp bcopy bzero ffs index rindex strcasecmp
stpcpy stpncpy
fclose feof ferror fflush fgetc fgets fopen fprintf fputc fputs fread freopen fscanf fseek ftell fwrite getc getchar
gets perror printf putc putchar puts remove rename rewind scanf setbuf setvbuf snprintf sprintf sscanf tmpfile tmpnam
ungetc vfprintf vprintf vscanf vsnprintf vsprintf vsscanf
isalnum isalpha isascii isblank iscntrl isdigit isgraph islower isprint ispunct isspace isupper isxdigit toascii tolower
toupper iswalpha iswdigit towlower towupper
accept access alarm alloca asctime assert bind clock close connect ctime dup execl execv fork getpid gmtime kill link
listen localtime longjmp mktime nice offsetof open pause pipe poll raise read recv sched_getaffinity select send setjmp
shutdown signal sleep socket stat sync time times truncate unlink usleep va_arg va_copy va_end va_start wait write
"""
_PATTERN = re.compile(r"(vdla|VDLA|pthread)_\w*|\w*_(t|C|MIN|MAX)")
"""The thread pool's and the header's own names, pthreads, and types and limits of the C headers."""
_FUNCTIONS = (word + kind for word in _MATH.split() for kind in ("", "f", "l"))
_WORDS = frozenset([*_KEYWORDS.split(), *_LIBRARY.split(), *_FUNCTIONS])


def is_reserved(name: str) -> bool:
    """Whether C, C++ or our objects already use an identifier."""
    return name in _WORDS or _PATTERN.fullmatch(name) is not None


ExtentExpr = int | str | tuple[str, Any, Any]

EXTENT_OPERATORS: Mapping[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "min": min,
    "max": max,
}
"""The operators of extents; division by 0 gives 0, as in the IR."""

_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}


@dataclass(frozen=True, slots=True)
class Argument:
    """One array of the caller; `output` if the kernel writes it."""

    name: str
    dtype: str
    shape: tuple[ExtentExpr, ...]
    output: bool

    @property
    def static(self) -> tuple[int, ...] | None:
        """The shape, or None if an extent is symbolic."""
        numbers = tuple(extent for extent in self.shape if isinstance(extent, int))
        return numbers if len(numbers) == len(self.shape) else None


@dataclass(frozen=True, slots=True)
class Signature:
    """The arguments of a kernel in order, and the names of its symbolic extents."""

    name: str
    arguments: tuple[Argument, ...]
    scalars: tuple[str, ...] = ()

    @property
    def symbol(self) -> str:
        """The kernel's C symbol: its name, with `_kernel` appended if that name is reserved."""
        return f"{self.name}_kernel" if is_reserved(self.name) else self.name

    @property
    def inputs(self) -> tuple[Argument, ...]:
        """The arguments that the kernel only reads."""
        return tuple(argument for argument in self.arguments if not argument.output)

    @property
    def outputs(self) -> tuple[Argument, ...]:
        """The arguments that the kernel writes."""
        return tuple(argument for argument in self.arguments if argument.output)

    def source(self, scalar: str) -> tuple[int, int]:
        """The argument and dimension that define a symbolic extent; an input is preferred."""
        candidates = [
            (argument.output, position, dimension)
            for position, argument in enumerate(self.arguments)
            for dimension, extent in enumerate(argument.shape)
            if extent == scalar
        ]
        _, position, dimension = min(candidates)
        return position, dimension

    def to_json(self) -> str:
        """The signature as JSON text."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Signature:
        """The inverse of `to_json`; ValueError, KeyError or TypeError for any other text."""
        raw = json.loads(text)
        arguments = tuple(
            Argument(a["name"], a["dtype"], tuple(_extent(extent) for extent in a["shape"]), a["output"])
            for a in raw["arguments"]
        )
        return Signature(raw["name"], arguments, tuple(raw["scalars"]))


def signature_symbol(symbol: str) -> str:
    """The C symbol of the constant that holds the signature of kernel `symbol` as JSON."""
    return f"{symbol}_signature"


def _extent(raw: int | str | list[Any]) -> ExtentExpr:
    """An extent from JSON, where tuples are lists."""
    if isinstance(raw, (int, str)):
        return raw
    op, a, b = raw
    return op, _extent(a), _extent(b)


def evaluate_extent(extent: ExtentExpr, scalars: Mapping[str, int]) -> int:
    """The value of an extent, given the symbolic ones."""
    if isinstance(extent, int):
        return extent
    if isinstance(extent, str):
        return scalars[extent]
    op, a, b = extent
    return EXTENT_OPERATORS[op](evaluate_extent(a, scalars), evaluate_extent(b, scalars))


def format_extent(extent: ExtentExpr) -> str:
    """An extent in Python syntax."""
    if isinstance(extent, int | str):
        return str(extent)
    op, a, b = extent
    if op not in _SYMBOLS:
        return f"{op}({format_extent(a)}, {format_extent(b)})"
    return " ".join((_operand(a), _SYMBOLS[op], _operand(b)))


def _operand(extent: ExtentExpr) -> str:
    text = format_extent(extent)
    return f"({text})" if isinstance(extent, tuple) and extent[0] in _SYMBOLS else text


def format_shape(shape: Sequence[ExtentExpr]) -> str:
    """A shape in Python's tuple syntax."""
    inner = ", ".join(format_extent(extent) for extent in shape)
    return f"({inner},)" if len(shape) == 1 else f"({inner})"


# --- launches -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start a kernel: its name, the buffers and symbolic extents it takes, and its grid.

    `groups` are the groups of the grid and `threads` the threads of a group, each along x, y, z.
    `shared_bytes` is the shared memory of a group that the launch must ask for; what the kernel
    declares itself is not part of it.
    """

    kernel: str
    buffers: tuple[str, ...]
    scalars: tuple[str, ...]
    groups: tuple[ExtentExpr, ...]
    threads: tuple[int, ...]
    shared_bytes: int = 0
