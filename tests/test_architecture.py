"""The import map: who may import whom, read with `ast` from the sources; the page behind it is docs/architecture.md."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("onnxc", "compiler", "runtime")
MAX_LINES = 800

# The longest prefix that fits a module says which of our modules it may import.
ALLOWED = {
    "onnxc": ("onnxc", "compiler", "runtime"),
    "runtime": ("runtime",),
    "runtime.host": ("runtime.host", "runtime.errors", "runtime.sparse_tensor"),
    "compiler": ("compiler", "runtime"),
    "compiler.diagnostics": ("runtime.errors",),
    "compiler.target": ("runtime.cpu", "runtime.errors", "compiler.diagnostics"),
    "compiler.ir": ("compiler.ir", "compiler.diagnostics", "runtime.host", "runtime.errors"),
    "compiler.limits": ("runtime.errors",),
    "compiler.frontend": (
        "compiler.frontend",
        "compiler.ir",
        "compiler.diagnostics",
        "compiler.limits",
        "runtime.errors",
        "runtime.sparse_tensor",
    ),
    "compiler.passes": ("compiler.passes", "compiler.ir", "compiler.diagnostics", "compiler.limits"),
    "compiler.planning": ("compiler.planning", "compiler.ir", "compiler.diagnostics", "runtime.program"),
}
SHARED_BY_CODEGEN = ("compiler.codegen_host", "compiler.planning", "compiler.ir", "compiler.target")
ALLOWED |= {
    f"compiler.codegen_{name}": (f"compiler.codegen_{name}", *SHARED_BY_CODEGEN, "compiler.diagnostics", "runtime")
    for name in ("host", "cpu", "gpu")
}

# Where each library that is not for everyone may be imported; those of the last row, nowhere.
LIBRARIES = {
    "google": ("compiler.frontend",),
    "llvmlite": ("compiler.codegen_host", "compiler.codegen_cpu"),
    "triton": ("compiler.codegen_gpu",),
    "cupy": ("runtime",),
    "click": ("onnxc",),
    "rich": ("onnxc",),
    **dict.fromkeys(("onnx", "onnxruntime", "torch", "transformers", "pytest", "hypothesis"), ()),
}
OPTIONAL = ("triton", "cupy", "cupyx")


@cache
def modules() -> Mapping[str, Path]:
    """Every hand-written module by its dotted name."""
    files = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    named = ((".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"), path) for path in files)
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


def is_typing_block(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def within(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


def tree(module: str) -> ast.Module:
    return ast.parse(modules()[module].read_text())


@pytest.mark.parametrize("module", modules())
def test_imports_point_down_the_layers(module: str) -> None:
    layer = max((prefix for prefix in ALLOWED if within(module, (prefix,))), key=len)
    ours = (name for name in imports(tree(module), module) if name.split(".")[0] in PACKAGES)
    assert not [name for name in ours if not within(name, ALLOWED[layer])]


@pytest.mark.parametrize("module", modules())
def test_libraries_stay_where_they_belong(module: str) -> None:
    roots = {name.split(".")[0] for name in imports(tree(module), module)}
    assert not [root for root in roots if root in LIBRARIES and not within(module, LIBRARIES[root])]


@pytest.mark.parametrize("module", modules())
def test_imports_stand_at_the_top_except_optional_libraries(module: str) -> None:
    functions = (n for n in ast.walk(tree(module)) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)))
    inner = {name for function in functions for name in imports(function, module)}
    assert not [name for name in inner if name.split(".")[0] not in OPTIONAL]


def test_there_is_no_import_cycle() -> None:
    graph = {
        module: {
            name
            for statement in tree(module).body
            if not is_typing_block(statement)
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
