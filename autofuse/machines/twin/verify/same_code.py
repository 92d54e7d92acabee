"""Kernels that are equal but for names: a corpus holds many, and one verification speaks for all of them.

Two graphs count as equal when the graph and every generated file are the same text after their names (of the graph, its
inputs, tensors, nodes and outputs) are replaced by their position.  Both have to agree: graphs that mean different
things and, by a mistake of the compiler, give the same code are told apart by the first; graphs that mean the same and
are compiled differently by the second.
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
#: Of known sizes the host files hold what was chosen for them.
_HOST = "host/"
#: Comments quote names, cut to a width; a digest of the graph file stands in one.  Blank space follows from the widths
#: of names.  Strings stay as they are: none of the generated ones holds two slashes.
_QUOTED = re.compile(r'"[^"\n]*"')
_NO_CODE = re.compile(r"//[^\n]*|\s+")
#: In Python blank space is code, and two slashes divide.
_NO_PYTHON = re.compile(r"#[^\n]*")
#: A number, not one inside of a name; with a sign, as where the next one is what a sum has.
_NUMBER = re.compile(r"-?(?<![\w@.])\d(?:[eE][-+]\d|[\w.])*")


def digest(files: Mapping[str, str], graph: FusionGraph, *, sizes: bool = True) -> str:
    """Hex digest of what is verified, the same for kernels that differ by names alone.

    Args:
        files: what was generated: path inside the output folder -> text.
        graph: what it was generated from.
        sizes: numbers count; otherwise it is the same for kernels that differ by names and numbers in what runs on
            the device.
    """
    in_code, in_texts = _places(graph)
    names, quoted = _pattern(in_code), _pattern(in_texts)

    def plain(path: str, text: str) -> str:
        text = names.sub(lambda m: in_code[m[1]], text)
        text = _QUOTED.sub(lambda m: quoted.sub(lambda t: in_texts[t[1]], m[0]), text)
        blank = _NO_PYTHON if path.endswith(".py") else _NO_CODE
        return blank.sub("", text if sizes else _NUMBER.sub("0", text))

    # The headers are those of this version, and names of the graph may occur in them by chance.
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
    """Any of the names: the longest first, since one may begin with another.

    An underscore ends a name, as generated identifiers are names with something behind.
    """
    wanted = "|".join(re.escape(n) for n in sorted(names, key=len, reverse=True))
    return re.compile(rf"(?<![A-Za-z0-9])({wanted})(?![A-Za-z0-9])")


def _meaning(graph: FusionGraph) -> str:
    """The graph without the names of nodes and tensors; symbols keep theirs."""
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
    """Return placeholders for the names that identifiers are made of, and for names in messages."""
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
    """True for the first owner that asks for a digest, also when it asks again; False for all others.

    Args:
        folder: shared by the processes of one verification.
        key: what :func:`digest` gave.
        owner: who asks.
    """
    fd, name = tempfile.mkstemp(prefix=".", dir=folder)
    fresh = Path(name)
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as f:
            f.write(owner)
        # A link appears with its content, for one of them only.
        os.link(fresh, folder / key)
    except FileExistsError:
        return (folder / key).read_text(encoding="utf-8") == owner
    finally:
        fresh.unlink()
    return True
