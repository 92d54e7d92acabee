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
    "`autofuse build --split` makes several kernels of the graph ([split.md](split.md)); the "
    "hint names places to cut at."
)

ADVICE: dict[str, Advice] = {
    "AF1001": Advice(
        "The path is wrong, is a folder where a file is wanted, or may not be read; a folder "
        "holds no graph file, or no kernel.",
        "Check the path and its permissions. `run` takes the folder that `build` wrote, "
        "`explain` and `dump` take graph files.",
    ),
    "AF1002": Advice(
        "A trailing comma, a missing quote, an empty file, or a file that was cut off.",
        "Go to the line and column of the message.",
    ),
    "AF1003": Advice(
        "A graph file may have 16 MiB and nest 64 levels deep. With many errors, the code also "
        "says how many are not shown.",
        "Constants do not belong in a graph file: make them inputs. Repair the errors that are "
        "shown first.",
    ),
    "AF1004": Advice(
        "The file is neither autofuse.graph/1, nor an AKG info file, nor an ONNX model.",
        '`"schema": "autofuse.graph/1"` belongs at the top of a graph file; `autofuse new first` writes one.',
    ),
    "AF1005": Advice(
        "An option is unknown or has an argument that it does not take; `--shape` names no "
        "symbol of the graph.",
        "`autofuse VERB --help`; `autofuse show GRAPH` lists the symbols.",
    ),
    "AF1006": Advice(
        "ONNX models need the package onnx.",
        "`pip install 'ascend-autofuse[onnx]'`",
    ),
    "AF1101": Advice(
        "An input has no dtype or shape, a node no op, the graph no outputs.",
        "Add the field; `autofuse schema` prints the schema, and editors complete from it "
        "([quickstart.md](quickstart.md)).",
    ),
    "AF1102": Advice(
        "A field is misspelt, or stands at the wrong level; attributes of an op belong in `attrs`.",
        "The hint names the nearest field, or those that are known.",
    ),
    "AF1103": Advice(
        "A number stands where a text is wanted, say, or one name where a list is; from Python, "
        "a NumPy array in a graph.",
        "Write what the message expects.",
    ),
    "AF1104": Advice(
        "An unknown dtype, a number that does not fit 64 bits, a value outside of the range that "
        "the field has.",
        "The hint lists what is allowed.",
    ),
    "AF1105": Advice(
        "A name is empty, has more than 256 characters, or characters that cannot be printed; a "
        "symbol is no name.",
        "Use printable characters without a space at either end.",
    ),
    "AF1106": Advice(
        "Two inputs, nodes, tensors or symbols have one name, or a key stands twice in an object.",
        "Rename one of them.",
    ),
    "AF1107": Advice(
        "A node or an output reads a name that no input and no node makes; mostly a typing error.",
        "The hint names the nearest tensor.",
    ),
    "AF1108": Advice(
        "A size is no expression of symbols and integers, or names an unknown symbol.",
        "Sizes are integers, symbols of the section `symbols`, `+`, `-`, `*`, `//`, `%`, `ceil`, `floor`, "
        "`min`, `max`, `mod` and parentheses; a quotient needs `//`, `ceil` or `floor`.",
    ),
    "AF1109": Advice(
        "A size is negative or too large for some values of the symbols, or the given sizes "
        "contradict each other.",
        "Narrow the `min` and `max` of the symbols; give sizes that agree.",
    ),
    "AF1110": Advice(
        "`inout` names no input of the graph, one that another output overwrites, one of another "
        "dtype or shape, or one with "
        "strides.",
        "Overwrite a contiguous input of the same dtype and shape, once; or write to a new tensor.",
    ),
    "AF1111": Advice(
        "The innermost stride is not 1, an offset can be negative, an input reaches beyond element 2^48, or a scalar "
        "has strides.",
        "Give the input as it lies in memory, and transpose or slice it in the graph. Strides and offset are "
        "in elements.",
    ),
    "AF1201": Advice(
        "The op is misspelt, has another name here, or is no work of the vector unit (MatMul, "
        "Conv).",
        "`autofuse ops` lists the ops; `autofuse ops NAME` says what to write for the name of "
        "another framework. Of ONNX models and "
        "PyTorch modules, the rest can run elsewhere ([onnx.md](onnx.md), [torch.md](torch.md)).",
    ),
    "AF1202": Advice(
        "An operand is missing or too many; a node has more than one output.",
        "`autofuse ops NAME` has an example. One node gives one tensor.",
    ),
    "AF1203": Advice(
        "Operands have different dtypes, or the op does not take this one; nothing is converted "
        "on its own.",
        "Insert a Cast. [support.md](support.md) has the dtypes of every op and chip.",
    ),
    "AF1204": Advice(
        "Shapes do not broadcast, an axis does not exist, a size must be fixed that is a symbol.",
        "Shapes broadcast as in NumPy. Compare the shapes of the message; give the size as a "
        "number if it must be known.",
    ),
    "AF1205": Advice(
        "An attribute is missing, misspelt, or has a value that the op does not take.",
        "`autofuse ops NAME` lists the attributes with their defaults.",
    ),
    "AF1206": Advice(
        "A node reads, through others, what it makes.",
        "The message names the nodes of the cycle; one of their inputs is the wrong tensor.",
    ),
    "AF1207": Advice(
        "The graph file declares a shape or dtype of an intermediate tensor that the op does not "
        "give.",
        "Leave the declaration out, it is inferred; or repair the op or its inputs.",
    ),
    "AF1301": Advice(
        "A call of a class or function that autofuse has only in part.",
        "[clients.md](clients.md) says what is there; the hint names the way that works.",
    ),
    "AF1401": Advice(
        "`autofuse kernelgen describe` takes a line of English, and never guesses: a dtype, a shape or an axis is not "
        "said, a word has several meanings, or is not known. There is one diagnostic for each question.",
        "Say it in the line; the hint has the choices ([kernelgen.md](kernelgen.md#one-line-of-english)).",
    ),
    "AF1402": Advice(
        "A part of the function or module is no kernel: a matrix product, a loop that depends on data, an op that "
        "autofuse does not know. Or the file or the name in it is wrong, or the example inputs do not fit.",
        'Describe the part in between as a function of its own; `torch.compile(model, backend="autofuse")` takes '
        "whole models ([torch.md](torch.md)).",
    ),
    "AF1403": Advice(
        "A number of the file is none that a device gives: a negative time, a clock of no chip, more samples than a "
        "measurement has. Or what it says does not fit together: a kernel that failed and has times. The file was "
        "edited, is damaged, or is of another version.",
        "Measure again, or take the record out. `autofuse schema --results` has the ranges of results, `--bundle` "
        "those of bundles.",
    ),
    "AF1404": Advice(
        "`--backward` names a graph of the gradient whose inputs and outputs have other names, or other dtypes "
        "or shapes, than those of the forward graph. Sizes are compared by the names of their symbols.",
        "Rename: `grad_<output>` and names of the forward graph for inputs, `grad_<input>` for outputs "
        "([torch_extension.md](torch_extension.md#the-gradient)).",
    ),
    "AF1405": Advice(
        "The target file is no TOML, has a key that such a file does not have, or a value that no chip has. Each "
        "message has the line and the name of the figure.",
        "See [target files](calibrate.md#target-files); `autofuse targets NAME` prints all figures of the base with "
        "their units.",
    ),
    "AF2001": Advice(
        "The text is not what `autofuse dump --stage hint` or `impl` prints; it was edited, or "
        "is of another version.",
        "Go to the line of the message, or dump the graph again.",
    ),
    "AF2002": Advice(
        "A graph of the IR that a client or a test made by hand contradicts itself; the note "
        "names the invariant.",
        "Repair the graph. If autofuse made it: " + _REPORT[0].lower() + _REPORT[1:],
    ),
    "AF2101": Advice(
        "Tensors of one kernel have dimensions that do not line up, as after a reshape that cuts "
        "across them.",
        _SPLIT,
    ),
    "AF2102": Advice(
        "A tensor is overwritten in place while something else still has to read it, or does not "
        "have as many elements.",
        "Write to a new tensor. " + _SPLIT,
    ),
    "AF2103": Advice(
        "autofuse knows the op, and has no way to compile it as it stands in the graph.",
        "Write it as other ops, or leave it out of the graph. The hint says what is missing.",
    ),
    "AF2104": Advice(
        "The graph has too many calls, or too many tensors that have to pass through workspaces.",
        _SPLIT,
    ),
    "AF3001": Advice(
        "The chip has no call for the op with this dtype, and no other calls or casts that give "
        "the same.",
        "Cast to a dtype that the chip has ([support.md](support.md)), or take another target.",
    ),
    "AF3002": Advice(
        "Every way to tile the graph fails a rule of the chip; the notes have the reason for "
        "each template. Of a chip that moves whole blocks of 32 bytes alone (310P) the message names "
        "all tensors whose rows are not known to be such.",
        "Read the notes. Another target may have what is missing; a graph with fewer nodes may "
        "have a template.",
    ),
    "AF3003": Advice(
        "Too many tensors are alive at a time, or a row that must lie in UB is too long; the "
        "notes list the buffers.",
        "Cut the graph where the fewest tensors are alive. " + _SPLIT,
    ),
    "AF3004": Advice(
        "The graph has more inputs, outputs and tensors between pipes than the chip has queues "
        "and buffers. So has a product of 64-bit numbers that takes 16 or more of them twice, as "
        "of a Concat of a tensor with itself: from the first time to the second all of them, in "
        "two words each, have buffers.",
        "Cut the graph where the fewest tensors are alive; take such a product of the tensor, and "
        "multiply it by itself. " + _SPLIT,
    ),
    "AF3005": Advice(
        "Reserved: no stage reports it at present.",
        _REPORT,
    ),
    "AF3006": Advice(
        "Kernels of a split graph pass more bytes to each other than a workspace may have.",
        "Lower the `max` of the symbols, or make graphs of the parts, with tensors that the "
        "caller allocates.",
    ),
    "AF3007": Advice(
        "The tuning file is for another graph or an earlier state of it, for another target, names a kernel or a "
        "template that is not there, or gives a size that the kernel does not have, or the target no room for.",
        "`autofuse tune GRAPH -t TARGET` writes a new file ([tune.md](tune.md)). For a card, `autofuse explain GRAPH "
        "-t nvidia-h100 --tuning-out FILE` writes the present blocks to start from; "
        "[triton.md](triton.md#blocks-from-a-file) says which sizes a kernel has.",
    ),
    "AF3008": Advice(
        "With `--invariant` a group that sums up floats has one template, whose order follows from what is reduced "
        "alone. None of them fits UB whatever the other sizes are.",
        "Cut the graph at its reductions, or build it without `--invariant`. [certificate.md](certificate.md) has the "
        "rule.",
    ),
    "AF4001": Advice(
        "A proof about the generated code fails. The code is not written.",
        _REPORT,
    ),
    "AF5001": Advice(
        "There is no g++, or the library of the twin is not where it was installed; for kernels of Triton, "
        "PyTorch, Triton or the card of `--device`.",
        "`autofuse doctor` says which; install g++ or name a compiler with `AUTOFUSE_CXX`; else "
        "install autofuse again. Triton comes with `pip install 'ascend-autofuse[gpu]'`.",
    ),
    "AF5002": Advice(
        "A kernel that was edited has an error in C++; the compiler took too long, or had no "
        "memory.",
        "Read the message of the compiler. `AUTOFUSE_COMPILE_TIMEOUT` allows more time, `--jobs "
        "1` needs less memory.",
    ),
    "AF5003": Advice(
        "A host function returns a status (a size outside of its range, no tile that fits), or "
        "the kernel crashed.",
        "The message has the text of the status ([c_abi.md](c_abi.md)). A crash of a kernel that "
        "was not edited is a fault: report it.",
    ),
    "AF5004": Advice(
        "A race between units of a core, data that were never written, or an access out of "
        "bounds; in a kernel that was edited, "
        "mostly a missing `PipeBarrier` or a buffer that is freed too early.",
        "The notes have the line, and the access that it conflicts with "
        "([guides/changing_a_kernel.md](guides/changing_a_kernel.md)).",
    ),
    "AF5005": Advice(
        "The output folder holds files that were edited or that autofuse did not write, or it "
        "may not be written.",
        "Name another folder with `-o`, or overwrite with `--force`.",
    ),
    "AF5006": Advice(
        "The name of the target is unknown, or only the cost model knows the chip.",
        "`autofuse targets` lists the chips.",
    ),
    "AF5007": Advice(
        "Arrays of a call have another dtype or shape than the inputs; a size is outside of the "
        "range of its symbol; an index names a place outside of its dimension; an output shares "
        "memory with another array; an option does not go with the target.",
        "A kernel converts nothing: pass arrays of the dtypes of the graph, with sizes in the "
        "ranges of the symbols, indices inside of their dimension, and outputs that overlap "
        "nothing. The hint lists what the target takes.",
    ),
    "AF5008": Advice(
        "An environment variable is misspelt or has a value that it does not take.",
        "[knobs.md](knobs.md) has all of them; `autofuse knobs` shows the values now.",
    ),
    "AF5009": Advice(
        "The cache folder cannot be made or written.",
        "`AUTOFUSE_CACHE_DIR` names another one.",
    ),
    "AF5010": Advice(
        "A stage of `autofuse kernelgen` was called before the one that it builds on, files of the folder were edited, "
        "or another version of autofuse wrote them.",
        "Run the stage that the hint names; `--force` writes the files again.",
    ),
    "AF5011": Advice(
        "`ASCEND_HOME_PATH` and `ASCEND_TOOLKIT_HOME` lead to no CANN toolkit, a part of it cannot be loaded, its "
        "release lacks a function that the kernel calls, or the process uses another CANN already.",
        "Install the CANN toolkit that the message asks for and source its `set_env.sh`, then that of the driver. "
        "`autofuse doctor` shows what is found. Without a chip: [guides/fake_cann.md](guides/fake_cann.md).",
    ),
    "AF5012": Advice(
        "A call of AscendCL returned the code in the message: the kernel did not end in time, the chip does not "
        "answer, its memory is used up, or a kernel broke a rule of the chip.",
        "The hint says what to do about this kind. After a timeout or a lost chip start again in a new process. A "
        "kernel that stops with an exception of a core: run it on the CPU twin with `--check all`.",
    ),
    "AF5013": Advice(
        "bisheng, or the C++ compiler for the code of the host, refuses a file. Of a kernel that was edited: the place "
        "in the message is in the edited file.",
        "Of generated code: report it, with the folder that the message names.",
    ),
    "AF5014": Advice(
        "The bundle has fewer kernels with times than a fit needs, or their times determine no figure: too few "
        "repeats, or kernels that could not be used. The message counts these.",
        "`autofuse silicon --only calibration --repeats 200` measures what a fit needs; `--resume` goes on with a run "
        "that stopped ([calibrate.md](calibrate.md)).",
    ),
    "AF5015": Advice(
        "A file of the folder was edited after autofuse wrote it, and what was edited does not compile.",
        "Correct the line that is named, or take the generated text again: `autofuse adopt DIR --drop FILE`. "
        "[guides/edited_kernels.md](guides/edited_kernels.md) has more.",
    ),
    "AF5016": Advice(
        "A build left a file alone that was edited and adopted, and generates another text for it than the one that "
        "was edited.",
        "`autofuse adopt DIR --diff` shows both. `--accept FILE` keeps the edit, `--drop FILE` takes the generated "
        "text.",
    ),
    "AF6001": Advice(
        "Elements differ from NumPy by more than the ops allow; of a KernelGen operator, also from "
        "the described function or the baseline; of an ONNX model, onnx.reference and onnxruntime "
        "may differ from each other. A kernel that was edited does not compute what its graph says.",
        "For a kernel that was edited, see "
        "[guides/changing_a_kernel.md](guides/changing_a_kernel.md). Else it is a fault: report "
        "it.",
    ),
    "AF6002": Advice(
        "The kernel leaves out elements of an output, or writes to an input.",
        "Of a kernel that was edited: check offsets and lengths of its copies. Else it is a "
        "fault: report it.",
    ),
    "AF6003": Advice(
        "The graph amplifies rounding on random data (a difference of nearly equal numbers, "
        "say): any value would have passed.",
        "Give data that mean something with `autofuse run --input`, or verify a part of the graph.",
    ),
    "AF9001": Advice(
        "An error in autofuse itself. The exit code is 2.",
        _REPORT,
    ),
}


def diagnostics_page() -> str:
    """The page as Markdown."""
    lines = [
        "# Diagnostics",
        "",
        "Made by `python tools/pages/diagnostics_page.py` from `autofuse/base/diagnostics.py`; "
        "do not edit.",
        "",
        "A diagnostic has a code, a place, a message with the numbers and, mostly, a hint. All "
        "errors of a file come at once. This page",
        "has what each code means, what mostly causes it, and what to do. [cli.md](cli.md) has "
        "the exit codes and the form in JSON.",
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
