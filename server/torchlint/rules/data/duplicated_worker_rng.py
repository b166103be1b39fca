from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.data.loaders import has_workers, loader_argument, loaders_of
from torchlint.rules.base import Diagnosis, Level, Rule, on_class
from torchlint.semantics.classes import ClassView, self_attributes
from torchlint.semantics.nodes import enclosing_function, nodes_within
from torchlint.semantics.scopes import Binding, FunctionNode
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

_GENERATORS = (
    "numpy.random.default_rng",
    "numpy.random.RandomState",
    "numpy.random.Generator",
    "random.Random",
    "torch.Generator",
)
#: Methods of a generator that set its state; what is drawn after them does not depend on the process.
_SEEDING = frozenset(("seed", "manual_seed", "set_state", "setstate", "initial_seed", "get_state", "getstate"))
#: Parameters by which a function is given a generator to draw from.
_GIVEN_AS = frozenset(("generator", "rng", "random_state", "seed"))


class DuplicatedWorkerRng(Rule):
    """## What it does

    Reports a random generator (`numpy.random.default_rng`, `RandomState`, `random.Random`, `torch.Generator`) that is
    made in the `__init__` of a dataset, or at the module's level, and drawn from in `__getitem__`, where a `DataLoader`
    of the file loads the dataset with workers.

    ## Why is this bad?

    Each worker process gets a copy of the generator in the same state: all workers draw the same numbers, and (unless
    workers persist) draw them again in every epoch. Augmentation is much poorer than it looks.

    ## Example

    ```python
    import numpy as np
    from torch.utils.data import DataLoader, Dataset


    class Noisy(Dataset):
        def __init__(self, data):
            self.data = data
            self.rng = np.random.default_rng(0)

        def __len__(self):
            return len(self.data)

        def __getitem__(self, index):
            return self.data[index] + self.rng.normal()


    loader = DataLoader(Noisy(data), num_workers=4)
    ```

    ## Use instead

    ```python
    import torch
    from torch.utils.data import DataLoader, Dataset


    class Noisy(Dataset):
        def __init__(self, data):
            self.data = data

        def __len__(self):
            return len(self.data)

        def __getitem__(self, index):
            return self.data[index] + torch.randn(()).item()


    loader = DataLoader(Noisy(data), num_workers=4)
    ```

    ## Exceptions

    The global generators of torch, `random` and NumPy, which torch seeds in each worker (NumPy's since torch 1.9); a
    loader with a `worker_init_fn`; a generator that is made or seeded in `__getitem__` (by the index, or once in each
    worker); loaders without workers.

    ## References

    - [Randomness in multi-process data loading](https://docs.pytorch.org/docs/stable/data.html#randomness-in-multi-process-data-loading)
    """

    code = "TL502"
    name = "duplicated-worker-rng"
    level = Level.WARNING
    summary = "Each worker has a copy of the generator in one state: all draw the same numbers."

    @on_class()
    def check(self, view: ClassView, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        if not view.node.bases or "torch.utils.data.Dataset" not in semantics.ancestors(view.node):
            return
        drawing = view.called_from("__getitem__", "__getitems__")
        if not drawing:
            return
        draws = [draw for method in view.methods if method in drawing for draw in _draws(view, method, semantics)]
        if not draws or _knows_workers(semantics):
            return
        loaders = [call for call in loaders_of(semantics, view.node) if has_workers(semantics, call)]
        loaders = [call for call in loaders if loader_argument(call, "worker_init_fn") is None]
        if not loaders or any(item.arg is None for call in loaders for item in call.keywords):
            return
        seen: set[ast.expr] = set()
        for used, made in draws:
            if made in seen:
                continue
            seen.add(made)
            shown = (
                f"{'self.' if isinstance(used, ast.Attribute) else ''}{getattr(used, 'attr', getattr(used, 'id', ''))}"
            )
            message = f"Every worker gets a copy of `{shown}` in the same state: all draw the same numbers here."
            related = [(made, "made before the workers start"), (loaders[0], "loaded with workers")]
            yield self.found(used, message, related=related)


def _knows_workers(semantics: Semantics) -> bool:
    """Whether the file asks which worker it runs in."""
    return bool(semantics.module.calls_of("get_worker_info"))


def _draws(view: ClassView, method: FunctionNode, semantics: Semantics) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The uses of generators in a method, with the call that made each."""
    for attribute in self_attributes(method):
        if _is_drawn_from(attribute):
            made = _made_in_init(view, attribute.attr, semantics)
            if made is not None and not _is_seeded(view, attribute.attr):
                yield attribute, made
    for name in nodes_within(method, ast.Name):
        if isinstance(name, ast.Name) and _is_drawn_from(name):
            made = _made_at_top(name, semantics)
            if made is not None and not semantics.methods_called_on(name.id, method) & _SEEDING:
                yield name, made


def _is_drawn_from(used: ast.Name | ast.Attribute) -> bool:
    holder = parent_of(used)
    if isinstance(holder, ast.keyword):
        return holder.arg in _GIVEN_AS
    if not isinstance(holder, ast.Attribute) or holder.attr in _SEEDING:
        return False
    call = parent_of(holder)
    return isinstance(call, ast.Call) and call.func is holder


def _made_in_init(view: ClassView, attribute: str, semantics: Semantics) -> ast.expr | None:
    """The call that makes the generator an attribute holds, if one `__init__`, of the class or of a base in the file,
    and nothing else assigns it, or the body of the class does."""
    lineage = semantics.lineage(view.node)
    writes = [write for owner in lineage for write in semantics.module.attribute_writes(owner, attribute)]
    if not writes:
        held = [found for owner in lineage for found in semantics.module.body_definitions(owner, attribute)]
        return _generator(held[0].value, semantics) if len(held) == 1 else None
    if len(writes) != 1 or writes[0].path:
        return None
    function = enclosing_function(writes[0].statement)
    if function is None or function.name != "__init__":
        return None
    return _generator(writes[0].value, semantics)


def _generator(value: ast.expr | None, semantics: Semantics) -> ast.expr | None:
    """The call that makes a generator, by itself or seeded at once: ``torch.Generator().manual_seed(0)``."""
    made = semantics.value_of(value)
    match made:
        case ast.Call(func=ast.Attribute(value=ast.Call() as inner, attr="manual_seed")):
            made = inner
    return made if semantics.is_call_to(made, *_GENERATORS) else None


def _made_at_top(name: ast.Name, semantics: Semantics) -> ast.expr | None:
    definitions = semantics.definitions(name)
    if len(definitions) != 1 or definitions[0].kind is not Binding.ASSIGNMENT or definitions[0].path:
        return None
    if enclosing_function(definitions[0].node) is not None:
        return None
    return _generator(definitions[0].value, semantics)


def _is_seeded(view: ClassView, attribute: str) -> bool:
    """Whether a method other than `__init__` seeds the generator of an attribute."""
    lineage = view.semantics.lineage(view.node)
    for read in (read for owner in lineage for read in ClassView(view.semantics, owner).reads(attribute)):
        holder = parent_of(read)
        if isinstance(holder, ast.Attribute) and holder.attr in ("seed", "manual_seed", "set_state", "setstate"):
            function = enclosing_function(read)
            if function is not None and function.name != "__init__":
                return True
    return False
