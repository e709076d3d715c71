"""A stand-in for CuPy without a GPU: arrays over NumPy's that refuse what would wait for a device or copy from it silently.

Known functions only; allocations and launches are counted; kernels run as C++ on the CPU.
"""

import importlib.machinery
import sys
import time
import types

import cuda_on_cpu
import numpy as np

REFUSED = "__array__ __float__ __int__ __complex__ __bool__ __index__ __iter__ __array_ufunc__ __array_function__".split()


class Counters:
    def __init__(self):
        self.allocations = self.launches = 0
        self.names = []
        self.refused = []

    def launched(self, name):
        self.launches += 1
        self.names.append(name)


counters = Counters()


class ndarray:
    """A device array; `host` is for the tests' eyes only."""

    __array_priority__ = 100

    def __init__(self, host):
        self.host = host

    shape = property(lambda self: self.host.shape)
    dtype = property(lambda self: self.host.dtype)
    ndim = property(lambda self: self.host.ndim)
    size = property(lambda self: self.host.size)
    strides = property(lambda self: self.host.strides)
    itemsize = property(lambda self: self.host.itemsize)
    T = property(lambda self: ndarray(self.host.T))
    real = property(lambda self: ndarray(self.host.real))
    __cuda_array_interface__ = property(lambda self: {"shape": self.shape, "typestr": self.dtype.str, "version": 3})

    @property
    def flags(self):
        return types.SimpleNamespace(c_contiguous=self.host.flags.c_contiguous, f_contiguous=self.host.flags.f_contiguous)

    def get(self):
        return self.host.copy()

    nbytes = property(lambda self: self.host.nbytes)
    data = property(lambda self: types.SimpleNamespace(ptr=self.host.ctypes.data))

    def sum(self, axis=None, keepdims=False):
        return made("sum", self.host.sum(axis, keepdims=keepdims))

    def __len__(self):
        return len(self.host)

    def astype(self, dtype, order="K", casting=None, subok=None, copy=True):
        if not copy and self.dtype == dtype:
            return self
        return made("astype", self.host.astype(dtype))

    def copy(self, order="C"):
        return made("copy", self.host.copy(order))

    def reshape(self, *shape):
        found = self.host.reshape(*shape)
        return ndarray(found) if np.shares_memory(found, self.host) or not found.size else made("reshape", found)

    def transpose(self, *axes):
        return ndarray(self.host.transpose(*axes))

    def swapaxes(self, first, second):
        return ndarray(self.host.swapaxes(first, second))

    def ravel(self, order="C"):
        return self.reshape(-1)

    def fill(self, value):
        counters.launched("fill")
        self.host.fill(_host(value))

    def __getitem__(self, key):
        return ndarray(self.host[_key(key)] if self.ndim else self.host[key]) if not _cell(self, key) else self._cell(key)

    def _cell(self, key):
        return ndarray(self.host[(*key, ...) if isinstance(key, tuple) else (key, ...)])

    def __setitem__(self, key, value):
        counters.launched("setitem")
        self.host[_key(key)] = _host(value)

    def _refused(name):
        def refuse(self, *args, **kwargs):
            counters.refused.append(name)
            raise TypeError(f"{name} of a device array would wait for the device and copy it to the host")

        return refuse

    for _name in ("__array__", "__float__", "__int__", "__complex__", "__bool__", "__index__", "__iter__", "item", "tolist"):
        locals()[_name] = _refused(_name)
    del _name, _refused


def _cell(array, key):
    parts = key if isinstance(key, tuple) else (key,)
    return len(parts) == array.ndim and all(isinstance(p, int) for p in parts)


def _key(key):
    parts = key if isinstance(key, tuple) else (key,)
    found = tuple(p.host if isinstance(p, ndarray) else p for p in parts)
    assert not any(isinstance(p, (np.ndarray, list)) for p in tuple(k for k in parts)), "an index array of the host"
    return found


def _operator(name):
    function = getattr(np.ndarray, name)

    def operate(self, other):
        if hasattr(other, "__array_priority__") and not isinstance(other, (ndarray, np.ndarray, np.generic)):
            return NotImplemented  # as CuPy does for foreign arrays of a higher priority
        return made(name, function(self.host, _host(other)))

    return operate


for _name in "add sub mul truediv pow radd rsub rmul rtruediv rpow matmul".split():
    setattr(ndarray, f"__{_name}__", _operator(f"__{_name}__"))
ndarray.__neg__ = lambda self: made("negative", -self.host)
ndarray.__matmul__ = lambda self, other: made("matmul", self.host @ _host(other))


def _host(value):
    if isinstance(value, np.ndarray) and value.ndim:
        raise TypeError("Unsupported type <class 'numpy.ndarray'>")
    return value.host if isinstance(value, ndarray) else value


def made(name, host):
    """A new device array."""
    counters.allocations += 1
    counters.launched(name)
    return ndarray(np.asarray(host))


def asarray(a, dtype=None, order=None):
    if isinstance(a, ndarray) and (dtype is None or a.dtype == dtype):
        return a
    return made("asarray", np.array(a.host if isinstance(a, ndarray) else a, dtype=dtype, order="C"))


def array(a, dtype=None, copy=True, order="K"):
    return made("array", np.array(a.host if isinstance(a, ndarray) else a, dtype=dtype))


def ascontiguousarray(a, dtype=None):
    assert isinstance(a, ndarray)
    return a if a.flags.c_contiguous else made("ascontiguousarray", np.ascontiguousarray(a.host))


def asnumpy(a):
    return a.get()


def empty(shape, dtype=float, order="C"):
    counters.allocations += 1
    host = np.empty(shape, dtype)
    host.fill(np.nan if host.dtype.kind in "fc" else 1)  # whatever was in the memory
    return ndarray(host)


def zeros(shape, dtype=float, order="C"):
    return made("zeros", np.zeros(shape, dtype))


def may_share_memory(a, b, max_work=None):
    assert isinstance(a, ndarray) and isinstance(b, ndarray)
    return np.may_share_memory(a.host, b.host)


def broadcast_to(array, shape):
    assert isinstance(array, ndarray)
    return ndarray(np.broadcast_to(array.host, shape))


def reshape(a, newshape, order="C", *, copy=None):
    return a.reshape(newshape)


def copyto(dst, src, casting="same_kind", where=None):
    counters.launched("copyto")
    assert where is None
    np.copyto(dst.host, _host(src), casting)


def diagonal(a, offset=0, axis1=0, axis2=1):
    return ndarray(np.diagonal(a.host, offset, axis1, axis2))


def _function(name, module=np, out=True):
    function = getattr(module, name)

    def call(*args, **kwargs):
        target = kwargs.pop("out", None)
        assert target is None or out, f"{name} has no out"
        assert "mode" not in kwargs or name != "take"
        hosts = [[_host(p) for p in a] if isinstance(a, (list, tuple)) else _host(a) for a in args]
        if target is None:
            found = function(*hosts, **kwargs)
            several = isinstance(found, tuple)
            return tuple(made(name, f) for f in found) if several else made(name, found)
        counters.launched(name)
        if name == "convolve":
            raise TypeError("no out")
        function(*hosts, out=target.host, **kwargs)
        return target

    call.__name__, call.__module__ = name, "cupy.linalg" if module is np.linalg else "cupy"
    return call


def ufunc(name):
    call = _function(name)

    def refusing(*args, **kwargs):
        for arg in args:
            if not isinstance(arg, (ndarray, int, float, complex, np.generic)) and not hasattr(arg, "__cuda_array_interface__"):
                raise TypeError(f"Unsupported type {type(arg)}")
        return call(*args, **kwargs)

    refusing.__name__, refusing.__module__ = f"cupy_{name}", "cupy"
    refusing.at = None
    return refusing


for _name in "sum max min prod cumsum cumprod take concatenate matmul stack".split():
    globals()[_name] = _function(_name)
for _name in "convolve argsort argpartition take_along_axis delete trace dot where".split():
    globals()[_name] = _function(_name, out=False)
for _name in "sin cos exp log sqrt tanh maximum minimum multiply add conj isfinite".split():
    globals()[_name] = ufunc(_name)


def _add_at(a, indices, values):
    counters.launched("add.at")
    np.add.at(a.host, indices.host, values.host)


add.at = _add_at  # noqa: F821


def put_along_axis(arr, indices, values, axis):
    counters.launched("put_along_axis")
    np.put_along_axis(arr.host, indices.host, values.host, axis)


linalg = types.ModuleType("cupy.linalg")
for _name in "inv solve det slogdet cholesky eigh lstsq svd norm".split():
    setattr(linalg, _name, _function(_name, np.linalg, out=False))


class RawKernel:
    def __init__(self, code, name, options=()):
        self.code, self.name, self.options = code, name, options

    def __call__(self, grid, block, args, *, shared_mem=0):
        counters.launched(self.name)
        hosts = [a.host if isinstance(a, ndarray) else a for a in args]
        cuda_on_cpu.launch(self.code, self.name, grid, block, hosts)


class RawModule:
    def __init__(self, *, code, options=()):
        self.code, self.options = code, options

    def get_function(self, name):
        return RawKernel(self.code, name, self.options)


class Device:
    now = 0

    def synchronize(self):
        pass

    @property
    def id(self):
        return Device.now


class Stream:
    now = 0

    @property
    def ptr(self):
        return Stream.now


class Event:
    def record(self):
        self.at = time.perf_counter()


def get_elapsed_time(begin, end):
    return 1e3 * (end.at - begin.at)


class CUDARuntimeError(RuntimeError):
    pass


class Generator:
    def __init__(self, seed):
        self.host = np.random.default_rng(seed)

    def standard_normal(self, size):
        return made("standard_normal", self.host.standard_normal(size))


def empty_like(a):
    return empty(a.shape, a.dtype)


def fuse():
    return lambda function: function


cuda = types.ModuleType("cupy.cuda")
cuda.Device, cuda.get_current_stream, cuda.Event, cuda.get_elapsed_time = Device, Stream, Event, get_elapsed_time
cuda.runtime = types.SimpleNamespace(
    CUDARuntimeError=CUDARuntimeError,
    getDeviceCount=lambda: 1,
    getDeviceProperties=lambda k: {"name": b"stand-in", "totalGlobalMem": 2**33},
    runtimeGetVersion=lambda: 13000,
)
random = types.SimpleNamespace(default_rng=Generator)
__version__ = "stand-in"
ndarray.__module__ = "cupy"
for _name in "float32 float64 complex64 complex128 bool_ int64 dtype can_cast pi inf nan newaxis".split():
    globals()[_name] = getattr(np, _name)


for _name, _value in list(globals().items()):
    if callable(_value) and getattr(_value, "__module__", "") == __name__ and not isinstance(_value, type):
        _value.__module__ = "cupy"


def module():
    """The stand-in as the module `cupy`."""
    found = types.ModuleType("cupy")
    found.__spec__ = importlib.machinery.ModuleSpec("cupy", None)
    found.__dict__.update({k: v for k, v in globals().items() if not k.startswith("_") or k == "__version__"})
    return found


def installed(monkeypatch):
    """`cupy`, `cupy.linalg` and `cupy.cuda` as imports of one test; the counters start at zero."""
    found = module()
    monkeypatch.setitem(sys.modules, "cupy", found)
    monkeypatch.setitem(sys.modules, "cupy.linalg", linalg)
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)
    counters.__init__()
    return found
