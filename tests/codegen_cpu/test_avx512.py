"""Code for AVX-512 is right where no processor here has it: some tests of kernels are run again, by a plugin."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from onnxc.runtime.cpu import host_architecture, host_features

FOLDER = Path(__file__).parent
OF_HOST = "vnni and not v2 and not v3"


@pytest.mark.skipif(host_architecture() != "x86_64", reason="vectors of x86-64 are split on x86-64 alone")
@pytest.mark.skipif("avx512f" in host_features(), reason="all tests of kernels run this code here")
@pytest.mark.parametrize("file", ["convolutions/test_convolution.py", "products/test_contraction.py"])
def test_kernels_for_avx512_are_right(file: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "tests.support.avx512", "-k", OF_HOST]
    environment = {**os.environ, "PYTEST_ADDOPTS": ""}
    done = subprocess.run(
        [*command, str(FOLDER / file)],
        cwd=FOLDER.parent.parent,
        capture_output=True,
        text=True,
        env=environment,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout, done.stdout[-4000:]
