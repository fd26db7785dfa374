"""Modules in the place of packages that are not installed."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType


def stand_in(monkeypatch, name, **content):
    """Put a module with some content in the place of a package."""
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None, origin=content.pop("origin", None))
    for key, value in content.items():
        setattr(module, key, value)
    monkeypatch.setitem(sys.modules, name, module)
    return module
