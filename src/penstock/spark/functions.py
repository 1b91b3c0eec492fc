"""A user's Python function, from `module:function` or `file.py:function`.

A file is loaded from beside the pipeline file and travels to executors by value, so it need not be installed anywhere;
a module is installed and travels by name.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

from penstock.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Transform: TypeAlias = "Callable[[DataFrame], DataFrame]"


def load_function(text: str, folder: str) -> Transform:
    """The function. InvalidArgumentError says what is missing, or what its file raised."""
    place, _, name = text.rpartition(":")
    try:
        module = _from_file(Path(folder) / place) if place.endswith(".py") else importlib.import_module(place)
    except FileNotFoundError:
        raise InvalidArgumentError(f"there is no file {place} beside the pipeline file") from None
    except ModuleNotFoundError as error:
        raise InvalidArgumentError(f"cannot import {place}: {error}") from None
    except Exception as error:  # whatever a user's file does when it is loaded
        raise InvalidArgumentError(f"loading {place} failed: {error} ({type(error).__name__})") from error
    function: Transform | None = getattr(module, name, None)
    if not callable(function):
        raise InvalidArgumentError(f"{place} has no function {name}")
    return function


def _from_file(path: Path) -> ModuleType:
    name = f"penstock_flow_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.exists():
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def send_by_value(module: ModuleType | str) -> None:
    """Executors get the module's content with the function, not its name."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[module] if isinstance(module, str) else module)  # type: ignore[no-untyped-call]
