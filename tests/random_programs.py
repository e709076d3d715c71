"""Random Programs of point values, and how far rounding may carry each of their values."""

import numpy as np
from inside import OPS, Input, Node, Output, Program, dtype_of_code, live_only

REAL = "add sub mul div neg exp log sin cos tanh sqrt abs max min atan2 hypot lt select expm1 log1p pow cast".split()
COMPLEX = "add sub mul div neg exp log sin cos sinh cosh tan tanh sqrt conj abs real imag asin acos atan asinh pow eq".split()
ULPS = 16  # what functions may be off, in units of the last place; arithmetic and square roots are off by half of one


def random_program(seed, code, length=40):
    """A Program over x (a number) and y (three of them) with several outputs, whose values at normal points are mostly sure."""
    rng = np.random.default_rng(seed)
    x, y = points(rng, code)
    inputs = (Input("x", (), code), Input("y", (3,), code))
    nodes = [Node("input", (), (), code, (0, 0)), *(Node("input", (), (), code, (1, k)) for k in range(3))]
    real = code.lower()
    nodes += [Node("const", (), (), real, float(v)) for v in (0.5, -1.25)]
    if code in "FD":
        nodes.append(Node("const", (), (), code, 0.5 - 0.25j))
    known = values_and_bounds(Program("made", inputs, (), nodes), x, y)
    seen = set()
    while len(nodes) < length:
        op = str(rng.choice(COMPLEX if code in "FD" else REAL))
        arity = OPS[op].arity
        bools = [i for i, node in enumerate(nodes) if node.dtype == "?"]
        numbers = [i for i, node in enumerate(nodes) if node.dtype != "?"]
        if op == "select" and not bools:
            continue
        own = code.upper() if code in "FD" else code
        pool = [i for i in numbers if nodes[i].dtype == own] if OPS[op].result == "real" or arity == 1 else numbers
        operands = tuple(int(i) for i in rng.choice(pool[-12:], arity))
        if op == "select":
            operands = (int(rng.choice(bools)), *operands[1:])
        if all(nodes[o].op == "const" for o in operands) or (op, operands) in seen:
            continue
        if not any(nodes[o].dtype in "FD" for o in operands) and op in ("eq", "pow") and code in "FD":
            continue
        seen.add((op, operands))
        codes = [nodes[o].dtype for o in operands if nodes[o].dtype != "?"]
        joined = own if own in codes else real
        dtype = {"bool": "?", "real": real}.get(OPS[op].result, joined)
        with np.errstate(all="ignore"):
            value, bound = _applied(op, dtype_of_code(dtype), [known[o] for o in operands])
            sure = bound <= 1e4 * np.finfo(dtype.replace("?", "d")).eps * np.abs(value) if dtype != "?" else bound == 0
        if np.mean(sure) > 0.8:
            nodes.append(Node(op, operands, (), dtype, None, "", True))
            known.append((value, bound))
    last = [i for i, node in enumerate(nodes) if node.op not in ("input", "const") and node.dtype != "?"][-6:]
    cells = [i for i in last if nodes[i].dtype == nodes[last[-1]].dtype][:2]
    outputs = [Output(f"f{k}", (), nodes[i].dtype, (i,)) for k, i in enumerate(last)]
    outputs.append(Output("g", (len(cells),), nodes[cells[0]].dtype, tuple(cells)))
    return live_only(Program("made", inputs, tuple(outputs), nodes))


def points(rng, code, n=33):
    """Points for a program: x and y."""
    shapes = (n, (n, 3))
    parts = [rng.standard_normal(s) + (1j * rng.standard_normal(s) if code in "FD" else 0.0) for s in shapes]
    return [part.astype(code) for part in parts]


def values_and_bounds(program, x, y):
    """Each node's value, by NumPy, and a running bound of its rounding error, to first order."""
    found = []
    with np.errstate(all="ignore"):
        for node in program.nodes:
            dtype = dtype_of_code(node.dtype)
            if node.op == "input":
                value = (x if node.params[0] == 0 else y[:, node.params[1]]).astype(dtype)
                found.append((value, np.zeros(len(x))))
                continue
            if node.op == "const":
                found.append((np.full(len(x), node.params, dtype), np.zeros(len(x))))
                continue
            parts = [found[o] for o in node.operands]
            found.append(_applied(node.op, dtype, parts))
    return found


def _applied(op, dtype, parts):
    values = [v for v, _ in parts]
    if op == "cast":
        return values[0].astype(dtype), parts[0][1]

    def function(*operands):
        return np.where(*operands) if op == "select" else OPS[op].function()(*operands)

    value = np.asarray(function(*values)).astype(dtype)
    if value.dtype == bool:  # the other side may see another truth where an operand is uncertain
        apart = np.abs(values[0] - values[1]) <= 2 * (parts[0][1] + parts[1][1])
        uncertain = apart & ((parts[0][1] > 0) | (parts[1][1] > 0))
        return value, np.where(uncertain, np.inf, 0.0)
    exact = op in ("neg", "abs", "max", "min", "select", "conj", "real", "imag") and value.dtype.kind == "f"
    ulps = 0 if exact or op in ("neg", "conj", "select") else 1 if op in ("add", "sub") else ULPS
    bound = ulps * np.finfo(dtype).eps * np.abs(value)
    for k, (operand, error) in enumerate(parts):
        if operand.dtype == bool:
            bound = bound + np.where(error > 0, np.inf, 0.0)
            continue
        turns = (1, -1, 1j, -1j) if operand.dtype.kind == "c" else (1, -1)
        moved = [
            np.asarray(function(*values[:k], (operand + t * error).astype(operand.dtype), *values[k + 1 :])) for t in turns
        ]
        bound = bound + 2 * np.max([np.abs(m - value) for m in moved], axis=0)
    return value, bound
