"""What an iterable gives one after another: the sources that the yields of a generator loop over, and whether a source
is whole (a list, a file, a range), so that whoever iterates over it sees all of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.semantics.inference import enclosing_function_of_parameter
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import enclosing_function, nodes_within
from torchlint.semantics.scopes import Binding, Definition, FunctionNode, last_name
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

#: Builtins and functions that pass on what they are given, all of it, in some order.
_PASS_ON = frozenset(
    "iter enumerate zip map filter sorted reversed list tuple set tqdm islice chain from_iterable".split()
)
_MAKE_WHOLE = frozenset("range list tuple sorted open dict set".split())
_WHOLE_FUNCTIONS = (
    "glob.glob",
    "glob.iglob",
    "os.listdir",
    "os.scandir",
    "json.load",
    "pickle.load",
    "csv.reader",
    "csv.DictReader",
    "numpy.load",
    "numpy.array",
    "numpy.arange",
    "numpy.loadtxt",
    "pandas.read_csv",
    "pandas.read_json",
    "pandas.read_parquet",
    "pandas.read_pickle",
    "gzip.open",
    "bz2.open",
    "io.open",
    "codecs.open",
    "h5py.File",
    "torch.arange",
)
#: Methods that give all lines, files or items of what they are called on.
_WHOLE_METHODS = frozenset(
    "readlines splitlines split glob rglob iterdir iterrows itertuples items keys values tolist read_text open".split()
)
_WHOLE_KINDS = (What.LIST, What.TUPLE, What.MAPPING, What.ARRAY, What.TENSOR, What.TEXT)
_SEQUENCES = ("Sequence", "List", "list", "Tuple", "tuple", "Dict", "dict", "Mapping", "DataFrame", "ndarray", "str")
_DEEPEST = 6


def sources(semantics: Semantics, function: FunctionNode, depth: int = 0) -> Iterator[ast.expr | None]:
    """What a generator, or a function that returns an iterator, takes its elements from: the iterables of the outermost
    loops around its yields. None stands for a yield whose elements come from elsewhere."""
    for node in nodes_within(function, ast.Yield, ast.YieldFrom, ast.Return):
        if enclosing_function(node) is not function:
            continue
        loop = _outermost_loop(node, function)
        if isinstance(node, ast.Return):
            if node.value is not None:
                yield from _passed_on(semantics, node.value, depth)
        elif loop is not None:
            yield from _passed_on(semantics, loop.iter, depth)
        elif isinstance(node, ast.YieldFrom):
            yield from _passed_on(semantics, node.value, depth)
        else:
            yield None


def _outermost_loop(node: ast.AST, function: FunctionNode) -> ast.For | ast.AsyncFor | None:
    """The outermost ``for`` around a yield; of loops in ``while True`` the one inside."""
    found = None
    holder = parent_of(node)
    while holder is not None and holder is not function:
        if isinstance(holder, ast.For | ast.AsyncFor):
            found = holder
        elif isinstance(holder, ast.While) and not isinstance(holder.test, ast.Constant):
            return None
        holder = parent_of(holder)
    return found


def _passed_on(semantics: Semantics, iterable: ast.expr, depth: int) -> Iterator[ast.expr | None]:
    """The sources behind ``enumerate(...)``, ``iter(...)``, ``self.read()`` and the like."""
    if depth > _DEEPEST:
        yield None
        return
    value = semantics.value_of(iterable)
    match value:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[_, *_]) if name in _PASS_ON:
            first = value.args[-1] if name in ("map", "filter") else value.args[0]
            yield from _passed_on(semantics, first, depth + 1)
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if semantics.class_of_self(owner) is not None:
            node = semantics.class_of_self(owner)
            method = semantics.find_method(node, name) if node is not None else None
            if method is None:
                yield None
            else:
                yield from sources(semantics, method, depth + 1)
        case ast.GeneratorExp(generators=[first_loop, *_]):
            yield from _passed_on(semantics, first_loop.iter, depth + 1)
        case _:
            yield iterable


def is_whole(semantics: Semantics, expression: ast.expr | None, depth: int = 0) -> bool:
    """Whether an iterable certainly holds all its elements: a list, a file, a range, a part of a sequence."""
    if expression is None or depth > _DEEPEST:
        return False
    match expression:
        case ast.List() | ast.Tuple() | ast.Set() | ast.Dict() | ast.ListComp() | ast.DictComp() | ast.Constant():
            return True
        case ast.Subscript(slice=ast.Slice()):
            return True
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return is_whole(semantics, left, depth + 1) or is_whole(semantics, right, depth + 1)
        case ast.Call(func=ast.Name(id=name) as function) if name in _MAKE_WHOLE and not semantics.definitions(
            function
        ):
            return True
        case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in _PASS_ON:
            return is_whole(semantics, first, depth + 1)
        case ast.Call() if semantics.is_named(expression.func, *_WHOLE_FUNCTIONS):
            return True
        case ast.Call(func=ast.Attribute(attr=name)) if name in _WHOLE_METHODS:
            return True
        case ast.Name():
            definitions = semantics.definitions(expression)
            return bool(definitions) and all(_is_whole_by(semantics, item, depth + 1) for item in definitions)
        case ast.Attribute(value=owner, attr=attribute):
            node = semantics.class_of_self(owner)
            writes = semantics.module.attribute_writes(node, attribute) if node is not None else ()
            if not writes or any(write.path for write in writes):
                return False
            return all(is_whole(semantics, write.value, depth + 1) for write in writes if not _is_none(write.value))
    kind = semantics.kind(expression)
    return kind is not None and kind.what in _WHOLE_KINDS


def _is_whole_by(semantics: Semantics, definition: Definition, depth: int) -> bool:
    match definition.kind:
        case Binding.ASSIGNMENT | Binding.WITH if not definition.path:
            return is_whole(semantics, definition.value, depth)
        case Binding.PARAMETER if isinstance(definition.node, ast.arg):
            return _is_whole_parameter(semantics, definition.node, depth)
        case _:
            return False


def _is_whole_parameter(semantics: Semantics, parameter: ast.arg, depth: int) -> bool:
    """Whether a parameter is annotated as a sequence, or each call in the file passes one."""
    if parameter.annotation is not None:
        parts = ast.walk(parameter.annotation)
        names = {last_name(part) for part in parts}
        return not names.isdisjoint(_SEQUENCES)
    function = enclosing_function_of_parameter(parameter)
    given = semantics.given_for(parameter, function) if function is not None else ()
    return bool(given) and all(is_whole(semantics, value, depth) for value in given)


def _is_none(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is None
