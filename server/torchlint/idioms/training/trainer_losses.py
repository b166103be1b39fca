"""Losses that a subclass of the ``Trainer`` of transformers computes itself.

From transformers 4.46 on ``Trainer.training_step`` divides by the number of accumulated batches only where the model
takes no loss arguments, or the batches have no labels; else (most language models) ``compute_loss`` is given
``num_items_in_batch``, the number of labels of all accumulated batches, and has to divide by it (``trainer.py``:
``model_accepts_loss_kwargs``).
"""

from __future__ import annotations

import ast

from torchlint.semantics.classes import ClassView
from torchlint.semantics.nodes import argument, nodes_within
from torchlint.semantics.scopes import FunctionNode

#: Trains language models, which take loss arguments.
_OF_LANGUAGE_MODELS = frozenset(("trl.SFTTrainer", "trl.trainer.SFTTrainer"))
_TRAINERS = _OF_LANGUAGE_MODELS | frozenset(
    (
        *("transformers.Trainer", "transformers.Seq2SeqTrainer"),
        *("transformers.trainer.Trainer", "transformers.trainer_seq2seq.Seq2SeqTrainer"),
    )
)
_ITEMS = "num_items_in_batch"
#: What makes up for the division: in a method, or in another step of the trainer.
_EVERY = "gradient_accumulation_steps"
_SCALES = (_EVERY, f"current_{_EVERY}", "model_accepts_loss_kwargs")
_ARGUMENTS = ("TrainingArguments", "Seq2SeqTrainingArguments", "SFTConfig")
_OWN_STEPS = ("training_step", "get_batch_samples", "_inner_training_loop")


def ignored_items(view: ClassView) -> ast.arg | None:
    """The parameter by which ``compute_loss`` is given the number of items, if nothing in the class divides by it."""
    semantics = view.semantics
    method = view.method("compute_loss")
    if method is None or semantics.ancestors(view.node).isdisjoint(_TRAINERS):
        return None
    given = (*method.args.posonlyargs, *method.args.args, *method.args.kwonlyargs)
    parameter = next((item for item in given if item.arg == _ITEMS), method.args.kwarg)
    if parameter is None or any(semantics.module.reads_attribute(name) for name in _SCALES):
        return None
    if view.writes("model_accepts_loss_kwargs") or any(view.method(name) is not None for name in _OWN_STEPS):
        return None
    names = nodes_within(method, ast.Name)
    if any(isinstance(name, ast.Name) and name.id in (parameter.arg, "super") for name in names):
        return None
    if not semantics.returned_values(method) or not _has_labels(method) or not _accumulates(view):
        return None
    return parameter


def _accumulates(view: ClassView) -> bool:
    """Whether the file asks for batches to be accumulated; where it builds no arguments, whether what it trains is a
    language model."""
    semantics = view.semantics
    built = [call for name in _ARGUMENTS for call in semantics.module.calls_of(name)]
    asked = [argument(call, None, _EVERY) for call in built]
    if any(every is not None and semantics.literal(every) != 1 for every in asked):
        return True
    return not built and not semantics.ancestors(view.node).isdisjoint(_OF_LANGUAGE_MODELS)


def _has_labels(method: FunctionNode) -> bool:
    """Whether the batches have labels, by their name or because the model gives a loss."""
    return any(
        (isinstance(node, ast.Constant) and node.value == "labels")
        or (isinstance(node, ast.Attribute) and node.attr == "loss")
        for node in nodes_within(method, ast.Constant, ast.Attribute)
    )
