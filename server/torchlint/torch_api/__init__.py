"""What torchlint knows about torch: facts in data/*.json, and functions that answer questions from them.

torchlint never imports torch. `scripts/index_torch.py`, run by a developer with the torch to be indexed installed,
finds the facts by running torch and writes the files; `about.json` names the version. To regenerate after a release:

    python -m venv torch-venv
    torch-venv/bin/pip install torch torchvision numpy pillow     # CPU builds are enough
    torch-venv/bin/python scripts/index_torch.py                  # then read the diff: one fact a line

Names are dotted, as an import would write them; every function takes any name of an object and `canonical` says which
one the data files use. A name that is not known gives False, None or the name itself, never an error.
"""

from .amp import AmpReplacement, amp_replacement
from .calls import (
    ResultKind,
    Signature,
    TensorMethod,
    keyword_only_parameters_of,
    parameters_of,
    positional_index,
    result_of,
    returns_tensor,
    signature_of,
    tensor_method,
)
from .classes import (
    closure_required,
    is_dataset,
    is_loader,
    is_optimizer,
    is_sampler,
    is_scaler,
    is_scheduler,
    is_torchvision_model,
    names_of_role,
    needs_metric,
    role,
    torchvision_model_mode_dependent,
)
from .factories import FactoryFacts, factory_facts
from .losses import LossInput, is_loss_class, is_loss_function, loss_expects
from .modules import (
    UNKNOWN,
    Answer,
    ModuleFacts,
    has_parameters,
    is_activation,
    is_mode_dependent,
    is_module_class,
    module_facts,
    module_names,
)
from .names import aliases, canonical, functions_in
from .releases import class_meant_by, indexed_modules, is_unknown, newest_indexed, resembling, since, tails_with_release
from .torch_range import TorchRange
from .versions import (
    OLDEST,
    Rewrite,
    VersionedArgument,
    VersionedName,
    versioned_arguments,
    versioned_calls,
    versioned_methods,
    versioned_module,
    versioned_name,
    versioned_tails,
)
from .vision import model_builders, weights_of

__all__ = [
    "OLDEST",
    "UNKNOWN",
    "AmpReplacement",
    "Answer",
    "FactoryFacts",
    "LossInput",
    "ModuleFacts",
    "ResultKind",
    "Rewrite",
    "Signature",
    "TensorMethod",
    "TorchRange",
    "VersionedArgument",
    "VersionedName",
    "aliases",
    "amp_replacement",
    "canonical",
    "class_meant_by",
    "closure_required",
    "factory_facts",
    "functions_in",
    "has_parameters",
    "indexed_modules",
    "is_activation",
    "is_dataset",
    "is_loader",
    "is_loss_class",
    "is_loss_function",
    "is_mode_dependent",
    "is_module_class",
    "is_optimizer",
    "is_sampler",
    "is_scaler",
    "is_scheduler",
    "is_torchvision_model",
    "is_unknown",
    "keyword_only_parameters_of",
    "loss_expects",
    "model_builders",
    "module_facts",
    "module_names",
    "names_of_role",
    "needs_metric",
    "newest_indexed",
    "parameters_of",
    "positional_index",
    "resembling",
    "result_of",
    "returns_tensor",
    "role",
    "signature_of",
    "since",
    "tails_with_release",
    "tensor_method",
    "torchvision_model_mode_dependent",
    "versioned_arguments",
    "versioned_calls",
    "versioned_methods",
    "versioned_module",
    "versioned_name",
    "versioned_tails",
    "weights_of",
]
