"""The text that launches kernels in a generated file.

``kernel[grid](...)`` binds, types and hashes the arguments at every call, which takes several times as long as the
launch itself.  The outcome depends on few values, so it is cached.  ``CompiledKernel.run`` is the call that Triton
itself makes after that; its parameters are the same in Triton 3.6 to 3.9.
"""

from __future__ import annotations

__all__ = ["LAUNCHER", "MEET"]

#: Launcher of a CUDA file.  Sizes and constants come in the order of the kernel's parameters; a grid has three sizes.
LAUNCHER = '''\
class Launcher:
    """Launches a kernel; caches compiled kernels by everything they depend on except types, which never change."""

    def __init__(self, kernel):
        self.kernel, self.ready = kernel, {}

    def __call__(self, grid, tensors, *sizes, num_warps, num_ctas=1, fusion=True, **constants):
        addresses, bits = [], 0
        for t in tensors:
            addresses.append(t.data_ptr())
            bits |= addresses[-1]
        device = tensors[0].device.index
        numbers = (*sizes, *constants.values())
        key = (device, grid, numbers, num_warps)
        # Triton compiles a variant without wide accesses for unaligned addresses.
        found = self.ready.get(key) if bits % 16 == 0 else None
        if found is not None:
            run, function, metadata, current_stream = found
            run(*grid, current_stream(device), function, metadata, None, None, None, *addresses, *numbers)
            return
        # Triton compiles for the current card, and the driver rejects kernels compiled for another one.
        if device is not None and device != (current := triton.runtime.driver.active.get_current_device()):
            raise ValueError(f"tensors are on cuda:{device}, but the current device is cuda:{current}")
        options = {"num_warps": num_warps, "num_ctas": num_ctas, "enable_fp_fusion": fusion}
        compiled = self.kernel[grid](*tensors, *sizes, **constants, **options)
        if compiled is not None and bits % 16 == 0:  # it is None in the interpreter
            if len(self.ready) >= 1024:
                self.ready.clear()
            current_stream = triton.runtime.driver.active.get_current_stream
            self.ready[key] = compiled.run, compiled.function, compiled.packed_metadata, current_stream
'''

#: Cluster barrier, in files with clusters.
MEET = '''\
#: True if the blocks of a cluster run in parallel; in the interpreter one program stands in for all of them.
IN_CLUSTERS: tl.constexpr = tl.constexpr(not triton.knobs.runtime.interpret)


@triton.jit
def meet_cluster(PARTS: tl.constexpr):
    """Wait for all blocks of the cluster; their earlier stores are visible afterwards.

    The first warp of a block has stored its results, so only that warp has to make them visible.
    """
    if IN_CLUSTERS and PARTS > 1:
        tl.inline_asm_elementwise(
            """{
            .reg .pred first;
            .reg .u32 thread;
            mov.u32 thread, %tid.x;
            setp.lt.u32 first, thread, 32;
            @first fence.acq_rel.gpu;
            barrier.cluster.arrive.relaxed.aligned;
            barrier.cluster.wait.acquire.aligned;
            mov.u32 $0, 0;
            }""", "=r", [], dtype=tl.int32, is_pure=False, pack=1,
        )
'''
