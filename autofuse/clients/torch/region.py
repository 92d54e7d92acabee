"""A region at run time, a function from tensors to tensors."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch

from autofuse.base import knobs
from autofuse.clients.torch.lower import Lowered, ScalarInput, TensorInput
from autofuse.clients.torch.places import Place
from autofuse.clients.torch.sizes import Shape

__all__ = ["Launcher", "Region", "Runnable"]

#: Integer types that a Python number may overflow.
_NARROW = (torch.uint8, torch.int8, torch.int16, torch.int32)
#: Maximum number of cached sizes of calls with their output shapes.
_KEPT = 64
#: Bytes of outputs up to which one thread runs all cores, because waking others takes longer.
_ONE_THREAD = 1 << 16


class Runnable(Protocol):
    """A kernel that can be called."""

    def run(
        self,
        symbols: Sequence[int],
        pointers: Sequence[int],
        threads: int,
        sizes: Sequence[int],
        inputs: int,
    ) -> tuple[int, str]:
        """Compute the tiling and launch.

        Args:
            symbols: sizes in the order of the graph.
            pointers: addresses of inputs and outputs in the order of the graph.
            threads: maximum threads of the twin; 0 for one per CPU.
            sizes: accessible bytes from each pointer; the twin checks every access.
            inputs: number of read-only pointers, which come first.

        Returns:
            (0, ""), or a status and a text: a message, or the twin's findings as JSON.
        """


class Region(torch.nn.Module):
    """A kernel in place of some nodes of a graph, called with addresses and sizes.

    Args:
        lowered: graph of the kernel.
        arguments: nodes whose results are the region's arguments, in order.
        places: for every symbol, where to find it among them.
        eager: the same nodes, run by PyTorch, for sizes that the kernel refuses.
        refused: called once when that happens, with the reason and the error code if autofuse is at fault, else an
            empty text; may raise.
        kernel: the kernel.
        threads: maximum threads of the twin; 0: AUTOFUSE_THREADS.

    Thread-safe.
    """

    def __init__(
        self,
        lowered: Lowered,
        arguments: Sequence[torch.fx.Node],
        places: Sequence[Place],
        eager: torch.fx.GraphModule,
        refused: Callable[[str, str], None],
        kernel: Runnable,
        threads: int = 0,
    ) -> None:
        super().__init__()
        at = {n: i for i, n in enumerate(arguments)}
        device = next(
            (
                t.device
                for n in (*arguments, *(o.node for o in lowered.outputs))
                if isinstance(t := n.meta["val"], torch.Tensor)
            ),
            torch.device("cpu"),
        )
        self._name = lowered.graph.name
        self._device = device
        # (position, permutation) for tensors; (None, ScalarInput) for numbers.
        self._inputs: list[tuple[int | None, Any]] = [_source(i, at) for i in lowered.inputs]
        # On other devices, reading the elements would synchronise.
        looked_at = lowered.indices if device.type == "cpu" else ()
        self._indices = [(at[i.node], i.extent, i.wraps) for i in looked_at]
        self._places = tuple(places)
        self._symbols = tuple(s.name for s in lowered.graph.symbols)
        self._outputs = lowered.outputs
        outputs = [(o.shape, o.dtype) for o in lowered.outputs]
        self.launch = Launcher(kernel, self._symbols, outputs, threads)
        self._plain = all(o.perm is None for o in lowered.outputs)
        self._refused = refused
        self._told: set[str] = set()
        # Not a submodule: it holds no parameters, and printing it is useless.
        self._eager = [eager]

    def _sizes(self, args: Sequence[Any]) -> tuple[int, ...]:
        """Return the sizes of the symbols, in the order of the graph."""
        return tuple([p.read(args) for p in self._places])

    def _is_outside(self, args: Sequence[Any], sizes: Sequence[int]) -> bool:
        """Return True if an index is out of range; PyTorch then reports which one."""
        env = dict(zip(self._symbols, sizes, strict=True))
        for at, extent, wraps in self._indices:
            if args[at].numel():
                low, high = (int(t) for t in torch.aminmax(args[at]))
                size = extent.evaluate(env)
                if low < (-size if wraps else 0) or high >= size:
                    return True
        return False

    def _tensors(self, args: Sequence[Any], sizes: Sequence[int]) -> list[torch.Tensor]:
        """Return the inputs of the graph, with their axes in memory order."""
        found = []
        for at, how in self._inputs:
            if at is None:
                found.append(self._number(how, args, sizes))
            else:
                found.append(args[at] if how is None else args[at].permute(how))
        return found

    def _number(self, how: ScalarInput, args: Sequence[Any], sizes: Sequence[int]) -> torch.Tensor:
        if how.expr is None:
            assert isinstance(how.node, int)
            value = args[how.node]
        else:
            value = how.expr.evaluate(dict(zip(self._symbols, sizes, strict=True)))
        if isinstance(value, int) and how.dtype in _NARROW:
            # A number that is too large wraps, as in arithmetic.
            made = torch.tensor(value, dtype=torch.int64).to(how.dtype)
        else:
            made = torch.tensor(value, dtype=how.dtype)
        if self._device.type == "cpu":
            return made
        # A copy would synchronise, and cannot be captured in a CUDA graph.
        return torch.full((), made.item(), dtype=how.dtype, device=self._device)

    def _results(self, outputs: Sequence[torch.Tensor]) -> Any:
        """Return a tensor, or a tuple of several, with eager's axis order."""
        if not self._plain:
            outputs = [
                t if o.perm is None else t.permute(o.perm)
                for t, o in zip(outputs, self._outputs, strict=True)
            ]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _by_pytorch(self, why: str, wrong: str, args: Sequence[Any]) -> Any:
        """Return PyTorch's result in place of the kernel's.

        Args:
            why: the reason.
            wrong: the code of the error if autofuse is at fault.
            args: arguments of the region.
        """
        why = f"{self._name} {why}"
        if why not in self._told:
            self._told.add(why)
            self._refused(why, wrong)
        return self._eager[0](*args)

    def extra_repr(self) -> str:
        """Return the name of the kernel."""
        return self._name

    def __call__(self, *args: Any) -> Any:
        """Return the results needed outside the region: a tensor, or a tuple of several."""
        sizes = self._sizes(args)
        if self._indices and self._is_outside(args, sizes):
            return self._eager[0](*args)
        keep = [t.contiguous() for t in self._tensors(args, sizes)]
        outputs, why, wrong = self.launch(sizes, keep, self._device)
        return self._by_pytorch(why, wrong, args) if why else self._results(outputs)


class Launcher:
    """Allocates the outputs of a kernel, and launches it.

    Args:
        kernel: the kernel.
        symbols: names of its sizes, in order.
        outputs: shape and dtype of every output, which is contiguous.
        threads: maximum threads of the twin; 0: AUTOFUSE_THREADS.

    Thread-safe.
    """

    def __init__(
        self,
        kernel: Runnable,
        symbols: Sequence[str],
        outputs: Sequence[tuple[Shape, torch.dtype]],
        threads: int = 0,
    ) -> None:
        self.kernel, self._run = kernel, kernel.run
        self._symbols = tuple(symbols)
        self._outputs = tuple(outputs)
        self._shapes: dict[tuple[int, ...], _Shapes] = {}
        self._threads = threads or knobs.THREADS.get()

    def __call__(
        self, sizes: tuple[int, ...], inputs: Sequence[torch.Tensor], device: torch.device
    ) -> tuple[list[torch.Tensor], str, str]:
        """Return the outputs, why they were not computed, and the code of the error if autofuse is at fault.

        Args:
            sizes: values of the symbols.
            inputs: tensors with the strides of the graph.
            device: where the outputs lie.
        """
        shapes = self._shapes.get(sizes) or self._shapes_of(sizes)
        outputs = [
            torch.empty(s, dtype=dtype, device=device)
            for s, (_, dtype) in zip(shapes.shapes, self._outputs, strict=True)
        ]
        if not shapes.empty:
            pointers = [t.data_ptr() for t in (*inputs, *outputs)]
            bytes_ = [t.nbytes if t.is_contiguous() else _extent(t) for t in inputs]
            bytes_.extend(shapes.bytes)
            threads = 1 if shapes.small else self._threads
            status, text = self._run(sizes, pointers, threads, bytes_, len(inputs))
            if status:
                # The rule was proved to hold, so a violation is a bug in autofuse.
                return outputs, _why(status, text), "AF5004" if text.startswith("[") else ""
        return outputs, "", ""

    def _shapes_of(self, sizes: tuple[int, ...]) -> _Shapes:
        env = dict(zip(self._symbols, sizes, strict=True))
        shapes = [tuple(e.evaluate(env) for e in shape) for shape, _ in self._outputs]
        found = _Shapes(shapes, [dtype for _, dtype in self._outputs])
        if len(self._shapes) >= _KEPT:
            self._shapes = {}
        self._shapes[sizes] = found
        return found


def _extent(t: torch.Tensor) -> int:
    """Return the bytes from the first element of a tensor to the end of its last one."""
    reach = sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True))
    return (reach + 1) * t.itemsize


def _why(status: int, text: str) -> str:
    """Return why a kernel failed, from the message of its tiling function or the twin's findings as JSON."""
    if not text.startswith("["):
        return f"rejects a call: {text or f'status {status}'}"
    found = [f"{f['code']}: {f['api']}: {f['message']}" for f in json.loads(text)]
    return f"breaks a rule of the chip: {'; '.join(found) or f'status {status}'}"


class _Shapes:
    """Shapes of the outputs for some sizes, with flags for empty and for small work."""

    __slots__ = ("bytes", "empty", "shapes", "small")

    def __init__(self, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[torch.dtype]) -> None:
        self.shapes = tuple(shapes)
        self.bytes = [
            d.itemsize * math.prod(shape) for shape, d in zip(shapes, dtypes, strict=True)
        ]
        total = sum(self.bytes)
        self.empty = total == 0
        self.small = total <= _ONE_THREAD


def _source(i: TensorInput | ScalarInput, at: Mapping[Any, int]) -> tuple[int | None, Any]:
    if isinstance(i, TensorInput):
        return at[i.node], i.perm
    if i.node is None:
        return None, i
    return None, ScalarInput(i.dtype, None, at[i.node])  # type: ignore[arg-type]
