"""Every finding of the twin has a fault in runtime/tests/test_findings_*.cpp, or a reason why it has none."""

from __future__ import annotations

import re
from pathlib import Path

#: A check's report: the call passes the code as its first text, or a member holds it.
REPORTED = re.compile(
    r'\b(?:(?:Fail|Report|AddFinding|NewFinding|NeedDefined|Start)\([^()"]*|code = )"([a-z0-9-]+)"'
)
#: Text in the form of a code, wherever it stands; the twin has no other text of this form.
HYPHENATED = re.compile(r'"([a-z0-9]+(?:-[a-z0-9]+)+)"')
PLANTED = re.compile(r'\bCASE(?:_NAMES)?\((?:k\w+, )?"([a-z0-9-]+)"')
EXCEPTION = re.compile(r'^ {4}\{"([a-z0-9-]+)", "[^"]{20,}"\},$', re.M)


def texts(folder: Path, *names: str) -> str:
    return "\n".join(
        path.read_text(encoding="utf-8") for name in names for path in sorted(folder.rglob(name))
    )


def test_every_code_has_a_fault_or_a_reason(repo: Path) -> None:
    sources = "\n".join(
        texts(repo / "runtime" / folder, "*.cpp", "*.h") for folder in ("src", "include")
    )
    reported = set(REPORTED.findall(sources)) | set(HYPHENATED.findall(sources))
    table = texts(repo / "runtime" / "tests", "test_findings_*.cpp")
    planted, exceptions = set(PLANTED.findall(table)), set(EXCEPTION.findall(table))
    assert {"race", "ub-freed", "gm-unwritten", "kernel-exception"} <= reported
    assert planted
    assert exceptions
    assert not planted & exceptions
    assert planted | exceptions == reported
