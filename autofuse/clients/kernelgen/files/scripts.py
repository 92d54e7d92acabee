"""The tests in the format of KernelGen's write-up: scripts that print a line per shape and a final one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autofuse.clients.kernelgen.files.cases import Cases
from autofuse.clients.kernelgen.files.naming import DOCUMENT, file_names, operator_name

__all__ = ["accuracy_script", "performance_script"]

#: Relative and absolute tolerance; _COARSE applies to bfloat16 outputs.
_TOLERANCE, _COARSE = "1e-3", "1.6e-2"

_HEAD = '''\
"""{what}

{usage}
"""

import argparse
{more}import os
{imports}'''

_DEVICE = '''\
def prepare(device):
    """Prepare the import of Triton: on cpu it interprets, and an npu needs its own package."""
    if device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"
    elif device == "npu":
        import torch_npu
'''

_HAS_CARD = '''\
def has_card(device):
    """Return True if the device exists, False also if its package is missing."""
    if device == "npu":
        try:
            import torch_npu
        except ImportError:
            return False
    import torch
    return device == "cpu" or getattr(torch, device).is_available()
'''

_ACCURACY = '''\
def reference_of(x):
    """Return the input in float64, for a baseline with more digits."""
    return x.double() if x.is_floating_point() else x.clone()


def largest_difference(made, expected):
    """Return the largest absolute difference, and True if all elements are within the tolerance.

    Integers may be rounded from floats whose last digits differ.
    """
    least = TOLERANCE if made.is_floating_point() else ROUNDED * (made.dtype != torch.bool)
    made, expected = made.double(), expected.to(made.dtype).double()
    same = (made == expected) | (torch.isnan(made) & torch.isnan(expected))
    difference = torch.where(same, 0.0, torch.abs(made - expected))
    inside = torch.all(same | (difference <= least + TOLERANCE * torch.abs(expected)))
    return difference.max().item() if difference.numel() else 0.0, bool(inside)


def test_accuracy(device, verbose):
    print("Testing {title} Accuracy...")
    for shape in SHAPES + (LARGE if device != "cpu" else []):
        for scale in {scales}:
            inputs = make_inputs(shape, device, scale)
{unpacked}            made = {name}({call})
            # Large tensors would not fit the device in float64.
            given = [reference_of(x) if shape in SHAPES else x.clone() for x in inputs]
            expected = {name}_baseline({given})
{pairs}            found = [largest_difference(m, e) for m, e in zip(made, expected)]
            max_diff = max(difference for difference, _ in found)
            print(shapes_of(inputs, shape))
            if verbose:
                for (difference, inside), result in zip(found, made):
                    print(f"  {{result.dtype}}{{tuple(result.shape)}}: {{difference:.2e}}, inside: {{inside}}")
            assert all(inside for _, inside in found), f"Test failed: max_diff = {{max_diff:.2e}}"
            print(f"✓ Test passed: max_diff = {{max_diff:.2e}}")
    print("All accuracy tests passed!")
'''

_PERFORMANCE = '''\
def milliseconds(function, device):
    """Return the mean time of one call, measured over several calls after a warm-up."""
    wait = (lambda: None) if device == "cpu" else getattr(torch, device).synchronize
    warmups, iterations = (0, 1) if device == "cpu" else (WARMUPS, ITERATIONS)
    for _ in range(warmups):
        function()
    wait()
    start = time.perf_counter()
    for _ in range(iterations):
        function()
    wait()
    return (time.perf_counter() - start) / iterations * 1000.0


def write_results(path, device, times):
    """Write the times for autofuse kernelgen tune --results and log --results."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "{kernel}"), "rb") as file:
        kernel = hashlib.sha256(file.read()).hexdigest()
    found = {{"schema": "autofuse.kernelgen.results/1", "operator": "{operator}", "kernel": kernel}}
    found["device"] = getattr(torch, device).get_device_name()
    found["when"] = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
    with open(path, "w", encoding="utf-8") as file:
        json.dump(found | {{"times": times}}, file, indent=1)


def test_performance(device, results):
    print("Testing {title} Performance...")
    if device == "cpu":
        print("No card: Triton interprets the kernel on cpu, at small sizes; these are not times of a device.")
    speedups, times = [], []
    for shape in SHAPES if device == "cpu" else LARGE:
        inputs = make_inputs(shape, device, 1.0)
{unpacked}        baseline_time = milliseconds(lambda: {name}_baseline({call}), device)
        triton_time = milliseconds(lambda: {name}({call}), device)
        speedup = baseline_time / triton_time
        speedups.append(speedup)
        times.append({{"shape": shape, "kernel_us": triton_time * 1000.0, "baseline_us": baseline_time * 1000.0}})
        print(shapes_of(inputs, shape))
        print(f"Baseline time: {{baseline_time:.4f}} ms")
        print(f"Triton time: {{triton_time:.4f}} ms")
        print(f"Speedup: {{speedup:.4f}}x")
        print()
    print(f"Average speedup: {{sum(speedups) / len(speedups):.4f}}x")
    if results:
        write_results(results, device, times)
    print("All performance tests completed!")
'''

_MAIN = """\
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--device", choices=["cpu", "cuda", "npu"], default="{default}")
{more}options = parser.parse_args()
{chosen}prepare(options.device)

import torch
from {kernel} import {imported}
from {baseline} import {operator} as {name}_baseline

{call}
"""

#: Without its card the script still runs, and reports this.
_CHOSEN = """\
if not has_card(options.device):
    print(f"No {{options.device}} found: falling back to --device cpu.")
    options.device = "cpu"
""".replace("{{", "{").replace("}}", "}")


_NO_RESULTS = """\
if options.results and options.device == "cpu":
    parser.error("--results needs a card: times of the interpreter are not times of a device")
"""


def accuracy_script(
    cases: Cases,
    sizes: Sequence[Mapping[str, int]],
    large: Sequence[Mapping[str, int]],
    device: str,
) -> str:
    """Return the accuracy test.

    Args:
        cases: test data of the operator.
        sizes: sizes of the symbols, one entry per case.
        large: sizes skipped in Triton's interpreter.
        device: default device, ``cuda`` or ``npu``.
    """
    name = operator_name(cases.graph)
    local = cases.local_operator
    tolerance = _COARSE if "torch.bfloat16" in (*cases.results(), cases.dtype) else _TOLERANCE
    unpacked = (
        "".join(f"            {x}\n" for x in cases.unpacked()) if cases.signature.free() else ""
    )
    one = len(cases.results()) == 1
    pairs = "            made, expected = [made], [expected]\n" if one else ""
    test = _ACCURACY.format(
        title=_title(name),
        name=local,
        scales=list(cases.recipes[1]),
        call=cases.call("inputs", "x"),
        given=cases.call("given"),
        pairs=pairs,
        unpacked=unpacked,
    )
    floats = any(t.dtype.kind == "f" for t in cases.graph.tensors.values())
    rounded = 1 if floats else 0
    usage = f"python {file_names(name, DOCUMENT).accuracy} --device cpu"
    constants = [
        "#: Relative and absolute tolerance of floats, absolute tolerance of integers.\n"
        f"TOLERANCE, ROUNDED = {tolerance}, {rounded}",
        *_shapes(cases, sizes, large),
    ]
    more = 'parser.add_argument("--verbose", action="store_true", help="print a line per output")\n'
    main = _MAIN.format(
        default=device,
        more=more,
        chosen=_CHOSEN,
        call="test_accuracy(options.device, options.verbose)",
        **_modules(name, local),
    )
    what = f"Accuracy of {name}: the kernel against the baseline."
    head = _HEAD.format(what=what, usage=usage, imports="", more="")
    return _joined([head, "\n".join(constants), _HAS_CARD, _DEVICE, _inputs(cases), test, main])


def performance_script(
    cases: Cases,
    sizes: Sequence[Mapping[str, int]],
    large: Sequence[Mapping[str, int]],
    device: str,
) -> str:
    """Return the performance test, in milliseconds of wall-clock time.

    Args:
        cases: test data of the operator.
        sizes: sizes of the symbols, one entry per case, for Triton's interpreter without a card.
        large: sizes with a card.
        device: default device, ``cuda`` or ``npu``.
    """
    name = operator_name(cases.graph)
    local = cases.local_operator
    unpacked = "".join(f"        {x}\n" for x in cases.unpacked()) if cases.signature.free() else ""
    test = _PERFORMANCE.format(
        title=_title(name),
        name=local,
        call=cases.call("inputs"),
        unpacked=unpacked,
        kernel=file_names(name, DOCUMENT).kernel,
        operator=cases.graph.name,
    )
    usage = f"python {file_names(name, DOCUMENT).performance} --device {device}"
    constants = ["WARMUPS, ITERATIONS = 10, 100", _shapes(cases, sizes, ())[0]]
    constants += _shapes(cases, (), large)[1:]
    main = _MAIN.format(
        default=device,
        more='parser.add_argument("--results", help="write the times to this file, measured on a card")\n',
        chosen=_CHOSEN + _NO_RESULTS,
        call="test_performance(options.device, options.results)",
        **_modules(name, local),
    )
    what = f"Performance of {name}: milliseconds of the baseline and of the kernel, on the same tensors."
    head = _HEAD.format(
        what=what, usage=usage, imports="import time\n", more="import hashlib\nimport json\n"
    )
    return _joined([head, "\n".join(constants), _HAS_CARD, _DEVICE, _inputs(cases), test, main])


def _joined(parts: Sequence[str]) -> str:
    head, constants, *rest = (p.strip("\n") for p in parts)
    return f"{head}\n\n{constants}\n\n\n" + "\n\n\n".join(rest) + "\n"


def _title(name: str) -> str:
    return " ".join(word.capitalize() for word in name.split("_") if word)


def _modules(operator: str, local: str) -> dict[str, str]:
    names = file_names(operator, DOCUMENT)
    return {
        "operator": operator,
        "imported": operator if operator == local else f"{operator} as {local}",
        "name": local,
        "kernel": names.kernel.removesuffix(".py"),
        "baseline": names.baseline.removesuffix(".py"),
    }


def _shapes(
    cases: Cases, sizes: Sequence[Mapping[str, int]], large: Sequence[Mapping[str, int]]
) -> list[str]:
    small = list(dict.fromkeys(cases.shapes(sizes)))
    more = [s for s in dict.fromkeys(cases.shapes(large)) if s not in small]
    return [
        f"SHAPES = {small}",
        "#: 512, 1024 and 2048 cubed elements, or as many as fit the memory of the device.",
        f"LARGE = {more}",
    ]


def _inputs(cases: Cases) -> str:
    dtype = cases.dtype
    drawn = [x.replace("dtype=dtype", f"dtype={dtype}") for x in cases.inputs(scale="scale")]
    unpacked = "".join(f"    {line}\n" for line in cases.unpacked())
    listed = "".join(f"        {x},\n" for x in drawn)
    made = f"    return [\n{listed}    ]" if drawn else "    return []"
    words = ["Shape"] + [f"{n} shape" for n in cases.signature.inputs[1:]]
    return f'''\
def make_inputs(shape, device, scale):
    """Return random tensors for one shape."""
{unpacked}{made}


def shapes_of(inputs, shape):
    """Return a line that describes the tested shapes."""
    if not inputs:
        return f"Shape: {{shape}}"
    return ", ".join(f"{{word}}: {{tuple(x.shape)}}" for word, x in zip({words}, inputs))
'''
