"""What is wrong with device configurations and shardings."""

import onnx

from tests.frontend.invalid.case import Case, Cases, ir_version
from tests.frontend.model_texts import CALL, RELU, Edit, first_node

NEWER = ir_version(11, 21)
MATRIX = "g (float[8, 4] x) => (float[8, 4] y) { y = Relu(x) }"

WEIGHT = "g (float[8, 4] x) => (float[8, 8] y) <float[4, 8] w = {W}> { y = MatMul(x, w) }".replace(
    "W}", ", ".join(["1"] * 32) + "}"
)

# An axis, and how it is divided: a size or a name or nothing, and the number of shards.
Division = tuple[int, list[tuple[int | str | None, int]]]


def sharded(
    *divisions: Division,
    device: tuple[int, ...] = (0, 1),
    groups: tuple[tuple[int, tuple[int, ...]], ...] = (),
    tensor: str = "x",
    count: int = 4,
    configuration: str = "tp",
    stage: int | None = None,
) -> Edit:
    """One configuration, and one sharding of a tensor of the first node in it."""

    def edit(m: onnx.ModelProto) -> None:
        m.configuration.add(name="tp", num_devices=count)
        config = first_node(m).device_configurations.add(configuration_id=configuration)
        if stage is not None:
            config.pipeline_stage = stage
        spec = config.sharding_spec.add(tensor_name=tensor, device=device)
        for key, members in groups:
            spec.index_to_device_group_map.add(key=key, value=members)
        for axis, factors in divisions:
            dim = spec.sharded_dim.add(axis=axis)
            for size, shards in factors:
                simple = dim.simple_sharding.add(num_shards=shards)
                if isinstance(size, int):
                    simple.dim_value = size
                elif size is not None:
                    simple.dim_param = size

    return edit


def first_sharding(m: onnx.ModelProto) -> onnx.ShardingSpecProto:
    return first_node(m).device_configurations[0].sharding_spec[0]


def then(edit: Edit, more: Edit) -> Edit:
    return lambda m: [edit(m), more(m)]


LEGAL: dict[str, Edit] = {
    "split over two": sharded((0, [(None, 2)])),
    "split over two, with the size": sharded((0, [(8, 2)])),
    "the last axis": sharded((-1, [(None, 2)])),
    "two axes over four": sharded((0, [(None, 2)]), (1, [(None, 2)]), device=(0, 1, 2, 3)),
    "copied over two": sharded(),
    "one device": sharded(device=(3,)),
    "a group": sharded(device=(-1,), groups=((-1, (0, 1)),)),
    "two groups": sharded((0, [(None, 2)]), device=(-1, -2), groups=((-1, (0, 1)), (-2, (2, 3)))),
    "a fused axis": sharded((0, [(2, 1), (4, 2)])),
    "an output in a pipeline": sharded((0, [(None, 2)]), tensor="y", stage=0),
}

DEVICES: Cases = {
    name: Case(code, text, edit, NEWER)
    for name, (code, text, edit) in {
        "a configuration without a name": (
            "device-configuration-name",
            MATRIX,
            lambda m: m.configuration.add(num_devices=2),
        ),
        "two configurations of one name": (
            "duplicate-device-configuration",
            MATRIX,
            lambda m: [m.configuration.add(name="tp", num_devices=2) for _ in range(2)],
        ),
        "a configuration without devices": ("device-count", MATRIX, lambda m: m.configuration.add(name="tp")),
        "a negative number of devices": (
            "device-count",
            MATRIX,
            lambda m: m.configuration.add(name="tp", num_devices=-2),
        ),
        "fewer names than devices": (
            "device-names",
            MATRIX,
            lambda m: m.configuration.add(name="tp", num_devices=2, device=["cuda:0"]),
        ),
        "more names than devices": (
            "device-names",
            MATRIX,
            lambda m: m.configuration.add(name="tp", num_devices=1, device=["cuda:0", "cuda:1"]),
        ),
        "a node in an unknown configuration": ("unknown-device-configuration", MATRIX, sharded(configuration="pp")),
        "a node in no configuration": ("unknown-device-configuration", MATRIX, sharded(configuration="")),
        "a node of a function in an unknown configuration": (
            "unknown-device-configuration",
            CALL,
            lambda m: m.functions[0].node[0].device_configurations.add(configuration_id="pp"),
        ),
        "a node in one configuration twice": (
            "duplicate-node-configuration",
            MATRIX,
            then(sharded(), lambda m: first_node(m).device_configurations.add(configuration_id="tp")),
        ),
        "a negative stage": ("pipeline-stage", MATRIX, sharded(stage=-1)),
        "a sharding of another tensor": ("sharding-tensor", MATRIX, sharded(tensor="z")),
        "a sharding of no tensor": ("sharding-tensor", MATRIX, sharded(tensor="")),
        "two shardings of one tensor": (
            "duplicate-sharding",
            MATRIX,
            then(
                sharded(),
                lambda m: first_node(m).device_configurations[0].sharding_spec.add(tensor_name="x", device=[2]),
            ),
        ),
        "no device": ("sharding-device", MATRIX, sharded(device=())),
        "a device beyond the last": ("sharding-device", MATRIX, sharded(device=(0, 4))),
        "a negative device": ("sharding-device", MATRIX, sharded(device=(-1,))),
        "a device twice": ("sharding-device", MATRIX, sharded(device=(1, 1))),
        "a member of a group beyond the last": (
            "sharding-device",
            MATRIX,
            sharded(device=(-1,), groups=((-1, (0, 9)),)),
        ),
        "a group twice": ("sharding-group", MATRIX, sharded(device=(-1,), groups=((-1, (0,)), (-1, (0,))))),
        "an empty group": ("sharding-group", MATRIX, sharded(device=(-1,), groups=((-1, ()),))),
        "a device in two groups": (
            "sharding-group",
            MATRIX,
            sharded((0, [(None, 2)]), device=(-1, -2), groups=((-1, (0, 1)), (-2, (1, 2)))),
        ),
        "a group with the number of a device": (
            "sharding-group",
            MATRIX,
            sharded(device=(1,), groups=((1, (2, 3)),)),
        ),
        "more shards than devices": (
            "sharding-device-count",
            MATRIX,
            sharded((0, [(None, 4)]), device=(0, 1)),
        ),
        "fewer shards than devices": (
            "sharding-device-count",
            MATRIX,
            sharded((0, [(None, 2)]), device=(0, 1, 2)),
        ),
        "an axis beyond the last": ("sharding-axis", MATRIX, sharded((2, [(None, 2)]))),
        "an axis before the first": ("sharding-axis", MATRIX, sharded((-3, [(None, 2)]))),
        "an axis of a scalar": ("sharding-axis", "g (float x) => (float y) { y = Relu(x) }", sharded((0, [(None, 2)]))),
        "an axis twice": (
            "sharding-axis",
            MATRIX,
            sharded((0, [(None, 2)]), (-2, [(None, 2)]), device=(0, 1, 2, 3)),
        ),
        "an axis that is not divided": ("sharding-shards", MATRIX, sharded((0, []), device=(0,))),
        "no shards": ("sharding-shards", MATRIX, sharded((0, [(None, 0)]), device=(0,))),
        "a negative number of shards": ("sharding-shards", MATRIX, sharded((0, [(8, -2)]), device=(0,))),
        "more shards than elements": ("sharding-factors", MATRIX, sharded((0, [(1, 2)]))),
        "two factors that are open": ("sharding-factors", MATRIX, sharded((0, [(None, 1), (None, 2)]))),
        "factors of another product than the axis": ("sharding-factors", MATRIX, sharded((0, [(4, 1), (4, 2)]))),
        "a name that no size has": ("sharding-size-name", MATRIX, sharded((0, [("N", 2)]))),
        "a name of a size and one that there is not": (
            "sharding-size-name",
            "g (float[N, 4] x) => (float[N, 4] y) { y = Relu(x) }",
            sharded((0, [("N", 2), ("M", 1)])),
        ),
        "an axis that is not named": (
            "sharding-axis",
            MATRIX,
            then(sharded((0, [(None, 2)])), lambda m: first_sharding(m).sharded_dim[0].ClearField("axis")),
        ),
        "an axis far beyond the last": ("sharding-axis", MATRIX, sharded((2**62, [(None, 2)]))),
        "an axis far before the first": ("sharding-axis", MATRIX, sharded((-(2**62), [(None, 2)]))),
        "an axis of a weight beyond the last": (
            "sharding-axis",
            WEIGHT,
            sharded((2, [(None, 2)]), tensor="w"),
        ),
        "an axis of an output beyond the last": ("sharding-axis", MATRIX, sharded((2, [(None, 2)]), tensor="y")),
        "an axis twice by one name": (
            "sharding-axis",
            MATRIX,
            sharded((1, [(None, 2)]), (1, [(None, 2)]), device=(0, 1, 2, 3)),
        ),
        "a device without a name": (
            "device-names",
            MATRIX,
            lambda m: m.configuration.add(name="tp", num_devices=2, device=["cuda:0", ""]),
        ),
        "the least number of devices": (
            "device-count",
            MATRIX,
            lambda m: m.configuration.add(name="tp", num_devices=-(2**31)),
        ),
        "a device far beyond the last": ("sharding-device", MATRIX, sharded(device=(0, 2**62))),
        "a device as many as there are": ("sharding-device", MATRIX, sharded(device=(2,), count=2)),
        "a device far below 0": ("sharding-device", MATRIX, sharded(device=(-(2**63),))),
        "a device beside its group": (
            "sharding-device",
            MATRIX,
            sharded((0, [(None, 2)]), device=(-1, 1), groups=((-1, (0, 1)),)),
        ),
        "a group twice in the list": (
            "sharding-device",
            MATRIX,
            sharded((0, [(None, 2)]), device=(-1, -1), groups=((-1, (0, 1)),)),
        ),
        "a group that is not in the map": (
            "sharding-device",
            MATRIX,
            sharded((0, [(None, 2)]), device=(-1, -3), groups=((-1, (0, 1)), (-2, (2, 3)))),
        ),
        "a negative member of a group": ("sharding-device", MATRIX, sharded(device=(-1,), groups=((-1, (0, -1)),))),
        "an empty group beside a full one": (
            "sharding-group",
            MATRIX,
            sharded((0, [(None, 2)]), device=(-1, -2), groups=((-1, (0, 1)), (-2, ()))),
        ),
        "a device in three groups": (
            "sharding-group",
            MATRIX,
            sharded(device=(-1,), groups=((-1, (0, 1)), (-2, (2, 3)), (-3, (3,)))),
        ),
        "a group of one with the number of another device": (
            "sharding-group",
            MATRIX,
            sharded(device=(0,), groups=((0, (1,)),)),
        ),
        "two axes for the devices of one": (
            "sharding-device-count",
            MATRIX,
            sharded((0, [(None, 2)]), (1, [(None, 2)]), device=(0, 1)),
        ),
        "two factors for the devices of one": (
            "sharding-device-count",
            MATRIX,
            sharded((0, [(2, 2), (4, 2)]), device=(0, 1)),
        ),
        "one device for two shards": ("sharding-device-count", MATRIX, sharded((0, [(None, 2)]), device=(0,))),
        "a number of shards that is not told": (
            "sharding-shards",
            MATRIX,
            then(
                sharded((0, [(None, 2)])),
                lambda m: first_sharding(m).sharded_dim[0].simple_sharding[0].ClearField("num_shards"),
            ),
        ),
        "the least number of shards": ("sharding-shards", MATRIX, sharded((0, [(None, -(2**63))]), device=(0,))),
        "no shards of a second axis": (
            "sharding-shards",
            MATRIX,
            sharded((0, [(None, 2)]), (1, [(None, 0)])),
        ),
        "no shards of a second factor": ("sharding-shards", MATRIX, sharded((0, [(2, 2), (4, 0)]), device=(0,))),
        "a second axis that is not divided": ("sharding-shards", MATRIX, sharded((0, [(None, 2)]), (1, []))),
        "a negative size": ("sharding-factors", MATRIX, sharded((0, [(-8, 2)]))),
        "three factors, two of them open": (
            "sharding-factors",
            MATRIX,
            sharded((0, [(None, 1), (2, 2), (None, 1)])),
        ),
        "factors of a weight with another product": (
            "sharding-factors",
            WEIGHT,
            sharded((1, [(8, 2), (4, 1)]), tensor="w"),
        ),
        "an open factor beside one that does not divide": (
            "sharding-factors",
            MATRIX,
            sharded((0, [(3, 1), (None, 2)])),
        ),
        "a stage far below 0": ("pipeline-stage", MATRIX, sharded(stage=-(2**31))),
        "a sharding of what another node has": (
            "sharding-tensor",
            "g (float[8, 4] x) => (float[8, 4] z) { y = Relu(x) z = Relu(y) }",
            sharded(tensor="z"),
        ),
        "two shardings of an output": (
            "duplicate-sharding",
            MATRIX,
            then(
                sharded(tensor="y"),
                lambda m: first_node(m).device_configurations[0].sharding_spec.add(tensor_name="y", device=[2]),
            ),
        ),
        "three configurations of which two have one name": (
            "duplicate-device-configuration",
            MATRIX,
            lambda m: [m.configuration.add(name=name, num_devices=2) for name in ("tp", "pp", "tp")],
        ),
        "a node in a configuration of another case": (
            "unknown-device-configuration",
            MATRIX,
            sharded(configuration="TP"),
        ),
        "a size of another axis": ("sharding-factors", MATRIX, sharded((1, [(8, 2)]))),
    }.items()
}
DEVICES["a configuration before there were any"] = Case(
    "device-configuration-version", MATRIX, lambda m: m.configuration.add(name="tp", num_devices=2)
)
DEVICES["a node with a configuration before there were any"] = Case(
    "device-configuration-version", RELU, sharded((0, [(None, 2)]))
)
