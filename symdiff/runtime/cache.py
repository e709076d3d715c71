"""Compiled objects on disk, so that the next process starts without compiling.

Assumes keys that name all that an object depends on. Guarantees that an object comes back whole or not at all, that any
number of processes may share the folder, that its size stays bounded, and that it is the user's own. A
folder that cannot be read or written is no cache.
"""

import contextlib
import hashlib
import os
import stat
import sys
import tempfile
import time
from pathlib import Path

LIMIT = 64 * 2**20  # bytes that all objects together may take
_MARK = b"symdiff object 1\n"
_BLOCK = 4096  # what a small file takes on disk
_TOUCHED = 3600.0  # seconds between two notes that an object was used
_SUFFIX = ".object"
# Neither through a link, nor waiting for whoever writes to a pipe that lies there.
_READING = os.O_RDONLY | sum(getattr(os, flag, 0) for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))


def folder() -> Path | None:
    """The folder that `SYMDIFF_CACHE` names, else the platform's for caches; None where that says "off" or there is none."""
    chosen = os.environ.get("SYMDIFF_CACHE", "")
    if chosen.lower() == "off":
        return None
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME", "")
        base = base if os.path.isabs(base) else os.path.expanduser("~/.cache")
    return Path(base, "symdiff") if os.path.isabs(base) else None  # without a home, "~" stays as it is


def load(key: str) -> bytes | None:
    """The object kept under a key; None where there is none, or none that can be trusted."""
    place = folder()
    if place is None or not _is_own(place):
        return None
    path = place / (key + _SUFFIX)
    try:
        number = os.open(path, _READING)
        try:
            status = os.fstat(number)
            if not _is_private(status) or status.st_size > LIMIT:
                return None
            with open(number, "rb", closefd=False) as file:
                content = file.read()
        finally:
            os.close(number)
    except (OSError, ValueError):
        return None
    if time.time() - status.st_mtime > _TOUCHED:
        with contextlib.suppress(OSError):
            os.utime(path)
    mark, digest, body = content[: len(_MARK)], content[len(_MARK) : len(_MARK) + 32], content[len(_MARK) + 32 :]
    return body if mark == _MARK and digest == _digest(key, body) else None


def store_machine_code(key: str, body: bytes) -> None:
    """Keep an object under a key, if that can be done."""
    place = folder()
    if place is None:
        return
    try:
        place.mkdir(0o700, parents=True, exist_ok=True)
        if not _is_own(place):
            return
        number, temporary = tempfile.mkstemp(".new", dir=place)
        try:
            with open(number, "wb") as file:
                file.write(_MARK + _digest(key, body) + body)
            os.replace(temporary, place / (key + _SUFFIX))  # whole or not at all, for whoever reads meanwhile
        except OSError:
            os.unlink(temporary)
            raise
    except (OSError, ValueError):
        return
    if key.startswith("00"):  # one of 256 keys: looking through thousands of objects takes longer than compiling one
        prune_cache(place)


def prune_cache(place: Path, limit: int = LIMIT) -> None:
    """Drop the objects used longest ago beyond the limit, and what interrupted processes left."""
    found = []
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if entry.name.endswith(_SUFFIX):
                    found.append((status.st_mtime, max(status.st_size, _BLOCK), entry.path))
                elif entry.name.endswith(".new") and time.time() - status.st_mtime > _TOUCHED:
                    os.unlink(entry.path)
    total = 0
    for _, size, path in sorted(found, reverse=True):
        total += size
        if total > limit:
            with contextlib.suppress(OSError):
                os.unlink(path)


def _digest(key: str, body: bytes) -> bytes:
    return hashlib.sha256(key.encode() + body).digest()


# Whoever can write an object here has his machine code run by this user: folder and files must belong to the user, and
# nobody else may write to them. Windows keeps each user's folder to him by its own means.


def _is_own(place: Path) -> bool:
    try:
        return stat.S_ISDIR((status := os.stat(place)).st_mode) and _is_users(status)
    except (OSError, ValueError):
        return False


def _is_private(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and _is_users(status)


def _is_users(status: os.stat_result) -> bool:
    return os.name != "posix" or (status.st_uid == os.geteuid() and not status.st_mode & 0o022)
