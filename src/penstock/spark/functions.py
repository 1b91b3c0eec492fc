"""A user's Python function, named by `module:function` or `file.py:function`.

A file is next to the pipeline file. Its function is sent to executors by value, so it need not be installed there. A
module is installed, also on executors.
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
    """Load the function. Raise InvalidArgumentError if it is missing or its file fails to load."""
    source, _, name = text.rpartition(":")
    try:
        module = _load_file(Path(folder) / source) if source.endswith(".py") else importlib.import_module(source)
    except FileNotFoundError:
        raise InvalidArgumentError(f"there is no file {source} next to the pipeline file") from None
    except ModuleNotFoundError as error:
        raise InvalidArgumentError(f"cannot import {source}: {error}") from None
    except Exception as error:  # a user's file can raise anything
        raise InvalidArgumentError(f"loading {source} failed: {error} ({type(error).__name__})") from error
    function: Transform | None = getattr(module, name, None)
    if not callable(function):
        raise InvalidArgumentError(f"{source} has no function {name}")
    return function


def _load_file(path: Path) -> ModuleType:
    name = f"penstock_flow_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.exists():
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def send_by_value(module: ModuleType | str) -> None:
    """Make Spark send the module's content to executors, not only its name."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[module] if isinstance(module, str) else module)  # type: ignore[no-untyped-call]
