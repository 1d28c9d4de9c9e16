"""Celosia: a compiler of int8 networks, and the tensor processing unit that runs them.

The names below are imported when they are first used, so that ``import celosia`` is
fast. Everything else is imported by its path, for instance ``celosia.sw.runtime.session``.

Examples
--------
>>> import celosia
>>> celosia.compile("mnist_mlp", config="nano").batch
1
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from celosia.hw.arch.config import Config
    from celosia.hw.arch.presets import preset
    from celosia.sw.api import compile, quantize
    from celosia.sw.driver.device import DeviceError
    from celosia.sw.profile import profile
    from celosia.sw.runtime.arrays import InputError
    from celosia.sw.runtime.interpreter import InferenceSession, Interpreter

    __version__: str

__all__ = [
    "Config",
    "DeviceError",
    "InferenceSession",
    "InputError",
    "Interpreter",
    "__version__",
    "compile",
    "preset",
    "profile",
    "quantize",
]

#: Module of each name.
_MODULES = {
    "Config": "celosia.hw.arch.config",
    "DeviceError": "celosia.sw.driver.device",
    "InferenceSession": "celosia.sw.runtime.interpreter",
    "InputError": "celosia.sw.runtime.arrays",
    "Interpreter": "celosia.sw.runtime.interpreter",
    "__version__": "celosia.sw.version",
    "compile": "celosia.sw.api",
    "preset": "celosia.hw.arch.presets",
    "profile": "celosia.sw.profile",
    "quantize": "celosia.sw.api",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        text = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(text, name=name, obj=sys.modules[__name__])
    found = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
