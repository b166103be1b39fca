"""Facts from the release notes of torch, as the index of names over releases has them."""

from __future__ import annotations

import pytest

from torchlint.torch_api import is_unknown, resembling, since


@pytest.mark.parametrize(
    ("name", "release"),
    [
        ("torch.compile", "2.0"),
        ("torch.nn.functional.scaled_dot_product_attention", "2.0"),
        ("torch.nn.RMSNorm", "2.4"),
        ("torch.nn.Mish", "1.9"),
        ("torch.inference_mode", "1.9"),
        ("torch.nn.attention.sdpa_kernel", "2.3"),
        ("torch.nn.Linear", ""),
        ("torch.no.such.name", ""),
    ],
)
def test_the_release_that_brought_a_name(name: str, release: str) -> None:
    assert since(name) == release


@pytest.mark.parametrize("name", ["torch.nn.Linear", "torch.rfft", "torch.ops.x", "torch.npu", "torch._C", "library.x"])
def test_names_that_may_be_there(name: str) -> None:
    assert not is_unknown(name)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("torch.nn.Liner", "torch.nn.Linear"),
        ("torch.optim.Adamw", "torch.optim.AdamW"),
        ("torch.nn.init.kaiming_uniforms_", "torch.nn.init.kaiming_uniform_"),
        ("torch.leaky_relu", "torch.nn.functional.leaky_relu"),
    ],
)
def test_what_an_unknown_name_was_meant_to_be(name: str, meant: str) -> None:
    assert is_unknown(name)
    assert resembling(name)[0] == meant
