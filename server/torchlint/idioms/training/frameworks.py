"""Who owns the training loop: frameworks that clear, scale, switch modes or open ``no_grad`` for the author.

Ownership is told from a base class of the class around the code, or from what is used, never from an import alone:
a file may import Lightning for a logger and train by hand.
"""

from __future__ import annotations

import ast
from enum import Flag, auto

from torchlint.semantics.nodes import enclosing_class, enclosing_function
from torchlint.semantics.semantics import Semantics


class Duty(Flag):
    """What a framework does in place of the author."""

    NONE = 0
    #: Clearing gradients and stepping the optimizers.
    STEPS = auto()
    #: ``train()`` and ``eval()`` around the phases.
    MODES = auto()
    #: Evaluation without gradients.
    NO_GRAD = auto()
    #: Scaling and unscaling of gradients.
    SCALING = auto()
    ALL = STEPS | MODES | NO_GRAD | SCALING


#: Classes whose methods a framework's loop calls: (start of the canonical name, ends of its last part).
_BASES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("pytorch_lightning.", ("Module", "Callback", "Strategy", "Plugin", "Loop", "Accelerator", "Precision")),
    ("lightning.", ("Module", "Callback", "Strategy", "Plugin", "Loop", "Accelerator", "Precision")),
    ("transformers.", ("Trainer", "TrainerCallback")),
    ("trl.", ("Trainer",)),
    ("sentence_transformers.", ("Trainer",)),
    ("ignite.", ("Engine",)),
    ("fastai.", ("Learner", "Callback")),
    ("skorch.", ("Net", "Classifier", "Regressor", "Callback")),
    ("catalyst.", ("Runner", "Callback")),
    ("composer.", ("Model", "Callback", "Algorithm", "Classifier")),
    ("mmengine.", ("Runner", "Hook", "Loop", "OptimWrapper", "BaseModel")),
    ("mmcv.", ("Runner", "Hook")),
    ("detectron2.", ("Trainer", "TrainerBase", "HookBase", "TrainerBase")),
    ("allennlp.", ("Trainer", "TrainerCallback")),
    ("fairseq.", ("Task", "Trainer", "Criterion")),
    ("fvcore.", ("Trainer",)),
    ("deepspeed.", ("Engine", "Module")),
    ("megatron.", ("",)),
    ("speechbrain.", ("Brain",)),
    ("torchtnt.", ("Unit", "Callback")),
    ("avalanche.", ("Plugin", "Template", "Strategy", "SGDTemplate")),
    ("ray.", ("Learner", "Policy", "TrainingOperator", "Trainable")),
    ("darts.", ("Model", "Module")),
)


def owned_duties(semantics: Semantics, function: ast.FunctionDef | ast.AsyncFunctionDef | None) -> Duty:
    """What a framework does for the code of a function, because of the class that holds it."""
    current: ast.AST | None = function
    while current is not None:
        holder = enclosing_class(current)
        if holder is None:
            return Duty.NONE
        if any(is_framework_base(name) for name in semantics.ancestors(holder)):
            return Duty.ALL
        current = enclosing_function(holder)
    return Duty.NONE


def is_framework_base(name: str) -> bool:
    """Whether a canonical name is a class whose methods a framework calls."""
    last = name.rpartition(".")[2]
    return any(name.startswith(prefix) and last.endswith(ends) for prefix, ends in _BASES)
