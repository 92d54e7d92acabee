"""The JSON Schema of certificates."""

from __future__ import annotations

from typing import Any

__all__ = ["SCHEMA", "certificate_schema"]

SCHEMA = "autofuse.certificate/1"

_TEXT, _NUMBER, _COUNT, _FLAG = (
    {"type": kind} for kind in ("string", "number", "integer", "boolean")
)
_DIGEST = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_SAME = {"type": ["boolean", "null"]}


def _list(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": of}


def _map(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": of}


def _object(**fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


def _texts_or_unknown() -> dict[str, Any]:
    return {"anyOf": [_list(_TEXT), {"type": "null"}]}


def certificate_schema() -> dict[str, Any]:
    """Return the schema of ``<g>.certificate.json``."""
    sizes = _map(_COUNT)
    check = _object(
        check=_TEXT,
        about=_TEXT,
        meaning=_TEXT,
        proved=_FLAG,
        open={"type": "integer", "minimum": 0},
    )
    run = _object(
        symbols=sizes, key=_COUNT, status=_TEXT, cores=_COUNT, wrong=_COUNT, unwritten=_COUNT
    )
    accurate = _object(
        grid=_TEXT,
        output=_TEXT,
        dtype=_TEXT,
        values=sizes,
        elements=_COUNT,
        finite=_COUNT,
        wrong=_COUNT,
        ill_conditioned=_COUNT,
        max_ulp=_NUMBER,
        max_rel=_NUMBER,
    )
    order = _object(
        template=_TEXT,
        group=_COUNT,
        op=_TEXT,
        dtype=_TEXT,
        calls=_list(_object(along=_TEXT, elements=_TEXT)),
        loop=_TEXT,
        tile=_TEXT,
    )
    bits = _object(
        symbols=sizes,
        key=_COUNT,
        cores=_COUNT,
        inputs=_map(_DIGEST),
        outputs=_map(_DIGEST),
        **{
            how: _SAME
            for how in (
                "again",
                "in another order of the pipes",
                "on fewer cores",
                "by other templates",
            )
        },
    )
    traffic = _object(
        symbols=sizes,
        read=_COUNT,
        written=_COUNT,
        compulsory=_COUNT,
        ratio={"type": ["number", "null"]},
        workspace=_COUNT,
    )
    found = _object(
        schema={"const": SCHEMA},
        generator=_TEXT,
        name=_TEXT,
        kernel=_object(
            name=_TEXT,
            target=_TEXT,
            architecture=_TEXT,
            invariant=_FLAG,
            sha256=_DIGEST,
            graph_sha256=_DIGEST,
            files=_map(_DIGEST),
            edited=_list(_TEXT),
            as_generated=_FLAG,
        ),
        seed=_COUNT,
        proved=_object(
            graphs=_object(count=_COUNT, invariants=_COUNT, broken=_list(_TEXT)),
            functions=_COUNT,
            checks=_list(check),
            refuted=_list(_TEXT),
            status=_TEXT,
        ),
        checked=_object(
            ok=_FLAG, shapes=_list(sizes), runs=_list(run), findings=_list(_TEXT), status=_TEXT
        ),
        accuracy=_object(
            grids=_list({"anyOf": [accurate, _object(grid=_TEXT, refused=_TEXT)]}), status=_TEXT
        ),
        bits=_object(
            may_change=_object(
                sizes=_texts_or_unknown(), choices=_texts_or_unknown(), why=_TEXT, status=_TEXT
            ),
            order=_list(order),
            shapes=_list(bits),
            status=_TEXT,
        ),
        traffic=_object(shapes=_list(traffic), status=_TEXT),
        on_chip=_TEXT,
        ok=_FLAG,
    )
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found}
