"""The public name of ``autofuse.clients.torch``."""

import sys

from autofuse.clients import torch as _home
from autofuse.clients.torch import *  # noqa: F403

sys.modules[__name__] = _home
