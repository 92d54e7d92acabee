"""Names of an operator and its parameters in CANN, by CANN's own rules.

An operator type is CamelCase; the kernel's function, its file and the header of its aclnn functions have that name in
snake case.  Parameters of the aclnn functions drop the underscores of the definition, with ``Out`` appended to outputs
and ``Ref`` to a parameter that an output overwrites.  Two names of a graph may collide under these rules, or under
those for macros, which are upper case only; here they are kept distinct.
"""

from __future__ import annotations

import re

from autofuse.codegen.backends.ascendc.host.host import solve
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.names import identifier

__all__ = ["OpNames", "operator_names"]

#: Prefix that no operator of CANN has, and no name of C++ or Ascend C.
PREFIX = "Autofuse"
#: Parameters of the two aclnn functions themselves.
_OWN = ("executor", "workspacesize", "workspace", "stream")


@frozen
class OpNames:
    """Names of one operator.

    Attributes:
        type: the operator type, ``AutofuseAddBias``.
        function: the kernel's function and the stem of its file, ``autofuse_add_bias``.
        inputs: names in the definition, by position.
        outputs: names in the definition, by position; an output that overwrites an input has the input's name.
        attributes: by symbol name, for sizes that no input shape determines.
    """

    type: str
    function: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, str]


def operator_names(graph: FusionGraph) -> OpNames:
    """Return the CANN names of a graph's operator, its parameters and its attributes."""
    taken = set(_OWN)
    overwritten = {o.inout for o in graph.outputs}
    inputs = {
        n: _apart(n, "ref" if n in overwritten else "", taken) for n in dict.fromkeys(graph.inputs)
    }
    solved = {s.symbol for s in solve(graph)}
    sizes = {s.name: _apart(s.name, "", taken) for s in graph.symbols if s.name not in solved}
    outputs = tuple(
        [inputs[o.inout] if o.inout else _apart(o.name, "out", taken) for o in graph.outputs]
    )
    kind = _operator_type(graph.name)
    function = re.sub(r"(?<!^)([A-Z])", r"_\1", kind).lower()
    return OpNames(kind, function, tuple([inputs[n] for n in graph.inputs]), outputs, sizes)


def _operator_type(name: str) -> str:
    """Return CamelCase without consecutive capitals, so that every rule converts it back to the same name."""
    out = PREFIX
    for part in re.findall(r"[a-z0-9]+", name.lower()):
        out += part if out[-1].isupper() else part[0].upper() + part[1:]
    return out


def _apart(name: str, suffix: str, taken: set[str]) -> str:
    """Return a lower-case name distinct from all others, as its aclnn parameter is; add both to ``taken``."""
    word = identifier(name.lower())
    found, number = word, 1
    while not taken.isdisjoint(keys := {_key(found), _key(found + suffix)}):
        number += 1
        found = f"{word}_n{number}"
    taken |= keys
    return found


def _key(name: str) -> str:
    """Return a key that is equal for names that collide."""
    return name.replace("_", "")
