"""The only module that uses jinja2: it renders a template with the fields of a frozen dataclass.

Templates hold fixed text, without arithmetic or decisions about ops; Python computes the text or plain values of every
placeholder.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache, lru_cache
from importlib import resources
from typing import Any

import jinja2
import jinja2.meta

__all__ = [
    "FOLDERS",
    "UNDEFINED",
    "header_names",
    "read_text",
    "render",
    "template_names",
    "template_variables",
]

#: Packages with templates (``*.jinja``) and constant files; names are unique across them.
FOLDERS = (
    "host_templates",
    "host_templates/headers",
    "host_templates/op_package",
    "host_templates/torch",
    "device_templates",
)
SUFFIX = ".jinja"
UNDEFINED = jinja2.UndefinedError


def render(template: str, view: object) -> str:
    """Return the text of ``template`` with the fields of ``view`` as its variables.

    Raises:
        TypeError: ``view`` is not a frozen dataclass, or its fields are not the template's variables.
    """
    kind: Any = type(view)
    names = _checked_names(template, kind)
    return _template(template)[0].render({n: getattr(view, n) for n in names})


@lru_cache(maxsize=64)
def _checked_names(template: str, kind: type[Any]) -> tuple[str, ...]:
    """Return the field names of a view, which are the variables of the template.

    Raises:
        TypeError: as :func:`render`.
    """
    declared = getattr(kind, "__dataclass_params__", None)
    if declared is None or not declared.frozen:
        raise TypeError(f"{kind.__name__} must be a frozen dataclass")
    names = tuple(f.name for f in fields(kind))
    _check(template, kind, names)
    return names


def template_names() -> tuple[str, ...]:
    """Return all templates of both folders, sorted."""
    return tuple(sorted(n for n in _sources() if n.endswith(SUFFIX)))


def header_names() -> tuple[str, ...]:
    """Return the headers of both folders that are copied unchanged to the output, sorted."""
    return tuple(sorted(n for n in _sources() if n.endswith(".h")))


def template_variables(template: str) -> frozenset[str]:
    """Return the variables that the template expects."""
    return _template(template)[1]


def read_text(name: str) -> str:
    """Return the text of a file in one of the folders, unchanged."""
    return _sources()[name]


@cache
def _sources() -> dict[str, str]:
    out: dict[str, str] = {}
    for folder in FOLDERS:
        for f in resources.files("autofuse").joinpath(folder).iterdir():
            if f.name.endswith((SUFFIX, ".h")):
                if f.name in out:
                    raise ValueError(f"{f.name} is in more than one of {', '.join(FOLDERS)}")
                out[f.name] = f.read_text(encoding="utf-8")
    return out


@cache
def _template(name: str) -> tuple[jinja2.Template, frozenset[str]]:
    """Return a template and its variables, both created on first use."""
    env = _environment()
    tree = env.parse(read_text(name), name)
    variables = frozenset(jinja2.meta.find_undeclared_variables(tree))
    code = env.compile(tree, name, name)
    # A plain dict: every rendering copies it.
    return jinja2.Template.from_code(env, code, dict(env.globals)), variables


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        # Templates hold no constant expressions, so the optimizer would only cost time.
        optimized=False,
    )


def _check(template: str, kind: type[Any], names: tuple[str, ...]) -> None:
    variables = template_variables(template)
    if variables != set(names):
        missing = ", ".join(sorted(variables - set(names))) or "none"
        unused = ", ".join(sorted(set(names) - variables)) or "none"
        raise TypeError(
            f"template {template} and view {kind.__name__} differ: "
            f"missing {missing}; unused {unused}"
        )
