"""CANN's Python interface to kernel fusion, implemented by autofuse, for clients written against it.

A client builds loop-level graphs with :mod:`autofuse.pyautofuse.ascir`, has them scheduled and gets three C++ texts
from an :class:`Autofuser`, and compiles these with :mod:`autofuse.compile_adapter`.  ``docs/clients.md`` lists
the supported subset and the differences.
"""

import sys

from autofuse.clients.cann.pyautofuse import ascir
from autofuse.clients.cann.pyautofuse.fuser import Autofuser, AutofuserOptions, CodeGen, Schedule

# CANN's extension module registers these names too: `import pyautofuse`, `from ascir import Max`.
sys.modules["pyautofuse"] = sys.modules[__name__]
sys.modules["ascir"] = ascir
for _part in ("dtypes", "ops", "utils"):
    sys.modules[f"ascir.{_part}"] = getattr(ascir, _part)
del _part

__all__ = ["Autofuser", "AutofuserOptions", "CodeGen", "Schedule", "ascir"]
