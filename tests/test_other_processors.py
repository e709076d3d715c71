"""Machine code for processors that the tests do not run on: LLVM takes the kernels for them, by cross-compiling."""

import numpy as np
import pytest
from inside import engine

import symdiff as sd

binding = pytest.importorskip("llvmlite.binding", reason="machine code needs llvmlite: pip install 'symdiff[native]'")
FUNCTIONS = {
    "polynomial": (lambda x: x[0] ** 3 * x[1] - x[2], np.ones(3)),
    "functions": (lambda x: np.sum(np.exp(x) * np.sin(x) + np.log(x) * np.tanh(x)), np.linspace(0.5, 1.0, 4)),
    "whole arrays": (lambda x: np.sum(np.exp(x[1:]) * np.sqrt(x[:-1])), np.linspace(0.5, 1.0, 2000)),
    "complex": (lambda x: np.sum(np.abs(np.exp(1j * x)) ** 2), np.linspace(0.5, 1.0, 4)),
    "branches": (lambda x: np.sum(np.where(x > 0.7, x * x, np.maximum(x, 0.6))), np.linspace(0.5, 1.0, 300)),
}


@pytest.fixture
def texts(monkeypatch, tmp_path):
    """The IR that is compiled here."""
    monkeypatch.setenv("SYMDIFF_CACHE", "off")
    found = []
    compiled = engine._compiled
    monkeypatch.setattr(engine, "_compiled", lambda text, *rest: found.append(text) or compiled(text, *rest))
    return found


@pytest.fixture(scope="module")
def processor():
    try:
        engine.load_llvmlite()
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
        target = binding.Target.from_triple("aarch64-unknown-linux-gnu")
    except (RuntimeError, AttributeError) as error:
        pytest.skip(f"this LLVM has no aarch64: {error}")
    return target.create_target_machine(cpu="generic", opt=1)


@pytest.mark.parametrize("batch", [False, True], ids=["point", "points"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_aarch64(name, batch, texts, processor):
    f, x = FUNCTIONS[name]
    function = sd.value_and_grad(f, backend="native")
    if batch:
        if name == "whole arrays":
            pytest.skip("points of whole arrays are whole arrays")
        sd.vmap(sd.value_and_grad(f), backend="native")(np.stack([x] * 64))
    else:
        function(x)
    assert texts
    for text in texts:
        module = binding.parse_assembly(f'target triple = "aarch64-unknown-linux-gnu"\n{text}', binding.create_context())
        module.verify()
        assert len(processor.emit_object(module)) > 200
        assert batch or "llvm.x86" not in text
