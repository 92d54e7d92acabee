"""``LowWords``, ``HighWords`` and ``JoinWords``: element-wise, with the statements and proofs of any such call."""

from __future__ import annotations

from autofuse.codegen.functions.definition import DeviceFunction

__all__ = ["FUNCTIONS"]

FUNCTIONS = dict.fromkeys(("LowWords", "HighWords", "JoinWords"), DeviceFunction("words"))
