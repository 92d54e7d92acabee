"""Which CANN is found, and which releases do."""

from pathlib import Path

import pytest

from autofuse.base.diagnostics import AutofuseError
from autofuse.machines.npu.cann import FAKE, VARIABLES, find_cann, release_key


def _file(path: Path, text: str = "", mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with all of CANN that is looked for, as ASCEND_TOOLKIT_HOME names it."""
    _file(tmp_path / "bin" / "bisheng", mode=0o755)
    _file(tmp_path / "lib64" / "libascendcl.so")
    _file(tmp_path / "compiler" / "version.info", "Version=8.2.RC1\nrelease_date=2025\n")
    monkeypatch.delenv(VARIABLES[0], raising=False)
    monkeypatch.setenv(VARIABLES[1], str(tmp_path))
    return tmp_path


def test_what_is_there(root: Path) -> None:
    found = find_cann()
    assert (found.root, found.release, found.is_fake) == (root, "8.2.RC1", False)
    assert found.bisheng == root / "bin" / "bisheng"
    assert found.msprof is None
    _file(root / "tools" / "profiler" / "bin" / "msprof", mode=0o755)
    _file(root / FAKE)
    found = find_cann()
    assert (found.msprof, found.is_fake) == (root / "tools" / "profiler" / "bin" / "msprof", True)


def test_the_variable_of_cann_itself_comes_first(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLES[0], str(root / "bin"))
    with pytest.raises(AutofuseError, match=r"AF5011: CANN in .*/bin lacks the compiler bisheng"):
        find_cann()


@pytest.mark.parametrize(
    ("value", "why"),
    [("cann", "it is not an absolute path"), ("/no/such/cann", "there is no such folder")],
)
def test_a_variable_that_leads_nowhere(
    root: Path, monkeypatch: pytest.MonkeyPatch, value: str, why: str
) -> None:
    monkeypatch.setenv(VARIABLES[0], value)
    with pytest.raises(AutofuseError, match=f"AF5011: ASCEND_HOME_PATH is '{value}', but {why}"):
        find_cann()


def test_no_cann_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(AutofuseError, match="AF5011: there is no CANN here") as caught:
        find_cann()
    assert f"searched: {tmp_path}/Ascend/cann" in str(caught.value)
    _file(tmp_path / "Ascend" / "cann" / "bin" / "bisheng", mode=0o755)
    with pytest.raises(AutofuseError, match="lacks the library libascendcl"):
        find_cann()


def test_a_release_that_is_too_old(root: Path) -> None:
    find_cann("8.1")
    with pytest.raises(AutofuseError, match=r"AF5011: CANN 8\.2\.RC1 is too old") as caught:
        find_cann("8.5", ["Arange"])
    assert "it calls Arange" in str(caught.value)
    (root / "compiler" / "version.info").write_text("nothing\n")
    assert find_cann("8.5").release == ""


def test_releases_in_order() -> None:
    texts = [
        "7.0.0",
        "8.0.RC1",
        "8.0.RC3",
        "8.0.0",
        "8.2.RC1",
        "8.2",
        "8.5.0.alpha001",
        "8.5",
        "10.0",
    ]
    assert sorted(texts, key=release_key) == texts
    assert release_key("8.5") == release_key("8.5.0")
