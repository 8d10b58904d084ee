"""The limits of a core are measured by the kernels that the compiler makes."""

from pathlib import Path

import pytest

from benchmarks import cpu_limits
from onnxc.compiler.target import parse_target


def test_every_limit_of_this_machine_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    size = tmp_path / "size"
    size.write_text("512K\n")
    monkeypatch.setattr(cpu_limits, "SECOND_CACHE", size)
    monkeypatch.setattr(cpu_limits, "ROUNDS", 2)
    monkeypatch.setattr(cpu_limits, "MEMORY_BYTES", 1 << 16)
    limits = cpu_limits._limits(parse_target("cpu"))
    assert set(limits) == {
        "measured_on", "vector_products_per_second", "memory_bytes_per_second", "launch_seconds", "second_cache_bytes",
    }  # fmt: skip
    assert limits["second_cache_bytes"] == 512 << 10
    assert all(float(limit) > 0 for name, limit in limits.items() if name != "measured_on")
