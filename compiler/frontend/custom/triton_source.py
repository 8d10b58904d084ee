"""Triton source that a caller wrote: parsed, held to the language of kernels, and made to fit beside ours.

Nothing here imports triton, which registering an operator must not need. What the language itself refuses, as a name
that it has not, its compiler says.
"""

import ast
from collections.abc import Iterator, Mapping

from onnxc.runtime.errors import InputError
from onnxc.runtime.records import record

__all__ = ["TritonCode", "read_triton"]

ENTRY = "custom"
"""What the function that kernels call is named in them."""

_DECORATOR = "triton.jit"
_BUILTINS = frozenset(("range", "len", "min", "max", "abs", "int", "float", "bool"))
_SUBMODULE = "math"

_REFUSED: Mapping[type[ast.AST], str] = {
    ast.Import: "an import",
    ast.ImportFrom: "an import",
    ast.Global: "a global variable",
    ast.Nonlocal: "a variable of another function",
    ast.FunctionDef: "a function within a function",
    ast.AsyncFunctionDef: "a function within a function",
    ast.ClassDef: "a class",
    ast.Lambda: "a function within a function",
    ast.Try: "try",
    ast.With: "with",
    ast.Raise: "raise",
}


@record
class TritonCode:
    """Functions as kernels have them: the one that they call is named `custom`, and takes so many `parameters`."""

    text: str
    parameters: int


def read_triton(text: object, operator: str) -> TritonCode:
    """The code of a text: functions by `@triton.jit`, of which one has a name that begins with no underscore.

    Raises InputError for what is no such source, and for names of other modules.
    """
    if not isinstance(text, str):
        raise _wrong(operator, f"is of type {type(text).__name__}, expected a text")
    try:
        module = ast.parse(_dedented(text))
    except (SyntaxError, ValueError) as problem:
        raise _wrong(operator, f"cannot be parsed: {problem}") from problem
    functions = {function.name: function for function in _functions(module, operator)}
    entries = [name for name in functions if not name.startswith("_")]
    if len(functions) < len(module.body) or len(entries) != 1:
        listed = ", ".join(function.name for function in module.body if isinstance(function, ast.FunctionDef))
        message = f"must have one function whose name begins with no underscore, and none twice: it has {listed}"
        raise _wrong(operator, message if listed else "has no function")
    named = {name: ENTRY if name == entries[0] else f"{ENTRY}{name}" for name in functions}
    for function in functions.values():
        _Names(function, named, operator).visit_function()
    return TritonCode(ast.unparse(module), _parameter_count(functions[entries[0]], entries[0], operator))


def _dedented(text: str) -> str:
    """The text without the indent that its first line has, as a text within a call is written."""
    lines = text.expandtabs().splitlines()
    indents = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    return "\n".join(line[min(indents, default=0) :] for line in lines)


def _wrong(operator: str, message: str, node: ast.AST | None = None) -> InputError:
    line = f", line {node.lineno}," if isinstance(node, ast.stmt | ast.expr | ast.arg) else ""
    return InputError(f"the Triton code of {operator}{line} {message}", code="triton-code")


def _functions(module: ast.Module, operator: str) -> Iterator[ast.FunctionDef]:
    """What the module consists of."""
    for statement in module.body:
        if not isinstance(statement, ast.FunctionDef):
            raise _wrong(operator, f"has {_what(statement)} outside of functions", statement)
        if [ast.unparse(each) for each in statement.decorator_list] != [_DECORATOR]:
            raise _wrong(operator, f"has the function {statement.name}, expected @{_DECORATOR} over it", statement)
        yield statement


def _what(node: ast.AST) -> str:
    return _REFUSED.get(type(node), "a statement")


def _parameter_count(function: ast.FunctionDef, name: str, operator: str) -> int:
    """How many operands the entry takes, each by its position alone."""
    arguments = function.args
    by_name = (arguments.vararg, arguments.kwarg, *arguments.kwonlyargs)
    if any(by_name) or arguments.defaults:
        raise _wrong(operator, f"has the function {name}, whose parameters must be plain names", function)
    return len(arguments.posonlyargs) + len(arguments.args)


class _Names(ast.NodeTransformer):
    """Holds one function to the names that it may use, and gives the functions of the source their names in kernels."""

    def __init__(self, function: ast.FunctionDef, named: Mapping[str, str], operator: str) -> None:
        self._function, self._named, self._operator = function, named, operator
        arguments = function.args
        every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
        stored = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        self._own = stored | {argument.arg for argument in every if argument is not None}
        for name in sorted(self._own & {*named, "tl", "triton"}):
            raise _wrong(operator, f"has a variable {name}, which is the name of a function or a module", function)

    def visit_function(self) -> None:
        """Rewrites the function in its place."""
        self._function.name = self._named[self._function.name]
        self._function.body = [self.visit(statement) for statement in self._function.body]
        self._function.args = self.visit(self._function.args)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if type(node) in _REFUSED:
            raise _wrong(self._operator, f"has {_what(node)}", node)
        return super().generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self._own or node.id in _BUILTINS:
            return node
        if node.id in self._named:
            return ast.copy_location(ast.Name(self._named[node.id], node.ctx), node)
        message = f"uses {node.id}, expected variables of its own, functions of the source, and names of tl"
        raise _wrong(self._operator, message, node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if node.attr.startswith("_"):
            raise _wrong(self._operator, f"uses {ast.unparse(node)}, whose name begins with an underscore", node)
        root: ast.expr = node
        path: list[str] = []
        while isinstance(root, ast.Attribute):
            path = [root.attr, *path]
            root = root.value
        if not isinstance(root, ast.Name) or root.id != "tl":
            return self.generic_visit(node)
        # What lies deeper, as the modules that triton itself imports, is no part of the language.
        if len(path) > 2 or (len(path) == 2 and path[0] != _SUBMODULE):
            raise _wrong(self._operator, f"uses {ast.unparse(node)}, expected tl.name or tl.{_SUBMODULE}.name", node)
        return node
