"""Identifiers that no kernel may be called by, because a C or C++ program already uses them.

Keywords, names declared by the headers of ISO C, and symbols that our objects call or define.
"""

from __future__ import annotations

import re

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
