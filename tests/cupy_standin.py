"""A stand-in for CuPy without a GPU: arrays over NumPy's that refuse what would wait for a device or copy from it silently.

Known functions only, with CuPy 14's signatures (`test_cupy` compares them where CuPy is installed); allocations and launches
are counted; kernels run as C++ on the CPU.
"""

import importlib.machinery
import inspect
import re
import sys
import sysconfig
import time
import types

import cuda_on_cpu
import numpy as np


class Counters:
    def __init__(self):
        self.allocations = self.launches = 0
        self.names = []
        self.refused = []
        self.capturing = False
        self.recorded = []
        self.hooks = []

    def launched(self, name, recordable=False):
        assert recordable or not self.capturing, f"{name} cannot be recorded here"
        self.launches += 1
        self.names.append(name)

    def allocated(self, size):
        assert not self.capturing, "memory is taken while launches are recorded"
        self.allocations += 1
        for hook in self.hooks:
            hook.malloc_preprocess(device_id=Device.now, size=size, mem_size=-(-size // 512) * 512)


counters = Counters()


class ndarray:
    """A device array; `host` is for the tests' eyes only."""

    __array_priority__ = 100

    def __init__(self, host, device_id=None):
        self.host = host
        self.device_id = Device.now if device_id is None else device_id

    def _viewed(self, host):
        return ndarray(host, self.device_id)

    shape = property(lambda self: self.host.shape)
    dtype = property(lambda self: self.host.dtype)
    ndim = property(lambda self: self.host.ndim)
    size = property(lambda self: self.host.size)
    strides = property(lambda self: self.host.strides)
    itemsize = property(lambda self: self.host.itemsize)
    T = property(lambda self: self._viewed(self.host.T))
    real = property(lambda self: self._viewed(self.host.real))
    __cuda_array_interface__ = property(lambda self: {"shape": self.shape, "typestr": self.dtype.str, "version": 3})

    @property
    def flags(self):
        return types.SimpleNamespace(c_contiguous=self.host.flags.c_contiguous, f_contiguous=self.host.flags.f_contiguous)

    def get(self, stream=None, order="C", out=None, blocking=True):
        assert not counters.capturing, "the device is waited for while launches are recorded"
        return self.host.copy()

    nbytes = property(lambda self: self.host.nbytes)
    data = property(lambda self: types.SimpleNamespace(ptr=self.host.ctypes.data, device_id=self.device_id))

    def sum(self, axis=None, dtype=None, out=None, keepdims=False):
        return KNOWN["sum"](self, axis, dtype, out, keepdims)

    def __len__(self):
        return len(self.host)

    def astype(self, dtype, order="K", casting=None, subok=None, copy=True):
        if not copy and self.dtype == dtype:
            return self
        return made("astype", self.host.astype(dtype))

    def copy(self, order="C"):
        return made("copy", self.host.copy(order))

    def reshape(self, *shape, order="C", copy=None):
        found = self.host.reshape(*shape, order=order)
        return self._viewed(found) if np.shares_memory(found, self.host) or not found.size else made("reshape", found)

    def transpose(self, *axes):
        return self._viewed(self.host.transpose(*axes))

    def swapaxes(self, axis1, axis2):
        return self._viewed(self.host.swapaxes(axis1, axis2))

    def ravel(self, order="C"):
        return self.reshape(-1)

    def fill(self, value):
        counters.launched("fill")
        self.host.fill(_host(value))

    def __getitem__(self, key):
        return self._viewed(self.host[_key(key)] if self.ndim else self.host[key]) if not _cell(self, key) else self._cell(key)

    def _cell(self, key):
        return self._viewed(self.host[(*key, ...) if isinstance(key, tuple) else (key, ...)])

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
        if hasattr(other, "__array_priority__") and not issubclass(type(other), (ndarray, np.ndarray, np.generic)):
            return NotImplemented  # as CuPy does for foreign arrays of a higher priority
        return made(name, function(self.host, _host(other)))

    return operate


for _name in "add sub mul truediv pow radd rsub rmul rtruediv rpow matmul mod eq ne lt le gt ge and or".split():
    setattr(ndarray, f"__{_name}__", _operator(f"__{_name}__"))
ndarray.__neg__ = lambda self: made("negative", -self.host)
ndarray.__invert__ = lambda self: made("invert", ~self.host)
ndarray.__hash__ = None


def _host(value):
    if (isinstance(value, np.ndarray) and value.ndim) or isinstance(value, list | tuple):
        raise TypeError(f"Unsupported type {type(value)}")
    return value.host if isinstance(value, ndarray) else value


def made(name, host):
    """A new device array, where CuPy's allocator would put it: at a multiple of 512 bytes."""
    host = np.asarray(host)
    counters.launched(name)
    found = empty(host.shape, host.dtype)
    found.host[...] = host
    return found


def empty(shape, dtype=float, order="C"):
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    counters.allocated(size)
    room = np.empty(size + 512, np.uint8)
    start = -room.ctypes.data % 512
    host = room[start : start + size].view(dtype).reshape(shape, order=order)
    host.fill(np.nan if dtype.kind in "fc" else 1)  # whatever was in the memory
    return ndarray(host)


def asarray(a, dtype=None, order=None, *, copy=None, blocking=False):
    if isinstance(a, ndarray) and (dtype is None or a.dtype == dtype):
        return a
    return made("asarray", np.array(a.host if isinstance(a, ndarray) else a, dtype=dtype, order="C"))


def array(obj, dtype=None, copy=True, order="K", subok=False, ndmin=0, *, blocking=False):
    return made("array", np.array(obj.host if isinstance(obj, ndarray) else obj, dtype=dtype))


def ascontiguousarray(a, dtype=None):
    assert isinstance(a, ndarray) and dtype is None
    return a if a.flags.c_contiguous else made("ascontiguousarray", np.ascontiguousarray(a.host))


def asnumpy(a, stream=None, order="C", out=None, *, blocking=True):
    return a.get()


def empty_like(prototype, dtype=None, order="K", subok=None, shape=None):
    return empty(prototype.shape if shape is None else shape, dtype or prototype.dtype)


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


def put_along_axis(arr, indices, values, axis):
    counters.launched("put_along_axis")
    np.put_along_axis(arr.host, indices.host, values.host, axis)


def _parsed(line):
    """The name and the signature of "name(a, axis=None)"."""
    name, _, parameters = line.partition("(")
    return name, inspect.signature(eval(f"lambda {parameters.removesuffix(')')}: None"))


SEQUENCES = ("concatenate", "stack")  # take several arrays as one argument


def _given(name, value):
    """An argument of the function `name` as NumPy's."""
    if isinstance(value, list | tuple) and not all(isinstance(part, int) for part in value):
        return [_host(part) for part in value] if name in SEQUENCES else _host(value)
    return value if isinstance(value, list | tuple) else _host(value)


def _function(line, module=np):
    """A function with CuPy's signature that NumPy computes."""
    name, signature = _parsed(line)
    function = getattr(module, name)

    def call(*args, **kwargs):
        signature.bind(*args, **kwargs)
        out = kwargs.pop("out", None)
        args = [_given(name, value) for value in args]
        kwargs = {key: _given(name, value) for key, value in kwargs.items()}
        if out is None:
            found = function(*args, **kwargs)
            return tuple(made(name, f) for f in found) if isinstance(found, tuple) else made(name, found)
        assert isinstance(out, ndarray)
        counters.launched(name)
        function(*args, **kwargs, out=out.host)
        return out

    call.__name__, call.__module__, call.__signature__ = name, "cupy.linalg" if module is np.linalg else "cupy", signature
    return call


def ufunc(name, function, shown):
    """An elementwise function; `shown` is what CuPy calls it."""

    def call(*args, out=None, casting="same_kind", dtype=None):
        for arg in args:
            if not isinstance(arg, (ndarray, int, float, complex, np.generic)) and not hasattr(arg, "__cuda_array_interface__"):
                raise TypeError(f"Unsupported type {type(arg)}")
        hosts = [_host(a) for a in args]
        if out is None:
            return made(name, function(*hosts))
        counters.launched(name)
        function(*hosts, out=out.host)
        return out

    call.__name__, call.__module__ = shown, "cupy"
    return call


FUNCTIONS = """
zeros(shape, dtype=float, order='C')
ones(shape, dtype=float, order='C')
full(shape, fill_value, dtype=None, order='C')
eye(N, M=None, k=0, dtype=float, order='C')
tri(N, M=None, k=0, dtype=float)
arange(start, stop=None, step=1, dtype=None)
sum(a, axis=None, dtype=None, out=None, keepdims=False)
max(a, axis=None, out=None, keepdims=False)
min(a, axis=None, out=None, keepdims=False)
prod(a, axis=None, dtype=None, out=None, keepdims=False)
any(a, axis=None, out=None, keepdims=False)
all(a, axis=None, out=None, keepdims=False)
cumsum(a, axis=None, dtype=None, out=None)
cumprod(a, axis=None, dtype=None, out=None)
take(a, indices, axis=None, out=None)
concatenate(tup, axis=0, out=None, *, dtype=None, casting='same_kind')
stack(tup, axis=0, out=None, *, dtype=None, casting='same_kind')
matmul(*args, axes=None, axis=None, keepdims=False, casting='same_kind', dtype=None, signature=None, order='K', out=None)
convolve(a, v, mode='full')
argsort(a, axis=-1, kind=None)
argpartition(a, kth, axis=-1)
take_along_axis(a, indices, axis)
trace(a, offset=0, axis1=0, axis2=1, dtype=None, out=None)
dot(a, b, out=None)
where(condition, x=None, y=None)
"""
LINALG = """
inv(a)
solve(a, b)
det(a)
slogdet(a)
cholesky(a)
eigh(a, UPLO='L')
lstsq(a, b, rcond=None)
svd(a, full_matrices=True, compute_uv=True)
norm(x, ord=None, axis=None, keepdims=False)
"""
KNOWN = {_line.partition("(")[0]: _function(_line) for _line in FUNCTIONS.split("\n")[1:-1]}
for _name in "sin cos exp log sqrt tanh maximum minimum multiply add conj isfinite".split():
    KNOWN[_name] = ufunc(_name, getattr(np, _name), f"cupy_{getattr(np, _name).__name__}")
linalg = types.ModuleType("cupy.linalg")
for _line in LINALG.split("\n")[1:-1]:
    setattr(linalg, _line.partition("(")[0], _function(_line, np.linalg))
linalg.LinAlgError = np.linalg.LinAlgError


def _add_at(a, indices, b=None):
    counters.launched("add.at")
    np.add.at(a.host, indices.host, b.host)


KNOWN["add"].at = _add_at


class RawKernel:
    def __init__(
        self,
        code,
        name,
        options=(),
        backend="nvrtc",
        *,
        translate_cucomplex=False,
        enable_cooperative_groups=False,
        jitify=None,
    ):
        assert type(code) is str and type(name) is str and type(options) is tuple and all(type(o) is str for o in options)
        assert re.search(rf"\b{name}\(", code), name
        self.code, self.name, self.options = code, name, options

    def __call__(self, grid, block, args, *, shared_mem=0):
        assert all(type(part) is tuple for part in (grid, block, args)) and all(type(n) is int for n in (*grid, *block))
        assert grid[0] < 2**31 and all(n <= 65_535 for n in grid[1:]), grid
        assert all(a.device_id == Device.now for a in args if isinstance(a, ndarray)), "an array of another device"
        if counters.capturing:
            counters.recorded.append(lambda: self(grid, block, args))
            return
        counters.launched(self.name, recordable=True)
        hosts = [a.host if isinstance(a, ndarray) else a for a in args]
        cuda_on_cpu.launch(self.code, self.name, grid, block, hosts)


class Device:
    now = 0

    def __init__(self, device=None):
        self.id = Device.now if device is None else device

    def __enter__(self):
        self.before, Device.now = Device.now, self.id

    def __exit__(self, *args):
        Device.now = self.before

    mem_info = (2**33, 2**33)

    def synchronize(self):
        assert not counters.capturing, "the device is waited for while launches are recorded"


class Stream:
    now = 0

    def __init__(self, null=False, non_blocking=False, ptds=False, priority=None):
        self.ptr = 0 if null else id(self)

    def __enter__(self):
        self.before, Stream.now = Stream.now, self.ptr
        return self

    def __exit__(self, *args):
        Stream.now = self.before

    def synchronize(self):
        assert not counters.capturing, "a stream is waited for while launches are recorded"

    def begin_capture(self, mode=None):
        assert Stream.now == self.ptr != 0
        counters.capturing = True

    def end_capture(self):
        counters.capturing = False
        return Graph()


class Graph:
    """The launches that a stream recorded."""

    def __init__(self):
        self.launches, counters.recorded = counters.recorded, []

    def launch(self, stream=None):
        for launch in self.launches:
            launch()


def get_current_stream(device_id=-1):
    return types.SimpleNamespace(ptr=Stream.now)


class Event:
    def __init__(self, block=False, disable_timing=False, interprocess=False):
        self.at = None

    def record(self, stream=None):
        self.at = time.perf_counter()


def get_elapsed_time(start_event, end_event):
    return 1e3 * (end_event.at - start_event.at)


class MemoryHook:
    def __enter__(self):
        counters.hooks.append(self)
        return self

    def __exit__(self, *args):
        counters.hooks.remove(self)


class MemoryPool:
    def used_bytes(self):
        return counters.allocations

    total_bytes = used_bytes

    def free_all_blocks(self, stream=None):
        pass


def get_default_memory_pool():
    return MemoryPool()


class CUDARuntimeError(RuntimeError):
    pass


class Generator:
    def __init__(self, seed):
        self.host = np.random.default_rng(seed)

    def standard_normal(self, size=None, dtype=float, out=None):
        return made("standard_normal", self.host.standard_normal(size, dtype))


def default_rng(seed=None):
    return Generator(seed)


def fuse(*args, **kwargs):
    """As CuPy's: the fused kernel bears the name of the function, or the one that is given."""

    def fused(function, kernel_name=None):
        assert (kernel_name or function.__name__).isidentifier(), "Invalid kernel name"
        return function

    if len(args) == 1 and not kwargs and callable(args[0]):
        return fused(args[0])
    return lambda function: fused(function, *args, **kwargs)


def _special():
    """`cupyx.scipy.special`, with some of CuPy's names for its functions."""
    found = types.ModuleType("cupyx.scipy.special")
    try:
        from scipy import special
    except ImportError:
        return found
    names = {"erf": "cupyx_scipy_special_erf", "gamma": "cupyx_scipy_gamma", "expit": "expit", "gammaln": "gammaln",
             "psi": "cupyx_scipy_special_digamma", "ellipk": "cupyx_scipy_special_ellipkm1"}  # fmt: skip
    for name, shown in names.items():
        setattr(found, name, ufunc(name, getattr(special, name), shown))
    found.digamma = found.psi
    return found


cuda = types.ModuleType("cupy.cuda")
cuda.Device, cuda.Stream, cuda.Event, cuda.MemoryHook = Device, Stream, Event, MemoryHook
cuda.get_current_stream, cuda.get_elapsed_time = get_current_stream, get_elapsed_time
cuda.runtime = types.SimpleNamespace(
    CUDARuntimeError=CUDARuntimeError,
    getDeviceCount=lambda: 2,
    getDeviceProperties=lambda k: {"name": b"stand-in", "totalGlobalMem": 2**33},
    runtimeGetVersion=lambda: 13000,
)
random = types.SimpleNamespace(default_rng=default_rng)
testing = types.SimpleNamespace(assert_array_equal=lambda x, y: np.testing.assert_array_equal(x.host, y.host))
__version__ = "stand-in"
ndarray.__module__ = "cupy"
for _name in "float32 float64 complex64 complex128 bool_ int64 dtype can_cast pi inf nan newaxis".split():
    globals()[_name] = getattr(np, _name)


for _name, _value in list(globals().items()):
    if callable(_value) and getattr(_value, "__module__", "") == __name__ and not isinstance(_value, type):
        _value.__module__ = "cupy"
for _value in vars(ndarray).values():  # a library's, as CuPy's are compiled
    if isinstance(_value, types.FunctionType):
        _value.__code__ = _value.__code__.replace(co_filename=f"{sysconfig.get_path('purelib')}/cupy/_core.py")


def module():
    """The stand-in as the module `cupy`."""
    found = types.ModuleType("cupy")
    found.__spec__ = importlib.machinery.ModuleSpec("cupy", None)
    found.__dict__.update({k: v for k, v in globals().items() if not k.startswith("_") or k == "__version__"})
    found.__dict__.update(KNOWN)
    return found


def installed(monkeypatch):
    """`cupy`, `cupy.linalg` and `cupy.cuda` as imports of one test; the counters start at zero."""
    found = module()
    monkeypatch.setitem(sys.modules, "cupy", found)
    monkeypatch.setitem(sys.modules, "cupy.linalg", linalg)
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)
    special = _special()
    for name in ("cupyx", "cupyx.scipy"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "cupyx.scipy.special", special)
    sys.modules["cupyx"].scipy, sys.modules["cupyx.scipy"].special = sys.modules["cupyx.scipy"], special
    counters.__init__()
    return found
