"""CANN's Python interface to kernel fusion, over autofuse: for clients that were written against it.

A client builds loop-level graphs with :mod:`autofuse.pyautofuse.ascir`, has them scheduled and gets three C++ texts
from an :class:`Autofuser`, and compiles these with :mod:`autofuse.compile_adapter`.  ``docs/clients.md`` says what is
supported, and what differs.
"""

from autofuse.pyautofuse import ascir
from autofuse.pyautofuse.fuser import Autofuser, AutofuserOptions, CodeGen, Schedule

__all__ = ["Autofuser", "AutofuserOptions", "CodeGen", "Schedule", "ascir"]
