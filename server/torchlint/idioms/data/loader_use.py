"""What a ``DataLoader`` is for: training or evaluation, as its dataset says (``train=False``), as a framework's hook
says, and by which loops iterate over it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import Enum

from torchlint.idioms.data.loaders import LOADER, all_loaders
from torchlint.idioms.training.accelerators import is_prepare
from torchlint.idioms.training.construction import constructions
from torchlint.semantics.inference import enclosing_function_of_parameter
from torchlint.semantics.literals import UNKNOWN
from torchlint.semantics.nodes import argument, element_of, enclosing_class, enclosing_function
from torchlint.semantics.scopes import Binding, Definition, FunctionNode
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of


class Phase(Enum):
    """The part of a program that data are for."""

    TRAINING = "training"
    EVALUATION = "evaluation"


#: Arguments by which a dataset is told which part of the data to give.
_BOOLEAN = frozenset(("train", "is_train", "training", "is_training", "isTrain"))
_TEXT = frozenset(("split", "mode", "phase", "subset", "image_set", "set_name", "partition", "fold"))
_PHASES = {
    **dict.fromkeys(("train", "training", "trn"), Phase.TRAINING),
    **dict.fromkeys(("val", "valid", "validation", "test", "testing", "dev", "eval", "evaluation"), Phase.EVALUATION),
}
#: Datasets of torchvision 0.28 whose second parameter is ``train``, True by default.
_TRAIN_SECOND = tuple(
    f"torchvision.datasets.{name}" for name in ("MNIST", "FashionMNIST", "KMNIST", "QMNIST", "CIFAR10", "CIFAR100")
)
#: Methods of a Lightning module or data module that give its loaders.
_HOOKS = {
    "train_dataloader": Phase.TRAINING,
    "val_dataloader": Phase.EVALUATION,
    "test_dataloader": Phase.EVALUATION,
    "predict_dataloader": Phase.EVALUATION,
}
_TRAINERS = ("lightning.Trainer", "lightning.pytorch.Trainer", "pytorch_lightning.Trainer")
#: Methods of a Lightning ``Trainer`` (2.6), where they are given loaders, and what those are for.
_TRAINER_METHODS = (
    ("fit", 1, "train_dataloaders", Phase.TRAINING),
    ("fit", 2, "val_dataloaders", Phase.EVALUATION),
    ("validate", 1, "dataloaders", Phase.EVALUATION),
    ("test", 1, "dataloaders", Phase.EVALUATION),
    ("predict", 1, "dataloaders", Phase.EVALUATION),
)
_WRAPPERS = frozenset("enumerate tqdm zip iter islice track progress_bar".split())
_DEEPEST = 5


def stated_phase(semantics: Semantics, dataset: ast.expr | None) -> Phase | None:
    """Which part of the data a dataset is, by a literal in the call that makes it (``train=True``, ``split="val"``)."""
    made = made_by(semantics, dataset)
    if made is None:
        return None
    given = {item.arg: item.value for item in made.keywords if item.arg is not None}
    if semantics.is_named(made.func, *_TRAIN_SECOND):
        train = argument(made, 1, "train")
        value = (
            True if train is None and not any(item.arg is None for item in made.keywords) else semantics.literal(train)
        )
        return _phase_of(value)
    found = {_phase_of(semantics.literal(value)) for name, value in given.items() if name in _BOOLEAN | _TEXT}
    return found.pop() if len(found) == 1 else None


def _phase_of(value: object) -> Phase | None:
    if isinstance(value, bool):
        return Phase.TRAINING if value else Phase.EVALUATION
    return phase_called(value) if isinstance(value, str) else None


def phase_called(name: str) -> Phase | None:
    """The part of a program that data are for by what they are called: ``train``, ``val``."""
    return _PHASES.get(name.lower())


def hook_phase(semantics: Semantics, call: ast.Call) -> Phase | None:
    """For which phase Lightning asks for a loader that is made here."""
    function = enclosing_function(call)
    phase = _HOOKS.get(function.name) if function is not None else None
    holder = enclosing_class(function) if function is not None and phase is not None else None
    if holder is None:
        return None
    ends = ("LightningModule", "LightningDataModule")
    return phase if any(name.endswith(ends) for name in semantics.ancestors(holder)) else None


def made_by(semantics: Semantics, expression: ast.expr | None) -> ast.Call | None:
    """The one call that made a value: through names, attributes that are written once, and tuples."""
    for _ in range(_DEEPEST):
        value = semantics.value_of(expression)
        if isinstance(value, ast.Call):
            return value
        if not isinstance(value, ast.Attribute):
            return None
        owner = semantics.class_of_self(value.value)
        writes = semantics.module.attribute_writes(owner, value.attr) if owner is not None else ()
        if len(writes) != 1 or writes[0].value is None:
            return None
        expression = element_of(writes[0].value, writes[0].path)
    return None


def trained_loaders(semantics: Semantics) -> frozenset[ast.Call]:
    """The loaders of this file over which a loop trains (its body, or a function that it calls, runs ``backward``), or
    that Lightning's ``Trainer.fit`` trains on."""
    return _loaders(semantics).get(Phase.TRAINING, frozenset())


def training_loops(semantics: Semantics, loader: ast.Call) -> tuple[ast.For, ...]:
    """The loops that train on a loader."""
    if loader not in trained_loaders(semantics):
        return ()
    steps = [call for name in ("backward", "manual_backward") for call in semantics.module.calls_of(name)]
    loops = dict.fromkeys(loop for call in steps for loop, _ in _loops_around(semantics, call, 0))
    return tuple(loop for loop in loops if loader in iterated_loaders(semantics, loop.iter))


def evaluated_loaders(semantics: Semantics) -> frozenset[ast.Call]:
    """The loaders of this file over which a loop evaluates (``no_grad``, or a function with ``eval()``), or Lightning's
    ``Trainer``, and none trains."""
    return _loaders(semantics).get(Phase.EVALUATION, frozenset())


def _loaders(semantics: Semantics) -> dict[Phase, frozenset[ast.Call]]:
    return semantics.module.memo.get(("loaders by phase",), lambda: _find_loaders(semantics), {})


def _find_loaders(semantics: Semantics) -> dict[Phase, frozenset[ast.Call]]:
    if next(all_loaders(semantics), None) is None:
        return {}
    module = semantics.module
    steps = [call for name in ("backward", "manual_backward") for call in module.calls_of(name)]
    around = [found for call in steps for found in _loops_around(semantics, call, 0)]
    training_loops = {loop for loop, _ in around}
    always = {loop for loop, conditional in around if not conditional}
    given = _given_to_trainer(semantics)
    trained = given[Phase.TRAINING].union(
        call for loop in training_loops for call in _loaders_of_loop(semantics, loop, loop in always)
    )
    switches = [call for call in module.calls_of("eval") if isinstance(call.func, ast.Attribute) and not call.args]
    quiet = [call for name in ("no_grad", "inference_mode") for call in module.calls_of(name)]
    loops = {loop for call in switches for loop in _loops_after_eval(call, steps)}
    loops |= {loop for call in quiet for loop in _loops_within(call)}
    evaluated = frozenset(
        call
        for loop in loops - training_loops
        for call in _loaders_of_loop(semantics, loop, True)
        if call not in trained
    )
    return {Phase.TRAINING: trained, Phase.EVALUATION: evaluated | (given[Phase.EVALUATION] - trained)}


def _given_to_trainer(semantics: Semantics) -> dict[Phase, frozenset[ast.Call]]:
    """The loaders that the methods of a ``Trainer`` of Lightning are given."""
    found: dict[Phase, set[ast.Call]] = {phase: set() for phase in Phase}
    for method, position, keyword, phase in _TRAINER_METHODS:
        for call in semantics.module.calls_of(method):
            given = argument(call, position, keyword)
            if given is not None and isinstance(call.func, ast.Attribute) and _is_trainer(semantics, call.func.value):
                for item in given.elts if isinstance(given, ast.List | ast.Tuple) else [given]:
                    found[phase] |= set(iterated_loaders(semantics, item))
    return {phase: frozenset(loaders) for phase, loaders in found.items()}


def _is_trainer(semantics: Semantics, expression: ast.expr) -> bool:
    built = constructions(semantics, expression)
    return bool(built.calls) and all(semantics.is_named(call.func, *_TRAINERS) for call in built.calls)


def _loops_around(semantics: Semantics, call: ast.AST, depth: int) -> Iterator[tuple[ast.For, bool]]:
    """The loops that come round to a call, in its function or around the calls of it, and whether only under a test."""
    conditional = False
    holder = parent_of(call)
    while holder is not None and not isinstance(holder, ast.FunctionDef | ast.AsyncFunctionDef):
        conditional |= isinstance(holder, ast.If)
        if isinstance(holder, ast.For):
            yield holder, conditional
        holder = parent_of(holder)
    if holder is None or depth >= _DEEPEST:
        return
    for place in (holder, *semantics.callers(holder)):  # the closure of an optimizer stands in a loop itself
        around = _loops_around(semantics, place, depth + 1)
        yield from ((loop, conditional or tested) for loop, tested in around)


def _loops_after_eval(call: ast.Call, steps: list[ast.Call]) -> Iterator[ast.For]:
    """The loops of a function that switches to evaluation and has no backward pass."""
    function = enclosing_function(call)
    if function is not None and not any(enclosing_function(step) is function for step in steps):
        yield from (node for node in ast.walk(function) if isinstance(node, ast.For) and node.lineno > call.lineno)


def _loops_within(call: ast.Call) -> Iterator[ast.For]:
    """The loops inside ``with torch.no_grad():``, around it, or in the function that it decorates."""
    holder = parent_of(call)
    if isinstance(holder, ast.withitem):
        holder = parent_of(holder)
    if not isinstance(holder, ast.With | ast.FunctionDef | ast.AsyncFunctionDef):
        return
    yield from (node for node in ast.walk(holder) if isinstance(node, ast.For))
    around = parent_of(holder)
    if isinstance(around, ast.For) and all(
        isinstance(item, ast.With | ast.Assign | ast.AnnAssign | ast.Expr) for item in around.body
    ):
        yield around


def _loaders_of_loop(semantics: Semantics, loop: ast.For, always: bool) -> Iterator[ast.Call]:
    """The loaders that a loop iterates over; none where it has several, and does only sometimes what is asked about."""
    found = list(dict.fromkeys(iterated_loaders(semantics, loop.iter)))
    if always or len(found) == 1:
        yield from found


def iterated_loaders(semantics: Semantics, iterable: ast.expr, depth: int = 0) -> Iterator[ast.Call]:
    """The calls of ``DataLoader`` that may have made what is iterated over (``enumerate(tqdm(self.loader))``)."""
    if depth > 2 * _DEEPEST:
        return
    match iterable:
        case ast.Call() if semantics.is_named(iterable.func, LOADER):
            yield iterable
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[*given]) if name in _WRAPPERS:
            for item in given if name == "zip" else given[:1]:
                yield from iterated_loaders(semantics, item, depth + 1)
        case ast.NamedExpr(value=value):
            yield from iterated_loaders(semantics, value, depth + 1)
        case ast.Call(args=[prepared]) if is_prepare(semantics, iterable):
            yield from iterated_loaders(semantics, prepared, depth + 1)
        case ast.Call(func=function):
            yield from _returned(semantics, function, (), depth + 1)
        case ast.Name():
            for definition in semantics.definitions(iterable):
                yield from _by_definition(semantics, definition, depth + 1)
        case ast.Attribute(value=owner, attr=attribute):
            node = semantics.class_of_self(owner)
            for write in semantics.module.attribute_writes(node, attribute) if node is not None else ():
                yield from _at(semantics, write.value, write.path, depth + 1)
        case ast.Subscript(value=base, slice=index):
            key = semantics.literal(index)
            for container in dicts_behind(semantics, base, depth + 1):
                for value in entries_under(semantics, container, key):
                    yield from iterated_loaders(semantics, value, depth + 1)


def dicts_behind(semantics: Semantics, expression: ast.expr, depth: int) -> Iterator[ast.Dict | ast.DictComp]:
    """The dicts that a value may be: through names, attributes, parameters, and functions of this file."""
    if depth > 2 * _DEEPEST:
        return
    match semantics.value_of(expression):
        case ast.Dict() | ast.DictComp() as container:
            yield container
        case ast.Name() as name:
            for definition in semantics.definitions(name):
                function = None
                if definition.kind is Binding.PARAMETER and isinstance(definition.node, ast.arg):
                    function = enclosing_function_of_parameter(definition.node)
                if function is not None and isinstance(definition.node, ast.arg):
                    for value in semantics.given_for(definition.node, function):
                        yield from dicts_behind(semantics, value, depth + 1)
        case ast.Attribute(value=owner, attr=attribute):
            node = semantics.class_of_self(owner)
            for write in semantics.module.attribute_writes(node, attribute) if node is not None else ():
                if write.value is not None and not write.path:
                    yield from dicts_behind(semantics, write.value, depth + 1)
        case ast.Call(func=function_name):
            called = called_function(semantics, function_name)
            for value in semantics.returned_values(called) if called is not None else ():
                yield from dicts_behind(semantics, value, depth + 1)


def entries_under(semantics: Semantics, container: ast.Dict | ast.DictComp, key: object) -> Iterator[ast.expr]:
    """What a dict holds under a key; everything that it holds where the key is not known."""
    if isinstance(container, ast.DictComp):
        yield container.value
        return
    for entry, value in zip(container.keys, container.values, strict=True):
        if key is UNKNOWN or semantics.literal(entry) == key:
            yield value


def _by_definition(semantics: Semantics, definition: Definition, depth: int) -> Iterator[ast.Call]:
    match definition.kind:
        case Binding.ASSIGNMENT:
            yield from _at(semantics, definition.value, definition.path, depth)
        case Binding.PARAMETER if isinstance(definition.node, ast.arg):
            function = enclosing_function_of_parameter(definition.node)
            for value in semantics.given_for(definition.node, function) if function is not None else ():
                yield from iterated_loaders(semantics, value, depth)


def _at(semantics: Semantics, value: ast.expr | None, path: tuple[int | None, ...], depth: int) -> Iterator[ast.Call]:
    if value is None:
        return
    if not path:
        yield from iterated_loaders(semantics, value, depth)
    elif isinstance(value, ast.Call):
        index = path[0]
        if index is not None and is_prepare(semantics, value) and index < len(value.args):
            yield from _at(semantics, value.args[index], path[1:], depth + 1)
        else:
            yield from _returned(semantics, value.func, path, depth)
    else:
        element = element_of(value, path)
        if element is not None:
            yield from iterated_loaders(semantics, element, depth)


def _returned(semantics: Semantics, function: ast.expr, path: tuple[int | None, ...], depth: int) -> Iterator[ast.Call]:
    called = called_function(semantics, function)
    if called is None or depth > 2 * _DEEPEST:
        return
    for value in semantics.returned_values(called):
        element = element_of(value, path) if path else value
        if element is not None:
            yield from iterated_loaders(semantics, element, depth + 1)


def called_function(semantics: Semantics, function: ast.expr) -> FunctionNode | None:
    """The function or method of this file that is called."""
    local = semantics.local_function(function)
    if local is not None or not isinstance(function, ast.Attribute):
        return local
    owner = semantics.class_of_self(function.value)
    if owner is None:
        kind = semantics.kind(function.value)
        owner = kind.class_node if kind is not None else None
    return semantics.find_method(owner, function.attr) if owner is not None else None
