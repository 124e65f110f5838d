"""The native core for these tests: compiled into a temporary folder where it was not built."""

import pytest

from cairn.core.errors import CairnError
from cairn.native import library as native
from cairn.native.compiled import CompiledCore


@pytest.fixture(scope="session")
def core(tmp_path_factory):
    """A `CompiledCore`; None without a compiler, where only the form in torch is tested."""
    if native.library()[0] is not None:
        yield CompiledCore(native.library()[0])
        return
    with pytest.MonkeyPatch.context() as patch:
        try:
            made = native.build(tmp_path_factory.mktemp("native"))
        except CairnError:
            yield None
            return
        patch.setattr(native, "places", lambda: [made])
        native.forget()
        yield CompiledCore(native.library()[0])
    native.forget()


@pytest.fixture
def hidden(monkeypatch):
    """As on a machine where the core was not built."""
    monkeypatch.setattr(native, "places", lambda: [])
    native.forget()
    yield
    native.forget()
