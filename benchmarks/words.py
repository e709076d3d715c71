"""The problems in the words of other packages: the same lines of code, `np` standing for another name space.

Assumes that functions of `problems.py` reach NumPy through the module's own `np`. Guarantees that nothing is rewritten,
so that all packages are given the same function. Refuses nothing: a word that a package lacks is an `AttributeError`.
"""

import importlib.util
from types import ModuleType, SimpleNamespace
from typing import Any


def problems_in(words: Any) -> ModuleType:
    """A copy of the module `problems` whose `np` is `words`."""
    spec = importlib.util.find_spec("benchmarks.problems")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.np = words  # type: ignore[attr-defined]
    return module


def scalar_words(package: Any) -> SimpleNamespace:
    """The words of a package of symbols; arrays of symbols are lists."""
    return SimpleNamespace(exp=package.exp, sin=package.sin, cos=package.cos, abs=abs, array=list)


def torch_words() -> SimpleNamespace:
    """The words of PyTorch: its names of axes differ."""
    import torch

    def total(x: Any, axis: Any = None) -> Any:
        return torch.sum(x) if axis is None else torch.sum(x, axis)

    def largest(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return torch.max(x) if axis is None else torch.amax(x, axis, keepdim=keepdims)

    same = {name: getattr(torch, name) for name in ("exp", "sin", "cos", "tanh", "log", "abs", "trace")}
    return SimpleNamespace(**same, sum=total, max=largest, array=torch.stack, linalg=torch.linalg)
