"""Answers of workers on other hosts, checked member by member before use."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from autofuse.base.diagnostics import CODES, AutofuseError

__all__ = ["checked_verification"]

_Count: TypeAlias = Annotated[int, Field(ge=0, le=1 << 62)]
_Number: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Text: TypeAlias = Annotated[str, Field(max_length=1 << 16)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Where(_Model):
    path: _Text = ""
    pointer: _Text = ""
    line: _Count = 0
    column: _Count = 0
    node: _Text = ""
    axis: _Text = ""


class _Finding(_Model):
    code: _Text
    severity: Literal["error", "warning", "note"]
    message: _Text
    where: _Where = _Where()
    hint: _Text = ""
    notes: list[_Text] = []
    cut_after: list[_Text] = []


class _Comparison(_Model):
    output: _Text
    elements: _Count
    wrong: _Count
    max_abs: _Number
    max_rel: _Number
    max_ulp: _Number
    ill_conditioned: _Count
    unwritten: _Count
    first: list[_Count] | None
    got: _Text
    want: _Text
    tolerance: _Number


class _Case(_Model):
    symbols: dict[_Text, _Count]
    key: Annotated[int, Field(ge=-1, le=1 << 31)]
    status: Literal["passed", "failed", "not applicable"]
    reason: _Text
    block_dim: _Count
    outputs: list[_Comparison]
    seconds: _Number


class _Report(_Model):
    name: _Text
    ok: bool
    seed: _Count
    compile_seconds: _Number
    seconds: _Number
    diagnostics: list[_Finding]
    cases: list[_Case]


class _Verification(_Model):
    report: _Report
    code: None
    keys: _Count
    shrunk: dict[Literal["from", "to"], _Count] | None
    seconds: _Number
    parts: _Count


def checked_verification(value: Any) -> dict[str, Any]:
    """Check a result of :func:`autofuse.commands.kernels.jobs.verify_job` from another host.

    Returns:
        The value, unchanged.

    Raises:
        AutofuseError: AF1403, it is not such a result, or contradicts itself.
    """
    try:
        found = _Verification.model_validate(value)
    except ValidationError as e:
        first = e.errors(include_url=False, include_input=False)[0]
        at = "/".join(map(str, first["loc"]))[:200]
        raise _refused(f"{at}: {first['msg']}") from None
    report = found.report
    if any(d.code not in CODES for d in report.diagnostics):
        raise _refused("a finding has a code that autofuse does not have")
    passed = any(c.status == "passed" for c in report.cases)
    wrong = any(d.severity == "error" for d in report.diagnostics)
    wrong = wrong or any(o.wrong or o.unwritten for c in report.cases for o in c.outputs)
    if report.ok and (wrong or not passed):
        raise _refused("it reports a correct kernel together with a failed case")
    checked: dict[str, Any] = value
    return checked


def _refused(why: str) -> AutofuseError:
    text = f"a worker of the scheduler returned an invalid answer: {why}"
    hint = "the workers of the scheduler must have the same version of autofuse"
    return AutofuseError.of("AF1403", text, hint=hint)
