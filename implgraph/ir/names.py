"""Conversion of names from files into C++ identifiers, done only here.

Whatever a file calls a graph, a node, a symbol or a tensor, only results of :func:`identifier` reach generated code;
the original names remain in messages, metadata and files.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

from autofuse.base.visible import visible

__all__ = [
    "MAX_LENGTH",
    "MAX_NAME",
    "called",
    "identifier",
    "is_reserved",
    "legal_name",
    "symbol_identifier",
    "tensor_name",
]

#: Longest identifier, in characters.
MAX_LENGTH = 64
#: Longest name that a graph file may use, in characters.
MAX_NAME = 256

_CPP = """
alignas alignof and and_eq asm atomic_cancel atomic_commit atomic_noexcept auto bitand bitor bool
break case catch char char8_t char16_t char32_t class compl concept const consteval constexpr
constinit const_cast continue contract_assert co_await co_return co_yield decltype default delete
do double dynamic_cast else enum explicit export extern false final float for friend goto if
import inline int long module mutable namespace new noexcept not not_eq nullptr operator or or_eq
override private protected public reflexpr register reinterpret_cast requires restrict return
short signed sizeof static static_assert static_cast struct switch synchronized template this
thread_local throw true try typedef typeid typename typeof union unsigned using virtual void
volatile wchar_t while xor xor_eq
"""

# Macros and names of the C and C++ libraries that would conflict with a local name.
_LIBRARY = """
NULL EOF BUFSIZ FILE INFINITY NAN HUGE_VAL M_E M_PI CHAR_BIT RAND_MAX assert errno stdin stdout
stderr offsetof setjmp signbit isnan isinf isfinite linux unix i386 near far interface main std
int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t ssize_t ptrdiff_t
intptr_t uintptr_t max_align_t nullptr_t va_list min max string vector
abort abs alloca atexit atof atoi atol bcmp bcopy bsearch bzero calloc div exit ffs fputc fputs
fprintf fread free fwrite getenv index isalnum isalpha isascii isblank iscntrl isdigit isgraph
islower isprint ispunct isspace isupper iswalnum isxdigit labs ldiv llabs lldiv longjmp malloc
memchr memcmp memcpy memmove mempcpy memset posix_memalign printf putchar puts qsort raise rand
read realloc rindex scanf select signal snprintf sprintf srand sscanf strcasecmp strcat strchr
strcmp strcpy strcspn strdup strlen strncat strncmp strncpy strndup strpbrk strrchr strspn strstr
strtod strtol system time toascii tolower toupper vprintf write
"""

# The kernel's entry is an `extern "C"` function, and compilers treat these names as builtins: for double, float and
# long double, and (with a leading c) for complex numbers.
_MATH = """
acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh drem erf erfc exp exp10 exp2
expm1 fabs fdim finite floor fma fmax fmin fmod frexp gamma hypot ilogb j0 j1 jn ldexp lgamma
llceil llfloor llrint llround log log10 log1p log2 logb lrint lround modf nan nearbyint nextafter
nexttoward pow pow10 remainder remquo rint round roundeven scalb scalbln scalbn significand sin
sincos sinh sqrt tan tanh tgamma trunc y0 y1 yn abs arg conj imag proj real
"""

# Ascend C: types, macros and functions that generated kernels call by their bare names.
_ASCENDC = """
half bfloat16_t float16_t int4b_t hifloat8_t complex32 complex64 GM_ADDR AscendC TPipe TQue
TQueBind TQueSync TBuf TBufPool TPosition TEventID TensorDesc QuePosition LocalTensor GlobalTensor
BinaryRepeatParams UnaryRepeatParams DataCopyParams DataCopyExtParams DataCopyPadParams
DataCopyPadExtParams SliceInfo CumSumConfig HardEvent RoundMode CMPMODE SELMODE AtomicType
CacheMode CacheLine DcciDst MaskMode BlockMode Nd2NzParams BrcbRepeatParams GatherRepeatParams
CopyRepeatParams SoftMaxTiling VECIN VECOUT VECCALC VECBUF GM UB A1 A2 B1 B2 C1 C2 CO1 CO2 LCM SPM
SHM TSCM PIPE_S PIPE_V PIPE_M PIPE_MTE1 PIPE_MTE2 PIPE_MTE3 PIPE_FIX PIPE_ALL EVENT_ID0 EVENT_ID1
EVENT_ID2 EVENT_ID3 ASCEND_IS_AIC ASCEND_IS_AIV KERNEL_TASK_TYPE_DEFAULT TILING_KEY_IS
GET_TILING_DATA GET_TILING_DATA_WITH_STRUCT GetUserWorkspace TILING_KEY_VAR REGISTER_TILING_DEFAULT
REGISTER_TILING_FOR_TILINGKEY TILING_DATA_FIELD_DEF BEGIN_TILING_DATA_DEF END_TILING_DATA_DEF
OP_ADD ONE_BLK_SIZE ONE_REPEAT_BYTE_SIZE DEFAULT_BLK_NUM DEFAULT_BLK_STRIDE DEFAULT_REPEAT_STRIDE
aicore aiv aic cce bisheng acl aclrtStream rtStream_t platform_ascendc optiling gert ge Abs Add
AddDeqRelu AddRelu AddReluCast Adds And Ands Any Arange ArithProgression Asin Atan Axpy
BilinearInterpolation BlockReduceMax BlockReduceMin BlockReduceSum Brcb Broadcast BroadCast Cast
CastDeq Ceil Compare CompareScalar Compares Copy Cos Cosh CreateVecIndex CumSum DataCopy
DataCopyPad DataCacheCleanAndInvalid DeQue Digamma Div Divs Dropout Duplicate EnQue Erf Erfc Exp
Fill Floor FmodMask Fmod Frac FreeTensor AllocTensor Gather GatherMask Gatherb GeGLU Gelu
GetBlockIdx GetBlockNum GetPhyAddr GetReduceMaxMinCount GetSize GetSubBlockIdx GetTPipePtr
GetTaskRatio GetValue InitBuffer InitBufPool InitConstValue InitGlobalMemory IBSet IBWait
LayerNorm LeakyRelu Lgamma Ln Log Log2 Log10 LoadData LogicalAnd LogicalNot LogicalOr LogicalXor
Max Maxs Mean Min Mins Mmad Mul MulAddDst MulAddRelu MulCast Muls Nop Normalize Not Ors Or
PairReduceSum PipeBarrier Power Pad Prelu Process Rand Reciprocal ReduceMax ReduceMin ReduceSum
ReinterpretCast Relu RepeatReduceSum ReshapeMatrix ResetMask RmsNorm Round Rsqrt Scatter Select
SelectWithBytesMask SetAtomicAdd SetAtomicNone SetCmpMask SetFlag SetGlobalBuffer SetMaskCount
SetMaskNorm SetSize SetValue SetVectorMask ShiftLeft ShiftRight Sigmoid Sign Silu SimpleSoftMax
Sin Sinh SoftMax Sort Sort32 Sqrt Square Sub SubRelu SubReluCast Subs Sum SwiGLU Swish SyncAll Tan
Tanh TopK Trans5HD TransData TransDataTo5HD Transpose Trunc UnPad VectorPadding WaitFlag Where
WholeReduceMax WholeReduceMin WholeReduceSum Xor
"""

# Names used by generated code, its C ABI and its host side.
_GENERATED = """
AutofuseAbiVersion AutofuseErrorText AutofuseLaunch AutofuseLaunchArray AutofuseLogger AutofuseSetLogger
AutofuseTiling AutofuseTilingData AutofuseTilingForKey AutofuseIsStaticShape GetTilingDataSize
GetTilingKeyCount GetKernelBin InferShape ResLimit autofuse tiling tiling_data tiling_key
tiling_func workspace workspace_size block_dim block_idx stream limit res_limit pipe pointers t tmp tpipe
"""

_MATH_NAMES = frozenset(
    f"{c}{name}{suffix}" for c in ("", "c") for name in _MATH.split() for suffix in ("", "f", "l")
)
_RESERVED = _MATH_NAMES.union(f"{_CPP} {_LIBRARY} {_ASCENDC} {_GENERATED}".split())
# Axes and tile sizes of generated code (z0, z0z1T, z0t_size), its local variables, and macros of the toolchain.
_RESERVED_FORM = re.compile(
    r"(?:(?:z\d+)+\w*|(?:ACL|ASCENDC|AUTOFUSE|CANN|DTYPE|EVENT|FORMAT|GM|ORIG|PIPE|TILING)_\w*|autofuse_\w*"
    r"|(?:block|offset|row)\d+|row_size|bank_gap|id)\Z",
    re.A,
)
# Symbols become local variables of the kernel, next to variables with these suffixes.
_LOCAL_FORM = re.compile(
    r"\w+_(?:gm|local|scalar|tmp|queue|buf|bytes|at|actual_size|axis_size|loop_size)\Z", re.A
)


def legal_name(text: str) -> bool:
    """Return True if a graph file may use ``text`` to name a graph, a node or a tensor: it is printable."""
    return 0 < len(text) <= MAX_NAME and text.isprintable() and text.strip() == text


def is_reserved(text: str) -> bool:
    """Return True if ``text`` already has a meaning in the generated C++."""
    return text in _RESERVED or _RESERVED_FORM.match(text) is not None


def identifier(text: str, taken: set[str] | None = None) -> str:
    """Return a C++ identifier for any text: letters, digits and single underscores, at most 64 characters.

    The result depends on the arguments only.  It is not a keyword or a name of Ascend C or generated code, does not
    begin or end with an underscore, and contains no double underscore; a name that satisfies this already is returned
    unchanged.

    Args:
        text: any text at all.
        taken: names already in use; the result is not among them and is added.
    """
    word = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")
    if not word or word[0].isdigit():
        word = f"v_{word}".rstrip("_")
    if is_reserved(word):
        word = f"v_{word}"
    if len(word) > MAX_LENGTH:
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        word = f"{word[: MAX_LENGTH - 9].rstrip('_')}_{digest}"
    if taken is None:
        return word
    unique = (
        word
        if word not in taken
        else _numbered(word, _free_number(lambda n: _numbered(word, n), taken))
    )
    taken.add(unique)
    return unique


def symbol_identifier(text: str, taken: set[str]) -> str:
    """Return an :func:`identifier` for a symbol, which shares its scope with the locals of a kernel."""
    word = identifier(text)
    return identifier(f"{word[: MAX_LENGTH - 2]}_v" if _LOCAL_FORM.match(word) else text, taken)


def tensor_name(text: str, taken: set[str]) -> str:
    """Return the name of a tensor as in the file, with control characters escaped and a number appended if it is taken.

    Args:
        text: any text at all.
        taken: names already in use; the result is not among them and is added.
    """
    name = visible(text) or "tensor"
    if name in taken:
        name = f"{name}_{_free_number(lambda n: f'{name}_{n}', taken)}"
    taken.add(name)
    return name


def called(text: str, word: str) -> str:
    """Return the display name of a graph or node with the identifier ``word``; empty if both are the same."""
    shown = visible(text)
    return "" if shown == word else shown


def _numbered(word: str, n: int) -> str:
    suffix = f"_{n}"
    return word[: MAX_LENGTH - len(suffix)].rstrip("_") + suffix


def _free_number(numbered: Callable[[int], str], taken: set[str]) -> int:
    """Return a number, at least 2, that makes a word free.

    Searches in doubling steps, then bisects: thousands of names may reduce to the same word.
    """
    high = 2
    while numbered(high) in taken:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if numbered(middle) in taken:
            low = middle
        else:
            high = middle
    return high
