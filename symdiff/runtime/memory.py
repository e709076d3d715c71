"""The size of the machine's last cache.

Assumes nothing. Guarantees a number of bytes, the usual one where the system does not tell.
"""

import functools
from pathlib import Path

USUAL = 32 * 2**20
_SYSFS = Path("/sys/devices/system/cpu/cpu0/cache")  # Linux
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


@functools.cache
def last_cache() -> int:
    """Bytes of the largest cache that a core reaches."""
    return largest_cache(_SYSFS)


def largest_cache(folder: Path) -> int:
    """Bytes of the largest cache that the files of a folder tell of.

    >>> largest_cache(Path("nowhere")) == USUAL
    True
    """
    try:
        texts = [path.read_text().strip() for path in folder.glob("index*/size")]
        return max(int(text[:-1]) * _UNITS[text[-1]] for text in texts)
    except (OSError, ValueError, KeyError, IndexError):
        return USUAL
