"""Facts about torch that users' code depends on, and invariants of the data files."""

from __future__ import annotations

import pytest

from torchlint import torch_api
from torchlint.torch_api.tables import table


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("torch.nn.modules.loss.CrossEntropyLoss", "torch.nn.CrossEntropyLoss"),
        ("torch.nn.modules.CrossEntropyLoss", "torch.nn.CrossEntropyLoss"),
        ("torch.optim.adam.Adam", "torch.optim.Adam"),
        ("torch.optim.optimizer.Optimizer", "torch.optim.Optimizer"),
        ("torch.utils.data.dataloader.DataLoader", "torch.utils.data.DataLoader"),
        ("torch.utils.data.distributed.DistributedSampler", "torch.utils.data.DistributedSampler"),
        ("torch.nn.utils.clip_grad.clip_grad_norm_", "torch.nn.utils.clip_grad_norm_"),
        ("torch.functional.einsum", "torch.einsum"),
        ("torch.autograd.grad_mode.no_grad", "torch.no_grad"),
        ("torch.autograd.no_grad", "torch.no_grad"),
        ("torch.amp.autocast_mode.autocast", "torch.amp.autocast"),
        ("torch.autocast", "torch.amp.autocast"),
        ("torch.GradScaler", "torch.amp.GradScaler"),
        ("torch.cuda.amp.autocast_mode.autocast", "torch.cuda.amp.autocast"),
        ("torch.cuda.amp.grad_scaler.GradScaler", "torch.cuda.amp.GradScaler"),
        ("torch.nn.parallel.DataParallel", "torch.nn.DataParallel"),
        ("torch.nn.parameter.Parameter", "torch.nn.Parameter"),
        ("torch.serialization.load", "torch.load"),
        ("torch.conv2d", "torch.nn.functional.conv2d"),
        ("torch.half", "torch.float16"),
        ("torch._tensor.Tensor", "torch.Tensor"),
        ("torch.nn.modules.module.Module.train", "torch.nn.Module.train"),
    ],
)
def test_an_object_has_one_canonical_name(name: str, expected: str) -> None:
    assert torch_api.canonical(name) == expected


@pytest.mark.parametrize(
    "name",
    [
        "torch.nn.Linear",
        "torch.cuda.amp.autocast",
        "torch.cpu.amp.GradScaler",
        "torch.nn.functional.tanh",
        "torch.Tensor.max",
        "torch.nn.modules.loss",
        "torch.no_such_thing",
        "torchmetrics.Accuracy",
        "numpy.array",
        "",
    ],
)
def test_canonical_and_unknown_names_stay_as_they_are(name: str) -> None:
    assert torch_api.canonical(name) == name


def test_every_canonical_target_is_itself_canonical() -> None:
    for module, entries in table("names").items():
        for name, target in entries.items():
            assert torch_api.canonical(f"{module}.{name}") == target
            assert torch_api.canonical(target) == target


@pytest.mark.parametrize("file", ["modules", "classes", "losses", "factories", "calls", "amp"])
def test_data_files_use_canonical_names(file: str) -> None:
    assert table(file)
    assert [name for name in table(file) if torch_api.canonical(name) != name] == []
