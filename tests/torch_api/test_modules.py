"""What the classes of torch.nn are and do, as users know it from the documentation of torch 2.13."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from torchlint.torch_api import (
    UNKNOWN,
    has_parameters,
    is_activation,
    is_loss_class,
    is_loss_function,
    is_mode_dependent,
    is_module_class,
    loss_expects,
    module_facts,
)
from torchlint.torch_api.tables import table


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("Linear(8, 8)", True),
        ("Linear(8, 8, bias=False)", True),
        ("Embedding(8, 8)", True),
        ("PReLU()", True),
        ("MultiheadAttention(8, 2)", True),
        ("TransformerEncoder(layer, 2)", True),
        ("AdaptiveLogSoftmaxWithLoss(8, 8, [2])", True),
        ("ReLU()", False),
        ("Dropout(0.5)", False),
        ("MaxPool2d(2)", False),
        ("CrossEntropyLoss(weight=w)", False),
        ("Flatten()", False),
        ("LayerNorm(8)", True),
        ("LayerNorm(8, elementwise_affine=False)", False),
        ("LayerNorm(8, elementwise_affine=flag)", None),
        ("LayerNorm(8, bias=False)", True),
        ("RMSNorm(8, elementwise_affine=False)", False),
        ("GroupNorm(2, 8, affine=False)", False),
        ("BatchNorm2d(8, affine=False)", False),
        ("BatchNorm2d(8, affine=False, track_running_stats=False)", False),
        ("BatchNorm2d(8)", True),
        ("InstanceNorm2d(8)", False),
        ("InstanceNorm2d(8, affine=True)", True),
        ("Sequential(a, b)", None),
        ("Module()", None),
    ],
)
def test_which_modules_have_parameters(call: str, expected: bool | None) -> None:
    assert has_parameters(*_name_and_arguments(call)) is expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("Dropout()", True),
        ("Dropout(p=0.3)", True),
        ("Dropout(p=0.0)", False),
        ("Dropout(p=0)", False),
        ("Dropout(p=rate)", None),
        ("AlphaDropout()", True),
        ("RReLU()", True),
        ("BatchNorm1d(8)", True),
        ("SyncBatchNorm(8)", True),
        ("LazyBatchNorm2d()", True),
        ("BatchNorm2d(8, track_running_stats=False)", False),
        ("InstanceNorm2d(8)", False),
        ("InstanceNorm2d(8, track_running_stats=True)", True),
        ("LayerNorm(8)", False),
        ("GroupNorm(2, 8)", False),
        ("Linear(8, 8)", False),
        ("LSTM(8, 8)", False),
        ("LSTM(8, 8, dropout=0.2)", False),
        ("LSTM(8, 8, num_layers=2, dropout=0.2)", True),
        ("LSTM(8, 8, num_layers=layers, dropout=0.2)", None),
        ("GRU(8, 8, num_layers=3, dropout=rate)", None),
        ("GRU(8, 8, num_layers=3)", False),
        ("MultiheadAttention(8, 2)", False),
        ("MultiheadAttention(8, 2, dropout=0.1)", True),
        ("TransformerEncoderLayer(8, 2)", True),
        ("TransformerEncoderLayer(8, 2, dropout=0.0)", False),
        ("Transformer()", True),
        ("TransformerEncoder(layer, 2)", None),
        ("ModuleList()", None),
    ],
)
def test_which_modules_behave_otherwise_in_training(call: str, expected: bool | None) -> None:
    assert is_mode_dependent(*_name_and_arguments(call)) is expected


def test_unpacked_arguments_leave_open_what_arguments_decide() -> None:
    assert has_parameters("torch.nn.LayerNorm", None) is None
    assert has_parameters("torch.nn.Linear", None) is True
    assert is_mode_dependent("torch.nn.Dropout", None) is None
    assert is_mode_dependent("torch.nn.ReLU", None) is False


def test_unknown_classes_have_no_facts() -> None:
    assert module_facts("torch.nn.NoSuchLayer") is None
    assert module_facts("torch.zeros") is None
    assert has_parameters("mylib.Linear", {}) is None
    assert is_mode_dependent("mylib.Dropout", {}) is None


def test_facts_are_found_by_any_name_of_the_class() -> None:
    assert module_facts("torch.nn.modules.linear.Linear") == module_facts("torch.nn.Linear")


@pytest.mark.parametrize(
    ("name", "kind", "in_size", "out_size"),
    [
        ("Linear", "layer", "in_features", "out_features"),
        ("LazyLinear", "layer", None, "out_features"),
        ("Conv2d", "layer", "in_channels", "out_channels"),
        ("ConvTranspose1d", "layer", "in_channels", "out_channels"),
        ("Bilinear", "layer", "in1_features", "out_features"),
        ("Embedding", "layer", "num_embeddings", "embedding_dim"),
        ("LSTM", "recurrent", "input_size", "hidden_size"),
        ("GRUCell", "recurrent", "input_size", "hidden_size"),
        ("BatchNorm2d", "normalization", "num_features", "num_features"),
        ("LayerNorm", "normalization", "normalized_shape", "normalized_shape"),
        ("GroupNorm", "normalization", "num_channels", "num_channels"),
        ("MultiheadAttention", "layer", "embed_dim", "embed_dim"),
        ("Dropout2d", "dropout", None, None),
        ("ReLU", "activation", None, None),
        ("MSELoss", "loss", None, None),
        ("Sequential", "container", None, None),
        ("AdaptiveAvgPool2d", "pooling", None, None),
        ("Flatten", "shape", None, None),
    ],
)
def test_kind_and_sizes(name: str, kind: str, in_size: str | None, out_size: str | None) -> None:
    facts = module_facts(f"torch.nn.{name}")
    assert facts is not None
    assert (facts.kind, facts.in_size, facts.out_size) == (kind, in_size, out_size)


def test_constructor_parameters_are_in_positional_order() -> None:
    facts = module_facts("torch.nn.LSTM")
    assert facts is not None
    assert facts.parameters[:7] == (
        "input_size",
        "hidden_size",
        "num_layers",
        "bias",
        "batch_first",
        "dropout",
        "bidirectional",
    )


def test_every_class_with_switches_answers_by_arguments_or_by_default() -> None:
    for name in table("modules"):
        facts = module_facts(name)
        assert facts is not None
        assert (facts.has_parameters == "by-arguments") == bool(facts.parameters_switch) or facts.kind == "container"
        if facts.mode_dependent == "never":
            assert not facts.mode_switch
            assert not facts.mode_default
        for switch in (*facts.parameters_switch, *facts.mode_switch):
            assert set(switch) <= set(facts.parameters)
        for size in (facts.in_size, facts.out_size):
            assert size is None or size in facts.parameters


@pytest.mark.parametrize(
    "name",
    [
        "torch.nn.Module",
        "torch.nn.modules.module.Module",
        "torch.nn.Linear",
        "torch.nn.parallel.DistributedDataParallel",
        "torch.distributed.fsdp.FullyShardedDataParallel",
        "torch.nn.modules.loss._Loss",
        "torch.optim.swa_utils.AveragedModel",
        "torchvision.models.ResNet",
        "torchvision.models.resnet.ResNet",
        "torchvision.ops.MLP",
        "torchvision.transforms.Resize",
    ],
)
def test_module_classes(name: str) -> None:
    assert is_module_class(name)


@pytest.mark.parametrize("name", ["torch.nn.Parameter", "torch.optim.Adam", "torch.nn.functional.relu", "torch.nn"])
def test_other_names_are_no_module_classes(name: str) -> None:
    assert not is_module_class(name)


def test_activations_are_classes_functions_and_methods() -> None:
    for name in ("torch.nn.ReLU", "torch.relu", "torch.nn.functional.gelu", "torch.Tensor.sigmoid_", "torch.nn.Tanh"):
        assert is_activation(name), name
    for name in ("torch.nn.Linear", "torch.nn.MultiheadAttention", "torch.nn.functional.dropout", "torch.exp"):
        assert not is_activation(name), name


@pytest.mark.parametrize(
    ("class_name", "function", "expected"),
    [
        ("CrossEntropyLoss", "cross_entropy", "logits"),
        ("BCEWithLogitsLoss", "binary_cross_entropy_with_logits", "logits"),
        ("MultiLabelSoftMarginLoss", "multilabel_soft_margin_loss", "logits"),
        ("NLLLoss", "nll_loss", "log-probabilities"),
        ("KLDivLoss", "kl_div", "log-probabilities"),
        ("CTCLoss", "ctc_loss", "log-probabilities"),
        ("BCELoss", "binary_cross_entropy", "probabilities"),
        ("MSELoss", "mse_loss", None),
        ("SmoothL1Loss", "smooth_l1_loss", None),
    ],
)
def test_what_losses_expect(class_name: str, function: str, expected: str | None) -> None:
    assert loss_expects(f"torch.nn.{class_name}") == expected
    assert loss_expects(f"torch.nn.functional.{function}") == expected
    assert is_loss_class(f"torch.nn.modules.loss.{class_name}")
    assert is_loss_function(f"torch.nn.functional.{function}")
    assert not is_loss_class(f"torch.nn.functional.{function}")


def test_focal_loss_of_torchvision_takes_logits() -> None:
    assert loss_expects("torchvision.ops.focal_loss.sigmoid_focal_loss") == "logits"


def _name_and_arguments(call: str) -> tuple[str, dict[str, Any]]:
    """The name and the keyword arguments of a call in torch.nn; an argument that is no literal is UNKNOWN."""
    parsed = ast.parse(call, mode="eval").body
    assert isinstance(parsed, ast.Call)
    assert isinstance(parsed.func, ast.Name)
    given: dict[str, Any] = {}
    facts = module_facts(f"torch.nn.{parsed.func.id}")
    assert facts is not None
    for parameter, value in (
        *zip(facts.parameters, parsed.args, strict=False),
        *((keyword.arg, keyword.value) for keyword in parsed.keywords),
    ):
        assert parameter is not None
        given[parameter] = value.value if isinstance(value, ast.Constant) else UNKNOWN
    return f"torch.nn.{parsed.func.id}", given
