"""The compiler of the fake CANN: Ascend C on the headers of the CPU twin, by g++.

It accepts bisheng's documented options for kernels: ``-x asc``, ``--npu-arch``, ``-c``, ``-shared``,
``-o``, ``-I``, ``-D``, ``-O``, ``-std``, ``-L``, ``-l``.  ``kernel<<<...>>>(...)`` is rewritten after the preprocessor,
so that the source is the same as for a chip.

``bisheng.py ROOT WORDS...``; it does not import autofuse, because it starts once per kernel.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ARCHITECTURES = ("dav-2002", "dav-2201", "dav-3510")
_LAUNCH = re.compile(r"(?P<kernel>[A-Za-z_][A-Za-z0-9_:]*(?:\s*<[^<>;{}]*>)?)\s*<<<")
_TAKES_WORD = (
    "-o",
    "-x",
    "-I",
    "-D",
    "-L",
    "-l",
    "-isystem",
    "-include",
    "-U",
    "-MF",
    "-MT",
    "-MQ",
)
_DROPPED = re.compile(r"--?(npu-arch|npu-soc|cce-|sanitizer|enable-simt|run-mode|target)")


@dataclass
class Call:
    """Parsed command line of the compiler."""

    sources: list[tuple[str, str]] = field(default_factory=list)  # language, path
    flags: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    output: str = ""
    arch: str = ""
    only_compile: bool = False
    shared: bool = False


def main(argv: list[str]) -> int:
    """Run as bisheng."""
    root, words = Path(argv[0]), argv[1:]
    about = json.loads((root / "fake_cann.json").read_text(encoding="utf-8"))
    if "--version" in words:
        print(f"bisheng of the fake CANN {about['release']} of autofuse, {about.get('digest', '')}")
        return 0
    try:
        call = read_words(words)
        return build(call, about, root)
    except ValueError as e:
        print(f"bisheng: error: {e}", file=sys.stderr)
        return 1


def read_words(words: list[str]) -> Call:
    """Parse the command line; ValueError for options that bisheng refuses."""
    call, language = Call(), ""
    rest = iter(words)
    for word in rest:
        if word in _TAKES_WORD:
            value = next(rest, None)
            if value is None:
                raise ValueError(f"argument to '{word}' is missing")
        else:
            value = ""
        if word == "-o":
            call.output = value
        elif word == "-x":
            language = "" if value == "none" else value
        elif word.startswith("--npu-arch="):
            call.arch = word.partition("=")[2]
        elif word == "-c":
            call.only_compile = True
        elif word.startswith(("-L", "-l", "-Wl,")):
            call.links += [word, value] if value else [word]
        elif word == "-shared":
            call.shared = True
        elif _DROPPED.match(word):
            continue
        elif word.startswith("-"):
            call.flags += [word, value] if value else [word]
        else:
            suffix = by_suffix(word)
            call.sources.append((suffix if suffix == "object" else language or suffix, word))
    if not call.sources:
        raise ValueError("no input files")
    return call


def by_suffix(path: str) -> str:
    """Return the language of a file by its name."""
    suffix = Path(path).suffix
    return {".asc": "asc", ".o": "object", ".a": "object", ".so": "object"}.get(suffix, "c++")


def build(call: Call, about: dict[str, object], root: Path) -> int:
    """Compile and link."""
    if any(language == "asc" for language, _ in call.sources):
        if about["fail_old"]:
            raise ValueError("language not recognized: 'asc'")
        if call.arch not in ARCHITECTURES:
            raise ValueError(f"invalid value '{call.arch}' in '--npu-arch='")
    cxx, twin = str(about["cxx"]), [str(p) for p in about["twin_include"]]  # type: ignore[attr-defined]
    include = [f"-I{root / 'include'}", *(f"-isystem{p}" for p in twin)]
    with tempfile.TemporaryDirectory() as scratch:
        objects: list[str] = []
        for i, (language, path) in enumerate(call.sources):
            if language == "object":
                objects.append(path)
                continue
            made = call.output if call.only_compile and call.output else f"{scratch}/{i}.o"
            if call.only_compile and not call.output:
                made = f"{Path(path).stem}.o"
            unit, kind = path, ["-x", "c++"]
            if language == "asc":
                unit, kind = f"{scratch}/{i}.ii", ["-x", "c++-cpp-output"]
                number = call.arch.rpartition("-")[2]
                macros = ["-DAUTOFUSE_TWIN_CHECKED", f"-D__NPU_ARCH__={number}"]
                plain = ["-E", *macros, *call.flags, *include, "-x", "c++", path]
                status, text = run([cxx, *plain], output=True)
                if status:
                    return status
                Path(unit).write_text(launches(text), encoding="utf-8")
            # A kernel spends its time in the twin's library, so fast compilation matters more.
            flags = [*call.flags, "-fPIC", "-O0", "-w"]
            status, _ = run([cxx, *flags, *include, "-c", "-o", made, *kind, unit])
            if status:
                return status
            objects.append(made)
        if call.only_compile:
            return 0
        libraries = [str(about["twin_library"]), str(root / "lib64" / "libascendcl.so")]
        paths = [f"-Wl,-rpath,{Path(p).parent}" for p in libraries]
        kind = ["-shared", "-fPIC", "-Wl,-Bsymbolic"] if call.shared else []
        link = [cxx, *kind, "-o", call.output or "a.out", *objects]
        status, _ = run([*link, *call.links, *libraries, *paths])
        return status


def run(command: list[str], output: bool = False) -> tuple[int, str]:
    """Run a command, passing its messages on."""
    done = subprocess.run(command, stdout=subprocess.PIPE if output else None, text=True)
    return done.returncode, done.stdout or ""


def launches(text: str) -> str:
    """Return a preprocessed text with launches replaced by calls of the fake runtime."""
    out, at = [], 0
    for m in _LAUNCH.finditer(text):
        if m.start() < at:
            continue
        end = text.find(">>>", m.end())
        open_ = re.compile(r"\s*\(").match(text, end + 3) if end >= 0 else None
        if open_ is None:
            continue
        close = closing(text, open_.end())
        kernel, config = m["kernel"], text[m.end() : end]
        arguments = text[open_.end() : close].strip()
        # The kernel is called inside a lambda; Run evaluates the arguments once.
        name = re.sub(r"\s*<.*", "", kernel, flags=re.S).rpartition("::")[2]
        body = f"[](auto... a) {{ {kernel}(a...); }}"
        passed = f", {arguments}" if arguments else ""
        defaults = ", nullptr" * (2 - config_commas(config))
        out += [text[at : m.start()], f'::autofuse_fake::Launch("{name}", {config}{defaults})']
        out.append(f".Run({body}{passed})")
        at = close + 1
    return "".join([*out, text[at:]])


def closing(text: str, at: int) -> int:
    """Return the position of the parenthesis that closes the one opened before ``at``."""
    depth = 1
    for i in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return i
    raise ValueError("expected ')' behind the arguments of a kernel")


def config_commas(config: str) -> int:
    """Count the commas between the parts of a <<<>>> configuration."""
    depth = commas = 0
    for c in config:
        depth += {"(": 1, ")": -1, "[": 1, "]": -1, "{": 1, "}": -1}.get(c, 0)
        commas += c == "," and depth == 0
    return commas


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
