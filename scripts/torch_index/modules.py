"""modules.json: what each class of torch.nn is and does, found by constructing it and running it in both modes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

Arguments = Mapping[str, Any]

# One value for each constructor parameter that has no default, by its name. Small, and consistent with each other.
TYPICAL: dict[str, Any] = {
    "cutoffs": [2, 4],
    "d_model": 4,
    "dim_feedforward": 8,
    "downscale_factor": 2,
    "embed_dim": 4,
    "embedding_dim": 4,
    "groups": 2,
    "hidden_size": 4,
    "in1_features": 4,
    "in2_features": 4,
    "in_channels": 4,
    "in_features": 4,
    "input_size": 4,
    "kernel_size": 2,
    "lower": 0.1,
    "mode": "LSTM",
    "n_classes": 6,
    "nhead": 2,
    "norm_type": 2.0,
    "normalized_shape": [4],
    "num_channels": 4,
    "num_chunks": 1,
    "num_classes": 4,
    "num_embeddings": 4,
    "num_features": 4,
    "num_groups": 2,
    "num_heads": 2,
    "num_layers": 1,
    "out_channels": 4,
    "out_features": 4,
    "output_size": 2,
    "padding": 1,
    "size": 2,
    "threshold": 0.0,
    "unflattened_size": [2, 2],
    "upscale_factor": 2,
    "value": 0.0,
}

# Required arguments that differ from class to class, or that only some classes need to be constructed at all.
OWN: dict[str, Arguments] = {
    "ConvTranspose1d": {},
    "Fold": {"output_size": 4},
    "FractionalMaxPool2d": {"output_size": 2},
    "FractionalMaxPool3d": {"output_size": 2},
    "RNNCellBase": {"bias": True},
    "Transformer": {"d_model": 4, "nhead": 2, "num_encoder_layers": 1, "num_decoder_layers": 1, "dim_feedforward": 8},
    "TransformerEncoderLayer": {"dim_feedforward": 8},
    "TransformerDecoderLayer": {"dim_feedforward": 8},
    "Unflatten": {"dim": 1},
    "Upsample": {"size": 8},
    "UpsamplingBilinear2d": {"size": 8},
    "UpsamplingNearest2d": {"size": 8},
}

# Classes whose parameters and modes are those of what they are given. "Container" is the old name of Module.
CONTAINERS = {"Container", "DataParallel", "Module", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList"}
CONTAINERS |= {"Sequential"}

# Made of a layer that is given: they have parameters, and whether they depend on the mode is the layer's affair.
STACKS = {"TransformerDecoder", "TransformerEncoder"}

# Recurrent classes hide their signature behind overloads: the documented order (torch 2.13, `torch.nn.RNN` and others).
RECURRENT_PARAMETERS = {
    "RNN": "input_size hidden_size num_layers nonlinearity bias batch_first dropout bidirectional device dtype",
    "GRU": "input_size hidden_size num_layers bias batch_first dropout bidirectional device dtype",
    "LSTM": "input_size hidden_size num_layers bias batch_first dropout bidirectional proj_size device dtype",
}

# Values that may switch the parameters or the dependence on the mode on or off, by parameter name.
SWITCHES: dict[str, tuple[Any, ...]] = {
    "affine": (True, False),
    "bias": (True, False),
    "dropout": (0.0, 0.5),
    "elementwise_affine": (True, False),
    "head_bias": (True, False),
    "p": (0.0, 0.5),
    "track_running_stats": (True, False),
}

KINDS: dict[str, str] = {
    "activation": "activation",
    "adaptive": "loss",
    "batchnorm": "normalization",
    "channelshuffle": "shape",
    "container": "container",
    "conv": "layer",
    "distance": "distance",
    "dropout": "dropout",
    "flatten": "shape",
    "fold": "shape",
    "instancenorm": "normalization",
    "linear": "layer",
    "loss": "loss",
    "module": "container",
    "normalization": "normalization",
    "padding": "padding",
    "pixelshuffle": "shape",
    "pooling": "pooling",
    "rnn": "recurrent",
    "sparse": "layer",
    "transformer": "layer",
    "upsampling": "upsampling",
    "data_parallel": "container",
}

IN_SIZE = (
    "in_features",
    "in_channels",
    "input_size",
    "num_features",
    "num_channels",
    "normalized_shape",
    "num_embeddings",
    "d_model",
    "embed_dim",
    "in1_features",
)
OUT_SIZE = (
    "out_features",
    "out_channels",
    "hidden_size",
    "embedding_dim",
    "num_features",
    "num_channels",
    "normalized_shape",
    "d_model",
    "embed_dim",
)


def module_classes() -> Iterator[tuple[str, type[nn.Module]]]:
    for name, value in sorted(vars(nn).items()):
        if isinstance(value, type) and issubclass(value, nn.Module):
            yield name, value


def constructor_parameters(name: str, cls: type[nn.Module]) -> list[str]:
    """Names in positional order; a "*" stands before keyword-only ones, "*args" and "**kwargs" for variadic ones."""
    if name in RECURRENT_PARAMETERS:
        return RECURRENT_PARAMETERS[name].split()
    return parameter_list(inspect.signature(cls))


def parameter_list(signature: inspect.Signature) -> list[str]:
    names: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names.append(f"*{parameter.name}")
        elif parameter.kind is parameter.VAR_KEYWORD:
            names.append(f"**{parameter.name}")
        else:
            if parameter.kind is parameter.KEYWORD_ONLY and not any(n.startswith("*") for n in names):
                names.append("*")
            names.append(parameter.name)
    return names


def required_arguments(name: str, cls: type[nn.Module]) -> dict[str, Any]:
    own = OWN.get(name, {})
    arguments = dict(own)
    if name in RECURRENT_PARAMETERS:
        return {"input_size": 4, "hidden_size": 4}
    for parameter in inspect.signature(cls).parameters.values():
        variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if parameter.default is parameter.empty and not variadic and parameter.name not in own:
            arguments[parameter.name] = TYPICAL[parameter.name]
    return arguments


def variants(name: str, cls: type[nn.Module]) -> Iterator[tuple[Arguments, Arguments]]:
    """(all arguments, those that are not required): the defaults first, then each value of SWITCHES that applies."""
    base = required_arguments(name, cls)
    yield base, {}
    parameters = [p for p in constructor_parameters(name, cls) if p in SWITCHES]
    if cls.__module__.endswith((".distance", ".loss")):
        parameters = [p for p in parameters if p != "p"]
    for parameter in parameters:
        for value in SWITCHES[parameter]:
            yield {**base, parameter: value}, {parameter: value}
    if {"affine", "track_running_stats"} <= set(parameters):
        yield {**base, "affine": True, "track_running_stats": True}, {"affine": True, "track_running_stats": True}
    if name in RECURRENT_PARAMETERS:
        extra = {"dropout": 0.5, "num_layers": 2}
        yield {**base, **extra}, extra


def has_parameters(module: nn.Module) -> bool:
    return any(True for _ in module.parameters())


# The input of forward, by class name: the first pattern that matches. The last axes have size 4 where a layer of size
# 4 is applied to them; there is more than one sample, so that batch statistics exist.
def inputs(name: str) -> tuple[Any, ...]:
    generator = torch.Generator().manual_seed(0)

    def randn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    special: dict[str, Callable[[], tuple[Any, ...]]] = {
        "AdaptiveLogSoftmaxWithLoss": lambda: (randn(3, 4), torch.tensor([0, 1, 5])),
        "BCELoss": lambda: (torch.sigmoid(randn(3, 4)), torch.sigmoid(randn(3, 4))),
        "Bilinear": lambda: (randn(3, 4), randn(3, 4)),
        "CosineEmbeddingLoss": lambda: (randn(3, 4), randn(3, 4), torch.tensor([1, -1, 1])),
        "CosineSimilarity": lambda: (randn(3, 4), randn(3, 4)),
        "CrossEntropyLoss": lambda: (randn(3, 4), torch.tensor([0, 1, 3])),
        "CTCLoss": lambda: (
            randn(5, 2, 4).log_softmax(2),
            torch.tensor([[1, 2], [2, 3]]),
            torch.tensor([5, 5]),
            torch.tensor([2, 2]),
        ),
        "Embedding": lambda: (torch.tensor([[0, 1], [2, 3]]),),
        "EmbeddingBag": lambda: (torch.tensor([[0, 1], [2, 3]]),),
        "Fold": lambda: (randn(2, 8, 9),),
        "GaussianNLLLoss": lambda: (randn(3, 4), randn(3, 4), torch.ones(3, 4)),
        "LinearCrossEntropyLoss": lambda: (randn(3, 4), torch.tensor([0, 1, 3])),
        "MarginRankingLoss": lambda: (randn(3), randn(3), torch.tensor([1.0, -1.0, 1.0])),
        "MaxUnpool1d": lambda: nn.MaxPool1d(2, return_indices=True)(randn(2, 4, 8)),
        "MaxUnpool2d": lambda: nn.MaxPool2d(2, return_indices=True)(randn(2, 4, 8, 8)),
        "MaxUnpool3d": lambda: nn.MaxPool3d(2, return_indices=True)(randn(2, 4, 8, 8, 8)),
        "MultiLabelMarginLoss": lambda: (randn(3, 4), torch.tensor([[0, 1, -1, -1]] * 3)),
        "MultiLabelSoftMarginLoss": lambda: (randn(3, 4), torch.ones(3, 4)),
        "MultiMarginLoss": lambda: (randn(3, 4), torch.tensor([0, 1, 3])),
        "MultiheadAttention": lambda: (randn(3, 2, 4), randn(3, 2, 4), randn(3, 2, 4)),
        "NLLLoss": lambda: (randn(3, 4).log_softmax(1), torch.tensor([0, 1, 3])),
        "NLLLoss2d": lambda: (randn(3, 4, 2, 2).log_softmax(1), torch.zeros(3, 2, 2, dtype=torch.long)),
        "PairwiseDistance": lambda: (randn(3, 4), randn(3, 4)),
        "Softmax2d": lambda: (randn(2, 4, 4, 4),),
        "SoftMarginLoss": lambda: (randn(3, 4), torch.ones(3, 4)),
        "Transformer": lambda: (randn(3, 2, 4), randn(3, 2, 4)),
        "TransformerDecoderLayer": lambda: (randn(3, 2, 4), randn(3, 2, 4)),
        "TransformerEncoderLayer": lambda: (randn(3, 2, 4),),
        "TripletMarginLoss": lambda: (randn(3, 4), randn(3, 4), randn(3, 4)),
        "TripletMarginWithDistanceLoss": lambda: (randn(3, 4), randn(3, 4), randn(3, 4)),
        "Unflatten": lambda: (randn(2, 4),),
    }
    if name in special:
        return special[name]()
    if name.endswith("Loss"):
        return randn(3, 4).abs(), randn(3, 4).abs()
    if name.endswith(("Cell", "Linear", "LayerNorm", "RMSNorm", "PReLU", "Identity")):
        return (randn(3, 4),)
    if name in RECURRENT_PARAMETERS:
        return (randn(3, 2, 4),)
    dimensions = re.search(r"([123])d$", name)
    if dimensions:
        return (randn(2, 4, *(8,) * int(dimensions[1])),)
    return (randn(2, 4, 8, 8),)


def same(first: Any, second: Any) -> bool:
    if isinstance(first, torch.Tensor):
        return first.shape == second.shape and bool(torch.equal(first, second))
    if isinstance(first, (tuple, list)):
        return len(first) == len(second) and all(same(a, b) for a, b in zip(first, second, strict=True))
    return bool(first == second)


def depends_on_mode(name: str, module: nn.Module) -> bool:
    """Whether forward gives another result, or changes the buffers, in train() and in eval()."""
    with torch.no_grad():
        module.train()
        torch.manual_seed(1)
        module(*inputs(name))  # materialises lazy layers, and moves running statistics off their first values
        before = {k: v.clone() for k, v in module.state_dict().items()}
        torch.manual_seed(2)
        trained = module(*inputs(name))
        changed = not all(torch.equal(v, before[k]) for k, v in module.state_dict().items())
        module.load_state_dict(before)
        module.eval()
        torch.manual_seed(2)
        return changed or not same(trained, module(*inputs(name)))


def answer(outcomes: list[tuple[Arguments, bool]], default: bool, *, by_default: bool) -> str:
    """by_default: "always" is then said of what the defaults do, and the switches say how to turn it off."""
    values = {value for _, value in outcomes}
    if values == {False}:
        return "never"
    if values == {True} or (by_default and default):
        return "always"
    return "by-arguments"


def switches(outcomes: list[tuple[Arguments, bool]], default: bool) -> list[dict[str, Any]]:
    """The smallest sets of arguments that make the answer another one than the defaults give."""
    found: list[dict[str, Any]] = []
    for arguments, value in outcomes:
        if value != default and not any(known.items() <= arguments.items() for known in found):
            found.append(dict(arguments))
    return found


def kind_of(name: str, cls: type[nn.Module]) -> str:
    if name == "MultiheadAttention":
        return "layer"
    if name in CONTAINERS:
        return "container"
    return KINDS[cls.__module__.rpartition(".")[2]]


def build() -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = {}
    for name, cls in module_classes():
        parameters = constructor_parameters(name, cls)
        facts: dict[str, Any] = {"kind": kind_of(name, cls), "parameters": parameters}
        if name in STACKS:
            facts.update(has_parameters="always", parameters_default=True, mode_dependent="by-arguments")
        elif name in CONTAINERS:
            facts.update(has_parameters="by-arguments", mode_dependent="by-arguments")
        else:
            facts.update(measured(name, cls))
        for key, candidates in (("in_size", IN_SIZE), ("out_size", OUT_SIZE)):
            facts[key] = next((p for p in candidates if p in parameters and facts["kind"] != "loss"), None)
        table[f"torch.nn.{name}"] = {key: value for key, value in facts.items() if value not in (None, [], False)}
    return table


# Abstract bases without a forward of their own, and layers that only run on another device.
NOT_RUN = {"RNNBase": "by-arguments", "RNNCellBase": "never", "SyncBatchNorm": "always"}
TRUSTED_SWITCHES = {"SyncBatchNorm": [{"track_running_stats": False}], "RNNBase": [{"dropout": 0.5, "num_layers": 2}]}


def measured(name: str, cls: type[nn.Module]) -> dict[str, Any]:
    owning: list[tuple[Arguments, bool]] = []
    modal: list[tuple[Arguments, bool]] = []
    buffers = False
    for arguments, optional in variants(name, cls):
        torch.manual_seed(0)
        module = cls(**arguments)
        owning.append((optional, has_parameters(module)))
        buffers = buffers or any(True for _ in module.buffers())
        if name not in NOT_RUN:
            modal.append((optional, depends_on_mode(name, module)))
    facts: dict[str, Any] = {
        "has_parameters": answer(owning, owning[0][1], by_default=False),
        "parameters_default": owning[0][1],
        "parameters_switch": switches(owning, owning[0][1]),
        "has_buffers": buffers,
    }
    if name in NOT_RUN:
        facts.update(mode_dependent=NOT_RUN[name], mode_default=NOT_RUN[name] == "always")
        facts["mode_switch"] = TRUSTED_SWITCHES.get(name, [])
    else:
        facts.update(mode_dependent=answer(modal, modal[0][1], by_default=True), mode_default=modal[0][1])
        facts["mode_switch"] = switches(modal, modal[0][1])
    return facts
