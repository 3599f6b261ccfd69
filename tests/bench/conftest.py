"""The float32 reference needs PyTorch, which is not among the packages of the development set: its
wheel for Linux takes gigabytes. Where it is installed its tests run, elsewhere they are not there.
"""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else ["test_float_net.py"]
