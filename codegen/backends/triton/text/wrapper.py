"""Emit the file of a graph: its kernels, and the function that checks, allocates and launches."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from autofuse.codegen.backends.triton.blocks import row_blocks, rows_of_core, unit_of
from autofuse.codegen.backends.triton.call import Call
from autofuse.codegen.backends.triton.kernels import Blocks, Form, Kernel, Program
from autofuse.codegen.backends.triton.ops.spelling import TRITON
from autofuse.codegen.backends.triton.signature import entry_point, new_tensor
from autofuse.codegen.backends.triton.text.launching import LAUNCHER, MEET
from autofuse.codegen.backends.triton.text.rows import RowWriter
from autofuse.codegen.backends.triton.text.writer import BLOCK, Writer
from autofuse.codegen.nests.memory import Memory
from autofuse.implgraph.expr.expression import Expr

__all__ = ["file_text", "kernel_text", "kernels_text"]


@dataclass(frozen=True)
class KernelText:
    """A kernel function and its parameters: pointers, then sizes, then constants.

    Attributes:
        lines: lines of the function.
        memory: memory that the pointers point to.
        sizes: symbols.
        constants: names of its block size constants.
        meets: results that the blocks of a cluster exchange through scratch, a float of each for every row.
        takes_blocks: the number of blocks is a parameter after the sizes.
        reaches: offsets that determine the constant ``WIDE``; may be empty.
        unit: symbol that the constant ``UNIT`` divides; may be empty.
    """

    lines: tuple[str, ...]
    memory: tuple[Memory, ...]
    sizes: tuple[str, ...]
    constants: tuple[str, ...]
    meets: int
    takes_blocks: bool
    reaches: tuple[Expr, ...]
    unit: str


def kernel_text(
    kernel: Kernel,
    symbols: Mapping[str, str],
    ranges: Mapping[str, tuple[int, int]],
    *,
    on_cores: bool = False,
    launcher: bool = True,
) -> KernelText:
    """Return the text of a kernel.

    Args:
        kernel: kernel to emit.
        symbols: names of the graph's symbols in the text.
        ranges: ranges of the sizes.
        on_cores: each program loops over blocks.
        launcher: launched by ``Launcher`` rather than by Triton itself.
    """
    meets = 0
    if kernel.form in (Form.ITEMS, Form.TILES):
        writer = Writer(kernel, symbols, ranges, on_cores)
        with writer.place():
            writer.store_all()
    else:
        writer = rows = RowWriter(kernel, symbols, ranges, on_cores)
        with rows.place():
            rows.body()
        meets = rows.meets
    pointers = [writer.pointer(m) for m in writer.memory.values()]
    pointers += ["meeting_ptr"] if meets else []
    constants = [BLOCK[d] for d in writer.dims] + (["WIDE"] if writer.asks_width else [])
    unit = "" if on_cores else writer.unit()
    divided: list[str] = []
    if unit:
        constants.append("UNIT")
        # Triton knows that a product with a constant is a multiple of it.
        divided.append(f"    {symbols[unit]} = {symbols[unit]} // UNIT * UNIT")
    names = [*pointers, *(symbols[s] for s in writer.sizes)]
    names += ["blocks"] if writer.takes_blocks else []
    parameters = ", ".join([*names, *(f"{c}: tl.constexpr" for c in constants)])
    return KernelText(
        (
            *(["@Launcher"] if launcher else []),
            "@triton.jit",
            f"def {kernel.name}({parameters}):",
            *divided,
            *writer.lines,
        ),
        tuple(writer.memory.values()),
        tuple(writer.sizes),
        tuple(constants),
        meets,
        writer.takes_blocks,
        writer.reaches if writer.asks_width else (),
        unit,
    )


def file_text(program: Program, *, plain: bool = False, call: Call | None = None) -> str:
    """Return the text of the module.

    Args:
        program: kernels to emit.
        plain: launch kernels by ``kernel[grid](...)``; the function has annotations and copies tensors with other
            strides, in the form of the operators of FlagGems.
        call: parameters of its function; None: the inputs of the graph.
    """
    return _File(program, plain, call).text()


def kernels_text(program: Program) -> str:
    """Return the text of a module that has only the kernels, for callers that launch them themselves."""
    ranges = program.graph.symbol_ranges()
    texts = [
        kernel_text(k, program.symbols, ranges, on_cores=program.cores > 0, launcher=False)
        for k in program.kernels
    ]
    return _module(program, _functions(texts))


def _module(program: Program, parts: Iterable[str]) -> str:
    head = [f'"""{entry_point(program.graph)}: Triton kernels."""', ""]
    head += ["import torch", "import triton", "import triton.language as tl", "", ""]
    return "\n".join(head) + "\n" + "\n\n".join(parts)


def _functions(texts: Sequence[KernelText]) -> list[str]:
    """Return the kernels, behind the functions that they call."""
    lines = ["\n".join(t.lines) for t in texts]
    found = list(TRITON.functions(*lines).values())
    found += [MEET] if any(t.meets for t in texts) else []
    return found + [f"{text}\n" for text in lines]


class _File:
    """The file of one program.

    Attributes:
        texts: texts of its kernels.
        device: device of the results, as an expression in the function.
    """

    def __init__(self, program: Program, plain: bool, call: Call | None) -> None:
        self.program, self.graph, self.plain = program, program.graph, plain
        self.signature = replace(program.signature, call=call)
        self.launcher = not plain and program.cores == 0
        ranges = self.graph.symbol_ranges()
        self.texts = [
            kernel_text(
                k, program.symbols, ranges, on_cores=program.cores > 0, launcher=self.launcher
            )
            for k in program.kernels
        ]
        self.device = f"{program.inputs[0].name}.device" if program.inputs else "device"

    def text(self) -> str:
        """Return the whole file."""
        parts = [LAUNCHER] if self.launcher else []
        parts += _functions(self.texts)
        if any(k.blocks is None for k in self.program.kernels):
            choose = rows_of_core if self.program.cores else row_blocks
            parts.append(inspect.getsource(choose))
        if any(t.unit for t in self.texts):
            parts.append(inspect.getsource(unit_of))
        return _module(self.program, [*parts, self._function()])

    # the function -----------------------------------------------------------------------------
    def _function(self) -> str:
        lines = self.signature.head(entry_point(self.graph), annotated=self.plain)
        lines += [f"    {line}" for line in self._body()]
        return "\n".join(lines) + "\n"

    def _body(self) -> Iterator[str]:
        if not self.program.inputs:
            here = '"cpu" if triton.knobs.runtime.interpret else "cuda"'
            # Some versions of triton-ascend lack knobs; torch_npu provides the other module.
            here = '"npu" if hasattr(torch, "npu") else "cpu"' if self.program.cores else here
            yield f"device = device or ({here})"
        called = ("row_blocks", "rows_of_core", "unit_of")
        yield from self.signature.sizes([*called, *(k.name for k in self.program.kernels)])
        yield from self.signature.checks(any_layout=self.plain)
        yield from self.signature.allocated(self.device)
        for m in self.program.scratch:
            assert m.size is not None
            yield new_tensor(m.name, self.python(m.size), m.dtype, self.device)
        pairs = list(zip(self.program.kernels, self.texts, strict=True))
        for i, (k, written) in enumerate(pairs):
            guard = self._guard(k, pairs[i - 1][0] if i else None)
            call = list(self._launch(k, written))
            yield from ([guard, *(f"    {line}" for line in call)] if guard else call)
        yield self.signature.returned()

    def python(self, e: Expr, *, atomic: bool = False) -> str:
        """Return a size in terms of the function's variables."""
        return self.signature.python(e, atomic=atomic)

    # launches ---------------------------------------------------------------------------------
    def _guard(self, k: Kernel, before: Kernel | None) -> str:
        """Return the condition for launching a kernel; empty for always."""
        count = k.nest.count((*k.grid, *k.rows))
        if k.form in (Form.ITEMS, Form.TILES):
            count = k.nest.count(k.nest.axes)
        # Sums over no rows are 0; programs without rows store them.
        always = k.blocks is not None and k.blocks.programs > 0
        always = always or (count.is_const and count.value > 0)
        found = [] if always else [f"{self.python(count)} > 0"]
        if k.most_cols:
            found.append(f"{self.python(k.nest.count(k.cols), atomic=True)} <= {k.most_cols}")
        if before is not None and before.most_cols and before.nest.axes == k.nest.axes:
            found.append(f"{self.python(k.nest.count(k.cols), atomic=True)} > {before.most_cols}")
        return f"if {' and '.join(found)}:" if found else ""

    def _launch(self, k: Kernel, t: KernelText) -> Iterator[str]:
        counts = f"{self.python(k.nest.count(k.rows))}, {self.python(k.nest.count(k.cols))}"
        if k.blocks is None and self.program.cores:
            yield f"ROWS, COLS = rows_of_core({counts}, {k.most_cols}, {self.program.cores})"
            b, named = Blocks(), {"ROWS": "ROWS", "COLS": "COLS"}
        elif k.blocks is None:
            yield f"ROWS, COLS, warps = row_blocks({counts})"
            b, named = Blocks(), {"ROWS": "ROWS", "COLS": "COLS", "num_warps": "warps"}
        else:
            b = k.blocks
            named = {n: str(v) for n, v in b.constants().items()} | {"num_warps": str(b.warps)}
        if t.reaches:
            reach = [self.python(e) for e in t.reaches]
            most = f"max({', '.join(reach)})" if len(reach) > 1 else reach[0]
            named["WIDE"] = f"{most} >= 2**31"
        if t.unit:
            named["UNIT"] = f"unit_of({self.program.symbols[t.unit]})"
        blocks = self._blocks(k, named)
        tensors = [m.name for m in t.memory]
        if self.program.cores:
            yield from self._launch_on_cores(k, t, b, blocks, named)
            return
        if t.meets:
            size = self.python(k.lines() * (t.meets * b.parts))
            yield f"meeting = torch.empty({size}, dtype=torch.float32, device={self.device})"
            tensors.append("meeting")
        args = [self.program.symbols[s] for s in t.sizes]
        args += [f"{c}={named[c]}" for c in t.constants]
        args.append(f"num_warps={named['num_warps']}")
        args += [f"num_ctas={b.parts}"] if b.parts > 1 else []
        sizes = [str(b.programs) if b.programs else blocks, str(b.chunks), "1"]
        if self.plain:
            args += ["enable_fp_fusion=False"] if k.exact else []
            while len(sizes) > 1 and sizes[-1] == "1":
                sizes.pop()
            grid = f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
            yield f"{k.name}[{grid}]({', '.join([*tensors, *args])})"
        else:
            args += ["fusion=False"] if k.exact else []
            listed = ", ".join(tensors) + ("," if len(tensors) == 1 else "")
            first = f"({', '.join(sizes)}), ({listed})"
            yield f"{k.name}({', '.join([first, *args])})"

    def _blocks(self, k: Kernel, named: Mapping[str, str]) -> str:
        """Return the number of programs, with one block each; ``named``: values of the block size constants."""
        extents = k.extents()
        found = []
        for count, part in extents:
            side = named[part] if part else "1"
            whole = self.python(count, atomic=side == "1" and len(extents) > 1)
            found.append(whole if side == "1" else f"triton.cdiv({whole}, {side})")
        return " * ".join(found)

    def _launch_on_cores(
        self, k: Kernel, t: KernelText, b: Blocks, blocks: str, named: Mapping[str, str]
    ) -> Iterator[str]:
        """Yield a launch by Triton itself, with at most one program per core.

        It does not forbid fusing products and sums: triton-ascend accepts that option, but ignores it.
        """
        programs = str(b.programs)
        if t.takes_blocks:
            yield f"blocks = {blocks}"
            programs = f"min(blocks, {max(1, self.program.cores // b.chunks)})"
        grid = f"({programs}, {b.chunks})" if b.chunks > 1 else f"({programs},)"
        args = [*(m.name for m in t.memory), *(self.program.symbols[s] for s in t.sizes)]
        args += ["blocks"] if t.takes_blocks else []
        args += [f"{c}={named[c]}" for c in t.constants]
        yield f"{k.name}[{grid}]({', '.join(args)})"
