"""Code that waits for a module: to import it at once would cost those who never do."""

import importlib.abc
import importlib.util
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from typing import Any


def after_import(module: str, call: Callable[[], Any]) -> None:
    """Call a function once a module has been imported: now, or when somebody imports it."""
    if module in sys.modules:
        call()
    else:
        sys.meta_path.insert(0, _Waiting(module, call))


class _Waiting(importlib.abc.MetaPathFinder):
    """Find one module as others do, and have a function called once its code has run."""

    def __init__(self, module: str, call: Callable[[], Any]):
        self.module, self.call = module, call

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != self.module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_call(module: Any) -> None:
            execute(module)
            self.call()

        spec.loader.exec_module = execute_and_call  # type: ignore[method-assign]  # of this one loader
        return spec
