"""Structure-preserving mutations of an input: JSON values, tokens.

Single-byte changes rarely pass a JSON parser; these do.  Everything depends only on the given random
generator, so that a run can be repeated.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from typing import Any

from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ops.registry import all_ops

__all__ = ["mutate"]

_NUMBERS = (
    0,
    1,
    -1,
    2,
    3,
    7,
    8,
    15,
    16,
    17,
    31,
    32,
    33,
    64,
    255,
    4096,
    2**31,
    2**31 - 1,
    2**63 - 1,
)
_ODD = (-(2**63), 2**63, 2**64, 1e308, -0.0, 5e-324, 0.5, 1e400, None, True, False, [], {}, "")
_OPS = tuple(o.name for o in all_ops(user=True))
_OWN_OPS = ("Reshape", "Assign", "InplaceAssign", "Tile", "ExpandDims", "ZerosLike", "Transpose")
_DTYPES = (*BY_NAME, "float", "int")
_SIZES = ("s0", "n", "rows", "s0*2", "ceil(s0/2)", "n+1", "n-1", "s0//3", "min(n, 4)", "0", "1")
_WORDS = ("inf", "-inf", "nan", "x", "y", "\u202e", "\x1b[31m", "\ud800", "a/b", "a b", "\n", "~1")
_NAMES = ("x", "y", "t", "a", "b")
_TEXT_TOKEN = re.compile(rb"[A-Za-z_][\w.]*|[0-9]+|\S", re.ASCII)
_CHARS = b'+-*/%(), 0123456789abcdefsxyz:{}[]".=_\n\t\\<>'
_EXPR_PARTS = (
    b"s0", b"s1", b"z0t_size", b"(", b")", b"+", b"-", b"*", b"/", b"//", b"%", b",", b" ",
    b"ceil(", b"floor(", b"min(", b"max(", b"mod(", b"CeilDiv(", b"FloorDiv(", b"0", b"1", b"2",
    b"3", b"9223372036854775807", b"4294967296", b"(s0 + s1)", b"(s0 / 2)",
)  # fmt: skip


def mutate(target: str, data: bytes, other: bytes, rng: random.Random) -> bytes:
    """Return a mutated ``data``, possibly with parts of ``other``, an input of the corpus."""
    if target in ("readers", "pipeline"):
        return _mutate_json(data, other, rng)
    return _mutate_tokens(data, rng)


# JSON -----------------------------------------------------------------------------------------


def _mutate_json(data: bytes, other: bytes, rng: random.Random) -> bytes:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return _mutate_bytes(data, rng)
    if rng.random() < 0.02:
        return _mutate_bytes(data, rng)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 5))):
        value = _change(value, other, rng)
    try:
        return json.dumps(value, allow_nan=True).encode("utf-8", "replace")
    except (ValueError, RecursionError):
        return data


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return (container, key) of every value, in a fixed order."""
    out: list[tuple[Any, Any]] = []
    todo = [value]
    while todo:
        v = todo.pop()
        keys: Sequence[Any] = ()
        if isinstance(v, dict):
            keys = list(v)
        elif isinstance(v, list):
            keys = range(len(v))
        for k in keys:
            out.append((v, k))
            if isinstance(v[k], dict | list):
                todo.append(v[k])
    return out


def _change(value: Any, other: bytes, rng: random.Random) -> Any:
    places = _places(value)
    if not places:
        return {}
    kind = rng.random()
    if kind < 0.35:
        return _change_meaning(value, places, rng)
    box, key = rng.choice(places)
    if kind < 0.5:
        del box[key]
    elif kind < 0.62 and isinstance(box, list):
        box.insert(rng.randrange(len(box) + 1), _copy(box[key]))
    elif kind < 0.72:
        source, at = rng.choice(places)
        box[key] = _copy(source[at])
    elif kind < 0.78:
        try:
            foreign = _places(json.loads(other))
        except (ValueError, RecursionError):
            foreign = []
        if foreign:
            same = [p for p in foreign if p[1] == key] or foreign
            source, at = rng.choice(same)
            box[key] = _copy(source[at])
    elif kind < 0.82 and isinstance(box, dict):
        box[_word(rng)] = box.pop(key)
    elif kind < 0.9:
        box[key] = _new_value(box[key], rng)
    elif kind < 0.95 and isinstance(box, list):
        rng.shuffle(box)
    else:
        box[key] = rng.choice(_ODD + _NUMBERS)
    return value


def _change_meaning(value: Any, places: list[tuple[Any, Any]], rng: random.Random) -> Any:
    """Change an op, dtype, operand or size, so that the graph is likely to stay readable."""
    strings = [(b, k) for b, k in places if isinstance(b[k], str)]
    choice = rng.randrange(5)
    if choice == 0:
        old = [(b, k) for b, k in strings if b[k] in _OPS or b[k] in _OWN_OPS]
        if old:
            box, key = rng.choice(old)
            box[key] = rng.choice(_OPS + _OWN_OPS)
    elif choice == 1:
        old = [(b, k) for b, k in strings if b[k] in _DTYPES]
        if old:
            new = rng.choice(_DTYPES)
            box, key = rng.choice(old)
            word = box[key]
            for b, k in old if rng.random() < 0.7 else [(box, key)]:
                if b[k] == word:
                    b[k] = new
    elif choice == 2:
        sizes = [(b, k) for b, k in places if isinstance(b, list) and _is_size(b[k])]
        if sizes:
            box, key = rng.choice(sizes)
            old_size, new_size = box[key], rng.choice(_NUMBERS + _SIZES)
            for b, k in sizes if rng.random() < 0.7 else [(box, key)]:
                if b[k] == old_size and type(b[k]) is type(old_size):
                    b[k] = new_size
    elif choice == 3 and len(strings) > 1:
        (b1, k1), (b2, k2) = rng.choice(strings), rng.choice(strings)
        if k1 == k2 or (isinstance(b1, list) and isinstance(b2, list)):
            b1[k1] = b2[k2]
    else:
        nodes = [b[k] for b, k in places if k == "nodes" and isinstance(b[k], list)]
        if nodes:
            _add_node(nodes[0], value, rng)
    return value


def _add_node(nodes: list[Any], value: Any, rng: random.Random) -> None:
    """Add a node on existing tensors; its result becomes an output."""
    names = [n for n in _tensor_names(value) if isinstance(n, str)]
    if not names:
        return
    name = f"t{rng.randrange(1000)}"
    inputs: list[Any] = [rng.choice(names) for _ in range(rng.choice((1, 2, 2, 3)))]
    if rng.random() < 0.3:
        inputs[-1] = {"const": rng.choice(_NUMBERS)}
    nodes.append({"name": name, "op": rng.choice(_OPS), "inputs": inputs, "outputs": [name]})
    if isinstance(value, dict) and isinstance(value.get("outputs"), list):
        value["outputs"].append(name)


def _tensor_names(value: Any) -> list[Any]:
    if not isinstance(value, dict):
        return []
    out = []
    for part in ("inputs", "nodes"):
        items = value.get(part)
        for item in items if isinstance(items, list) else []:
            if isinstance(item, dict):
                results = item.get("outputs")
                out += results if isinstance(results, list) else [item.get("name")]
    return out


def _is_size(v: Any) -> bool:
    return isinstance(v, int) or (isinstance(v, str) and v in _SIZES)


def _new_value(old: Any, rng: random.Random) -> Any:
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return rng.choice((*_NUMBERS, old + 1, old - 1, old * 2, -old))
    if isinstance(old, str):
        return _word(rng) if rng.random() < 0.6 else _spliced(old, rng)
    if isinstance(old, list):
        return old * rng.choice((2, 3, 20)) if len(old) < 20 else old[:1]
    return rng.choice(_ODD)


def _spliced(old: str, rng: random.Random) -> str:
    at = rng.randrange(len(old) + 1)
    return old[:at] + _word(rng) + old[at + rng.randrange(3) :]


def _word(rng: random.Random) -> str:
    return str(rng.choice(rng.choice((_WORDS, _NAMES, _SIZES, _OPS, _DTYPES, ("q" * 300,)))))


def _copy(value: Any) -> Any:
    return json.loads(json.dumps(value))


# text -----------------------------------------------------------------------------------------


def _mutate_tokens(data: bytes, rng: random.Random) -> bytes:
    tokens = _TEXT_TOKEN.findall(data)
    for _ in range(rng.choice((1, 2, 3, 6))):
        i = rng.randrange(len(tokens) + 1)
        kind = rng.randrange(5)
        if kind == 0 and i < len(tokens):
            del tokens[i]
        elif kind == 1 and i < len(tokens):
            tokens[i] = rng.choice(_EXPR_PARTS)
        elif kind == 2 and tokens:
            k = rng.randrange(len(tokens))
            tokens[i:i] = tokens[k : k + rng.randrange(1, 12)]
        else:
            tokens.insert(i, rng.choice(_EXPR_PARTS))
    out = b" ".join(tokens)
    return _mutate_bytes(out, rng) if rng.random() < 0.1 else out


def _mutate_bytes(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        i = rng.randrange(len(out) + 1)
        kind = rng.randrange(4)
        if kind == 0 and i < len(out):
            out[i] = rng.choice(_CHARS) if rng.random() < 0.7 else rng.randrange(256)
        elif kind == 1:
            out[i : i + rng.randrange(1, 8)] = b""
        elif kind == 2:
            out.insert(i, rng.choice(_CHARS) if rng.random() < 0.7 else rng.randrange(256))
        elif out:
            k = rng.randrange(len(out))
            out[i:i] = out[k : k + rng.randrange(1, 32)]
    return bytes(out)
