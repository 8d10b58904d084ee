"""Cases of a size that only a call decides: those alone that there are numbers for."""

import numpy as np
import pytest

import onnxc
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.planning.choose_schedules import Measure, Typical
from tests.support.models import model_from_text

N, M = Size.symbol("N"), Size.symbol("M")
RANGES = (Typical(1, 0, 1), Typical(4, 2, 16), Typical(1024, 17))


@pytest.mark.parametrize(
    ("size", "values"),
    [
        (N, [1, 4, 1024]),
        (N * M, [1, 4, 1024]),
        (N + 1, [1, 4, 1024]),
        (4 * N, [4, 1024]),
        (16 * N + 32, [4, 1024]),
        (17 * N, [1024]),
        (1024 * N * M, [1024]),
        (34 * N + 51 * M, [1024]),
        (5, [5]),
        (0, [0]),
    ],
)
def test_a_range_without_a_number_of_the_size_is_no_case(size: Dim, values: list[int]) -> None:
    cases = Measure(size, RANGES).cases()
    assert [typical.value for _, typical in cases] == values
    assert all((condition is None) == (len(cases) == 1) for condition, _ in cases)


@pytest.mark.parametrize("batch", [0, 1, 3])
def test_rows_that_are_turned_in_each_image_are_multiplied_by_panels_packed_at_compile_time(batch: int) -> None:
    rng = np.random.default_rng(0)
    w = rng.standard_normal((24, 40)).astype(np.float32)
    values = ", ".join(map(str, w.reshape(-1).tolist()))
    model = model_from_text(f"""<ir_version: 10, opset_import: ["" : 21]>
    m (float[N, 24, 32, 32] x) => (float[N, 32, 32, 40] y) <float[24, 40] w = {{{values}}}> {{
      pixels = Transpose <perm = [0, 2, 3, 1]> (x)
      y = MatMul (pixels, w)
    }}""")
    executable = onnxc.compile(model)
    report = executable.report()
    assert isinstance(report, dict)
    assert "B is packed when it is compiled" in str(report["launches"])
    x = rng.standard_normal((batch, 24, 32, 32)).astype(np.float32)
    (y,) = executable.run(None, {"x": x})
    np.testing.assert_allclose(y, np.moveaxis(x, 1, 3) @ w, rtol=1e-4, atol=1e-4)
