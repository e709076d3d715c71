"""Compiled objects on disk: used again by the next process, shared by many, never trusted blindly, never in the way."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from inside import cache, engine
from threads import together

import symdiff as sd

pytest.importorskip("llvmlite", reason="machine code needs llvmlite: pip install 'symdiff[native]'")
posix = pytest.mark.skipif(os.name != "posix", reason="owners and modes of files are POSIX")

X = np.array([0.3, 0.4])


def derivative():
    """A function that has to be compiled anew, or found on disk."""
    return sd.grad(lambda x: x[0] ** 2 * x[1] + np.sin(x[1]), backend="native")


def check():
    np.testing.assert_allclose(derivative()(X), [2 * X[0] * X[1], X[0] ** 2 + np.cos(X[1])])


@pytest.fixture(scope="module", autouse=True)
def guards():
    """The code that asks whether `np` is what it was, which all functions share, is made before anything is counted."""
    sd.grad(lambda x: x[0] * np.cos(x[1]), backend="native")(X)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    place = tmp_path / "objects"
    monkeypatch.setenv("SYMDIFF_CACHE", str(place))
    return place


@pytest.fixture
def compilations(monkeypatch):
    """The texts that were compiled, not found."""
    texts = []
    compiled = engine._compiled
    monkeypatch.setattr(engine, "_compiled", lambda text, *rest: texts.append(text) or compiled(text, *rest))
    return texts


def test_compiled_once(folder, compilations):
    for _ in range(3):
        check()
    assert len(compilations) == 1
    assert len(list(folder.iterdir())) == 1


def test_off(folder, compilations, monkeypatch):
    monkeypatch.setenv("SYMDIFF_CACHE", "off")
    for _ in range(2):
        check()
    assert len(compilations) == 2 and not folder.exists()


@pytest.mark.parametrize("damage", [b"", b"symdiff object 1\n", b"\0" * 5000, None], ids=["empty", "short", "zeros", "cut"])
def test_damaged_objects_are_compiled_again(folder, compilations, damage):
    check()
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] if damage is None else damage)
    check()
    assert len(compilations) == 2
    assert path.read_bytes() == whole


def test_every_bit_counts(folder, compilations):
    check()
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    for place in range(0, len(whole), 97):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert cache.load(path.stem) is None
    other = folder / f"{'0' * 64}.object"
    other.write_bytes(whole)  # whole, but under another key
    assert cache.load("0" * 64) is None


def test_objects_belong_to_one_version(folder, compilations, monkeypatch):
    check()
    monkeypatch.setattr(engine, "_stamp", lambda: "another processor")
    check()
    assert len(compilations) == len(list(folder.iterdir())) == 2


def test_addresses_are_not_kept(folder):
    text = f"define i64 @f() {{\n  %p = ptrtoint ptr inttoptr (i64 {id(X)} to ptr) to i64\n  ret i64 %p\n}}\n"
    assert engine.Code(text, 1).address("f")
    assert not folder.exists()


@posix
def test_only_the_users_own_objects_are_loaded(folder, compilations, tmp_path):
    check()
    (path,) = folder.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o622)
    check()
    assert len(compilations) == 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o600  # replaced by one of the user's
    kept = path.rename(tmp_path / "elsewhere")
    path.symlink_to(kept)
    check()
    assert len(compilations) == 3
    folder.chmod(0o777)
    check()
    assert len(compilations) == 4


@posix
@pytest.mark.skipif(os.name == "posix" and os.geteuid() != 0, reason="only root can give files away")
def test_objects_of_others_are_not_loaded(folder, compilations):
    check()
    (path,) = folder.iterdir()
    os.chown(path, 12345, 12345)
    check()
    assert len(compilations) == 2
    os.chown(folder, 12345, 12345)
    check()
    assert len(compilations) == 3


def test_where_nothing_can_be_written(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    for place in (blocked, blocked / "below", "bad\0name" if os.name != "posix" else "/dev/null/objects"):
        monkeypatch.setenv("SYMDIFF_CACHE", str(place))
        check()
    assert blocked.read_text() == "in the way"


@posix
@pytest.mark.skipif(os.name == "posix" and os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_folder_is_read(folder, compilations):
    check()
    folder.chmod(0o500)
    check()
    sd.grad(lambda x: x[0] * 17.0, backend="native")(X)
    assert len(compilations) == 2 and len(list(folder.iterdir())) == 1
    folder.chmod(0o700)


def test_the_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("SYMDIFF_CACHE")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # the standard says to ignore it
    assert cache.folder() == tmp_path / ".cache" / "symdiff"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.folder() == tmp_path / "xdg" / "symdiff"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache.folder() == tmp_path / "Library" / "Caches" / "symdiff"
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # no home, and no entry for the user
    assert cache.folder() is None
    check()
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert cache.folder() == tmp_path / "symdiff"
    monkeypatch.delenv("LOCALAPPDATA")
    assert cache.folder() is None


def test_the_folder_stays_small(folder):
    folder.mkdir(mode=0o700)
    for k in range(10):
        path = folder / f"{k:064}.object"
        path.write_bytes(bytes(10_000))
        os.utime(path, (1000 + k, 1000 + k))
    left = folder / "interrupted.new"
    left.write_bytes(b"half")
    os.utime(left, (1000, 1000))
    (folder / "running.new").write_bytes(b"half")
    cache.prune_cache(folder, 35_000)
    assert sorted(p.name for p in folder.iterdir()) == [*(f"{k:064}.object" for k in (7, 8, 9)), "running.new"]


def test_one_key_in_256_looks_after_the_size(folder, monkeypatch):
    calls = []
    monkeypatch.setattr(cache, "prune_cache", lambda place: calls.append(place))
    for k in range(256):
        cache.store_machine_code(f"{k:02x}" * 32, b"object")
    assert calls == [folder]


def test_use_is_noted(folder):
    cache.store_machine_code("1" * 64, b"object")
    (path,) = folder.iterdir()
    os.utime(path, (1000, 1000))
    assert cache.load("1" * 64) == b"object"
    assert path.stat().st_mtime > 10**9


PROGRAM = """
import sys
import numpy as np, symdiff as sd
x = np.array([0.3, 0.4])
for k in range(8):
    found = sd.grad(lambda x: x[0]**2*x[1]*k + x[1], backend="native")(x)
    assert np.allclose(found, [2*x[0]*x[1]*k, x[0]**2*k + 1]), found
"""


def run(code, **environment):
    own = {k: v for k, v in os.environ.items() if k not in ("SYMDIFF_CACHE", "XDG_CACHE_HOME", "SYMDIFF_CHECK")}
    return subprocess.Popen([sys.executable, "-c", code], env={**own, **environment}, cwd=Path(__file__).parents[1])


def test_processes_fill_the_same_folder(folder):
    processes = [run(PROGRAM, SYMDIFF_CACHE=str(folder)) for _ in range(3)]
    assert [p.wait(timeout=120) for p in processes] == [0, 0, 0]
    found = list(folder.iterdir())
    assert len(found) >= 7 and all(cache.load(path.stem) is not None for path in found)
    refuse = f"import {engine.__name__} as engine\nengine._compiled = None\n"
    assert run(refuse + PROGRAM, SYMDIFF_CACHE=str(folder)).wait(timeout=120) == 0


@posix
def test_importing_makes_no_folder(tmp_path):
    assert run(f"import symdiff, {engine.__name__} as e; e.load_llvmlite()", XDG_CACHE_HOME=str(tmp_path)).wait() == 0
    assert list(tmp_path.iterdir()) == []


def test_threads_compile_at_once(folder):
    failures = []

    def work(seed):
        for k in range(5):
            f = sd.grad(lambda x: x[0] ** 2 * x[1] * (seed // 4 * 10 + k), backend="native")  # noqa: B023
            if not np.allclose(f(X), np.array([2 * X[0] * X[1], X[0] ** 2]) * (seed // 4 * 10 + k)):
                failures.append((seed, k))

    together(work, range(16))
    assert not failures


FORKING = """
import os, threading, warnings
import numpy as np, symdiff as sd
warnings.simplefilter("ignore", DeprecationWarning)
x = np.array([0.3, 0.4])

def slope(k):
    return sd.grad(lambda x: x[0]**2*x[1]*k, backend="native")(x)[0] == 2*x[0]*x[1]*k

slope(0.5)  # Python's own locks of imports do not survive a fork
stop = threading.Event()

def work(k):
    while not stop.is_set():
        slope(k)
        k += 1.0

threads = [threading.Thread(target=work, args=(t*1000.0,)) for t in range(2)]
for thread in threads:
    thread.start()
for k in range(8):
    child = os.fork()
    if child == 0:
        os._exit(0 if slope(-1.0 - k) else 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
for thread in threads:
    thread.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("where", ["on disk", "off"])
def test_forks_while_other_threads_compile(folder, where):
    process = run(FORKING, SYMDIFF_CACHE=str(folder) if where == "on disk" else "off")
    try:
        assert process.wait(timeout=120) == 0
    finally:
        process.kill()
        process.wait()


TRACING = """
import os, threading, time
import symdiff as sd
reached, go_on = threading.Event(), threading.Event()

def f(x):
    if threading.current_thread() is not threading.main_thread():
        reached.set()
        go_on.wait()
    return x**3

slope, other = sd.grad(f), sd.grad(lambda x: x**4)
other(2.0)
thread = threading.Thread(target=slope, args=(2.0,))
thread.start()
reached.wait()
child = os.fork()
if child == 0:
    os._exit(0 if slope(2.0) == 12.0 and other(2.0) == 32.0 and sd.grad(slope)(2.0) == 12.0 else 1)
for _ in range(600):
    ended, status = os.waitpid(child, os.WNOHANG)
    if ended:
        break
    time.sleep(0.1)
else:
    os.kill(child, 9)
go_on.set()
thread.join()
raise SystemExit(status if ended else 1)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forks_while_another_thread_traces_the_same_derivative(folder):
    assert run(TRACING, SYMDIFF_CACHE=str(folder)).wait(timeout=120) == 0


@posix
def test_other_things_than_objects(folder, compilations):
    check()
    (place,) = folder.iterdir()
    content = place.read_bytes()

    def cut():
        place.write_bytes(content[: len(content) // 2])

    def large():
        place.write_bytes(content)
        os.truncate(place, 2 * cache.LIMIT)

    things = [lambda: os.mkfifo(place, 0o600), place.mkdir, lambda: place.symlink_to("/dev/zero"), cut, large, place.touch]
    for thing in things:
        place.unlink()
        thing()
        assert cache.load(place.name.removesuffix(".object")) is None
        check()  # neither waits, nor fails
        if place.is_dir():
            place.rmdir()
            check()
        assert place.read_bytes() == content
    place.unlink()
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    place.mkdir()
    assert cache.load(place.name.removesuffix(".object")) is None
    assert not before or len(os.listdir("/proc/self/fd")) == before
