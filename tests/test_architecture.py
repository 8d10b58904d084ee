"""The import map: who may import whom, read with `ast` from the sources; the page behind it is docs/architecture.md."""

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# What is installed is one package: the folders of the top level are linked into it, and imported by its name alone.
PACKAGES = {"onnxc": "onnxc", "compiler": "onnxc.compiler", "runtime": "onnxc.runtime"}
TOP_LEVEL = ("compiler", "runtime")
OTHER_FOLDERS = ("tests", "benchmarks", "examples", "tools")
MAX_LINES = 800
MAX_FILES = 30

# The longest prefix that fits a module says which of our modules it may import.
ALLOWED = {
    "onnxc": ("onnxc",),
    # The server calls the compiler in other processes only.
    "onnxc.serving": ("onnxc.serving", "onnxc.runtime"),
    "onnxc.serving.compile_worker": (
        "onnxc.serving.compile_apart",
        "onnxc.compiler.artifact_cache",
        "onnxc.compiler.options",
        "onnxc.runtime",
    ),
    "onnxc.serving.descriptions": ("onnxc", "onnxc.serving", "onnxc.runtime"),
    "onnxc.runtime": ("onnxc.runtime",),
    # What devices send each other may lie on one.
    "onnxc.runtime.host": (
        "onnxc.runtime.host",
        "onnxc.runtime.device_value",
        "onnxc.runtime.new_sequence",
        "onnxc.runtime.errors",
        "onnxc.runtime.sparse_tensor",
    ),
    "onnxc.compiler": ("onnxc.compiler", "onnxc.runtime"),
    "onnxc.compiler.diagnostics": ("onnxc.runtime.errors",),
    "onnxc.compiler.target": ("onnxc.runtime.cpu", "onnxc.runtime.errors", "onnxc.compiler.diagnostics"),
    "onnxc.compiler.ir": (
        "onnxc.compiler.ir",
        "onnxc.compiler.diagnostics",
        "onnxc.runtime.host",
        "onnxc.runtime.errors",
    ),
    "onnxc.compiler.limits": ("onnxc.compiler.option_types", "onnxc.runtime.errors"),
    "onnxc.compiler.option_types": ("onnxc.runtime.errors",),
    "onnxc.compiler.jobs": ("onnxc.compiler.jobs", "onnxc.runtime.errors"),
    # Options stand below all that they are for.
    "onnxc.compiler.options": (
        "onnxc.compiler.frontend.custom",
        "onnxc.compiler.frontend.input_options",
        "onnxc.compiler.frontend.read",
        "onnxc.compiler.ir.dtypes",
        "onnxc.compiler.limits",
        "onnxc.compiler.option_types",
        "onnxc.compiler.passes.lower.precision_policy",
        "onnxc.compiler.target",
        "onnxc.runtime.files.cache_folder",
        "onnxc.runtime.devices.device_choice",
        "onnxc.runtime.errors",
    ),
    "onnxc.compiler.frontend": (
        "onnxc.compiler.frontend",
        "onnxc.compiler.ir",
        "onnxc.compiler.diagnostics",
        "onnxc.compiler.limits",
        "onnxc.compiler.model_warnings",
        "onnxc.runtime.errors",
        "onnxc.runtime.files.foreign_files",
        "onnxc.runtime.files.mapped_file",
        "onnxc.runtime.files.plain_files",
        "onnxc.runtime.random_state",
        "onnxc.runtime.files.safetensors",
        "onnxc.runtime.sparse_tensor",
    ),
    # What ONNX Runtime saves for a processor does not say for which.
    "onnxc.compiler.frontend.lower.channel_blocks": (
        "onnxc.compiler.frontend",
        "onnxc.compiler.diagnostics",
        "onnxc.runtime.cpu",
    ),
    "onnxc.compiler.passes": (
        "onnxc.compiler.passes",
        "onnxc.compiler.ir",
        "onnxc.compiler.diagnostics",
        "onnxc.compiler.limits",
    ),
    "onnxc.compiler.sharding": (
        "onnxc.compiler.sharding",
        "onnxc.compiler.ir",
        "onnxc.compiler.planning.loops.rows",
        "onnxc.runtime.errors",
        "onnxc.runtime.program",
    ),
    "onnxc.compiler.planning": (
        "onnxc.compiler.planning",
        "onnxc.compiler.ir",
        "onnxc.compiler.diagnostics",
        "onnxc.runtime.program",
    ),
    # A pass that asks what will be planned.
    "onnxc.compiler.planning.compute_constants": (
        "onnxc.compiler.planning",
        "onnxc.compiler.ir",
        "onnxc.compiler.passes.notes",
    ),
}
SHARED_BY_CODEGEN = (
    "onnxc.compiler.jobs",
    "onnxc.compiler.codegen_host",
    "onnxc.compiler.limits",
    "onnxc.compiler.planning",
    "onnxc.compiler.ir",
    "onnxc.compiler.target",
)
ALLOWED |= {
    f"onnxc.compiler.codegen_{name}": (
        f"onnxc.compiler.codegen_{name}",
        *SHARED_BY_CODEGEN,
        "onnxc.compiler.diagnostics",
        "onnxc.runtime",
    )
    for name in ("host", "cpu", "gpu")
}

# What every module may be written with.
EVERYWHERE = ("onnxc.runtime.records",)

# Where each library that is not for everyone may be imported; those of the last row, nowhere.
LIBRARIES = {
    "google": ("onnxc.compiler.frontend", "onnxc.serving"),
    **dict.fromkeys(("grpc", "starlette", "uvicorn"), ("onnxc.serving",)),
    "orjson": ("onnxc.serving", "onnxc.runtime.host.decimals"),
    "llvmlite": ("onnxc.compiler.codegen_host", "onnxc.compiler.codegen_cpu"),
    "triton": ("onnxc.compiler.codegen_gpu",),
    "cupy": ("onnxc.runtime",),
    "mpi4py": ("onnxc.runtime",),
    "click": ("onnxc",),
    "rich": ("onnxc",),
    **dict.fromkeys(("onnx", "onnxruntime", "torch", "transformers", "tritonclient", "pytest", "hypothesis"), ()),
}
OPTIONAL = ("triton", "cupy", "cupyx", "mpi4py")


@cache
def modules() -> Mapping[str, Path]:
    """Every hand-written module by its dotted name."""
    named = (
        (".".join((package, *path.relative_to(ROOT / folder).with_suffix("").parts)).removesuffix(".__init__"), path)
        for folder, package in PACKAGES.items()
        for path in sorted((ROOT / folder).rglob("*.py"))
    )
    return {name: path for name, path in named if not name.endswith("_pb2")}


def imports(node: ast.AST, module: str) -> Iterator[str]:
    """The dotted names that the import statements under the node name, ours resolved to modules."""
    for statement in ast.walk(node):
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            assert statement.level == 0, f"{module}: relative import"
            source = statement.module or ""
            yield from (f"{source}.{a.name}" if f"{source}.{a.name}" in modules() else source for a in statement.names)


def within(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


def tree(module: str) -> ast.Module:
    return ast.parse(modules()[module].read_text())


@pytest.mark.parametrize("module", modules())
def test_imports_point_down_the_layers(module: str) -> None:
    layer = max((prefix for prefix in ALLOWED if within(module, (prefix,))), key=len)
    ours = (name for name in imports(tree(module), module) if name.split(".")[0] == "onnxc")
    assert not [name for name in ours if not within(name, (*ALLOWED[layer], *EVERYWHERE))]


def test_the_walk_over_a_graph_knows_no_operator_but_through_the_registry() -> None:
    entry, nodes = "onnxc.compiler.frontend.lower", "onnxc.compiler.frontend.lower.nodes"
    operators = ("onnxc.compiler.frontend.operators", "onnxc.compiler.frontend.operator_helpers")
    walk = [module for module in modules() if within(module, (entry,))]
    known = {(module, name) for module in walk for name in imports(tree(module), module) if within(name, operators)}
    assert known == {(nodes, "onnxc.compiler.frontend.operators")}


@pytest.mark.parametrize("folder", [*PACKAGES, *OTHER_FOLDERS])
def test_no_file_imports_the_top_level_names(folder: str) -> None:
    found = [
        (str(path), name)
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name in imports(ast.parse(path.read_text()), str(path))
        if name.split(".")[0] in TOP_LEVEL
    ]
    assert not found


@pytest.mark.parametrize("module", modules())
def test_libraries_stay_where_they_belong(module: str) -> None:
    roots = {name.split(".")[0] for name in imports(tree(module), module)}
    assert not [root for root in roots if root in LIBRARIES and not within(module, LIBRARIES[root])]


@pytest.mark.parametrize("module", modules())
def test_imports_stand_at_the_top_except_optional_libraries(module: str) -> None:
    functions = (n for n in ast.walk(tree(module)) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)))
    inner = {name for function in functions for name in imports(function, module)}
    assert not [name for name in inner if name.split(".")[0] not in OPTIONAL]


def test_there_is_no_import_cycle_not_even_one_of_types() -> None:
    graph = {
        module: {
            name
            for statement in tree(module).body
            for name in imports(statement, module)
            if name in modules() and name != module
        }
        for module in modules()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as cycle:
        pytest.fail(" -> ".join(cycle.args[1]))


@pytest.mark.parametrize("module", modules())
def test_no_file_is_too_long(module: str) -> None:
    assert len(modules()[module].read_text().splitlines()) <= MAX_LINES


def test_no_folder_has_too_many_files() -> None:
    """`__init__.py`, which says what a folder is, is none of them."""
    others = (path for folder in OTHER_FOLDERS for path in (ROOT / folder).rglob("*.py"))
    files = (path for path in (*modules().values(), *others) if path.name != "__init__.py")
    counts = Counter(path.parent.relative_to(ROOT) for path in files)
    assert not {str(folder): count for folder, count in counts.items() if count > MAX_FILES}
