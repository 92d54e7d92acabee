"""The public name of ``autofuse.clients.cann.pyautofuse``."""

import sys

from autofuse.clients.cann import pyautofuse as _home
from autofuse.clients.cann.pyautofuse import *  # noqa: F403

sys.modules[__name__] = _home
