"""Operators of ai.onnx.ml on tensors of numbers."""

from collections.abc import Iterator, Sequence
from itertools import product

from benchmarks.operators.case import OperatorCase, case, operand

DOMAIN = "ai.onnx.ml"
ROWS = (1, 100, 1000)


def cases() -> Iterator[OperatorCase]:
    for rows in ROWS:
        x = operand("x", "float32", (rows, 32))
        for call in (
            "Binarizer<threshold = 0.5>(x)", f"Scaler<offset = {_floats(32)}, scale = {_floats(32)}>(x)",
            f"Imputer<imputed_value_floats = {_floats(32)}>(x)",
            f"LinearRegressor<coefficients = {_floats(64)}, intercepts = [0.5, 0.1], targets = 2>(x)",
            *(f'Normalizer<norm = "{norm}">(x)' for norm in ("L1", "L2", "MAX")),
        ):  # fmt: skip
            yield case(call, x, domain=DOMAIN)
        picked = operand("x", "float32", (rows, 32)), operand("i", "int64", (1, 8), "integers", 32)
        yield case("ArrayFeatureExtractor(x, i)", *picked, domain=DOMAIN)
        keys, values = list(range(50)), [key * 2 for key in range(50)]
        yield case(
            f"LabelEncoder<keys_int64s = {keys}, values_int64s = {values}>(x)",
            operand("x", "int64", (rows,), "integers", 60),
            domain=DOMAIN,
        )
        yield case(
            f"OneHotEncoder<cats_int64s = {keys}>(x)", operand("x", "int64", (rows,), "integers", 50), domain=DOMAIN
        )
        yield case(
            "FeatureVectorizer<inputdimensions = [32, 32]>(x, z)", x, operand("z", "float32", (rows, 32)), domain=DOMAIN
        )
    for rows, kernel in product(ROWS, ("LINEAR", "RBF", "POLY")):
        call = (
            f'SVMRegressor<coefficients = {_floats(20)}, kernel_params = [0.1, 0.5, 2.0], kernel_type = "{kernel}", '
            f"n_supports = 20, one_class = 0, rho = [0.2], support_vectors = {_floats(20 * 32)}>(x)"
        )
        yield case(call, operand("x", "float32", (rows, 32)), domain=DOMAIN)
    for rows, trees in product(ROWS, (1, 10, 100)):
        title = f"TreeEnsembleRegressor of {trees} trees"
        yield case(_forest(trees, 5), operand("x", "float32", (rows, 32)), domain=DOMAIN, title=title)


def _floats(count: int) -> Sequence[float]:
    """Some numbers between 0 and 1 that look drawn."""
    return [(key * 37 % 101 + 1) / 103 for key in range(count)]


def _forest(trees: int, depth: int) -> str:
    """A regressor of full binary trees."""
    inner, nodes = 2**depth - 1, 2 ** (depth + 1) - 1
    ids = [tree for tree in range(trees) for _ in range(nodes)]
    ordinals = list(range(nodes)) * trees
    modes = (["BRANCH_LEQ"] * inner + ["LEAF"] * (nodes - inner)) * trees
    left = [2 * node + 1 if node < inner else 0 for node in ordinals]
    right = [2 * node + 2 if node < inner else 0 for node in ordinals]
    features = [(tree * 7 + node * 5) % 32 for tree, node in zip(ids, ordinals, strict=True)]
    leaves = [(tree, node) for tree, node in zip(ids, ordinals, strict=True) if node >= inner]
    quoted = ", ".join(f'"{mode}"' for mode in modes)
    attributes = {
        "n_targets": 1,
        "nodes_treeids": ids,
        "nodes_nodeids": ordinals,
        "nodes_modes": f"[{quoted}]",
        "nodes_truenodeids": left,
        "nodes_falsenodeids": right,
        "nodes_featureids": features,
        "nodes_values": [value - 0.5 for value in _floats(len(ids))],
        "target_treeids": [tree for tree, _ in leaves],
        "target_nodeids": [node for _, node in leaves],
        "target_ids": [0] * len(leaves),
        "target_weights": _floats(len(leaves)),
    }
    return f"TreeEnsembleRegressor<{', '.join(f'{name} = {value}' for name, value in attributes.items())}>(x)"
