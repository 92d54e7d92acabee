"""``docs/diagnostics.md``: every code of :data:`autofuse.base.diagnostics.CODES`, with causes and repairs.

``python tools/pages/diagnostics_page.py`` prints the page.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

from autofuse.base.diagnostics import CODES

__all__ = ["ADVICE", "diagnostics_page"]


class Advice(NamedTuple):
    """Advice on one diagnostic code.

    Attributes:
        cause: the usual cause.
        repair: the fix.
    """

    cause: str
    repair: str


_AREAS = {
    "AF10": "Files and the command line",
    "AF11": "Fields of a graph file",
    "AF12": "Ops, dtypes and shapes",
    "AF13": "Clients of CANN's Python package",
    "AF14": "Definitions of operators",
    "AF20": "IR",
    "AF21": "One kernel from one graph",
    "AF30": "Scheduling",
    "AF40": "Code generation",
    "AF50": "Compiling and running",
    "AF60": "Verification",
    "AF90": "Faults of autofuse",
}

_REPORT = (
    "Report it, with the folder that the message names, or with the graph and the versions "
    "of `autofuse doctor`."
)
_SPLIT = (
    "`autofuse build --split` splits the graph into several kernels ([split.md](split.md)); the "
    "hint names places to cut."
)

ADVICE: dict[str, Advice] = {
    "AF1001": Advice(
        "The path does not exist, is a folder where a file is expected, or is not readable; "
        "or a folder holds no graph file or kernel.",
        "Check the path and its permissions. `run` takes the folder that `build` wrote; "
        "`explain` and `dump` take graph files.",
    ),
    "AF1002": Advice(
        "A trailing comma, a missing quote, an empty file, or a truncated file.",
        "Go to the line and column of the message.",
    ),
    "AF1003": Advice(
        "A graph file is limited to 16 MiB and 64 levels of nesting. With many errors, this "
        "code also reports how many are not shown.",
        "Do not store constants in a graph file: make them inputs. Fix the errors that are "
        "shown first.",
    ),
    "AF1004": Advice(
        "The file is not an autofuse.graph/1 file, an AKG info file or an ONNX model.",
        '`"schema": "autofuse.graph/1"` must be at the top of a graph file; `autofuse new '
        "first` writes an example.",
    ),
    "AF1005": Advice(
        "An option is unknown or has an invalid argument, or `--shape` names a symbol that "
        "the graph does not have.",
        "`autofuse VERB --help`; `autofuse show GRAPH` lists the symbols.",
    ),
    "AF1006": Advice(
        "ONNX models need the package onnx.",
        "`pip install 'ascend-autofuse[onnx]'`",
    ),
    "AF1101": Advice(
        "An input has no dtype or shape, a node has no op, or the graph has no outputs.",
        "Add the field; `autofuse schema` prints the schema, and editors complete from it "
        "([quickstart.md](quickstart.md)).",
    ),
    "AF1102": Advice(
        "A field is misspelt or at the wrong level; attributes of an op belong in `attrs`.",
        "The hint names the nearest field, or the known ones.",
    ),
    "AF1103": Advice(
        "For example, a number where a string is expected, or a name where a list is; from "
        "Python, a NumPy array in a graph.",
        "Write what the message expects.",
    ),
    "AF1104": Advice(
        "An unknown dtype, a number that does not fit in 64 bits, or a value outside the "
        "range of the field.",
        "The hint lists the allowed values.",
    ),
    "AF1105": Advice(
        "A name is empty, has more than 256 characters or unprintable ones, or is not a "
        "valid symbol.",
        "Use printable characters without a space at either end.",
    ),
    "AF1106": Advice(
        "Two inputs, nodes, tensors or symbols have the same name, or an object repeats a key.",
        "Rename one of them.",
    ),
    "AF1107": Advice(
        "A node or an output reads a name that no input or node defines, usually because of "
        "a typo.",
        "The hint names the nearest tensor.",
    ),
    "AF1108": Advice(
        "A size is not an expression of symbols and integers, or uses an unknown symbol.",
        "Sizes are integers, symbols of the section `symbols`, `+`, `-`, `*`, `//`, `%`, `ceil`, `floor`, "
        "`min`, `max`, `mod` and parentheses; a quotient needs `//`, `ceil` or `floor`.",
    ),
    "AF1109": Advice(
        "A size is negative or too large for some values of the symbols, or the given sizes "
        "contradict each other.",
        "Narrow the `min` and `max` of the symbols; give sizes that agree.",
    ),
    "AF1110": Advice(
        "`inout` names a tensor that is not an input of the graph, or an input that another "
        "output overwrites, that has a different dtype or shape, or that has strides.",
        "Overwrite a contiguous input of the same dtype and shape, and only once; or write "
        "to a new tensor.",
    ),
    "AF1111": Advice(
        "The innermost stride is not 1, an offset can be negative, an input reaches beyond element 2^48, or a scalar "
        "has strides.",
        "Give the input as it lies in memory, and transpose or slice it in the graph. Strides and offset are "
        "in elements.",
    ),
    "AF1201": Advice(
        "The op is misspelt, has another name here, or is not work for the vector unit "
        "(MatMul, Conv).",
        "`autofuse ops` lists the ops; `autofuse ops NAME` shows the replacement for a name "
        "from another framework. In ONNX models and PyTorch modules, unsupported parts can "
        "run elsewhere ([onnx.md](onnx.md), [torch.md](torch.md)).",
    ),
    "AF1202": Advice(
        "An operand is missing or superfluous, or a node has more than one output.",
        "`autofuse ops NAME` shows an example. Every node has one output.",
    ),
    "AF1203": Advice(
        "Operands have different dtypes, or the op does not take this dtype; there is no "
        "implicit conversion.",
        "Insert a Cast. [support.md](support.md) lists the dtypes of every op and chip.",
    ),
    "AF1204": Advice(
        "Shapes do not broadcast, an axis does not exist, or a size that must be fixed is a "
        "symbol.",
        "Shapes broadcast as in NumPy. Compare the shapes in the message; give the size as a "
        "number if it must be known.",
    ),
    "AF1205": Advice(
        "An attribute is missing, misspelt, or has a value that the op does not take.",
        "`autofuse ops NAME` lists the attributes with their defaults.",
    ),
    "AF1206": Advice(
        "A node reads its own result through other nodes.",
        "The message lists the nodes of the cycle; one of their inputs is the wrong tensor.",
    ),
    "AF1207": Advice(
        "The graph file declares a shape or dtype of an intermediate tensor that differs "
        "from the op's result.",
        "Remove the declaration, which is inferred; or fix the op or its inputs.",
    ),
    "AF1301": Advice(
        "A call uses a class or function that autofuse supports only in part.",
        "[clients.md](clients.md) lists the supported interface; the hint names an "
        "alternative that works.",
    ),
    "AF1401": Advice(
        "`autofuse kernelgen describe` takes a line of English and never guesses: a dtype, "
        "shape or axis is missing, or a word is unknown or has several meanings. There is "
        "one diagnostic per question.",
        "Add it to the line; the hint lists the choices "
        "([kernelgen.md](kernelgen.md#one-line-of-english)).",
    ),
    "AF1402": Advice(
        "Part of the function or module cannot be a kernel: a matrix product, a loop that "
        "depends on data, or an op that autofuse does not support. Or the file or the name "
        "in it is wrong, or the example inputs do not match.",
        "Describe the remaining part as a separate function; `torch.compile(model, "
        'backend="autofuse")` takes whole models ([torch.md](torch.md)).',
    ),
    "AF1403": Advice(
        "The file contains a number that no device produces: a negative time, an impossible "
        "clock, or more samples than a measurement has. Or its fields contradict each other, "
        "such as a failed kernel with times. The file was edited, is damaged, or comes from "
        "another version.",
        "Measure again, or remove the record. `autofuse schema --results` prints the ranges "
        "of results, `--bundle` those of bundles.",
    ),
    "AF1404": Advice(
        "`--backward` names a gradient graph whose inputs and outputs differ from the "
        "forward graph in name, dtype or shape. Sizes are compared by the names of their "
        "symbols.",
        "Rename: use `grad_<output>` and names of the forward graph for inputs, "
        "`grad_<input>` for outputs ([torch_extension.md](torch_extension.md#the-gradient)).",
    ),
    "AF1405": Advice(
        "The target file is not TOML, has an unknown key, or has a value that no chip has. "
        "Each message gives the line and the name of the figure.",
        "See [target files](calibrate.md#target-files); `autofuse targets NAME` prints all figures of the base with "
        "their units.",
    ),
    "AF2001": Advice(
        "The text differs from the output of `autofuse dump --stage hint` or `impl`: it was "
        "edited, or comes from another version.",
        "Go to the line of the message, or dump the graph again.",
    ),
    "AF2002": Advice(
        "An IR graph built by hand, in a client or a test, contradicts itself; the note "
        "names the invariant.",
        "Repair the graph. If autofuse made it: " + _REPORT[0].lower() + _REPORT[1:],
    ),
    "AF2101": Advice(
        "Tensors of one kernel have dimensions that do not line up, such as after a reshape "
        "that cuts across them.",
        _SPLIT,
    ),
    "AF2102": Advice(
        "A tensor is overwritten in place while another node still reads it, or it has a "
        "different number of elements.",
        "Write to a new tensor. " + _SPLIT,
    ),
    "AF2103": Advice(
        "autofuse knows the op but cannot compile it in this position of the graph.",
        "Express it with other ops, or remove it from the graph. The hint says what is missing.",
    ),
    "AF2104": Advice(
        "The graph has too many calls, or too many tensors that must pass through workspaces.",
        _SPLIT,
    ),
    "AF3001": Advice(
        "The chip has no call for the op with this dtype, and no equivalent calls or casts.",
        "Cast to a dtype that the chip supports ([support.md](support.md)), or choose "
        "another target.",
    ),
    "AF3002": Advice(
        "Every way to tile the graph breaks a rule of the chip; the notes give the reason "
        "for each template. For a chip that moves only whole blocks of 32 bytes (310P), the "
        "message names all tensors whose rows may not be whole blocks.",
        "Read the notes. Another target may support the graph; a graph with fewer nodes may "
        "have a template.",
    ),
    "AF3003": Advice(
        "Too many tensors are alive at once, or a row that must be in UB is too long; the "
        "notes list the buffers.",
        "Cut the graph where the fewest tensors are alive. " + _SPLIT,
    ),
    "AF3004": Advice(
        "The graph has more inputs, outputs and tensors between pipes than the chip has "
        "queues and buffers. So does a product of 64-bit numbers that takes 16 or more of "
        "them twice, such as of a Concat of a tensor with itself: between their first and "
        "second use, all of them occupy buffers, in two words each.",
        "Cut the graph where the fewest tensors are alive; take such a product of the tensor, and "
        "multiply it by itself. " + _SPLIT,
    ),
    "AF3005": Advice(
        "Reserved: no stage reports it at present.",
        _REPORT,
    ),
    "AF3006": Advice(
        "Kernels of a split graph pass more bytes to each other than a workspace can hold.",
        "Lower the `max` of the symbols, or build the parts as separate graphs, with tensors "
        "that the caller allocates.",
    ),
    "AF3007": Advice(
        "The tuning file is for another graph, an earlier version of this one, or another "
        "target; names a kernel or template that does not exist; or gives a size that the "
        "kernel does not have or the target has no room for.",
        "`autofuse tune GRAPH -t TARGET` writes a new file ([tune.md](tune.md)). For a card, "
        "`autofuse explain GRAPH -t nvidia-h100 --tuning-out FILE` writes the current blocks "
        "to start from; [triton.md](triton.md#blocks-from-a-file) lists the sizes of a "
        "kernel.",
    ),
    "AF3008": Advice(
        "With `--invariant`, a group that sums floats uses one template, whose order depends "
        "only on the reduced elements. No such template fits UB for all values of the other "
        "sizes.",
        "Split the graph at its reductions, or build it without `--invariant`. "
        "[certificate.md](certificate.md) gives the rule.",
    ),
    "AF4001": Advice(
        "A proof about the generated code failed, so the code is not written.",
        _REPORT,
    ),
    "AF5001": Advice(
        "g++ is missing, or the twin's library is not where it was installed; for Triton "
        "kernels, PyTorch, Triton or the card of `--device` is missing.",
        "`autofuse doctor` shows which; install g++ or name a compiler with `AUTOFUSE_CXX`; "
        "otherwise reinstall autofuse. `pip install 'ascend-autofuse[gpu]'` installs Triton.",
    ),
    "AF5002": Advice(
        "An edited kernel has a C++ error; or the compiler took too long or ran out of memory.",
        "Read the compiler's message. `AUTOFUSE_COMPILE_TIMEOUT` allows more time, `--jobs "
        "1` needs less memory.",
    ),
    "AF5003": Advice(
        "A host function returned a status (a size out of range, no tile that fits), or the "
        "kernel crashed.",
        "The message has the text of the status ([c_abi.md](c_abi.md)). A crash of an "
        "unedited kernel is a bug: report it.",
    ),
    "AF5004": Advice(
        "A race between units of a core, a read of uninitialised data, or an out-of-bounds "
        "access; in an edited kernel, usually a missing `PipeBarrier` or a buffer freed too "
        "early.",
        "The notes give the line and the conflicting access "
        "([guides/changing_a_kernel.md](guides/changing_a_kernel.md)).",
    ),
    "AF5005": Advice(
        "The output folder holds edited files or files that autofuse did not write, or it is "
        "not writable.",
        "Name another folder with `-o`, or overwrite with `--force`.",
    ),
    "AF5006": Advice(
        "The name of the target is unknown, or only the cost model supports the chip.",
        "`autofuse targets` lists the chips.",
    ),
    "AF5007": Advice(
        "Arrays of a call differ from the inputs in dtype or shape; a size is outside the "
        "range of its symbol; an index is out of bounds; an output shares memory with "
        "another array; or an option does not apply to the target.",
        "A kernel converts nothing: pass arrays of the graph's dtypes, sizes in the ranges "
        "of the symbols, in-bounds indices, and outputs that overlap no other array. The "
        "hint lists what the target accepts.",
    ),
    "AF5008": Advice(
        "An environment variable is misspelt or has an invalid value.",
        "[knobs.md](knobs.md) lists them all; `autofuse knobs` shows the current values.",
    ),
    "AF5009": Advice(
        "The cache folder cannot be created or written.",
        "Name another folder with `AUTOFUSE_CACHE_DIR`.",
    ),
    "AF5010": Advice(
        "A stage of `autofuse kernelgen` ran before the stage that it builds on, files of "
        "the folder were edited, or another version of autofuse wrote them.",
        "Run the stage that the hint names; `--force` rewrites the files.",
    ),
    "AF5011": Advice(
        "`ASCEND_HOME_PATH` and `ASCEND_TOOLKIT_HOME` do not lead to a CANN toolkit, part of "
        "it cannot be loaded, its release lacks a function that the kernel calls, or the "
        "process already uses another CANN.",
        "Install the CANN toolkit that the message names and source its `set_env.sh`, then "
        "the driver's. `autofuse doctor` shows what it finds. Without a chip: "
        "[guides/fake_cann.md](guides/fake_cann.md).",
    ),
    "AF5012": Advice(
        "An AscendCL call returned the code in the message: the kernel timed out, the chip "
        "does not respond or is out of memory, or a kernel broke a rule of the chip.",
        "The hint says what to do in each case. After a timeout or a lost chip, restart in a "
        "new process. If a kernel stops with a core exception, run it on the CPU twin with "
        "`--check all`.",
    ),
    "AF5013": Advice(
        "bisheng, or the C++ compiler for host code, rejected a file. For an edited kernel, "
        "the location in the message is in the edited file.",
        "For generated code: report it, with the folder that the message names.",
    ),
    "AF5014": Advice(
        "The bundle has fewer timed kernels than a fit needs, or their times determine no "
        "figure: too few repeats, or unusable kernels. The message counts them.",
        "`autofuse silicon --only calibration --repeats 200` measures enough for a fit; "
        "`--resume` continues an interrupted run ([calibrate.md](calibrate.md)).",
    ),
    "AF5015": Advice(
        "A file in the folder was edited after autofuse wrote it, and the edit does not compile.",
        "Correct the named line, or restore the generated text: `autofuse adopt DIR --drop "
        "FILE`. See [guides/edited_kernels.md](guides/edited_kernels.md).",
    ),
    "AF5016": Advice(
        "A build kept an edited and adopted file, but now generates a different text for it "
        "than the one that was edited.",
        "`autofuse adopt DIR --diff` shows both. `--accept FILE` keeps the edit, `--drop "
        "FILE` restores the generated text.",
    ),
    "AF6001": Advice(
        "Elements differ from NumPy by more than the ops allow; for a KernelGen operator, "
        "also from the described function or the baseline; for an ONNX model, onnx.reference "
        "and onnxruntime may differ from each other. Or an edited kernel no longer computes "
        "its graph.",
        "For an edited kernel, see "
        "[guides/changing_a_kernel.md](guides/changing_a_kernel.md). Otherwise it is a bug: "
        "report it.",
    ),
    "AF6002": Advice(
        "The kernel skips elements of an output, or writes to an input.",
        "In an edited kernel, check the offsets and lengths of its copies. Otherwise it is a "
        "bug: report it.",
    ),
    "AF6003": Advice(
        "The graph amplifies rounding errors on random data (a difference of nearly equal "
        "numbers, for example): any value would have passed.",
        "Supply meaningful data with `autofuse run --input`, or verify a part of the graph.",
    ),
    "AF9001": Advice(
        "A bug in autofuse. The exit code is 2.",
        _REPORT,
    ),
}


def diagnostics_page() -> str:
    """Return the page as Markdown."""
    lines = [
        "# Diagnostics",
        "",
        "Made by `python tools/pages/diagnostics_page.py` from `autofuse/base/diagnostics.py`; "
        "do not edit.",
        "",
        "A diagnostic has a code, a location, a message with figures and, usually, a hint. All errors of "
        "a file are reported at once. This page",
        "gives the meaning of each code, its usual cause and the fix. [cli.md](cli.md) lists the exit codes "
        "and the JSON form.",
    ]
    area = ""
    for code, meaning in CODES.items():
        if code[:4] != area:
            area = code[:4]
            lines += ["", f"## {area}xx: {_AREAS[area]}"]
        cause, repair = ADVICE[code]
        lines += ["", f"### {code}", "", f"**{meaning[:1].upper()}{meaning[1:]}.**", ""]
        lines += [f"- Cause: {cause}", f"- Repair: {repair}"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(diagnostics_page())
