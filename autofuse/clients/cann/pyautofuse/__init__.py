"""CANN's Python interface to kernel fusion, over autofuse: for clients that were written against it.

A client builds loop-level graphs with :mod:`autofuse.pyautofuse.ascir`, has them scheduled and gets three C++ texts
from an :class:`Autofuser`, and compiles these with :mod:`autofuse.compile_adapter`.  ``docs/clients.md`` says what is
supported, and what differs.
"""

import sys

from autofuse.clients.cann.pyautofuse import ascir
from autofuse.clients.cann.pyautofuse.fuser import Autofuser, AutofuserOptions, CodeGen, Schedule

# Names that CANN's extension module has as well: `import pyautofuse`, `from ascir import Max`.
sys.modules["pyautofuse"] = sys.modules[__name__]
sys.modules["ascir"] = ascir
for _part in ("dtypes", "ops", "utils"):
    sys.modules[f"ascir.{_part}"] = getattr(ascir, _part)
del _part

__all__ = ["Autofuser", "AutofuserOptions", "CodeGen", "Schedule", "ascir"]
