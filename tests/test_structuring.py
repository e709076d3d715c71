"""Files whose functions take and return the user's structures, run where symdiff is not."""

import dataclasses
import subprocess
import sys
import typing

import numpy as np
import pytest
from inside import Plain, structures

import symdiff as sd


@dataclasses.dataclass(frozen=True)
class Layer:
    weights: np.ndarray
    bias: float
    degree: int = 2
    name: str = "tanh"


class Place(typing.NamedTuple):
    height: float
    index: np.ndarray


class Registered:
    def __init__(self, value):
        self.value = value


sd.register(Registered, lambda r: ((r.value,), None), lambda _, children: Registered(*children))


def loss(p, layer, x, place, scale=2.0):
    """My own words."""
    return (
        np.sum(p["layers"][0]["W"] @ x * layer.bias + layer.weights) ** layer.degree * place.height * x[place.index[0]] * scale
    )


def parts(x, layer):
    return {"sum": np.sum(x) * layer.bias, "rest": [layer.weights * x, (x[0],)]}


ARGUMENTS = (
    {"layers": [{"W": np.array([[1.0, 2.0], [0.5, -1.0]]), "none": None}]},
    Layer(np.array([0.1, 0.2]), 1.5),
    np.array([0.3, 0.4]),
    Place(2.0, np.array([1])),
)
TANGENT = ({"layers": [{"W": np.ones((2, 2)), "none": None}]}, Layer(np.array([1.0, -1.0]), 2.0, None, None))
COTANGENT = {"sum": 2.0, "rest": [np.array([1.0, 3.0]), (0.5,)]}
TRANSFORMS = {
    "value": (Plain(loss), ARGUMENTS),
    "grad": (sd.grad(loss, 1), ARGUMENTS),
    "value_and_grad": (sd.value_and_grad(loss, (0, 1, 3)), ARGUMENTS),
    "jacobian": (sd.jacobian(parts, 1), (ARGUMENTS[2], ARGUMENTS[1])),
    "hessian": (sd.hessian(loss, 1), ARGUMENTS),
    "jvp": (sd.jvp(loss, (0, 1)), (*ARGUMENTS, TANGENT)),
    "vjp": (sd.vjp(parts, 1), (ARGUMENTS[2], ARGUMENTS[1], COTANGENT)),
    "hvp": (sd.hvp(loss, 1), (*ARGUMENTS, TANGENT[1])),
    "whole arrays": (sd.grad(loss, (0, 2), scalarize=False), ARGUMENTS),
    "results only": (sd.jvp(lambda x: {"a": np.sin(x), "b": [x * x]}), (0.7, 1.0)),
}


def made(function, args, target="numpy", name=None):
    """The generated module's function."""
    namespace = {}
    exec(compile(function.source(*args, target=target), f"<{name}>", "exec"), namespace)
    inner = getattr(function, "inner", function)
    return namespace[inner.__name__]


def compare(found, wanted):
    """The same structure, with lists for arrays where the file is plain Python."""
    leaves, tree = structures.flatten(wanted, none_is_leaf=True)
    for one, other in zip(tree.flatten_up_to(found), leaves, strict=True):
        if other is None or isinstance(other, str):
            assert one == other
        else:
            np.testing.assert_allclose(one, other, rtol=1e-13)


@pytest.mark.parametrize("target", ["numpy", "python"])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_files_take_and_return_structures(name, target):
    function, args = TRANSFORMS[name]
    compare(made(function, args, target, name)(*args), function(*args))


@pytest.mark.parametrize("name", ["grad", "value_and_grad", "jvp"])
def test_outputs_given(name):
    function, args = TRANSFORMS[name]
    wanted = function(*args)
    out = structures.map_leaves(
        lambda leaf: np.full(np.shape(leaf), np.nan) if np.asarray(leaf).dtype == float else leaf, wanted
    )
    assert made(function, args)(*args, out=out) is out
    compare(out, wanted)


def test_many_points():
    function = sd.vmap(sd.grad(loss, 1), in_axes=(None, None, 0, None))
    args = (*ARGUMENTS[:2], np.array([[0.3, 0.4], [1.0, 2.0], [-1.0, 0.5]]), ARGUMENTS[3])
    compare(made(function, args)(*args), function(*args))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p, layer: ({"layers": [*p["layers"], 1]}, layer), r'p\["layers"\] has 2 entries, 1 expected'),
        (lambda p, layer: (p, dataclasses.replace(layer, degree=3)), "layer.degree is 3, 2 expected"),
        (lambda p, layer: (p, dataclasses.replace(layer, name="relu")), "layer.name is 'relu', 'tanh' expected"),
        (lambda p, layer: ({"layers": [{"W": p["layers"][0]["W"], "none": 1.0}]}, layer), "is 1.0, None expected"),
        (lambda p, layer: (p, dataclasses.replace(layer, weights=np.ones(3))), "layer_weights.* has shape"),
    ],
)
def test_other_structures_are_refused(change, message):
    function = sd.grad(loss, 1)
    with pytest.raises(ValueError, match=message):
        made(function, ARGUMENTS)(*change(*ARGUMENTS[:2]), *ARGUMENTS[2:])


def test_arguments_named_like_the_files_own():
    function, args = sd.grad(lambda out, sum: sum["a"] * out["b"] ** 2), ({"b": 3.0}, {"a": 2.0})
    compare(made(function, args)(*args), {"b": 12.0})


def test_c_takes_the_leaves():
    text = sd.grad(lambda p, x: np.sum(p["W"] * x) ** 2).source({"W": np.ones(3)}, np.ones(3), target="c")
    assert "p_W" in text


@pytest.mark.parametrize(
    ("function", "args", "message"),
    [
        (sd.grad(lambda r: r.value**2), (Registered(2.0),), "cannot take apart Registered"),
        (sd.grad(lambda p: p[(1, 2)] ** 2), ({(1, 2): 2.0},), r"the key \(1, 2\) cannot be written"),
        (sd.jvp(lambda x: Layer(x, 2.0 * x, 0.5 * x, x)), (1.0, 1.0), "holds a Layer, which a file cannot import"),
        (sd.jvp(lambda x: Registered(x)), (1.0, 1.0), "cannot take apart Registered"),
    ],
)
def test_what_a_file_cannot_say(function, args, message):
    with pytest.raises(sd.ExportError, match=message):
        function.source(*args)


def test_files_need_nothing_of_ours(tmp_path):
    function, args = TRANSFORMS["value_and_grad"]
    function.export(tmp_path / "made.py", *args)
    program = (
        "import dataclasses, collections, numpy as np\nimport made\n"
        "Layer = dataclasses.make_dataclass('Layer', ['weights', 'bias', 'degree', 'name'], frozen=True)\n"
        "Place = collections.namedtuple('Place', 'height index')\n"
        "p = {'layers': [{'W': np.array([[1.0, 2.0], [0.5, -1.0]]), 'none': None}]}\n"
        "f, (dp, layer, place) = made.loss_value_and_grad(p, Layer(np.array([0.1, 0.2]), 1.5, 2, 'tanh'), np.array([0.3, 0.4]),"
        " Place(2.0, np.array([1])))\n"
        "print(float(f), layer.degree, type(place).__name__, sorted(dp))\n"
    )
    alone = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.modules['symdiff'] = None\n"
    ran = subprocess.run([sys.executable, "-I", "-c", alone + program], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split()[1:] == ["2", "Place", "['layers']"]
    assert float(ran.stdout.split()[0]) == pytest.approx(float(loss(*ARGUMENTS)))


def test_the_command_in_the_header_makes_the_same_file(tmp_path):
    function, args = TRANSFORMS["value_and_grad"]
    text = function.source(*args)
    command = next(line[4:] for line in text.splitlines() if line.startswith("#   symdiff.value_and_grad"))
    eval(command, {"symdiff": sd, "numpy": np, "path": tmp_path / "again.py", __name__: sys.modules[__name__]})
    assert (tmp_path / "again.py").read_text() == text
