"""The folder of compiled kernels: the environment decides, else the home."""

from pathlib import Path

import pytest

from onnxc.runtime.files.cache_folder import default_cache_folder


def test_the_default_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("ONNXC_CACHE", raising=False)
    assert default_cache_folder() == tmp_path / ".cache" / "onnxc"
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert default_cache_folder() == Path("/x/onnxc")
    monkeypatch.setenv("ONNXC_CACHE", "/y")
    assert default_cache_folder() == Path("/y")
