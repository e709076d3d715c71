"""`sd.check_grads`: what it differentiates, and what it finds."""

import dataclasses
import math

import numpy as np
import pytest
from inside import load_rules

import symdiff as sd


@dataclasses.dataclass
class Layer:
    weights: np.ndarray
    bias: float
    degree: int
    name: str = "layer"


@pytest.mark.parametrize("scalarize", [None, False])
def test_structures_of_numbers_and_settings(scalarize):
    def f(layer, more, count):
        return {"sum": np.sum(np.sin(layer.weights) * layer.bias) ** layer.degree, "cells": layer.weights * more["u"] * count}

    sd.check_grads(f, (Layer(np.arange(3.0) + 0.1, 2.0, 2), {"u": 0.3, "v": None}, 3), scalarize=scalarize)


@pytest.mark.parametrize("order", [1, 2])
def test_wrong_rules_are_found(tmp_path, order):
    table = tmp_path / "wrong.rules"
    sine, cosine = ("1.01*cos(x)", "-sin(x)") if order == 1 else ("cos(x)", "-0.9*sin(x)")
    table.write_text(f"numpy.sin(x) | sin | {sine} | yes | -3..3 |\nnumpy.cos(x) | cos | {cosine} | yes | -3..3 |\n")
    with pytest.raises(AssertionError, match="differs from central differences"):
        sd.check_grads(lambda x: np.sin(x) * x, (0.7,), rules=load_rules(table))


def test_nothing_to_differentiate():
    with pytest.raises(ValueError, match="no argument holds a float"):
        sd.check_grads(lambda n, name: n, (3, "a"))


@pytest.mark.parametrize("order", [1, 2, 3])
def test_functions_of_math(order):
    def f(x, a):
        return math.log(x[0]) * max(x[1], a) + (math.sin(x[1]) if x[0] > a else math.exp(a))

    sd.check_grads(f, (np.array([2.0, 0.7]), 0.3), order)
