from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from torchlint.fixes.editor import Editor
from torchlint.idioms.values.iterators import (
    can_follow,
    consumer_of,
    iterates_parameters,
    makes_iterator,
    repeating_loop,
    used_up_twice_in,
)
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_assignment, on_method
from torchlint.semantics.classes import ClassView
from torchlint.semantics.nodes import enclosing_function
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

#: A use of an iterator and the loop or call that uses it up.
_Use = tuple[ast.expr, ast.AST]


class ExhaustedParameterIterator(Rule):
    """## What it does

    Reports an iterator over parameters or parts of a module (`model.parameters()`, `children()`, `filter`, `map`,
    `itertools.chain`, a generator) that is kept in a variable or attribute and used up twice, or used up in a loop; and
    one that is given to a function of the file that goes through it twice.

    ## Why is this bad?

    An iterator gives its elements once. The second use sees nothing and nothing fails: gradients are not clipped,
    parameters are not frozen, the target network is not updated.

    ## Example

    ```python
    import torch
    from torch import nn

    model = nn.Linear(4, 2)
    params = filter(lambda p: p.requires_grad, model.parameters())
    optimizer = torch.optim.AdamW(params)
    nn.utils.clip_grad_norm_(params, 1.0)
    ```

    ## Use instead

    ```python
    import torch
    from torch import nn

    model = nn.Linear(4, 2)
    params = list(filter(lambda p: p.requires_grad, model.parameters()))
    optimizer = torch.optim.AdamW(params)
    nn.utils.clip_grad_norm_(params, 1.0)
    ```

    ## Exceptions

    A list or tuple; a name that is bound again between the uses; uses on branches that exclude each other; uses by
    functions that cannot be seen.

    ## References

    - [torch.nn.Module.parameters](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html)
    """

    code = "TL210"
    name = "exhausted-parameter-iterator"
    level = Level.ERROR
    fix = FixKind.SAFE
    summary = "The iterator was used up before, so this sees nothing."

    @on_assignment(to=(ast.Name,), of=(ast.GeneratorExp, ast.Call))
    def check_variable(self, statement: ast.Assign, unit: Unit) -> Iterator[Diagnosis]:
        match statement:
            case ast.Assign(targets=[ast.Name() as target], value=value) if iterates_parameters(unit.semantics, value):
                uses = [use for use in unit.all(ast.Name) if use.id == target.id and isinstance(use.ctx, ast.Load)]
                reached = [use for use in uses if _is_reached(use, statement, unit)]
                yield from self._judge(target.id, statement, reached, unit)

    @on_assignment(to=(ast.Attribute,), of=(ast.GeneratorExp, ast.Call))
    def check_attribute(self, statement: ast.Assign, unit: Unit) -> Iterator[Diagnosis]:
        match statement:
            case ast.Assign(targets=[ast.Attribute() as target], value=value):
                if not iterates_parameters(unit.semantics, value):
                    return
                owner = unit.semantics.class_of_self(target.value)
                if owner is None:
                    return
                view = ClassView(unit.semantics, owner)
                if len(view.writes(target.attr)) == 1:
                    yield from self._judge(ast.unparse(target), statement, list(view.reads(target.attr)), unit)

    @on_method("parameters", "buffers", "named_parameters", "named_buffers")
    def check_argument(self, made: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        given: ast.expr = made
        while isinstance(holder := parent_of(given), ast.Call) and makes_iterator(unit.semantics, holder):
            given = holder
        call = parent_of(given)
        if isinstance(call, ast.keyword):
            call = parent_of(call)
        if not isinstance(call, ast.Call) or given is call.func or not iterates_parameters(unit.semantics, given):
            return
        twice = used_up_twice_in(unit.semantics, call, given)
        if twice is not None:
            message = _twice(ast.unparse(given), call)
            yield self.found(given, message, related=_uses_in(twice), fixes=_fixes(given, [given], 1, unit))

    def _judge(self, name: str, statement: ast.Assign, uses: Sequence[ast.expr], unit: Unit) -> Iterator[Diagnosis]:
        consumed = [(use, consumer) for use in uses if (consumer := consumer_of(unit.semantics, use)) is not None]
        value = statement.value
        for number, (use, consumer) in enumerate(consumed):
            loop = repeating_loop(consumer, statement) if _in_one_function(use, value) else None
            earlier = next((item for item in consumed[:number] if _leads_to(item, (use, consumer))), None)
            twice = None
            if earlier is None and loop is None and isinstance(consumer, ast.Call):
                twice = used_up_twice_in(unit.semantics, consumer, use)
            if earlier is None and loop is None and twice is None:
                continue
            related: list[tuple[ast.AST, str]]
            if earlier is not None:
                message = (
                    f"`{name}` is an iterator that {_shown(earlier[1])} has used up: {_shown(consumer)} sees nothing."
                )
                related = [(earlier[0], "used up here"), (statement, "made here")]
            elif twice is not None:
                message = _twice(name, consumer)
                related = [*_uses_in(twice), (statement, "made here")]
            else:
                message = f"`{name}` is an iterator made before the loop: from the second round on it is empty."
                related = [(loop, "the loop"), (statement, "made here")] if loop is not None else []
            yield self.found(use, message, related=related, fixes=_fixes(value, uses, len(consumed), unit))
            return


def _is_reached(use: ast.Name, statement: ast.Assign, unit: Unit) -> bool:
    definitions = unit.semantics.definitions(use)
    if _in_one_function(use, statement):
        return any(definition.node is statement for definition in definitions)
    return len(definitions) == 1 and definitions[0].node is statement


def _in_one_function(one: ast.AST, other: ast.AST) -> bool:
    return enclosing_function(one) is enclosing_function(other)


def _leads_to(first: _Use, second: _Use) -> bool:
    """Whether the first use has happened when the second one happens."""
    one, other = enclosing_function(first[0]), enclosing_function(second[0])
    if one is other:
        name = first[0].id if isinstance(first[0], ast.Name) else None
        return first[1] is not second[1] and can_follow(first[1], second[1], name)
    # A nested function, or another method, runs after what its surroundings or `__init__` did.
    nested = other is not None and _is_inside(other, one)
    return nested or (one is not None and one.name == "__init__" and isinstance(parent_of(one), ast.ClassDef))


def _is_inside(function: ast.AST, outer: ast.AST | None) -> bool:
    current = parent_of(function)
    while current is not None:
        if current is outer:
            return True
        current = parent_of(current)
    return False


def _fixes(value: ast.expr, uses: Sequence[ast.expr], consumed: int, unit: Unit) -> list[FixPlan]:
    if any(_calls(use, "next") for use in uses):
        return []
    kind = unit.semantics.kind(value)
    certain = makes_iterator(unit.semantics, value) or (kind is not None and kind.proven)
    safe = certain and consumed == len(uses)
    return [FixPlan("Keep a list", "safe" if safe else "unsafe", lambda edit: _keep_list(edit, value))]


def _keep_list(edit: Editor, value: ast.expr) -> None:
    if isinstance(value, ast.GeneratorExp) and edit.source(value).startswith("("):
        edit.insert_before(value, "list")
    else:
        edit.wrap(value, "list(", ")")


def _calls(use: ast.expr, function: str) -> bool:
    match parent_of(use):
        case ast.Call(func=ast.Name(id=name)):
            return name == function
        case _:
            return False


def _twice(given: str, call: ast.AST) -> str:
    return f"`{given}` is an iterator, and {_shown(call)} goes through it twice: the second time it is empty."


def _uses_in(twice: tuple[ast.expr, ast.expr]) -> list[tuple[ast.AST, str]]:
    first, second = twice
    if first is second:
        return [(second, "used up here, and empty in the next round")]
    return [(first, "used up here"), (second, "sees nothing here")]


def _shown(consumer: ast.AST) -> str:
    if isinstance(consumer, ast.Call):
        text = ast.unparse(consumer.func)
        return f"`{text}`" if len(text) <= 50 else "the call"
    return "the loop"
