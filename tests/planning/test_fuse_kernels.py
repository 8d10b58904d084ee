"""Fusion: which ops share a kernel, as small plans."""

from collections.abc import Callable

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import BF16, F32, I64
from onnxc.compiler.ir.module import Block, Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.prune import prune
from onnxc.compiler.planning.fuse_kernels import fuse_kernels
from onnxc.compiler.planning.fusion.fusion_rules import FusionRules, finishes_all, reads_any_view
from onnxc.compiler.planning.fusion.groups import GROUP_LIMIT, Group
from onnxc.compiler.planning.loops.views import View, is_dense
from tests.planning.plans import assert_plan, make

N, M = Size.symbol("N"), Size.symbol("M")


def test_pointwise_ops_and_movements_are_one_kernel() -> None:
    assert_plan(
        ["f32[N, 4]", "f32[4]"],
        lambda ir, x, y: ir.exp(ir.add(ir.transpose(x, (1, 0)), 1.0)),
        """
        plan "test"
          kernel k0 pointwise (s0) {}
            block(%a0: f32[s0, 4]) {
              %0 = transpose %a0 {permutation = [1, 0]} : f32[4, s0]
              %1 = constant {value = f32[] 1.0} : f32[]
              %2 = broadcast %1 {axes = [], shape = [4, s0]} : f32[4, s0]
              %3 = add %0, %2 : f32[4, s0]
              %4 = exp %3 : f32[4, s0]
              return %4
            }
          segment (%x0) -> (%0), arena 0 bytes
            launch k0 (input 0) -> output 0 sizes (N)
        """,
    )


def test_what_follows_a_contraction_is_in_its_kernel() -> None:
    assert_plan(
        ["f32[N, 4]", "f32[4]"],
        lambda ir, x, y: ir.max(ir.add(ir.dot(x, ir.constant(np.eye(4, dtype=np.float32)), "mk,kn->mn"), y), 0.0),
        """
        plan "test"
          weight w0 = constant 0 in axes [1, 0]
          kernel k0 contraction (s0) {}
            block(%a0: f32[s0, 4], %a1: f32[4, 4], %a2: f32[4]) {
              %0 = dot %a0, %a1 {dtype = f32, equation = "mk,kn->mn"} : f32[s0, 4]
              %1 = broadcast %a2 {axes = [1], shape = [s0, 4]} : f32[s0, 4]
              %2 = add %0, %1 : f32[s0, 4]
              %3 = constant {value = f32[] 0.0} : f32[]
              %4 = broadcast %3 {axes = [], shape = [s0, 4]} : f32[s0, 4]
              %5 = max %2, %4 : f32[s0, 4]
              return %5
            }
          segment (%x0, %x1) -> (%0), arena 0 bytes
            launch k0 (input 0, weight 0, input 1) -> output 0 sizes (N)
        """,
    )


def test_a_view_of_an_operand_is_read_in_place_and_what_is_computed_is_written() -> None:
    assert_plan(
        ["f32[4, N]", "f32[4, 3]"],
        lambda ir, x, y: ir.dot(ir.exp(ir.transpose(x, (1, 0))), y, "mk,kn->mn"),
        """
        plan "test"
          kernel k0 pointwise (s0) {}
            block(%a0: f32[4, s0]) {
              %0 = transpose %a0 {permutation = [1, 0]} : f32[s0, 4]
              %1 = exp %0 : f32[s0, 4]
              return %1
            }
          kernel k1 contraction (s0) {}
            block(%a0: f32[s0, 4], %a1: f32[4, 3]) {
              %0 = dot %a0, %a1 {dtype = f32, equation = "mk,kn->mn"} : f32[s0, 3]
              return %0
            }
          segment (%x0, %x1) -> (%0), arena 64*floordiv(16*N + 63, 64) bytes
            launch k0 (input 0) -> slot 0 sizes (N)
            launch k1 (slot 0, input 1) -> output 0 sizes (N)
        """,
    )


def test_what_an_output_is_a_reshape_of_is_read_where_that_output_is() -> None:
    """A mask that is written for others is counted from its bytes, not from the floats that it is made of."""

    def build(ir: Builder, x: Value) -> list[Value]:
        mask = ir.not_(ir.equal(x, 0.0))
        return [ir.reshape(mask, (4 * N,)), ir.reduce(ir.cast(mask, I64), "sum", (0, 1))]

    assert_plan(
        ["f32[N, 4]"],
        build,
        """
        plan "test"
          kernel k0 pointwise (s0) {}
            block(%a0: f32[s0, 4]) {
              %0 = constant {value = f32[] 0.0} : f32[]
              %1 = broadcast %0 {axes = [], shape = [s0, 4]} : f32[s0, 4]
              %2 = equal %a0, %1 : bool[s0, 4]
              %3 = not %2 : bool[s0, 4]
              return %3
            }
          kernel k1 reduction (s0) {}
            block(%a0: bool[s0, 4]) {
              %0 = cast %a0 {dtype = i64, round_mode = "nearest", saturate = true} : i64[s0, 4]
              %1 = reduce %0 {axes = [0, 1], kind = "sum"} : i64[]
              return %1
            }
          segment (%x0) -> (%0, %1), arena 0 bytes
            launch k0 (input 0) -> output 0 sizes (N)
            launch k1 (output 0) -> output 1 sizes (N)
        """,
    )


def test_what_is_cheap_is_computed_again() -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        shifted = ir.add(x, 1.0)
        return [ir.reduce(shifted, "sum", (0,)), ir.reduce(shifted, "max", (1,))]

    assert_plan(
        ["f32[N, 4]"],
        build,
        """
        plan "test"
          kernel k0 reduction (s0) {}
            block(%a0: f32[s0, 4]) {
              %0 = constant {value = f32[] 1.0} : f32[]
              %1 = broadcast %0 {axes = [], shape = [s0, 4]} : f32[s0, 4]
              %2 = add %a0, %1 : f32[s0, 4]
              %3 = reduce %2 {axes = [0], kind = "sum"} : f32[4]
              return %3
            }
          kernel k1 reduction (s0) {}
            block(%a0: f32[s0, 4]) {
              %0 = constant {value = f32[] 1.0} : f32[]
              %1 = broadcast %0 {axes = [], shape = [s0, 4]} : f32[s0, 4]
              %2 = add %a0, %1 : f32[s0, 4]
              %3 = reduce %2 {axes = [1], kind = "max"} : f32[s0]
              return %3
            }
          segment (%x0) -> (%0, %1), arena 0 bytes
            launch k0 (input 0) -> output 0 sizes (N)
            launch k1 (input 0) -> output 1 sizes (N)
        """,
    )


def test_what_is_costly_is_written_once() -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        powers = ir.exp(x)
        return [ir.reduce(powers, "sum", (0,)), ir.reduce(powers, "max", (1,))]

    assert_plan(
        ["f32[N, 4]"],
        build,
        """
        plan "test"
          kernel k0 pointwise (s0) {}
            block(%a0: f32[s0, 4]) {
              %0 = exp %a0 : f32[s0, 4]
              return %0
            }
          kernel k1 reduction (s0) {}
            block(%a0: f32[s0, 4]) {
              %0 = reduce %a0 {axes = [0], kind = "sum"} : f32[4]
              return %0
            }
          kernel k2 reduction (s0) {}
            block(%a0: f32[s0, 4]) {
              %0 = reduce %a0 {axes = [1], kind = "max"} : f32[s0]
              return %0
            }
          segment (%x0) -> (%0, %1), arena 64*floordiv(16*N + 63, 64) bytes
            launch k0 (input 0) -> slot 0 sizes (N)
            launch k1 (slot 0) -> output 0 sizes (N)
            launch k2 (slot 0) -> output 1 sizes (N)
        """,
    )


def test_a_row_is_not_computed_for_each_element_it_is_repeated_to() -> None:
    assert_plan(
        ["f32[N, 4]", "f32[4]"],
        lambda ir, x, y: ir.mul(x, ir.exp(y)),
        """
        plan "test"
          kernel k0 pointwise () {}
            block(%a0: f32[4]) {
              %0 = exp %a0 : f32[4]
              return %0
            }
          kernel k1 pointwise (s0) {}
            block(%a0: f32[4], %a1: f32[s0, 4]) {
              %0 = broadcast %a0 {axes = [1], shape = [s0, 4]} : f32[s0, 4]
              %1 = mul %a1, %0 : f32[s0, 4]
              return %1
            }
          segment (%x1, %x0) -> (%0), arena 64 bytes
            launch k0 (input 0) -> slot 0
            launch k1 (slot 0, input 1) -> output 0 sizes (N)
        """,
    )


def test_a_reshape_of_a_buffer_is_another_name_for_it() -> None:
    def build(ir: Builder, x: Value) -> Value:
        rows = ir.reshape(ir.softmax(x, 1), (N * 2, 2))
        return ir.reduce(ir.transpose(rows, (1, 0)), "sum", (1,))

    assert_plan(
        ["f32[N, 4]"],
        build,
        """
        plan "test"
          kernel k0 reduction (s0) {}
            block(%a0: f32[s0, 4]) {
              %0 = softmax %a0 {axis = 1} : f32[s0, 4]
              return %0
            }
          kernel k1 reduction (s0) {}
            block(%a0: f32[s0, 4]) {
              %0 = reshape %a0 {shape = [2*s0, 2]} : f32[2*s0, 2]
              %1 = transpose %0 {permutation = [1, 0]} : f32[2, 2*s0]
              %2 = reduce %1 {axes = [1], kind = "sum"} : f32[2]
              return %2
            }
          segment (%x0) -> (%0), arena 64*floordiv(16*N + 63, 64) bytes
            launch k0 (input 0) -> slot 0 sizes (N)
            launch k1 (slot 0) -> output 0 sizes (N)
        """,
    )


def test_a_result_of_the_module_is_written_whatever_follows() -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        total = ir.reduce(x, "sum", (1,))
        return [total, ir.neg(total)]

    assert_plan(
        ["f32[N, 4]"],
        build,
        """
        plan "test"
          kernel k0 reduction (s0) {}
            block(%a0: f32[s0, 4]) {
              %0 = reduce %a0 {axes = [1], kind = "sum"} : f32[s0]
              return %0
            }
          kernel k1 pointwise (s0) {}
            block(%a0: f32[s0]) {
              %0 = neg %a0 : f32[s0]
              return %0
            }
          segment (%x0) -> (%0, %1), arena 0 bytes
            launch k0 (input 0) -> output 0 sizes (N)
            launch k1 (output 0) -> output 1 sizes (N)
        """,
    )


def test_both_results_of_a_sort_are_written_by_its_kernel() -> None:
    def build(ir: Builder, x: Value) -> list[Value]:
        values, places = ir.sort(x, 1)
        return [ir.neg(values), places]

    assert_plan(
        ["f32[N, 4]"],
        build,
        """
        plan "test"
          kernel k0 ordering (s0) {}
            block(%a0: f32[s0, 4]) {
              %0, %1 = sort %a0 {axis = 1, descending = false} : f32[s0, 4], i64[s0, 4]
              return %0, %1
            }
          kernel k1 pointwise (s0) {}
            block(%a0: f32[s0, 4]) {
              %0 = neg %a0 : f32[s0, 4]
              return %0
            }
          segment (%x0) -> (%0, %1), arena 64*floordiv(16*N + 63, 64) bytes
            launch k0 (input 0) -> slot 0, output 0 sizes (N)
            launch k1 (slot 0) -> output 1 sizes (N)
        """,
    )


def test_counting_an_index_from_the_end_is_part_of_picking() -> None:
    assert_plan(
        ["f32[N, 4]", "i64[K]"],
        lambda ir, x, i: ir.gather(ir.exp(x), ir.wrap_negative(i, N), 0),
        """
        plan "test"
          kernel k0 pointwise (s0) {}
            block(%a0: f32[s0, 4]) {
              %0 = exp %a0 : f32[s0, 4]
              return %0
            }
          kernel k1 pointwise (s0, s1) {}
            block(%a0: i64[s0], %a1: f32[s1, 4]) {
              %0 = constant {value = i64[] 0} : i64[]
              %1 = broadcast %0 {axes = [], shape = [s0]} : i64[s0]
              %2 = less %a0, %1 : bool[s0]
              %3 = sizes {dtype = i64, scalar = true, values = [s1]} : i64[]
              %4 = broadcast %3 {axes = [], shape = [s0]} : i64[s0]
              %5 = add %a0, %4 : i64[s0]
              %6 = select %2, %5, %a0 : i64[s0]
              %7 = gather %a1, %6 {axis = 0} : f32[s0, 4]
              return %7
            }
          segment (%x0, %x1) -> (%0), arena 64*floordiv(16*N + 63, 64) bytes
            launch k0 (input 0) -> slot 0 sizes (N)
            launch k1 (input 1, slot 0) -> output 0 sizes (K, N)
        """,
    )


def _kernels_of_picks(types: list[str], build: Callable[..., Value]) -> list[list[str]]:
    main = make(types, build).main.body
    return [
        [op.name for op in group.ops] for group in fuse_kernels(main.ops, main.results, FusionRules(reads_any_view))[0]
    ]


def _places(ir: Builder, x: Value) -> Value:
    """Indices that take work: those of floats."""
    return ir.clamp(ir.cast(ir.floor(ir.mul(x, 2.0)), I64), 0, 7)


def test_an_index_that_floats_become_is_written_where_it_picks_rows() -> None:
    kernels = _kernels_of_picks(["f32[8, 4]", "f32[K]"], lambda ir, x, at: ir.gather(x, _places(ir, at), 0))
    assert [names[-1] for names in kernels] == ["min", "gather"]
    assert "cast" not in kernels[1]


def test_an_index_that_is_read_once_is_part_of_picking() -> None:
    kernels = _kernels_of_picks(["f32[8]", "f32[K]"], lambda ir, x, at: ir.gather(x, _places(ir, at), 0))
    assert [names[-1] for names in kernels] == ["gather"]


def test_an_index_of_two_picks_is_written() -> None:
    def build(ir: Builder, x: Value, y: Value, at: Value) -> Value:
        places = _places(ir, at)
        return ir.add(ir.gather(x, places, 1), ir.gather(y, places, 1))

    kernels = _kernels_of_picks(["f32[4, 8]", "f32[4, 8]", "f32[6]"], build)
    assert [names[-1] for names in kernels] == ["min", "add"]


def test_a_repeated_index_is_written_before_it_is_repeated() -> None:
    def build(ir: Builder, x: Value, at: Value) -> Value:
        return ir.gather_along(x, ir.broadcast(_places(ir, at), (1,), (4, 6)), 1)

    kernels = _kernels_of_picks(["f32[4, 8]", "f32[6]"], build)
    assert [names[-1] for names in kernels] == ["min", "gather_along"]
    assert kernels[1] == ["broadcast", "gather_along"]


def test_what_several_kernels_repeat_is_written_before_it_is_repeated() -> None:
    def build(ir: Builder, x: Value, at: Value) -> tuple[Value, Value]:
        chosen = ir.broadcast_to(ir.less(ir.exp(at), ir.tanh(at)), (4, 6, 8))
        return ir.select(chosen, x, 0.0), ir.select(chosen, 1.0, x)

    main = make(["f32[4, 6, 8]", "f32[6, 1]"], build).main.body
    groups, _ = fuse_kernels(main.ops, main.results, FusionRules(reads_any_view))
    names = [[op.name for op in group.ops] for group in groups]
    assert [each[-1] for each in names] == ["less", "select", "select"]
    assert all("broadcast" in each and "exp" not in each for each in names[1:])


def test_positions_that_are_computed_of_floats_are_written_before_they_pick() -> None:
    def build(ir: Builder, x: Value, c: Value) -> Value:
        below = ir.clamp(ir.cast(ir.floor(ir.add(ir.mul(c, 0.5), 0.5)), I64), 0, 3)
        return ir.add(ir.gather(x, ir.slice(below, (0,), (5,)), 1), ir.gather(x, ir.slice(below, (5,), (5,)), 1))

    assert_plan(
        ["f32[N, 4]", "f64[10]"],
        build,
        """
        plan "test"
          weight w0 = constant 0
          weight w1 = constant 1
          weight w2 = constant 2
          weight w3 = constant 3
          kernel k0 pointwise () {}
            block(%a0: f64[10], %a1: f64[10], %a2: f64[10], %a3: i64[10], %a4: i64[10]) {
              %0 = mul %a0, %a1 : f64[10]
              %1 = add %0, %a2 : f64[10]
              %2 = floor %1 : f64[10]
              %3 = cast %2 {dtype = i64, round_mode = "nearest", saturate = true} : i64[10]
              %4 = max %3, %a3 : i64[10]
              %5 = min %4, %a4 : i64[10]
              return %5
            }
          kernel k1 pointwise () {}
            block(%a0: i64[10]) {
              %0 = slice %a0 {shape = [5], starts = [0], steps = [1]} : i64[5]
              return %0
            }
          kernel k2 pointwise () {}
            block(%a0: i64[10]) {
              %0 = slice %a0 {shape = [5], starts = [5], steps = [1]} : i64[5]
              return %0
            }
          kernel k3 pointwise (s0) {}
            block(%a0: f32[s0, 4], %a1: i64[5], %a2: i64[5]) {
              %0 = gather %a0, %a1 {axis = 1} : f32[s0, 5]
              %1 = gather %a0, %a2 {axis = 1} : f32[s0, 5]
              %2 = add %0, %1 : f32[s0, 5]
              return %2
            }
          segment (%x1, %x0) -> (%0), arena 256 bytes
            launch k0 (input 0, weight 0, weight 1, weight 2, weight 3) -> slot 0
            launch k1 (slot 0) -> slot 1
            launch k2 (slot 0) -> slot 2
            launch k3 (input 1, slot 1, slot 2) -> output 0 sizes (N)
        """,
    )


def test_rows_are_turned_before_they_are_picked_behind_a_reshape_that_is_no_view() -> None:
    """One of a part to a size that only a guard holds equal."""

    def build(ir: Builder, x: Value, at: Value) -> Value:
        turned = ir.transpose(ir.with_shape(ir.slice(x, (0, 0, 1), (1, 8, N)), (1, 8, M)), (0, 2, 1))
        return ir.gather(ir.reshape(turned, (M, 8)), at, 0)

    main = make(["f32[1, 8, L]", "i64[K]"], build).main.body
    groups, _ = fuse_kernels(main.ops, main.results, FusionRules(_reads_dense))
    assert [[op.name for op in group.ops] for group in groups] == [["slice"], ["transpose"], ["gather"]]


def test_what_is_picked_by_written_indices_is_picked_from_again_in_place() -> None:
    def positions(ir: Builder, c: Value) -> Value:
        return ir.clamp(ir.cast(ir.floor(ir.add(ir.mul(c, 0.5), 0.5)), I64), 0, 3)

    assert_plan(
        ["f32[4, 4]", "f64[5]", "f64[6]"],
        lambda ir, x, c, d: ir.gather(ir.gather(x, positions(ir, c), 0), positions(ir, d), 1),
        """
        plan "test"
          weight w0 = constant 0
          weight w1 = constant 1
          weight w2 = constant 2
          weight w3 = constant 3
          weight w4 = constant 4
          weight w5 = constant 5
          weight w6 = constant 6
          weight w7 = constant 7
          kernel k0 pointwise () {}
            block(%a0: f64[5], %a1: f64[5], %a2: f64[5], %a3: i64[5], %a4: i64[5]) {
              %0 = mul %a0, %a1 : f64[5]
              %1 = add %0, %a2 : f64[5]
              %2 = floor %1 : f64[5]
              %3 = cast %2 {dtype = i64, round_mode = "nearest", saturate = true} : i64[5]
              %4 = max %3, %a3 : i64[5]
              %5 = min %4, %a4 : i64[5]
              return %5
            }
          kernel k1 pointwise () {}
            block(%a0: f64[6], %a1: f64[6], %a2: f64[6], %a3: i64[6], %a4: i64[6]) {
              %0 = mul %a0, %a1 : f64[6]
              %1 = add %0, %a2 : f64[6]
              %2 = floor %1 : f64[6]
              %3 = cast %2 {dtype = i64, round_mode = "nearest", saturate = true} : i64[6]
              %4 = max %3, %a3 : i64[6]
              %5 = min %4, %a4 : i64[6]
              return %5
            }
          kernel k2 pointwise () {}
            block(%a0: f32[4, 4], %a1: i64[5], %a2: i64[6]) {
              %0 = gather %a0, %a1 {axis = 0} : f32[5, 4]
              %1 = gather %0, %a2 {axis = 1} : f32[5, 6]
              return %1
            }
          segment (%x1, %x2, %x0) -> (%0), arena 128 bytes
            launch k0 (input 0, weight 0, weight 1, weight 2, weight 3) -> slot 0
            launch k1 (input 1, weight 4, weight 5, weight 6, weight 7) -> slot 1
            launch k2 (input 2, slot 0, slot 1) -> output 0
        """,
    )


def test_a_scatter_computes_its_data_in_place() -> None:
    def build(ir: Builder, i: Value, u: Value) -> Value:
        return ir.scatter_nd(ir.full((N, 4), 0.0, u.dtype), i, ir.exp(u), "add")

    assert_plan(
        ["i64[K, 1]", "f32[K, 4]", "bool[N]"],
        lambda ir, i, u, n: build(ir, i, u),
        """
        plan "test"
          kernel k0 pointwise (s0) {}
            block(%a0: f32[s0, 4]) {
              %0 = exp %a0 : f32[s0, 4]
              return %0
            }
          kernel k1 scatter (s0, s1) {}
            block(%a0: i64[s0, 1], %a1: f32[s0, 4]) {
              %0 = constant {value = f32[] 0.0} : f32[]
              %1 = broadcast %0 {axes = [], shape = [s1, 4]} : f32[s1, 4]
              %2 = scatter_nd %1, %a0, %a1 {kind = "add"} : f32[s1, 4]
              return %2
            }
          segment (%x1, %x0) -> (%0), arena 64*floordiv(16*K + 63, 64) bytes
            launch k0 (input 0) -> slot 0 sizes (K)
            launch k1 (input 1, slot 0) -> output 0 sizes (K, N)
        """,
    )


def test_joined_parts_are_computed_into_their_places() -> None:
    assert_plan(
        ["f32[N, 4]"],
        lambda ir, x: ir.concatenate([ir.exp(x), ir.neg(x)], 1),
        """
        plan "test"
          kernel k0 concatenate (s0) {}
            block(%a0: f32[s0, 4]) {
              %0 = exp %a0 : f32[s0, 4]
              %1 = neg %a0 : f32[s0, 4]
              %2 = concatenate %0, %1 {axis = 1} : f32[s0, 8]
              return %2
            }
          segment (%x0) -> (%0), arena 0 bytes
            launch k0 (input 0) -> output 0 sizes (N)
        """,
    )


def test_the_host_is_between_two_segments() -> None:
    assert_plan(
        ["f32[N]"],
        lambda ir, x: ir.cast(ir.non_zero(ir.abs(x)), x.dtype),
        """
        plan "test"
          kernel k0 pointwise (s0) {}
            block(%a0: f32[s0]) {
              %0 = abs %a0 : f32[s0]
              return %0
            }
          kernel k1 pointwise (s0) {}
            block(%a0: i64[1, s0]) {
              %0 = cast %a0 {dtype = f32, round_mode = "nearest", saturate = true} : f32[1, s0]
              return %0
            }
          segment (%x0) -> (%0), arena 0 bytes
            launch k0 (input 0) -> output 0 sizes (N)
          release %x0
          host non_zero (%0) -> (%1)
          release %0
          segment (%1) -> (%2), arena 0 bytes
            launch k1 (input 0) -> output 0 sizes (nonzero)
        """,
    )


def test_equal_work_is_one_kernel() -> None:
    def build(ir: Builder, x: Value, y: Value) -> list[Value]:
        return [ir.exp(ir.add(x, 1.0)), ir.exp(ir.add(y, 1.0))]

    assert_plan(
        ["f32[N, 4]", "f32[M, 4]"],
        build,
        """
        plan "test"
          kernel k0 pointwise (s0) {}
            block(%a0: f32[s0, 4]) {
              %0 = constant {value = f32[] 1.0} : f32[]
              %1 = broadcast %0 {axes = [], shape = [s0, 4]} : f32[s0, 4]
              %2 = add %a0, %1 : f32[s0, 4]
              %3 = exp %2 : f32[s0, 4]
              return %3
            }
          segment (%x0, %x1) -> (%0, %1), arena 0 bytes
            launch k0 (input 0) -> output 0 sizes (N)
            launch k0 (input 1) -> output 1 sizes (M)
        """,
    )


# Properties


def _groups(types: list[str], build: Callable[..., Value]) -> tuple[Group, ...]:
    main = make(types, build).main.body
    return fuse_kernels(main.ops, main.results, FusionRules(reads_any_view))[0]


def test_groups_stay_small() -> None:
    def build(ir: Builder, x: Value) -> Value:
        for _ in range(3 * GROUP_LIMIT):
            x = ir.exp(x)
        return x

    groups = _groups(["f32[N]"], build)
    assert 3 <= len(groups) <= 5
    assert all(len(group.ops) <= GROUP_LIMIT for group in groups)


def test_what_follows_a_contraction_leaves_room_for_its_operands() -> None:
    def build(ir: Builder, x: Value, *rows: Value) -> Value:
        x = ir.dot(x, ir.constant(np.eye(4, dtype=np.float32)), "mk,kn->mn")
        for row in rows:
            x = ir.add(x, ir.broadcast(row, (1,), x.shape))
        return x

    groups = _groups(["f32[N, 4]"] + ["f32[4]"] * (GROUP_LIMIT - 8), build)
    assert [group.kind for group in groups] == ["contraction", "pointwise"]
    assert all(len(group.ops) <= GROUP_LIMIT and group.last.name == "add" for group in groups)


def test_a_group_is_in_program_order_and_each_before_those_that_read_it() -> None:
    def build(ir: Builder, x: Value) -> Value:
        a = ir.softmax(ir.exp(x), 1)
        return ir.add(ir.softmax(ir.mul(a, 2.0), 0), a)

    module = make(["f32[N, 4]"], build)
    main = module.main.body
    groups, _ = fuse_kernels(main.ops, main.results, FusionRules(reads_any_view))
    place = {op: index for index, op in enumerate(main.ops)}
    written: set[Value] = set(main.parameters)
    for group in groups:
        assert sorted(group.ops, key=place.__getitem__) == list(group.ops)
        made = {result for op in group.ops for result in op.results}
        assert all(operand in made | written for op in group.ops for operand in op.operands)
        written.update(group.outputs)


def test_recomputable_ops_are_those_without_a_kernel_of_their_own() -> None:
    module = make(["f32[N, 4]"], lambda ir, x: ir.softmax(ir.concatenate([ir.gelu(x), ir.exp(x)], 0), 1))
    assert [op.name for op in module.main.body.ops if PRIMITIVES[op.name].recomputable] == ["gelu", "exp"]


def outputs(build: Callable[..., Value | tuple[Value, ...]], *types: str) -> list[str]:
    """What the groups of a program write, by the names of their last ops."""
    main = make(types, build).main.body
    groups, _ = fuse_kernels(main.ops, main.results, FusionRules(reads_any_view))
    return [f"{group.last.name} {value.type}" for group in groups for value in group.outputs]


def halves(ir: Builder, x: Value) -> Value:
    return ir.cast(ir.dot(x, ir.constant(np.eye(4, dtype=np.float32)), "mk,kn->mn"), BF16)


def test_what_is_narrow_is_stored_and_widened_where_it_is_read() -> None:
    def build(ir: Builder, x: Value) -> Value:
        return ir.softmax(ir.cast(halves(ir, x), F32), 1)

    assert outputs(build, "f32[N, 4]") == ["cast bf16[N, 4]", "softmax f32[N, 4]"]


def test_what_several_read_is_widened_by_each() -> None:
    def build(ir: Builder, x: Value) -> tuple[Value, ...]:
        wide = ir.cast(ir.exp(ir.exp(ir.cast(x, BF16))), F32)
        return ir.softmax(wide, 1), ir.reduce(wide, "sum", (1,))

    assert outputs(build, "f32[N, 4]") == ["exp bf16[N, 4]", "softmax f32[N, 4]", "reduce f32[N]"]


def test_what_is_wanted_wide_in_memory_is_written_wide() -> None:
    def scanned(ir: Builder, x: Value) -> Value:
        return ir.scan_axis(ir.cast(halves(ir, x), F32), "sum", 1)

    assert outputs(scanned, "f32[N, 4]") == ["cast f32[N, 4]", "scan_axis f32[N, 4]"]
    assert outputs(lambda ir, x: ir.cast(halves(ir, x), F32), "f32[N, 4]") == ["cast f32[N, 4]"]


def test_what_meets_again_behind_an_anchor_is_in_its_kernel() -> None:
    def twice(ir: Builder, x: Value) -> Value:
        y = ir.dot(x, ir.constant(np.eye(4, dtype=np.float32)), "mk,kn->mn")
        return ir.mul(y, ir.div(1.0, ir.add(ir.exp(ir.neg(y)), 1.0)))

    assert outputs(lambda ir, x: ir.max(twice(ir, twice(ir, x)), 0.0), "f32[N, 4]") == [
        "mul f32[N, 4]",
        "max f32[N, 4]",
    ]


def test_what_something_else_reads_too_ends_the_way_to_where_all_meets() -> None:
    def build(ir: Builder, x: Value) -> tuple[Value, ...]:
        y = ir.add(ir.dot(x, ir.constant(np.eye(4, dtype=np.float32)), "mk,kn->mn"), 1.0)
        z = ir.exp(y)
        return ir.mul(y, z), ir.reduce(z, "sum", (1,))

    assert outputs(build, "f32[N, 4]") == ["add f32[N, 4]", "exp f32[N, 4]", "mul f32[N, 4]", "reduce f32[N]"]


def test_a_part_of_what_an_epilogue_writes_is_read_where_it_lies_by_all() -> None:
    """However much work the epilogue is: it is not done again."""

    def build(ir: Builder, x: Value) -> Value:
        eye = ir.constant(np.eye(4, dtype=np.float32))
        y = ir.dot(x, eye, "mk,kn->mn")
        part = ir.slice(ir.mul(y, ir.div(1.0, ir.add(ir.exp(ir.neg(y)), 1.0))), (0, 2), (x.shape[0], 2))
        inner = ir.dot(part, ir.constant(np.eye(2, dtype=np.float32)), "mk,kn->mn")
        return ir.add(ir.dot(inner, ir.constant(np.eye(2, dtype=np.float32)), "mk,kn->mn"), part)

    assert outputs(build, "f32[N, 4]") == ["mul f32[N, 4]", "dot f32[N, 2]", "add f32[N, 2]"]


def test_an_operand_that_kernels_do_not_read_as_a_view_is_written() -> None:
    def build(ir: Builder, x: Value, y: Value) -> Value:
        sliced = ir.slice(x, (1, 0, 0), (2, 3, 4), (1, 1, 1))
        return ir.dot(ir.reshape(sliced, (6, 4)), ir.transpose(y, (1, 0)), "mk,kn->mn")

    def reads(anchor: Op, ordinal: int, view: View) -> bool:
        return ordinal == 1 or is_dense(view)

    main = make(["f32[4, 3, 4]", "f32[5, 4]"], build).main.body
    groups, aliases = fuse_kernels(main.ops, main.results, FusionRules(reads))
    assert [[op.name for op in group.ops] for group in groups] == [["slice"], ["reshape", "transpose", "dot"]]
    assert aliases == {}


def test_an_operand_that_rows_are_not_read_from_as_a_view_is_written() -> None:
    def build(ir: Builder, x: Value) -> Value:
        return ir.softmax(ir.transpose(ir.exp(x), (1, 0)), 1)

    main = make(["f32[N, 4]"], build).main.body
    for answer, anchors in ((reads_any_view, ["softmax"]), (_reads_dense, ["transpose", "softmax"])):
        groups, _ = fuse_kernels(main.ops, main.results, FusionRules(answer))
        assert [group.anchor.name for group in groups] == anchors


def test_what_is_added_to_a_product_across_its_rows_is_turned_first() -> None:
    """Where the target says so; of what follows a product, too, and with what is computed before the turn."""

    def build(ir: Builder, x: Value, y: Value) -> Value:
        total = ir.add(ir.dot(x, ir.constant(np.eye(4, dtype=np.float32)), "mk,kn->mn"), 1.0)
        return ir.mul(total, ir.exp(ir.transpose(ir.abs(y), (1, 0))))

    main = make(["f32[N, 4]", "f32[4, N]"], build).main.body
    for answer, lasts in ((reads_any_view, ["mul"]), (_reads_dense, ["transpose", "mul"])):
        groups, _ = fuse_kernels(main.ops, main.results, FusionRules(answer))
        assert [group.last.name for group in groups] == lasts


@pytest.mark.parametrize(
    ("build", "last"),
    [
        (lambda ir, x: ir.softmax(x, 1), "softmax"),
        (lambda ir, x: ir.reduce(ir.abs(x), "sum", (0,)), "reduce"),
        (lambda ir, x: ir.concatenate([x, ir.abs(x)], 1), "concatenate"),
        (lambda ir, x: ir.exp(ir.pad(ir.abs(x), (0, 1), (1, 0))), "exp"),
    ],
)
def test_what_is_computed_along_rows_of_what_lies_across_is_turned_first(
    build: Callable[[Builder, Value], Value], last: str
) -> None:
    """Where the target says so; kernels that only compute read it as it lies."""
    main = make(["f32[N, 4]"], lambda ir, x: build(ir, ir.mul(ir.transpose(x, (1, 0)), 2.0))).main.body
    for answer, lasts in ((reads_any_view, [last]), (_reads_dense, ["transpose", last])):
        groups, _ = fuse_kernels(main.ops, main.results, FusionRules(answer))
        assert [group.last.name for group in groups] == lasts


def test_what_is_only_computed_of_what_lies_across_reads_it_so() -> None:
    main = make(["f32[N, 4]"], lambda ir, x: ir.exp(ir.mul(ir.transpose(x, (1, 0)), 2.0))).main.body
    groups, _ = fuse_kernels(main.ops, main.results, FusionRules(_reads_dense))
    assert [group.last.name for group in groups] == ["exp"]


def test_what_a_broadcast_is_given_turned_is_written() -> None:
    def build(ir: Builder, x: Value) -> Value:
        return ir.add(ir.broadcast(ir.transpose(x, (1, 0)), (1, 2), (4, 3, 5)), 1.0)

    main = make(["f32[5, 3]"], build).main.body
    groups, _ = fuse_kernels(main.ops, main.results, FusionRules(reads_any_view))
    assert [group.anchor.name for group in groups] == ["transpose", "add"]


def _reads_dense(anchor: Op, ordinal: int, view: View) -> bool:
    return is_dense(view)


def test_rows_are_picked_of_what_lies_in_rows_and_turned_behind() -> None:
    """Where the target says so: what is turned before rows are picked of it, and after, is written."""

    def build(ir: Builder, x: Value, where: Value) -> Value:
        picked = ir.gather_nd(ir.transpose(x, (1, 0)), where)
        return ir.transpose(ir.neg(ir.abs(picked)), (1, 0))

    main = make(["f32[32, 50]", "i64[40, 1]"], build).main.body
    for answer, anchors in ((reads_any_view, ["transpose"]), (_reads_dense, ["transpose", "neg", "transpose"])):
        groups, _ = fuse_kernels(main.ops, main.results, FusionRules(answer))
        assert [group.last.name for group in groups] == anchors


def test_what_is_padded_is_turned_behind() -> None:
    """Where the target says so: a kernel that does both looks for each element by itself."""

    def build(ir: Builder, x: Value) -> Value:
        return ir.transpose(ir.exp(ir.pad(x, (1, 0), (1, 2))), (1, 0))

    main = make(["f32[32, N]"], build).main.body
    for answer, lasts in ((reads_any_view, ["transpose"]), (_reads_dense, ["exp", "transpose"])):
        groups, _ = fuse_kernels(main.ops, main.results, FusionRules(answer))
        assert [group.last.name for group in groups] == lasts


def test_a_target_leaves_what_its_kernels_do_not_finish() -> None:
    def finishes(anchor: Op, op: Op) -> bool:
        return op.name != "exp"

    main = make(["f32[N, 4]"], lambda ir, x: ir.mul(ir.exp(ir.neg(ir.reduce(x, "sum", (1,)))), 2.0)).main.body
    for answer, lasts in ((finishes_all, ["mul"]), (finishes, ["neg", "mul"])):
        groups, _ = fuse_kernels(main.ops, main.results, FusionRules(reads_any_view, finishes=answer))
        assert [group.last.name for group in groups] == lasts


def test_a_value_that_is_reached_in_many_ways_is_asked_once() -> None:
    def build(ir: Builder, x: Value) -> Value:
        for _ in range(60):
            x = ir.add(x, x)
        return ir.transpose(x, (1, 0))

    main = make(["f32[32, 50]"], build).main.body
    groups, _ = fuse_kernels(main.ops, main.results, FusionRules(_reads_dense))
    assert [group.last.name for group in groups][-1] == "transpose"


def test_elements_are_picked_where_they_lie() -> None:
    """No row is picked along the last axis, and no other value is kept."""

    def build(ir: Builder, x: Value, where: Value) -> Value:
        return ir.transpose(ir.abs(ir.gather(ir.transpose(x, (1, 0)), where, 1)), (1, 0))

    main = make(["f32[32, 50]", "i64[40]"], build).main.body
    groups, _ = fuse_kernels(main.ops, main.results, FusionRules(_reads_dense))
    assert [group.last.name for group in groups] == ["transpose"]


def test_rows_of_picked_rows_are_picked_with_their_columns() -> None:
    def picked(*axes: int, first: int = 0) -> Callable[..., Value]:
        def build(ir: Builder, x: Value, *lists: Value) -> Value:
            x = ir.slice_axis(x, 3, first, 4)
            for axis, where in zip(axes, lists, strict=True):
                x = ir.gather(x, where, axis)
            return x

        return build

    lists = ["i64[A]", "i64[B]", "i64[C]", "i64[D]"]
    assert outputs(picked(0, 1, 2, 3), "f32[2, 3, 4, 4]", *lists) == ["gather f32[A, B, C, D]"]
    # Of a part of memory, too, whose rows lie side by side.
    assert outputs(picked(0, 1, 2, 3, first=1), "f32[2, 3, 4, 5]", *lists) == ["gather f32[A, B, C, D]"]
    # Columns of columns would be looked up again for each.
    assert outputs(picked(0, 3, 1, 2), "f32[2, 3, 4, 4]", *lists)[-1] == "gather f32[A, C, D, B]"
    assert len(outputs(picked(0, 3, 1, 2), "f32[2, 3, 4, 4]", *lists)) > 1


def test_a_kernel_that_arranges_its_result_takes_the_transpose_and_the_reshape_behind_it() -> None:
    def joined(ir: Builder, q: Value, k: Value) -> tuple[Value, ...]:
        weighed = ir.attention(q, k, k, None, 1.0)
        turned = ir.transpose(weighed, (0, 2, 1, 3))
        return weighed, turned, ir.reshape(turned, (2, 5, 24))

    main = make(["f32[2, 3, 5, 8]", "f32[2, 3, 7, 8]"], joined).main.body
    _, turned, whole = main.results
    for results, parts in (
        ((whole,), [["attention", "transpose", "reshape"]]),
        ((turned,), [["attention", "transpose"]]),
        ((turned, whole), [["attention", "transpose"], ["reshape"]]),
        (main.results, [["attention"], ["transpose"], ["reshape"]]),
    ):
        needed = main.ops if whole in results else main.ops[:2]
        groups, _ = fuse_kernels(needed, results, FusionRules(reads_any_view, arranges=("attention",)))
        assert [[op.name for op in group.ops] for group in groups] == parts
    groups, _ = fuse_kernels(main.ops, (whole,), FusionRules(reads_any_view))
    assert [group.anchor.name for group in groups] == ["attention", "reshape"]


def test_an_output_that_is_a_reshape_of_what_a_kernel_writes_is_written_by_it() -> None:
    def build(ir: Builder, x: Value, y: Value) -> tuple[Value, ...]:
        product = ir.dot(x, y, "mk,kn->mn")
        flat = ir.reshape(product, (60,))
        return product, flat, ir.reshape(flat, (4, 15)), ir.reshape(product, (5, 12)), ir.exp(product)

    main = make(["f32[6, 7]", "f32[7, 10]"], build).main.body
    product, flat, folded, other, used = main.results
    for results, parts, other_names in (
        ((folded,), ["dot"], {folded: flat, flat: product}),
        ((folded, used), ["dot", "exp"], {folded: flat, flat: product}),
        ((folded, flat), ["dot", "reshape"], {flat: product}),
        ((folded, other), ["dot", "reshape"], {other: product}),
        ((folded, product), ["dot", "reshape"], {}),
    ):
        needed = prune(Block(main.parameters, main.ops, results)).ops
        groups, aliases = fuse_kernels(needed, results, FusionRules(reads_any_view))
        assert [group.anchor.name for group in groups] == parts
        assert aliases == other_names


def test_an_output_that_is_a_reshape_of_an_input_is_a_copy() -> None:
    main = make(["f32[6, 7]"], lambda ir, x: ir.reshape(x, (42,))).main.body
    groups, aliases = fuse_kernels(main.ops, main.results, FusionRules(reads_any_view))
    assert [group.anchor.name for group in groups] == ["reshape"]
    assert not aliases


@pytest.mark.parametrize(("count", "kernels"), [(15, 1), (16, 2), (1500, 17)])
def test_a_kernel_computes_an_operand_of_as_much_work_as_the_target_says(count: int, kernels: int) -> None:
    """Reading an element is 1; what takes longer is written, however long it is."""

    def build(ir: Builder, q: Value, k: Value) -> Value:
        for _ in range(count):
            q = ir.neg(q)
        return ir.op("attention", [q, k, k], {"scale": 1.0, "causal": False, "softcap": 0.0})[0]

    main = make(["f32[1, 2, 8, 16]"] * 2, build).main.body
    groups, _ = fuse_kernels(main.ops, main.results, FusionRules(reads_any_view, computes={"attention": (16, 3, 3)}))
    assert len(groups) == kernels


@pytest.mark.parametrize(("first", "written"), [(0, "pad"), (1, "slice")])
def test_rows_that_are_filled_up_are_read_where_they_lie(first: int, written: str) -> None:
    """All of what was padded is a view for each that reads it; any other part of it is what is written."""

    def build(ir: Builder, x: Value) -> tuple[Value, ...]:
        for _ in range(8):
            x = ir.exp(x)
        whole = ir.pad(x, (0, 0), (0, 3))
        part = ir.slice(whole, (0, first), (6, 5))
        return ir.reduce(part, "sum", (1,)), ir.reduce(part, "max", (0,))

    main = make(["f32[6, 5]"], build).main.body
    groups, _ = fuse_kernels(main.ops, main.results, FusionRules(reads_any_view))
    assert [group.last.name for group in groups] == [written, "reduce", "reduce"]
