"""Whether a call puts something on a CUDA device."""

from __future__ import annotations

import ast

import pytest

from tests.semantics.meaning import Meaning
from torchlint.idioms.values.cuda import moves_to_cuda

HEAD = """
import torch

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
NAME = "cuda"
RANK = f"cuda:{rank}"


class Holder:
    def __init__(self, device):
        self.device = "cuda:1"
        self.given = device

    def run(self, x, device, flag):
        return CALL
"""


@pytest.mark.parametrize(
    ("call", "moves"),
    [
        ("x.cuda()", True),
        ("x.to('cuda')", True),
        ("x.to(device='cuda:0')", True),
        ("x.to(DEVICE, non_blocking=True)", True),
        ("x.to(NAME)", True),
        ("x.to(RANK)", True),
        ("x.to(self.device)", True),
        ("torch.zeros(3, device=DEVICE)", True),
        ("torch.zeros(3, device='cuda' if flag else 'cuda:1')", True),
        ("torch.zeros(3, device='cuda' if flag else 'cpu')", False),
        ("x.to(self.given)", False),
        ("x.to(device)", False),
        ("x.to('cpu')", False),
        ("x.to(torch.float32)", False),
        ("torch.cuda(x)", False),
        ("other.zeros(3, device='cuda')", False),
        ("x.cpu()", False),
    ],
)
def test_moves_to_cuda(call: str, moves: bool) -> None:
    meaning = Meaning(HEAD.replace("CALL", call))
    node = meaning.expression(ast.unparse(ast.parse(call, mode="eval")))
    assert moves_to_cuda(meaning.semantics, node) is moves
