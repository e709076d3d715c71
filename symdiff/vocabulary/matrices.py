"""Functions of matrices that NumPy has not, or not in one array: the exponential, and the parts of a decomposition together.

Assumes arrays whose last two axes are matrices. Guarantees what the generated code of these heads computes.
"""

from typing import Any

import numpy as np

PADE = (64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0, 10559470521600.0,
        670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0)  # fmt: skip
REACH = 5.371920351148152  # the norm up to which these coefficients give an error below that of rounding


def expm(x: Any) -> Any:
    """The matrix exponential: scaling, a Padé approximant of degree 13, squaring.

    N. J. Higham, SIAM J. Matrix Anal. Appl. 26(4), 2005.
    """
    norm = np.max(np.abs(x).sum(-2)) if np.size(x) else 0.0
    k = max(0, int(np.ceil(np.log2(norm / REACH)))) if 0 < norm < np.inf else 0
    a = x / 2.0**k
    b, eye = PADE, np.eye(np.shape(x)[-1], dtype=np.asarray(a).dtype)
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a4 @ a2
    u = a @ (a6 @ (b[13] * a6 + b[11] * a4 + b[9] * a2) + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * eye)
    v = a6 @ (b[12] * a6 + b[10] * a4 + b[8] * a2) + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * eye
    result = np.linalg.solve(v - u, v + u)
    for _ in range(k):
        result = result @ result
    return result


def packed(parts: Any, lead: tuple[int, ...]) -> Any:
    """The parts of a decomposition behind one another; `lead` is the shape to which each is flattened."""
    return np.concatenate([np.reshape(p, lead) for p in parts], -1)
