"""What all CUDA kernels are written with: the loop of a grid of threads over cells or points, and places in arrays as text.

Assumes names that are free. Guarantees any number of rounds, 64-bit where the index is.
"""

from collections.abc import Iterable

from symdiff.codegen.text import indented

BLOCK, BLOCKS = 256, 65_535  # threads of a block, and the most blocks of a launch
LONG = "long long"


def cuda_grid_loop(
    letter: str, count: int | str, body: list[str], index: str = LONG, first: str = "", points: int = 1
) -> list[str]:
    """A loop in which the threads of all blocks share `count` rounds, `points` at a time; `first` is where a thread begins."""
    wide = f"({LONG})" if index == LONG else ""
    thread, threads = f"{wide}blockIdx.x * blockDim.x + threadIdx.x", f"{wide}gridDim.x * blockDim.x"
    if points > 1:
        thread, threads = f"{points} * ({thread})", f"{points}LL * gridDim.x * blockDim.x"
    step = "step" if wide else threads  # in a name of its own, it takes no registers within the loop
    declared = [f"const {LONG} step = {threads};"] if wide else []
    head = f"for ({index} {letter} = {first or thread}; {letter} < {count}; {letter} += {step}) {{"
    return [*declared, head, *indented(body), "}"]


def cuda_place(strides: Iterable[tuple[int, str]], offset: int = 0) -> str:
    """The sum of indices times their strides, and an offset, as text."""
    text = ""
    for stride, letter in strides:
        term = letter if stride == 1 else f"{stride} * {letter}"
        text += term if not text else f" - {term[1:]}" if term.startswith("-") else f" + {term}"
    return f"{text} + {offset}" if text and offset else text or str(offset)
