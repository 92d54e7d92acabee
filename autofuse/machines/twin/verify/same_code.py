"""Detects kernels that differ only in names: a corpus has many, and one verification covers all of them.

Two graphs count as equal if the graph and every generated file have the same text after all names (of the graph, its
inputs, tensors, nodes and outputs) are replaced by their position. Both are compared: the graph distinguishes graphs of
different meaning for which a compiler bug generates equal code; the files distinguish equal graphs that are compiled
differently.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from autofuse.codegen.lower.names import parameter_names
from autofuse.implgraph.ir.fusion import FusionGraph, Operand

__all__ = ["claim", "digest"]

_CODE = (".cpp", ".h", ".inc", ".py")
#: Host files contain the choices for known sizes.
_HOST = "host/"
#: Comments quote names, cut to a width, and one contains a digest of the graph file. White space depends on the widths
#: of names. Strings are kept: no generated string contains two slashes.
_QUOTED = re.compile(r'"[^"\n]*"')
_NO_CODE = re.compile(r"//[^\n]*|\s+")
#: In Python white space is code, and two slashes divide.
_NO_PYTHON = re.compile(r"#[^\n]*")
#: A number outside of names; signed, as in a sum.
_NUMBER = re.compile(r"-?(?<![\w@.])\d(?:[eE][-+]\d|[\w.])*")


def digest(files: Mapping[str, str], graph: FusionGraph, *, sizes: bool = True) -> str:
    """Return a hex digest of the kernel, equal for kernels that differ only in names.

    Args:
        files: generated files: path inside the output folder -> text.
        graph: the graph that it was generated from.
        sizes: numbers count; otherwise the digest is equal for kernels that also differ in numbers of device code.
    """
    in_code, in_texts = _places(graph)
    names, quoted = _pattern(in_code), _pattern(in_texts)

    def plain(path: str, text: str) -> str:
        text = names.sub(lambda m: in_code[m[1]], text)
        text = _QUOTED.sub(lambda m: quoted.sub(lambda t: in_texts[t[1]], m[0]), text)
        blank = _NO_PYTHON if path.endswith(".py") else _NO_CODE
        return blank.sub("", text if sizes else _NUMBER.sub("0", text))

    # The headers belong to this version, and may contain names of the graph by chance.
    code = sorted(
        (p, _NO_CODE.sub("", t)) if p.startswith("include/") else (plain("", p), plain(p, t))
        for p, t in files.items()
        if p.endswith(_CODE) and (sizes or not p.startswith(_HOST))
    )
    h = hashlib.sha256()
    for text in (
        _meaning(graph) if sizes else _ops(graph),
        *(text for pair in code for text in pair),
    ):
        raw = text.encode()
        h.update(len(raw).to_bytes(8, "little") + raw)
    return h.hexdigest()


def _pattern(names: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern for any of the names, the longest first, since one may be a prefix of another.

    An underscore ends a name, because generated identifiers are names with a suffix.
    """
    wanted = "|".join(re.escape(n) for n in sorted(names, key=len, reverse=True))
    return re.compile(rf"(?<![A-Za-z0-9])({wanted})(?![A-Za-z0-9])")


def _meaning(graph: FusionGraph) -> str:
    """Return the graph without the names of nodes and tensors; symbols keep their names."""
    number: dict[str, int] = {}

    def at(operand: Operand) -> object:
        return number.setdefault(operand, len(number)) if isinstance(operand, str) else operand

    nodes = [
        (n.op, [at(x) for x in n.inputs], [at(x) for x in n.outputs], sorted(n.attrs.items()))
        for n in graph.nodes
    ]
    inputs = [at(name) for name in graph.inputs]
    outputs = [(at(o.tensor), None if o.inout is None else at(o.inout)) for o in graph.outputs]
    tensors = [replace(graph.tensors[name], name="", origin="") for name in number]
    return repr((graph.symbols, nodes, inputs, outputs, tensors))


def _ops(graph: FusionGraph) -> str:
    """Return the ops in order, with their tensors by number and type, as text."""
    number: dict[str, int] = {}

    def at(operand: Operand) -> object:
        if not isinstance(operand, str):
            return ""
        return number.setdefault(operand, len(number)), graph.tensors[operand].dtype

    nodes = [(n.op, [at(x) for x in (*n.inputs, *n.outputs)], sorted(n.attrs)) for n in graph.nodes]
    return repr((nodes, [at(o.tensor) for o in graph.outputs]))


def _places(graph: FusionGraph) -> tuple[dict[str, str], dict[str, str]]:
    """Return placeholders for the names in identifiers, and for names in messages."""
    params = parameter_names(graph)
    outputs = [o.name for o in graph.outputs]
    code: dict[str, str] = {}
    texts: dict[str, str] = {}
    own = [graph.name, *(n.name for n in graph.nodes)]
    made = [name for n in graph.nodes for name in n.outputs]
    pairs = [
        *((n, n) for n in own),
        *zip(params.inputs, graph.inputs, strict=True),
        *zip(params.outputs, outputs, strict=True),
        *(("", n) for n in made),
    ]
    for k, (identifier, name) in enumerate(pairs):
        if identifier:
            code.setdefault(identifier, f"@{k}@")
        texts.setdefault(name, f"@{k}@")
    return code, texts


def claim(folder: Path, key: str, owner: str) -> bool:
    """Claim a digest: return True for the first owner, also repeatedly, and False for all others.

    Args:
        folder: shared by the processes of one verification.
        key: the result of :func:`digest`.
        owner: id of the caller.
    """
    fd, name = tempfile.mkstemp(prefix=".", dir=folder)
    fresh = Path(name)
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as f:
            f.write(owner)
        # A link appears with its content, and only one process succeeds.
        os.link(fresh, folder / key)
    except FileExistsError:
        return (folder / key).read_text(encoding="utf-8") == owner
    finally:
        fresh.unlink()
    return True
