from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.data.loader_use import called_function, iterated_loaders
from torchlint.idioms.data.loaders import all_loaders, has_workers, loader_argument
from torchlint.rules.base import Diagnosis, Level, Rule, on_unit
from torchlint.semantics.element_kinds import builtin_called
from torchlint.semantics.index import index_of
from torchlint.semantics.nodes import argument, enclosing_function, nodes_within, position_of
from torchlint.semantics.scopes import FunctionNode
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

#: Where the workers are started: the loop, or the call of the function that loops; and the loader.
_Start = tuple[ast.AST, ast.Call]
_DEEPEST = 2


class WorkersWithoutMainGuard(Rule):
    """## What it does

    Reports a script whose own code, outside of `if __name__ == "__main__":`, iterates over a `DataLoader` with workers.

    ## Why is this bad?

    Where worker processes are not forked (Windows, macOS, and Linux from Python 3.14 on), each of them imports the
    script first. Without the guard it begins to train again and tries to start workers of its own: "An attempt has been
    made to start a new process before the current process has finished its bootstrapping phase".

    ## Example

    ```python
    from torch.utils.data import DataLoader

    loader = DataLoader(dataset, num_workers=4)

    for x, y in loader:
        train(x, y)
    ```

    ## Use instead

    ```python
    from torch.utils.data import DataLoader


    def main():
        loader = DataLoader(dataset, num_workers=4)
        for x, y in loader:
            train(x, y)


    if __name__ == "__main__":
        main()
    ```

    ## Exceptions

    Notebooks, whose cells are not imported again; loaders without workers, or with a number of them that is 0 by
    default; workers that are forked on purpose (`multiprocessing_context="fork"`, `set_start_method("fork")`).

    ## References

    - [Platform-specific behaviors](https://docs.pytorch.org/docs/stable/data.html#platform-specific-behaviors)
    - [Contexts and start methods](https://docs.python.org/3/library/multiprocessing.html#contexts-and-start-methods)
    """

    code = "TL505"
    name = "workers-without-main-guard"
    level = Level.HINT
    summary = "Where workers are not forked, each runs the whole script again."

    @on_unit("module")
    def check(self, whole: Unit, unit: Unit) -> Iterator[Diagnosis]:
        if unit.in_notebook or not unit.semantics.module.mentions_call("DataLoader"):
            return
        start = _first_start(unit.semantics)
        if start is None:
            return
        node = start[0]
        what = f"`{ast.unparse(node.func)}()`" if isinstance(node, ast.Call) else "This loop"
        if isinstance(node, ast.comprehension):
            node = parent_of(node) or node
        message = f'{what} starts workers outside of `if __name__ == "__main__"`: each may run the script again.'
        yield self.found(node, message, related=[(start[1], "loads with workers")])


def _first_start(semantics: Semantics) -> _Start | None:
    """The first place in the script's own code that starts workers."""
    if not any(_starts_workers(semantics, call) for call in all_loaders(semantics)):
        return None
    for method in semantics.module.calls_of("set_start_method"):
        if semantics.literal(argument(method, 0, "method")) == "fork":
            return None
    for part in semantics.module.own_code():
        nodes: list[ast.AST] = [*index_of(part).all(ast.For), *index_of(part).all(ast.Call)]
        nodes += index_of(part).all(ast.comprehension)
        for node in sorted(nodes, key=_position):
            if enclosing_function(node) is None and not _is_guarded(node):
                loader = _loader_started(semantics, node, 0)
                if loader is not None:
                    return node, loader
    return None


def _position(node: ast.AST) -> tuple[int, int]:
    return position_of(node.target if isinstance(node, ast.comprehension) else node)


def _loader_started(semantics: Semantics, node: ast.AST, depth: int) -> ast.Call | None:
    iterated = _iterated(semantics, node)
    if iterated is not None:
        found = (call for call in iterated_loaders(semantics, iterated) if _starts_workers(semantics, call))
        return next(found, None)
    function = called_function(semantics, node.func) if isinstance(node, ast.Call) else None
    if function is None or depth > _DEEPEST:
        return None
    return _loader_started_in(semantics, function, depth)


def _iterated(semantics: Semantics, node: ast.AST) -> ast.expr | None:
    """What a node iterates over: a loop, a comprehension, ``iter(loader)`` (workers start there), ``list(loader)``."""
    match node:
        case ast.For(iter=iterated) | ast.comprehension(iter=iterated):
            return iterated
        case ast.Call(func=ast.Name(id="iter" | "list"), args=[iterated]) if builtin_called(semantics, node):
            return iterated
        case _:
            return None


def _loader_started_in(semantics: Semantics, function: FunctionNode, depth: int) -> ast.Call | None:
    for inner in nodes_within(function, ast.For, ast.comprehension, ast.Call):
        if enclosing_function(inner) is function:
            found = _loader_started(semantics, inner, depth + 1)
            if found is not None:
                return found
    return None


def _starts_workers(semantics: Semantics, call: ast.Call) -> bool:
    context = loader_argument(call, "multiprocessing_context")
    return context is None and has_workers(semantics, call)


def _is_guarded(node: ast.AST) -> bool:
    """Whether a node stands under a test (``if __name__ == "__main__"``), or in a class or lambda."""
    child, holder = node, parent_of(node)
    while holder is not None:
        if isinstance(holder, ast.ClassDef | ast.Lambda):
            return True
        tested = ast.walk(holder.test) if isinstance(holder, ast.If) and child is not holder.test else ()
        if any(isinstance(part, ast.Name) and part.id == "__name__" for part in tested):
            return True
        child, holder = holder, parent_of(holder)
    return False
