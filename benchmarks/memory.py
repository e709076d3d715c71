"""`python -m benchmarks.memory`: the memory of a process that compiles, calls and drops functions, which must stay the same.

Assumes Linux, for the memory held. Guarantees a failing exit status where memory has grown. Refuses nothing.
"""

import argparse
import gc
import os
import sys
import time
from pathlib import Path

import numpy as np

import symdiff as sd


def drop_cycle(k: float) -> None:
    """Trace, compile, call and drop one function, of which only the kernel lives on while it is called."""
    f = sd.grad(lambda x: x[0] ** 2 * k + np.sin(x[1]), backend="native")
    kernel = f.compile(np.ones(2)).kernel
    del f
    if kernel(np.ones(2))[0] != 2.0 * k:
        raise AssertionError(f"the derivative at k = {k} is wrong")


def held() -> int:
    """The memory of this process, in kilobytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


def main() -> None:
    """Print the memory after each tenth of the cycles; fail where more than 100 bytes a cycle stay."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("--cycles", type=int, default=100_000)
    parser.add_argument("--cached", action="store_true", help="take the objects from the cache on disk, as SYMDIFF_CACHE says")
    options = parser.parse_args()
    if not options.cached:
        os.environ["SYMDIFF_CACHE"] = "off"
    step = max(options.cycles // 10, 1)
    for k in range(step):  # buffers find their sizes
        drop_cycle(float(k))
    gc.collect()
    first, start = held(), time.perf_counter()
    print(f"{0:>8} cycles {first:>9} kB")
    for k in range(1, options.cycles + 1):
        drop_cycle(float(k))
        if k % step == 0:
            gc.collect()
            print(f"{k:>8} cycles {held():>9} kB {time.perf_counter() - start:>8.0f} s", flush=True)
    gc.collect()
    sys.exit(held() - first > 1000 + options.cycles // 10)


if __name__ == "__main__":
    main()
