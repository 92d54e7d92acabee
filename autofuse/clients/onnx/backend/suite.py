"""The node tests of the ONNX standard, run through ``onnx.backend.test.BackendTest``, with a verdict per case.

A case has *passed* if the runner of the suite accepts all outputs, with its own tolerances; it is *excluded* if the
model was refused with a diagnostic, and *failed* otherwise.
"""

from __future__ import annotations

import re
import time
import unittest
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import onnx

from autofuse.api import DEFAULT_TARGET
from autofuse.base.diagnostics import CODES, AutofuseError
from autofuse.clients.onnx.backend.backend import AutofuseBackend, PreparedModel
from autofuse.frontends.onnx.converters.refused import REFUSED
from autofuse.machines.twin.run.worker import WorkerPool

__all__ = ["Verdict", "by_op", "case_names", "case_ops", "run_cases", "run_job"]

JOB = "autofuse.clients.onnx.backend.suite:run_job"
#: Cases per worker job; if the worker dies, they are repeated one by one.
_BATCH = 24
_CLASS = "OnnxBackendNodeModelTest"
_SUFFIX = "_cpu"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Outcome of a case.

    Attributes:
        name: name of the case, such as ``test_abs``.
        status: ``passed``, ``excluded`` or ``failed``.
        reason: why it did not pass.
        kernel: False if it passed without a kernel, as for sizes and constants.
        detail: the first line of the message.
        seconds: total time.
    """

    name: str
    status: str
    reason: str = ""
    kernel: bool = True
    detail: str = ""
    seconds: float = 0.0

    @property
    def words(self) -> str:
        """The verdict for counting: ``passed``, ``passed without a kernel``, or the reason."""
        if self.status == "passed":
            return "passed" if self.kernel else "passed without a kernel"
        return self.reason if self.status == "excluded" else f"FAILED: {self.reason}"


class _Noted(AutofuseBackend):
    """The backend for a target; records the models of the current case."""

    models: ClassVar[list[PreparedModel]] = []
    target: ClassVar[str] = DEFAULT_TARGET
    check: ClassVar[str] = "fast"

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> PreparedModel:
        """Prepare a model as the base class does, and record it."""
        # Only kernels count: onnx.reference, which would run the rest of a model, generated much of the suite.
        how = {"target": cls.target, "check": cls.check, "partition": False}
        found = super().prepare(model, device, **how, **kwargs)
        cls.models.append(found)
        return found


@lru_cache(maxsize=1)
def _cases() -> dict[str, Any]:
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {c.name: c for c in load_model_tests(kind="node")}


@lru_cache(maxsize=1)
def _tests() -> type[unittest.TestCase]:
    import onnx.backend.test

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runner = onnx.backend.test.BackendTest(_Noted, __name__)
        found: type[unittest.TestCase] = runner.test_cases[_CLASS]
    return found


def case_names() -> list[str]:
    """Return all node tests of the installed onnx package."""
    return sorted(_cases())


def case_ops() -> dict[str, str]:
    """Return the op tested by each case, ``Abs`` for ``test_abs``; cases of its function body count for the op."""
    ops = {n.op_type.lower(): n.op_type for c in _cases().values() for n in c.model.graph.node}
    out = {}
    for name, case in _cases().items():
        if "_expanded" not in name:
            out[name] = case.model.graph.node[-1].op_type
    for name, case in _cases().items():
        if name not in out:
            plain = name.partition("_expanded")[0]
            out[name] = out.get(plain) or _by_prefix(name, ops) or case.model.graph.node[-1].op_type
    return out


def _by_prefix(name: str, ops: Mapping[str, str]) -> str | None:
    words = name.removeprefix("test_").split("_")
    for k in range(len(words), 0, -1):
        if (found := ops.get("".join(words[:k]))) is not None:
            return found
    return None


def by_op(words: Mapping[str, str]) -> dict[str, dict[str, list[str]]]:
    """Group cases by op and verdict (:attr:`Verdict.words`), all sorted."""
    ops, out = case_ops(), dict[str, dict[str, list[str]]]()
    for name in sorted(words, key=lambda n: (ops[n], words[n], n)):
        out.setdefault(ops[name], {}).setdefault(words[name], []).append(name)
    return out


def run_cases(
    names: Sequence[str],
    *,
    workers: int = 1,
    target: str = DEFAULT_TARGET,
    check: str = "fast",
) -> Iterator[Verdict]:
    """Yield the verdicts in the order of the names; a case that kills its process has failed.

    ``check`` is as for ``autofuse.load``.
    """
    starts = range(0, len(names), _BATCH)
    how = {"target": target, "check": check}
    batches = [{"names": list(names[i : i + _BATCH]), **how} for i in starts]
    with WorkerPool(JOB, workers=workers, timeout_s=600) as pool:
        for outcome in pool.map(batches):
            if outcome.ok:
                yield from (Verdict(**v) for v in outcome.value)
                continue
            for name in outcome.item["names"]:
                again = pool.run({"names": [name], **how})
                if again.ok:
                    yield Verdict(**again.value[0])
                else:
                    text = again.diagnostics[0].message
                    yield Verdict(name, "failed", "the process of the kernel ended", True, text)


def run_job(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the verdicts of cases, in a worker; a job has ``names``, and ``target`` and ``check`` of their kernels."""
    _Noted.target, _Noted.check = job["target"], job["check"]
    return [_verdict(name) for name in job["names"]]


def _verdict(name: str) -> dict[str, Any]:
    start = time.perf_counter()
    status, reason, detail = "passed", "", ""
    _Noted.models.clear()
    try:
        _tests()(name + _SUFFIX).debug()
    except AutofuseError as e:
        first = e.diagnostics[0]
        detail = f"{first.code} {first.message}"
        reason = reason_of(first.code, first.message)
        bad = first.code in ("AF9001", "AF5001", "AF5002", "AF5003", "AF5004", "AF4001")
        status = "failed" if bad else "excluded"
    except unittest.SkipTest as e:
        status, reason = "excluded", f"skipped by the suite: {e}"
    except AssertionError as e:
        lines = [line.strip() for line in str(e).splitlines() if line.strip()]
        status, reason, detail = "failed", "another result", " | ".join(lines[:6])
    except Exception as e:
        status, reason, detail = "failed", "an exception", f"{type(e).__name__}: {e}"
    seconds = round(time.perf_counter() - start, 3)
    return {
        "name": name,
        "status": status,
        "reason": reason,
        "kernel": any(m.kernel_count for m in _Noted.models),
        "detail": detail[:300],
        "seconds": seconds,
    }


def reason_of(code: str, message: str) -> str:
    """Return the reason under which a case is counted: why it was refused, or the missing feature."""
    op, _, rest = message.partition(": ")
    if rest in REFUSED.values():
        return rest
    if found := re.search(r"no kernel holds elements of type (\w+)", message):
        return f"elements of type {found[1]}"
    if found := re.search(r"needs the op '(\w+)', which is not known", message):
        return f"not yet: the op {found[1]}"
    if rest == "the op is not supported yet":
        return f"not yet: the op {op}"
    if found := re.search(r"on (u?int\d+|float\d+|bfloat16|bool) is not available", message):
        return f"not yet: {message.split()[0]} on {found[1]}"
    if found := re.search(r"^(Cast from \w+ to \w+) is not available", message):
        return f"not yet: {found[1]}"
    return f"not yet: {code}, {CODES[code]}"
