"""Translation of pydantic's errors to diagnostics: code, message, pointer and hint."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from autofuse.frontends.builder import describe
from autofuse.frontends.json_positions import Findings, escape, quote

__all__ = ["did_you_mean", "note_errors", "validated"]

_Model = TypeVar("_Model", bound=BaseModel)

# Searching more names costs more than the result is worth.
_MAX_NAMES = 1000
_WANTED = {
    "string_type": "a string",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}

#: Error types for numbers and lengths that are too small or too large.
_RANGES = frozenset(
    (
        "greater_than",
        "greater_than_equal",
        "less_than",
        "less_than_equal",
        "too_long",
        "too_short",
    )
)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint with the closest known name, or with all if they are few; else empty."""
    names = list(known)[:_MAX_NAMES]
    lower = {n.lower(): n for n in names}
    hits = difflib.get_close_matches(name.lower(), list(lower), n=1, cutoff=0.6)
    if hits:
        return f"did you mean {quote(lower[hits[0]])}?"
    return f"known: {', '.join(names)}" if 0 < len(names) <= 16 else ""


def validated(
    model: type[_Model], data: Any, findings: Findings, *, out_of_range: str = "AF1104"
) -> _Model:
    """Validate ``data``, the whole document, as ``model``; ``out_of_range`` is the code for numbers and lengths.

    Raises:
        AutofuseError: AF1101 to AF1104 and ``out_of_range``, for all invalid fields.
    """
    try:
        return model.model_validate(data)
    except ValidationError as e:
        note_errors(e, model, data, findings, out_of_range=out_of_range)
        findings.raise_if_any()
        raise


def note_errors(
    error: ValidationError,
    model: type[BaseModel],
    data: Any,
    findings: Findings,
    *,
    out_of_range: str = "AF1104",
) -> None:
    """Translate every validation error of ``data`` (the whole document) against ``model``."""
    for e in error.errors(include_url=False):
        kind, loc = e["type"], e["loc"]
        steps = _steps(loc, data)
        pointer = "".join("/" + escape(s) for s in steps)
        if kind == "missing":
            field = str(loc[-1])
            findings.add(
                "AF1101",
                f"the field {quote(field)} is missing",
                pointer,
                hint=_doc(_model_at(model, steps), field),
            )
        elif kind == "extra_forbidden":
            at = _model_at(model, steps[:-1])
            known = [f.alias or n for n, f in at.model_fields.items()] if at else []
            field = str(loc[-1])
            hint = "" if findings.is_long else did_you_mean(field, known)
            findings.add(
                "AF1102",
                f"the field {quote(field)} is not known here",
                pointer,
                hint=hint,
                at_key=True,
            )
        elif kind in _WANTED:
            findings.add(
                "AF1103", f"expected {_WANTED[kind]}, found {describe(e['input'])}", pointer
            )
        elif kind == "wanted":
            context: Mapping[str, Any] = e.get("ctx", {})
            text = f"expected {context['what']}, found {describe(e['input'])}"
            findings.add("AF1103", text, pointer, hint=str(context.get("hint", "")))
        else:
            findings.add(
                out_of_range if kind in _RANGES else "AF1104",
                f"{e['msg'][:1].lower()}{e['msg'][1:]} (found {describe(e['input'])})",
                pointer,
            )


def _steps(loc: tuple[int | str, ...], data: Any) -> list[int | str]:
    """Return the parts of ``loc`` that index ``data``, without pydantic's union tags."""
    out: list[int | str] = []
    at = data
    for part in loc:
        if isinstance(at, list):
            found = isinstance(part, int) and part < len(at)
        else:
            found = isinstance(at, dict) and part in at
        if found:
            out.append(part)
            at = at[part]
    return out


def _model_at(model: type[BaseModel], steps: list[int | str]) -> type[BaseModel] | None:
    """Return the model of the object at ``steps``."""
    found: type[BaseModel] | None = model
    todo = list(steps)
    while found is not None and todo:
        name = todo.pop(0)
        fields = {f.alias or n: f for n, f in found.model_fields.items()}
        if name not in fields:
            return None
        annotation: Any = fields[str(name)].annotation
        while True:
            models = _models_in(annotation)
            if get_origin(_plain(annotation)) in (list, dict) and todo:
                todo.pop(0)
                annotation = get_args(_plain(annotation))[-1]
                continue
            break
        found = models[0] if models else None
    return found


def _plain(annotation: Any) -> Any:
    """Return a type without Annotated and ``| None``."""
    if get_origin(annotation) is Annotated:
        return _plain(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [a for a in get_args(annotation) if a is not type(None)]
        return _plain(rest[0]) if len(rest) == 1 else annotation
    return annotation


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    plain = _plain(annotation)
    if isinstance(plain, type) and issubclass(plain, BaseModel):
        return [plain]
    if get_origin(plain) in (Union, types.UnionType):
        return [m for a in get_args(plain) for m in _models_in(a)]
    return []


def _doc(model: type[BaseModel] | None, field: str) -> str:
    if model is None:
        return ""
    for name, info in model.model_fields.items():
        if field in (name, info.alias):
            return f"{field}: {info.description}" if info.description else ""
    return ""
