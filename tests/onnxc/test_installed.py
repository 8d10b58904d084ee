"""What is installed is one package: a user's own modules of the names of our folders do no harm."""

import subprocess
import sys
import tomllib
from pathlib import Path

import onnxc

ROOT = Path(onnxc.__file__).parents[1]

SCRIPT = """
import numpy as np
import onnxc

model = sys.argv[1]
exe = onnxc.compile(model)
exe.save("here.onnxc")
again = onnxc.load("here.onnxc")
(image,) = exe.inputs
x = np.zeros([1 if not isinstance(size, int) else size for size in image.shape], image.dtype)
np.testing.assert_array_equal(exe(x), again(x))
assert not {"runtime", "compiler"} & set(sys.modules)
"""


def test_modules_named_runtime_and_compiler_beside_a_script_are_left_alone(tmp_path: Path) -> None:
    for name in ("runtime", "compiler"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a module of the user was imported')\n")
    script = tmp_path / "main.py"
    script.write_text(f"import sys\nsys.path.append({str(ROOT)!r})\n{SCRIPT}")
    command = [sys.executable, str(script), str(ROOT / "onnxc" / "data" / "digits.onnx")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_one_package_is_installed() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert settings["tool"]["setuptools"]["packages"]["find"] == {"include": ["onnxc*"]}
    for name in ("compiler", "runtime"):
        link = ROOT / "onnxc" / name
        assert link.is_symlink()
        assert link.readlink() == Path("..") / name
