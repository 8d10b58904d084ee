"""onnxc.shard: annotations that the standard's checker accepts, with the exchanges of Megatron and the same results."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from click.testing import CliRunner
from onnx import ModelProto, helper

import onnxc
from onnxc.command_line.main import main
from onnxc.compiler.frontend.devices.balance import balanced_stages
from onnxc.compiler.shard_model import explain_source
from onnxc.runtime.errors import InputError
from onnxc.runtime.executable import Executable
from tests.sharding.annotated import graph_model
from tests.sharding.test_devices import exchanges, mlp, told, weight
from tests.sharding.test_models import BATCH, HEAD, HEADS, PAST, VOCABULARY, WIDTH, Graph, decoder, heads
from tests.support.arrays import assert_close

node = helper.make_node


def plain(model: ModelProto) -> ModelProto:
    """The model without annotations."""
    del model.configuration[:]
    for each in model.graph.node:
        del each.device_configurations[:]
    return model


def sharded(model: ModelProto, **counts: int) -> ModelProto:
    """The model divided, as the library of ONNX reads and accepts it."""
    made = onnx.load_from_string(onnxc.shard(model, **counts).SerializeToString())
    onnx.checker.check_model(made)
    return made


def expect_as_undivided(model: ModelProto, feeds: Mapping[str, np.ndarray], **counts: int) -> Executable:
    """The executable of the divided model, which gives what the model gives."""
    made = sharded(model, **counts)
    exe = onnxc.compile(made, config=made.configuration[-1].name)
    expected, found = onnxc.compile(model).run(dict(feeds)), exe.run(dict(feeds))
    for name in expected:
        assert_close(np.asarray(found[name]), np.asarray(expected[name]), terms=256, magnitude=16.0)
    return exe


def two_layers() -> ModelProto:
    """Two MLPs of 8 to 16 to 8, one behind the other."""
    g = Graph()
    x = "x"
    for k in range(2):
        x = g.product(g.add("Gelu", g.product(x, f"up{k}", 8, 16)), f"down{k}", 16, 8)
    g.add("Relu", x, name="y")
    return plain(graph_model(g.nodes, {"x": ["N", 8]}, {"y": ["N", 8]}, g.constants, 1))


def said(model: ModelProto) -> dict[str, list[tuple[int, int]]]:
    """For each tensor that is divided, the axes and into how many shards."""
    return {
        spec.tensor_name: [(dim.axis, dim.simple_sharding[0].num_shards) for dim in spec.sharded_dim]
        for each in model.graph.node
        for devices in each.device_configurations
        for spec in devices.sharding_spec
    }


def test_an_mlp_is_columns_then_rows_and_one_all_reduce() -> None:
    model = plain(mlp())
    exe = expect_as_undivided(model, {"x": weight(5, 8)}, tp=4)
    assert said(sharded(model, tp=4)) == {"w1": [(1, 4)], "w2": [(0, 4)]}
    assert exchanges(exe) == [("all_reduce", "32*N")]
    # 8 x 16 and 16 x 8 for the matrices, 16 for the bias between them.
    assert told(exe)["share_bytes"] == [(2 * 8 * 16 + 16) * 4 // 4] * 4


def uneven_mlp(hidden: int, activation: str) -> ModelProto:
    """An MLP of 8 to `hidden` to 8; of what lies beyond the end of a block Reciprocal makes infinities."""
    g = Graph()
    biased = g.add("Add", g.product("x", "up", 8, hidden), g.constant(weight(hidden), "bias"))
    g.add("MatMul", g.add(activation, biased), g.constant(weight(hidden, 8), "down"), name="y")
    return plain(graph_model(g.nodes, {"x": ["N", 8]}, {"y": ["N", 8]}, g.constants, 1))


@pytest.mark.parametrize(("hidden", "shards"), [(10, 4), (9, 4), (5, 4), (4, 3), (7, 2)])
@pytest.mark.parametrize("activation", ["Gelu", "Reciprocal"])
def test_a_hidden_axis_that_blocks_do_not_fill_is_one_all_reduce_as_well(
    hidden: int, shards: int, activation: str
) -> None:
    model = uneven_mlp(hidden, activation)
    exe = expect_as_undivided(model, {"x": weight(5, 8)}, tp=shards)
    assert said(sharded(model, tp=shards)) == {"up": [(1, shards)], "down": [(0, shards)]}
    assert exchanges(exe) == [("all_reduce", "32*N")]
    # Each device has room for full blocks: of 8 x hidden and hidden x 8 for the matrices, of hidden for the bias.
    assert told(exe)["share_bytes"] == [-(-hidden // shards) * (8 + 8 + 1) * 4] * shards


def test_fewer_columns_than_shards_open_no_block() -> None:
    assert not [line for line in explain_source(uneven_mlp(3, "Gelu"), 4, 1, 1) if "opens a block" in line]


def test_heads_that_shards_do_not_divide_open_no_block() -> None:
    """Six heads of four on four devices: 24 columns are even, blocks of 6 of them are not those of heads."""
    g = Graph()
    split = g.add("Reshape", g.product("x", "up", 8, 24), g.constant(np.array([0, 6, 4])))
    scaled = g.add("Mul", split, g.constant(weight(6, 1)))
    g.add("MatMul", g.add("Reshape", scaled, g.constant(np.array([0, 24]))), g.constant(weight(24, 8), "w"), name="y")
    model = plain(graph_model(g.nodes, {"x": ["N", 8]}, {"y": ["N", 8]}, g.constants, 1))
    assert not [line for line in explain_source(model, 4, 1, 1) if "opens a block" in line]
    assert len([line for line in explain_source(model, 3, 1, 1) if "opens a block" in line]) == 1


@pytest.mark.parametrize(("kind", "groups"), [("gpt2", HEADS), ("llama", HEADS // 2)])
def test_a_decoder_is_divided_as_by_hand(kind: str, groups: int) -> None:
    """Twice a layer an all_reduce; caches by heads, and the columns of the logits, are gathered at the end."""
    model = plain(decoder(kind, 2))
    random = np.random.default_rng(3)
    cache = (BATCH, groups, PAST, HEAD)
    feeds = {
        each.name: random.normal(size=cache).astype(np.float32) for each in model.graph.input if each.name != "ids"
    }
    exe = expect_as_undivided(model, {**feeds, "ids": np.array([[1], [5], [11]])}, tp=2)
    caches = [("all_gather", BATCH * groups // 2 * (PAST + 1) * HEAD * 4)] * 4
    logits = [("all_gather", BATCH * VOCABULARY // 2 * 4)]
    assert sorted(map(str, exchanges(exe))) == sorted(
        map(str, [*caches, *logits, *[("all_reduce", BATCH * WIDTH * 4)] * 4])
    )


def test_the_matrix_of_a_gemm_may_be_turned() -> None:
    nodes = [node("Gemm", ["x", "w"], ["h"], transB=1), node("Relu", ["h"], ["r"]), node("Gemm", ["r", "v"], ["y"])]
    constants = {"w": weight(16, 8), "v": weight(16, 8)}
    model = plain(graph_model(nodes, {"x": ["N", 8]}, {"y": ["N", 8]}, constants, 1))
    assert exchanges(expect_as_undivided(model, {"x": weight(3, 8)}, tp=4)) == [("all_reduce", "32*N")]
    assert said(sharded(model, tp=4)) == {"w": [(0, 4)], "v": [(0, 4)]}


def test_columns_that_an_op_needs_whole_open_no_block() -> None:
    nodes = [
        node("MatMul", ["x", "w"], ["h"]),
        node("ReduceMax", ["h", "last"], ["m"]),
        node("Div", ["h", "m"], ["d"]),
        node("MatMul", ["d", "v"], ["y"]),
    ]
    constants = {"w": weight(8, 16), "v": weight(16, 8), "last": np.array([1])}
    model = plain(graph_model(nodes, {"x": ["N", 8]}, {"y": ["N", 8]}, constants, 1))
    assert not [line for line in explain_source(model, 4, 1, 1) if "block" in line]


def test_an_embedding_is_gathered_once_before_residuals_branch_off() -> None:
    g = Graph()
    x = g.add("Gather", g.constant(weight(64, 8), "table"), "ids")
    normed = g.add("LayerNormalization", x, g.constant(weight(8)), g.constant(weight(8)))
    hidden = g.add("Relu", g.product(normed, "up", 8, 16))
    g.add("Add", x, g.product(hidden, "down", 16, 8), name="y")
    model = plain(graph_model(g.nodes, {}, {"y": ["N", 8]}, g.constants, 1))
    model.graph.input.append(helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, ["N"]))
    exe = expect_as_undivided(model, {"ids": np.array([1, 63, -1])}, tp=2)
    assert exchanges(exe) == [("all_gather", "16*N"), ("all_reduce", "32*N")]


def test_stages_end_where_the_fewest_values_go_across() -> None:
    """Any cut between the products is even: behind the second node two values go across, elsewhere one."""
    nodes = [
        *(node("MatMul", ["x", "w0"], ["a"]), node("Relu", ["a"], ["b"])),
        *(node("Add", ["a", "b"], ["c"]), node("MatMul", ["c", "w1"], ["y"])),
    ]
    found = balanced_stages(nodes, {"w0": 64, "w1": 64}, 2)
    assert found == (0, 1, 1, 1)
    assert balanced_stages(nodes, {"w0": 64, "w1": 64}, 4) == (0, 1, 2, 3)


def fused_attention() -> ModelProto:
    """Attention whose queries, keys and values are one product, so that none of its blocks of columns is of a head."""
    g = Graph()
    parts = ("q", "k", "v")
    g.nodes.append(node("Split", [g.product("x", "wqkv", WIDTH, 3 * WIDTH)], [*parts], axis=-1, num_outputs=3))
    q, k, v = (heads(g, part, HEADS) for part in parts)
    scores = g.add("MatMul", q, g.add("Transpose", k, perm=[0, 1, 3, 2]))
    mixed = g.add("MatMul", g.add("Softmax", g.add("Mul", scores, g.constant(np.array(0.5, np.float32))), axis=-1), v)
    joined = g.add("Reshape", g.add("Transpose", mixed, perm=[0, 2, 1, 3]), g.constant(np.array([0, 0, WIDTH])))
    g.add("MatMul", joined, g.constant(weight(WIDTH, WIDTH), "wo"), name="y")
    shape = ["N", "S", WIDTH]
    return plain(graph_model(g.nodes, {"x": shape}, {"y": shape}, g.constants, 1))


def test_behind_a_fused_product_attention_is_divided_by_heads_and_its_product_by_rows() -> None:
    model = fused_attention()
    exe = expect_as_undivided(model, {"x": weight(2, 3, WIDTH)}, tp=4)
    matrices = {name: axes for name, axes in said(sharded(model, tp=4)).items() if name.startswith("w")}
    assert matrices == {"wqkv": [(1, 4)], "wo": [(0, 4)]}
    assert [name for name, _ in exchanges(exe)] == ["all_gather", "all_reduce"]


def test_the_batch_is_divided_without_an_exchange_but_for_the_result() -> None:
    exe = expect_as_undivided(two_layers(), {"x": weight(5, 8)}, dp=2)
    assert exchanges(exe) == [("all_gather", "32*floordiv(N + 1, 2)")]


def test_batch_and_weights_are_a_grid_in_which_neighbours_share_the_weights() -> None:
    exe = expect_as_undivided(two_layers(), {"x": weight(5, 8)}, tp=2, dp=2)
    assert told(exe)["mesh"] == "d0=2, d1=2"
    listed = told(exe)["collectives"]
    assert isinstance(listed, list)
    assert [(each["op"], each["groups"]) for each in listed if isinstance(each, dict)] == [
        *[("all_reduce", "((0, 1), (2, 3))")] * 2,
        ("all_gather", "((0, 2), (1, 3))"),
    ]


def test_stages_hold_half_of_the_weights_each_and_one_value_goes_between() -> None:
    exe = expect_as_undivided(two_layers(), {"x": weight(6, 8)}, tp=2, pp=2)
    segments, transfers = told(exe)["segments"], told(exe)["transfers"]
    assert isinstance(segments, list)
    assert isinstance(transfers, list)
    assert [each["devices"] for each in segments if isinstance(each, dict)] == [[0, 1], [2, 3]]
    assert [each["bytes"] for each in transfers if isinstance(each, dict)] == ["32*N"]
    assert [each["share_bytes"] for each in segments if isinstance(each, dict)] == [[8 * 16 * 2 * 4 // 2] * 2] * 2


def test_what_stands_alone_is_divided_where_that_costs_least() -> None:
    """Of 64 KiB a quarter and 7 times what is received are less than all of it for one row, and more for a thousand."""

    def lone(rows: int) -> list[str]:
        nodes = [node("MatMul", ["x", "w"], ["h"]), node("Softmax", ["h"], ["y"])]
        model = graph_model(nodes, {"x": [rows, 128]}, {"y": [rows, 128]}, {"w": weight(128, 128)}, 1)
        return [line for line in explain_source(_with_mlp(plain(model)), 4, 1, 1) if "costs least" in line]

    assert "columns; costs least of: whole 65,536, columns 19,072, rows 21,760" in lone(1)[0]
    assert "whole; costs least of: whole 65,536" in lone(1000)[0]


def _with_mlp(model: ModelProto) -> ModelProto:
    """The model, and a block beside it."""
    block = plain(mlp())
    return onnx.compose.merge_models(model, onnx.compose.add_prefix(block, "mlp_"), io_map=[])


def test_a_chain_leads_from_each_value_to_what_the_model_states() -> None:
    lines = list(explain_source(plain(mlp()), 4, 1, 1))
    assert "node 0 (ai.onnx.MatMul-13): columns; opens a block" in lines[0]
    assert "rows; closes the block" in lines[1]
    assert lines[2] == "the mesh is d0=4"
    gelu = next(line for line in lines if line.startswith("gelu at"))
    assert ": [{}, {d0}], through gelu" in gelu
    assert 'as add at graph "main", node 1' in gelu
    assert 'at first reshard at graph "main", node 0' in gelu


def test_all_else_is_kept_and_the_ir_version_is_one_that_has_annotations() -> None:
    model = plain(mlp())
    model.ir_version, model.producer_name = 10, "someone"
    model.metadata_props.add(key="a", value="b")
    once = sharded(model, tp=2)
    twice = sharded(once, dp=2)
    assert [(each.name, each.num_devices) for each in twice.configuration] == [("tp2", 2), ("dp2", 2)]
    assert (twice.ir_version, twice.producer_name, twice.metadata_props[0].value) == (11, "someone", "b")
    twice.ir_version = 10
    assert plain(twice) == model


def test_products_within_functions_stay_whole() -> None:
    model = onnx.parser.parse_model("""<ir_version: 11, opset_import: ["": 21, "f": 1]>
        g (float[N, 8] x) => (float[N, 8] y) <float[8, 8] w, float[8, 16] a, float[16, 8] b>
        { t = f.twice(x, w) h = MatMul(t, a) r = Relu(h) y = MatMul(r, b) }
        <domain: "f", opset_import: ["": 21]> twice (x, w) => (y) { h = MatMul(x, w) y = MatMul(h, w) }""")
    for name, shape in (("w", (8, 8)), ("a", (8, 16)), ("b", (16, 8))):
        model.graph.initializer.append(onnx.numpy_helper.from_array(weight(*shape), name))
    expect_as_undivided(model, {"x": weight(3, 8)}, tp=2)
    assert said(sharded(model, tp=2)) == {"a": [(1, 2)], "b": [(0, 2)]}


@pytest.mark.parametrize(
    ("counts", "code", "message"),
    [
        ({}, "shard-count", "tp, pp and dp are all 1"),
        ({"tp": 0}, "shard-count", "tp is 0, expected 1 to 4096"),
        ({"dp": 1 << 40}, "shard-count", "dp is 1099511627776"),
        ({"tp": True}, "option-type", "tp is True, expected an integer"),
        ({"tp": 2.0}, "option-type", r"tp is 2\.0, expected an integer"),
        ({"pp": 9}, "shard-count", "pp is 9, and the graph has 1 nodes"),
        ({"dp": 4}, "shard-count", "dp is 4, and the first axis of the first input has the size 3"),
        ({"tp": 4}, "shard-count", "no product that pays"),
        ({"dp": 2}, "config-taken", "has a configuration 'dp2' already"),
    ],
)
def test_counts_that_divide_nothing_are_errors(counts: Mapping[str, int], code: str, message: str) -> None:
    model = plain(graph_model([node("Relu", ["x"], ["y"])], {"x": [3]}, {"y": [3]}, {}, 1))
    model.configuration.add(name="dp2", num_devices=2)
    with pytest.raises(InputError, match=message) as found:
        onnxc.shard(model, **counts)
    assert found.value.code == code


def test_the_command_writes_a_model_and_explains_it(tmp_path: Path) -> None:
    source, made = tmp_path / "mlp.onnx", tmp_path / "out.onnx"
    source.write_bytes(plain(mlp()).SerializeToString())
    result = CliRunner().invoke(main, ["shard", str(source), "--tp", "4", "-o", str(made), "--explain"])
    assert result.exit_code == 0, result.output
    assert f"{made}: configuration tp4, 4 devices" in result.output
    assert "rows; closes the block" in result.output
    assert said(onnx.load(made)) == {"w1": [(1, 4)], "w2": [(0, 4)]}
    assert CliRunner().invoke(main, ["shard", str(source), "--tp", "4"]).exit_code == 2
