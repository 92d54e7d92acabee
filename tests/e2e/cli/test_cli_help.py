"""What the command says about itself, and how it refuses words it does not know."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import autofuse as package
from autofuse.cli import app, main

#: What verbs are for -> the verbs, in the order of the help.
SECTIONS = {
    "Write a graph": ("new", "schema", "ops"),
    "Check": ("verify", "run", "certify"),
    "Look inside": ("show", "explain", "dump"),
    "Ship": ("build", "adopt", "kernelgen"),
    "On a chip or a card": ("bench", "import-msprof", "silicon", "calibrate", "tune"),
    "Housekeeping": ("targets", "doctor", "cache", "knobs"),
}
#: Verbs that have verbs of their own.
GROUPS = ("kernelgen",)
VERBS = tuple(v for verbs in SECTIONS.values() for v in verbs if v not in GROUPS)


def test_help_lists_every_verb(autofuse: Callable) -> None:
    done = autofuse("--help")
    assert done.code == 0
    assert done.err == ""
    parts = re.split(r"^(\w[\w ]*):\n", done.out, flags=re.M)
    listed = dict(zip(parts[1::2], parts[2::2], strict=True))
    del listed["Options"]
    found = {k: tuple(re.findall(r"^  ([\w-]+)  ", v, re.M)) for k, v in listed.items()}
    assert list(found.items()) == list(SECTIONS.items())
    assert tuple(g.name for g in app.registered_groups) == GROUPS
    assert tuple(c.name or c.callback.__name__ for c in app.registered_commands) == VERBS
    assert "..." not in done.out.partition("Write a graph:")[2].partition("Examples:")[0]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_examples(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0
    out = capsys.readouterr().out
    assert f"Usage: autofuse {verb}" in out
    assert f"autofuse {verb}" in out.partition("Examples:")[2]
    assert "--json" in out
    assert max(map(len, out.splitlines())) <= 80


def test_no_words_is_help(autofuse: Callable) -> None:
    done = autofuse()
    assert (done.code, done.out) == (0, autofuse("--help").out)


def test_version(autofuse: Callable) -> None:
    done = autofuse("--version")
    assert (done.code, done.out) == (0, f"autofuse {package.__version__}\n")


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["biuld"], "No such command 'biuld'. Did you mean 'build'?", "autofuse --help"),
        (["build"], "Missing argument 'GRAPH'.", "autofuse build --help"),
        (["build", "x", "--tragte", "y"], "No such option: --tragte", "autofuse build --help"),
        (["verify", "x", "--shapes", "0"], "'--shapes'", "autofuse verify --help"),
        (["run", "x", "--seed", "one"], "'--seed'", "autofuse run --help"),
        (["run", "x", "--seed", "-5"], "'--seed'", "autofuse run --help"),
        (["verify", "x", "--seed", "-5"], "'--seed'", "autofuse verify --help"),
        (["run", "x", "--check-seed", str(1 << 64)], "'--check-seed'", "autofuse run --help"),
    ],
)
def test_misuse_is_a_user_error(
    words: list[str], message: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error AF1005: ")
    assert message in err
    assert f"hint: {hint}" in err


def test_misuse_as_json(autofuse: Callable) -> None:
    done = autofuse("build", "--json")
    found = done.json()
    assert done.code == 1
    assert found["verb"] == "build"
    assert [d["code"] for d in found["diagnostics"]] == ["AF1005"]


def test_help_imports_nothing_heavy() -> None:
    heavy = ("rich", "numpy", "sympy", "pydantic", "networkx", "jinja2")
    code = (
        "import sys; from autofuse.cli import main; main(['--help']); "
        f"print(sorted(set({heavy}) & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stderr.strip() == "[]"


def test_help_imports_nothing_of_the_compiler() -> None:
    code = (
        "import sys; from autofuse.cli import main; main(['--help']); "
        "print(*(m for m in sys.modules if m.startswith('autofuse.')), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    floors = {name.split(".")[1] for name in done.stderr.split()}
    assert "cli" in floors
    assert floors.isdisjoint({"api", "codegen", "frontends", "implgraph", "schedule", "twin"})


def test_module_and_script_are_the_same(autofuse: Callable) -> None:
    script = Path(sys.executable).with_name("autofuse")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, timeout=60)
    assert done.stdout == autofuse("--version").out
