"""Files that others name, opened for reading: regular files only, since a pipe may never give an end and a device no text.

Refuses all else with `OSError`, whose `strerror` says so.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def opened(path: Path) -> BinaryIO:
    """A regular file, opened for bytes without waiting for a writer."""
    number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(errno.EINVAL, "is no regular file", str(path))
    return open(number, "rb")
