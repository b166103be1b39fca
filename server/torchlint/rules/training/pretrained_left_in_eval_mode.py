from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from torchlint.finding import Severity
from torchlint.fixes.editor import Editor
from torchlint.idioms.surroundings.stated import is_stated
from torchlint.idioms.training import modes
from torchlint.idioms.training.construction import constructions
from torchlint.idioms.training.frameworks import Duty, owned_duties
from torchlint.idioms.training.gradient_actions import called_name, is_backward
from torchlint.idioms.training.lightning import is_lightning_module
from torchlint.idioms.training.modes import Forwards, is_without_grad, may_be_without_grad
from torchlint.idioms.training.vocabulary import Training, training_of
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_class, on_flow
from torchlint.semantics.classes import ClassView
from torchlint.semantics.flow import Action, Loop, is_within
from torchlint.semantics.nodes import element_of, enclosing_function, nodes_within
from torchlint.semantics.scopes import AttributeWrite, FunctionNode
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Root, Unit
from torchlint.syntax import parent_of

_MEANT = regex(r"eval|dropout|froze|freeze|deterministic", re.IGNORECASE)
#: Functions that put a model into training mode, or hand the loop to somebody who does.
_MAY_TRAIN = regex(r"train|prepare|kbit|peft|lora|fit|initiali[sz]e", re.IGNORECASE)


#: Hooks that Lightning 2 no longer takes.
_BEFORE_LIGHTNING_2 = ("training_epoch_end", "validation_epoch_end", "test_epoch_end")
#: Calls that freeze, or hand the model to somebody who sets its mode.
_FREEZES = ("requires_grad_", "freeze", "get_peft_model", "prepare_model_for_kbit_training", "BaseFinetuning")


class PretrainedLeftInEvalMode(Rule):
    """## What it does

    Reports a model of transformers that is loaded with `from_pretrained` and trained in a loop of your own, with no
    `train()` anywhere; and points out one that a LightningModule loads, which Lightning 2.2 or later trains in the mode
    that it finds it in.

    ## Why is this bad?

    `from_pretrained` gives back a model in evaluation mode. Its dropout stays off for the whole training: the model
    overfits earlier than it would with the regularisation that it was made with.

    ## Example

    ```python
    import torch
    from transformers import AutoModelForSequenceClassification


    def finetune(loader):
        model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
        optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
        for batch in loader:
            optimizer.zero_grad()
            model(**batch).loss.backward()
            optimizer.step()
    ```

    ## Use instead

    ```python
    import torch
    from transformers import AutoModelForSequenceClassification


    def finetune(loader):
        model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
        optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
        model.train()
        for batch in loader:
            optimizer.zero_grad()
            model(**batch).loss.backward()
            optimizer.step()
    ```

    ## Exceptions

    A model that nothing trains (a frozen embedder), loops that `Trainer` or another framework owns, a model that is
    given to a function that may set its mode, and evaluation mode that a comment says to be meant. A LightningModule is
    left alone where its file calls `train()`, freezes, or has hooks that Lightning 2 removed.

    ## References

    - [PreTrainedModel.from_pretrained](https://huggingface.co/docs/transformers/main_classes/model)
    """

    code = "TL225"
    name = "pretrained-left-in-eval-mode"
    level = Level.WARNING
    fix = FixKind.UNSAFE
    summary = "The model is trained without its dropout, because it was loaded in evaluation mode."

    @on_flow("step", also=("backward",))
    def check(self, root: Root, unit: Unit) -> Iterator[Diagnosis]:
        if not unit.semantics.module.mentions_call("from_pretrained"):
            return
        semantics = unit.semantics
        if Duty.MODES in owned_duties(semantics, root.function):
            return
        found = training_of(semantics, root)
        if not found.trains:
            return
        for run in modes.forwards(found):
            loaded = _loaded(found, run)
            trained = next((call for call in run.calls if _is_trained(found, run, call)), None)
            if not loaded or trained is None or _may_be_in_training_mode(found, run):
                continue
            if any(is_stated(node, _MEANT) for node in (*loaded, trained.node)):
                continue
            yield self._diagnosis(found, run, loaded, trained)

    @on_class()
    def check_lightning(self, view: ClassView, unit: Unit) -> Iterator[Diagnosis]:
        """Since 2.2 Lightning leaves each part in the mode that it finds it in."""
        if not unit.semantics.module.mentions_call("from_pretrained") or not _is_trained_by_lightning(view):
            return
        for attribute, owner, kept, load in _pretrained_parts(view):
            name = ast.unparse(kept.target)
            trained = _optimizes(view, attribute) and _runs_with_gradients(owner, kept.name)
            if not trained or is_stated(kept.statement, _MEANT):
                continue
            message = (
                f"`{name}` is trained in evaluation mode: `from_pretrained` leaves its dropout off, and Lightning"
                " leaves it so since 2.2."
            )
            line = f"{name}.train()"
            fix = FixPlan(f"Insert `{line}`", "unsafe", _inserting_after(kept.statement, line))
            yield self.found(load, message, fixes=[fix], severity=Severity.HINT)

    def _diagnosis(self, found: Training, run: Forwards, loaded: tuple[ast.Call, ...], trained: Action) -> Diagnosis:
        name = run.module.shown
        message = f"`{name}` is trained in evaluation mode: `from_pretrained` leaves its dropout off."
        related: list[tuple[ast.AST, str]] = [(loaded[0], "loaded in evaluation mode here")]
        loop = _outermost_loop(found, trained)
        fixes = []
        if loop is not None and isinstance(trained.node, ast.Call):
            called = trained.node.func
            title = f"Insert `{ast.unparse(called)}.train()`"
            fixes.append(FixPlan(title, "unsafe", lambda edit: _insert(edit, called, loop)))
        return self.found(trained.node, message, related=related, fixes=fixes)


def _pretrained_parts(view: ClassView, depth: int = 0) -> Iterator[tuple[str, ClassView, AttributeWrite, ast.Call]]:
    """The models of transformers that a class loads into an attribute, or a module of the file that it holds: each with
    the attribute, the class that loads it, where that keeps it, and the call that loads it."""
    semantics = view.semantics
    for attribute in view.attributes:
        writes = view.writes(attribute)
        if len(writes) != 1 or writes[0].value is None:
            continue
        value = element_of(writes[0].value, writes[0].path) if writes[0].path else writes[0].value
        if value is None:
            continue
        kind = semantics.kind(value)
        if kind is None or not kind.is_module:
            continue
        if kind.class_node is not None and depth == 0:
            part = ClassView(semantics, kind.class_node)
            if semantics.find_method(part.node, "train") is None and not semantics.has_unknown_base(part.node):
                for _, owner, kept, load in _pretrained_parts(part, depth + 1):
                    yield attribute, owner, kept, load
        elif re.match(r"transformers\..*\.from_pretrained$", kind.origin):
            built = constructions(semantics, value)
            if built.complete and len(built.calls) == 1:
                yield attribute, view, writes[0], built.calls[0]


def _is_trained_by_lightning(view: ClassView) -> bool:
    """Whether a class is a LightningModule of a recent Lightning whose file sets no modes and freezes nothing."""
    semantics = view.semantics
    if not is_lightning_module(semantics, view.node) or view.method("training_step") is None:
        return False
    if any(view.method(name) is not None for name in _BEFORE_LIGHTNING_2) or view.method("train") is not None:
        return False
    module = semantics.module
    return not module.writes_attribute_of_others("requires_grad") and not any(
        module.mentions_call(name) for name in ("train", *_FREEZES)
    )


def _optimizes(view: ClassView, attribute: str) -> bool:
    """Whether the optimizer gets the parameters of all that a LightningModule holds, or those of an attribute."""
    for method in view.called_from("configure_optimizers"):
        for call in nodes_within(method, ast.Call):
            match call:
                case ast.Call(func=ast.Attribute(value=owner, attr="parameters" | "named_parameters")):
                    given = view.semantics.value_of(owner)
                    if isinstance(given, ast.Attribute) and given.attr == attribute:
                        given = given.value
                    if view.semantics.class_of_self(given) is not None:
                        return True
    return False


def _runs_with_gradients(view: ClassView, attribute: str) -> bool:
    """Whether a class calls what it keeps in an attribute, outside ``no_grad`` and never in evaluation mode."""
    called = False
    for method in view.methods:
        for call in nodes_within(method, ast.Call):
            match call:
                case ast.Call(func=ast.Attribute(attr="eval")):
                    return False
                case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name == attribute:
                    own = view.semantics.class_of_self(owner) is not None
                    called = called or (own and not _is_in_no_grad(call, method, view.semantics))
    return called


def _is_in_no_grad(call: ast.Call, method: FunctionNode, semantics: Semantics) -> bool:
    if method.decorator_list:
        return True
    current = parent_of(call)
    while current is not None and current is not method:
        if isinstance(current, ast.With) and any(
            not semantics.name(item.context_expr.func if isinstance(item.context_expr, ast.Call) else None).endswith(
                "autocast"
            )
            for item in current.items
        ):
            return True
        current = parent_of(current)
    return False


def _loaded(found: Training, run: Forwards) -> tuple[ast.Call, ...]:
    """The calls of ``from_pretrained`` of transformers that made a module, if it can come from nowhere else."""
    built = constructions(found.semantics, run.module.node)
    if not built.complete or not all(_is_of_transformers(found, call) for call in built.calls):
        return ()
    return built.calls


def _is_of_transformers(found: Training, call: ast.Call) -> bool:
    kind = found.semantics.kind(call)
    return (
        kind is not None and kind.is_module and re.match(r"transformers\..*\.from_pretrained$", kind.origin) is not None
    )


def _is_trained(found: Training, run: Forwards, call: Action) -> bool:
    """Whether a forward pass is in a loop with a backward pass, with gradients, and an optimizer has the module."""
    place = found.places[call]
    if is_without_grad(found.semantics, place.contexts) or may_be_without_grad(place.contexts) or not place.loops:
        return False
    inner = place.loops[-1].node
    backward = any(
        is_backward(action) and inner in {loop.node for loop in found.places[action].loops} for action in found.actions
    )
    return backward and any(run.module.path in (optimizer.modules or ()) for optimizer in found.optimizers)


def _may_be_in_training_mode(found: Training, run: Forwards) -> bool:
    """Whether anything may set the mode of a module, of what holds it or of a part of it, or freezes it."""
    path = run.module.path
    for action in found.actions:
        receiver = action.receiver
        touches = receiver is not None and (is_within(path, receiver.path) or is_within(receiver.path, path))
        if touches and action.verb in ("train", "eval", "requires_grad_"):
            return True
        given = any(is_within(path, item.path) for item in action.arguments if item.path)
        if action.verb == "..." or (given and _MAY_TRAIN.search(f"{action.verb} {called_name(action)}")):
            return True
    # A method or function of the file that no flow leads to may be called by someone else.
    tail = path.rpartition(".")[2].lstrip("$%:")
    return any(
        isinstance(call.func, ast.Attribute)
        and ast.unparse(call.func.value).rpartition(".")[2] in (tail, "self", "model")
        for call in found.semantics.module.calls_of("train")
    )


def _outermost_loop(found: Training, trained: Action) -> Loop | None:
    """The outermost loop around a forward pass in its own function."""
    function = enclosing_function(trained.node)
    return next((loop for loop in found.places[trained].loops if enclosing_function(loop.node) is function), None)


def _insert(edit: Editor, module: ast.expr, loop: Loop) -> None:
    assert isinstance(loop.node, ast.stmt)
    edit.insert_statement_before(loop.node, f"{edit.source(module)}.train()")


def _inserting_after(statement: ast.stmt, line: str) -> Callable[[Editor], None]:
    return lambda edit: edit.insert_statement_after(statement, line)
