"""C++ loops of a region, compiled and called by Inductor as its own C++ kernels are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch._inductor.async_compile import AsyncCompile, get_compile_threads
from torch._inductor.codecache import CppPythonBindingsCodeCache, LambdaFuture
from torch._inductor.cpp_builder import is_gcc
from torch._inductor.ir import ExternKernel, InputsKernel, MutationOutput, NoneLayout
from torch._inductor.lowering import empty_strided, lowerings
from torch._inductor.virtualized import V

from autofuse.machines.cpu.library import flags_for_speed

__all__ = ["call_loops", "compiled"]


def call_loops(
    text: str,
    types: Sequence[str],
    inputs: Sequence[torch.Tensor],
    outputs: Sequence[tuple[Sequence[Any], torch.dtype]],
    sizes: Sequence[Any],
) -> tuple[torch.Tensor, ...]:
    """Return the results of loops, uninitialised: the target of a node, which is only called with fake tensors.

    Args:
        text: C++ with an entry of the name and the parameters that ``kernel_text`` writes.
        types: types of its parameters.
        inputs: tensors on a CPU.  The loops expect the strides of ``meta["eager_input_vals"]`` of the node.
        outputs: shape and dtype of every result, which is contiguous.
        sizes: what the entry takes after the addresses.
    """
    return tuple(torch.empty(shape, dtype=dtype) for shape, dtype in outputs)


def _lowered(
    text: str,
    types: Sequence[str],
    inputs: Sequence[Any],
    outputs: Sequence[tuple[Sequence[Any], torch.dtype]],
    sizes: Sequence[Any],
) -> tuple[Any, ...]:
    """Return the results as tensors of Inductor; the arguments are those of :func:`call_loops`."""
    device = torch.device("cpu")
    values, _ = V.graph.current_node.meta["eager_input_vals"]
    laid_out = [
        ExternKernel.require_exact_strides(ExternKernel.realize_input(x), fake.stride())
        for x, fake in zip(inputs, values[2], strict=True)
    ]
    results = [empty_strided(shape, None, dtype=d, device=device) for shape, d in outputs]
    _Loops(text, types, laid_out, results, list(sizes))
    return tuple(results)


lowerings[call_loops] = _lowered


def compiled(compiler: AsyncCompile, types: Sequence[str], text: str) -> Any:
    """Return the entry of loops as a function of tensors and sizes, or what will be one; generated code calls this.

    It does what ``AsyncCompile.cpp_pybinding`` does, with flags of ours: Inductor's disable vectorisation of loops.

    Args:
        compiler: compiles in the background.
        types: types of the parameters of the entry.
        text: C++ of the loops.
    """
    flags = flags_for_speed(is_gcc=is_gcc())
    if get_compile_threads() <= 1:
        # Inductor then waits for no futures.
        return _Bindings.load_pybinding(types, text, extra_flags=flags)
    found = _Bindings.load_pybinding_async(
        types, text, submit_fn=compiler.submit, extra_flags=flags
    )
    return LambdaFuture(found)


class _Bindings(CppPythonBindingsCodeCache):  # type: ignore[misc]
    """Inductor's cache of compiled functions, for text that needs no header of PyTorch."""

    cache: ClassVar[dict[str, Any]] = {}

    @classmethod
    def _get_uncompiled_header(cls, device: str) -> str | None:
        """Return no header: one that is compiled beforehand would be included with other flags."""
        return None


class _Loops(ExternKernel):  # type: ignore[misc]
    """A call of loops, which write into memory that Inductor has allocated."""

    def __init__(
        self,
        text: str,
        types: Sequence[str],
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        sizes: Sequence[Any],
    ) -> None:
        buffers = [
            InputsKernel.unwrap_storage_for_input(ExternKernel.realize_input(x))
            for x in (*inputs, *outputs)
        ]
        layout = NoneLayout(device=torch.device("cpu"))
        super().__init__(None, layout, buffers, tuple(sizes))
        self._text, self._types = text, list(types)
        self._written = [MutationOutput(layout, x, self) for x in outputs]
        V.graph.register_operation(self)

    def get_outputs(self) -> list[Any]:
        """Return what stands for the changed memory."""
        return list(self._written)

    def get_device(self) -> torch.device:
        """Return the device."""
        return torch.device("cpu")

    def should_allocate(self) -> bool:
        """Return False: the node has no memory of its own."""
        return False

    def get_unbacked_symbol_defs(self) -> Any:
        """Return no symbols: all sizes are known before."""
        return type(self.get_free_symbol_uses())()

    def codegen(self, wrapper: Any) -> None:
        """Write the definition of the kernel, once per text, and its call."""
        name = wrapper.src_to_kernel.get(self._text)
        if name is None:
            name = f"cpp_autofuse_{wrapper.next_kernel_suffix()}"
            wrapper.src_to_kernel[self._text] = name
            wrapper.add_import_once(f"from {__name__} import compiled as compiled_loops")
            made = f"compiled_loops(async_compile, {self._types!r}, r'''\n{self._text}''')"
            wrapper.define_kernel(name, made, gpu=False)
        given = [x.codegen_reference() for x in self.inputs]
        given += [wrapper.codegen_python_sizevar(s) for s in self.constant_args]
        wrapper.generate_kernel_call(
            name, given, triton=False, arg_types=self._types, device=self.get_device()
        )
