"""Padding wider than a vector is written without a load where no lane of it would be within the array.

A masked load of no lane faults nowhere. But where its address is not mapped the processor finds that out by microcode,
which takes 80 ns.
"""

import re

import numpy as np
import pytest

import onnxc
from onnxc.compiler.codegen_cpu.emit import kernel_pieces
from onnxc.compiler.codegen_cpu.plan_target import cpu_plan_target
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.compiler.target import parse_target
from tests.codegen_cpu.support import guarded, make
from tests.support.models import model_from_text

LANES, COLUMNS = 16, 100


@pytest.mark.parametrize("sizes", ["80, 100", "N, M"])
@pytest.mark.parametrize("pads", [(0, 0, 0, 2900), (0, 2900, 0, 0), (0, 1500, 0, 1400)])
def test_pads_far_wider_than_the_lines(sizes: str, pads: tuple[int, ...]) -> None:
    text = f"""<ir_version: 10, opset_import: ["" : 21]>
    g (float[{sizes}] x) => (y) {{
      pads = Constant <value_ints = {list(pads)}> ()
      y = Pad (x, pads)
    }}
    """
    executable = onnxc.compile(model_from_text(text), threads=1)
    x = np.random.default_rng(0).standard_normal((80, COLUMNS)).astype(np.float32)
    np.testing.assert_array_equal(executable(guarded(x)), np.pad(x, ((0, 0), (pads[1], pads[3]))))


@pytest.mark.parametrize(("width", "is_tested"), [(LANES - 1, False), (LANES, True), (1500, True)])
def test_vectors_are_tested_where_padding_fills_them(width: int, is_tested: bool) -> None:
    """A vector meets an axis from the place on where its last lane is the first of it."""
    target = parse_target("cpu:x86-64-v4")
    module = make([f"f32[80, {COLUMNS}]"], lambda ir, x: ir.exp(ir.pad(x, (0, width), (0, width))))
    pieces = kernel_pieces(plan_kernels(module, cpu_plan_target(target)), target)
    text = "".join(function.text() for functions in pieces.functions for function in functions)
    tests = re.findall(rf"icmp ult i64 \S+, {COLUMNS + LANES - 1}\n", text)
    assert bool(tests) is is_tested
