"""The layout of a graph: edges go down, boxes do not overlap, and bends stay within their budget."""

import random
from itertools import pairwise

from onnxc.runtime.pages.layout import BOX_HEIGHT, MOST_IN_A_ROW, ROW_HEIGHT, layered


def test_a_chain_is_a_column() -> None:
    layout = layered([80, 80, 80], [(0, 1), (1, 2)])
    assert layout.boxes == ((0, 0), (0, ROW_HEIGHT), (0, 2 * ROW_HEIGHT))
    assert layout.routes[0] == ((0, BOX_HEIGHT), (0, ROW_HEIGHT))


def test_nothing_and_one_box() -> None:
    assert layered([], []).boxes == ()
    assert layered([70], [(0, 0)]).boxes == ((0, 0),)


def test_edges_go_down_and_boxes_of_a_row_do_not_overlap() -> None:
    drawn = random.Random(3)
    widths = [drawn.randrange(70, 240) for _ in range(300)]
    edges = [(drawn.randrange(max(0, k - 20), k), k) for k in range(1, 300) for _ in range(2)]
    boxes = layered(widths, edges).boxes
    assert all(boxes[source][1] < boxes[target][1] for source, target in edges)
    spans = sorted((y, x - width / 2, x + width / 2) for (x, y), width in zip(boxes, widths, strict=True))
    assert all(y != below or right < left for (y, _, right), (below, left, _) in pairwise(spans))


def test_an_input_is_right_above_what_first_uses_it() -> None:
    boxes = layered([80] * 4, [(0, 1), (1, 2), (2, 3)]).boxes
    late = layered([80] * 5, [(0, 2), (2, 3), (3, 4), (1, 4)]).boxes
    assert (boxes[3][1], late[1][1]) == (3 * ROW_HEIGHT, 2 * ROW_HEIGHT)


def test_a_row_of_too_many_boxes_becomes_several() -> None:
    count = 3 * MOST_IN_A_ROW
    boxes = layered([80] * (count + 1), [(0, k) for k in range(1, count + 1)]).boxes
    assert [sum(y == row * ROW_HEIGHT for _, y in boxes) for row in range(5)] == [1, *[MOST_IN_A_ROW] * 3, 0]


def test_a_chain_in_which_all_use_the_first_has_no_more_bends_than_its_budget() -> None:
    edges = [*((k, k + 1) for k in range(999)), *((0, k) for k in range(2, 1000))]
    assert sum(len(route) - 2 for route in layered([80] * 1000, edges).routes) <= 2000


def test_an_edge_against_the_order_is_drawn_straight_and_decides_nothing() -> None:
    layout = layered([80, 80], [(0, 1), (1, 0)])
    assert [y for _, y in layout.boxes] == [0, ROW_HEIGHT]
    assert [len(route) for route in layout.routes] == [2, 2]


def test_a_long_chain_of_blocks_that_each_lean_to_one_side_stays_upright() -> None:
    blocks = 1000
    edges = [(k, k + j) for k in range(0, 4 * blocks, 4) for j in (1, 2, 4)]
    edges += [(k + j, k + 3) for k in range(0, 4 * blocks, 4) for j in (1, 2)]
    edges += [(k + 3, k + 4) for k in range(0, 4 * blocks, 4)]
    xs = [x for x, _ in layered([100] * (4 * blocks + 1), sorted(edges)).boxes]
    assert max(xs) - min(xs) < 1500
