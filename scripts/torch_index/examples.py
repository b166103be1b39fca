"""Arguments for functions and methods of torch that the general ones in trials.py do not fit."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


def arguments() -> dict[str, tuple[Any, ...]]:
    """Name -> the tensor (first argument of the function, or the object of the method), then the other arguments."""
    torch.manual_seed(0)
    square, cube, vector = torch.rand(4, 4), torch.rand(2, 4, 4), torch.rand(4)
    image = torch.rand(1, 4, 4, 4)
    numbers, booleans = torch.tensor([1, 2, 3, 4]), torch.tensor([True, False])
    rows = torch.tensor([0, 1])
    mean, variance = torch.zeros(4), torch.ones(4)
    spectrum = torch.stft(torch.rand(16), 4, return_complex=True)
    cells = [(torch.rand(16, 4), torch.rand(16, 4))]
    pooled = nn.MaxPool1d(2, return_indices=True)(torch.rand(1, 4, 8))
    pooled2 = nn.MaxPool2d(2, return_indices=True)(torch.rand(1, 4, 8, 8))
    pooled3 = nn.MaxPool3d(2, return_indices=True)(torch.rand(1, 4, 8, 8, 8))
    quantized = torch.quantize_per_tensor(square, 0.1, 0, torch.quint8)
    return {
        "alpha_dropout": (square, 0.5, True),
        "as_strided": (square, (2, 2), (1, 1)),
        "as_strided_scatter": (square, torch.zeros(2, 2), (2, 2), (1, 2)),
        "as_subclass": (square, torch.Tensor),
        "batch_norm": (square, None, None, mean, variance, True, 0.1, 1e-5, False),
        "binomial": (torch.ones(4), torch.rand(4)),
        "bitwise_and": (booleans, booleans),
        "bitwise_or": (booleans, booleans),
        "bitwise_xor": (booleans, booleans),
        "bmm": (cube, cube),
        "can_cast": (torch.float32, torch.float64),
        "ccol_indices": (square.to_sparse_csc(),),
        "chain_matmul": (square, square),
        "cholesky": (torch.eye(4),),
        "clamp": (square, 0.0, 1.0),
        "clip": (square, 0.0, 1.0),
        "col_indices": (square.to_sparse_csr(),),
        "complex": (square, square),
        "conv_tbc": (cube, torch.rand(2, 4, 4), vector),
        "cross": (torch.rand(4, 3), torch.rand(4, 3)),
        "crow_indices": (square.to_sparse_csr(),),
        "ctc_loss": (torch.rand(5, 1, 4).log_softmax(2), torch.tensor([[1, 2]]), torch.tensor([5]), torch.tensor([2])),
        "diagonal_scatter": (square, vector),
        "dropout": (square, 0.5, True),
        "einsum": ("ij,jk->ik", square, square),
        "embedding": (rows, square),
        "embedding_bag": (torch.tensor([[0, 1]]), square),
        "empty_permuted": ((2, 3), (0, 1)),
        "empty_strided": ((2, 3), (3, 1)),
        "feature_alpha_dropout": (image, 0.5, True),
        "feature_dropout": (image, 0.5, True),
        "fmod": (square, 2),
        "fold": (torch.rand(1, 16, 9), (4, 4), (2, 2)),
        "frexp": (square,),
        "from_numpy": (square.numpy(),),
        "frombuffer": (bytearray(8),),
        "gru": (
            torch.rand(3, 1, 4),
            torch.rand(1, 1, 4),
            nn.GRU(4, 4)._flat_weights,
            True,
            1,
            0.0,
            False,
            False,
            False,
        ),
        "gumbel_softmax": (square,),
        "histogram": (vector, 2),
        "huber_loss": (square, square),
        "index_add": (square, 0, rows, torch.rand(2, 4)),
        "index_copy": (square, 0, rows, torch.rand(2, 4)),
        "index_reduce": (square, 0, rows, torch.rand(2, 4), "mean"),
        "instance_norm": (torch.rand(2, 4, 4), None, None, None, None, True, 0.1, 1e-5, False),
        "int_repr": (quantized,),
        "isin": (numbers, rows),
        "istft": (spectrum, 4),
        "lerp": (square, square, 0.5),
        "linear_cross_entropy": (square, torch.rand(3, 4), torch.tensor([0, 1, 2, 0])),
        "local_response_norm": (image, 2),
        "logical_and": (booleans, booleans),
        "logical_or": (booleans, booleans),
        "logical_xor": (booleans, booleans),
        "lp_pool1d": (cube, 2.0, 2),
        "lp_pool2d": (image, 2.0, 2),
        "lp_pool3d": (torch.rand(1, 4, 4, 4, 4), 2.0, 2),
        "lstm": (
            torch.rand(3, 1, 4),
            [torch.rand(1, 1, 4)] * 2,
            nn.LSTM(4, 4)._flat_weights,
            True,
            1,
            0.0,
            False,
            False,
            False,
        ),
        "lstm_cell": (torch.rand(1, 4), [torch.rand(1, 4)] * 2, *cells[0], torch.zeros(16), torch.zeros(16)),
        "lu_solve": (square, *torch.linalg.lu_factor(square)),
        "max_unpool1d": (*pooled, 2),
        "max_unpool2d": (*pooled2, 2),
        "max_unpool3d": (*pooled3, 2),
        "moveaxis": (square, 0, 1),
        "movedim": (square, 0, 1),
        "multilabel_margin_loss": (square, torch.zeros(4, 4, dtype=torch.long)),
        "native_dropout": (square, 0.5, True),
        "new_empty_strided": (square, (2, 2), (2, 1)),
        "nonzero_static": (square,),
        "norm_except_dim": (square, 2, 0),
        "orgqr": (square, vector),
        "ormqr": (square, vector, square),
        "pixel_shuffle": (image, 2),
        "polar": (square, square),
        "poisson_nll_loss": (square, square),
        "prelu": (square, torch.tensor([0.1])),
        "promote_types": (torch.float32, torch.float64),
        "put": (square, rows, torch.rand(2)),
        "q_scale": (quantized,),
        "q_zero_point": (quantized,),
        "quantize_per_tensor": (square, 0.1, 0, torch.quint8),
        "range": (0, 4),
        "remainder": (square, 2),
        "repeat": (square, 2, 2),
        "rot90": (square, 1, (0, 1)),
        "row_indices": (square.to_sparse_csc(),),
        "scalar_tensor": (1.0,),
        "scatter_reduce": (square, 0, torch.zeros(4, 4, dtype=torch.long), square, "sum"),
        "segment_reduce": (vector, "sum"),
        "select": (square, 0, 0),
        "select_scatter": (square, vector, 0, 0),
        "sparse_coo_tensor": (torch.tensor([[0], [0]]), torch.ones(1), (1, 1)),
        "sparse_csr_tensor": (torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1), (1, 1)),
        "sparse_mask": (square, square.to_sparse()),
        "split_with_sizes": (square, [1, 3]),
        "sspaddmm": (square.to_sparse(), square.to_sparse(), square),
        "swapaxes": (square, 0, 1),
        "take_along_dim": (square, torch.zeros(4, 4, dtype=torch.long), 0),
        "tensordot": (square, square),
        "to_sparse": (square,),
        "to_sparse_bsc": (square, (2, 2)),
        "to_sparse_bsr": (square, (2, 2)),
        "triangular_solve": (square, square),
        "true_divide": (square, 2),
        "unsafe_split_with_sizes": (square, [1, 3]),
    }


def keywords() -> dict[str, dict[str, Any]]:
    """Name -> keyword arguments that go with `arguments`, or with the general arguments, of functions."""
    return {
        "fractional_max_pool2d": {"output_size": 2},
        "fractional_max_pool3d": {"output_size": 2},
        "frombuffer": {"dtype": torch.uint8},
        "interpolate": {"scale_factor": 2},
        "nonzero_static": {"size": 4},
        "segment_reduce": {"lengths": torch.tensor([2, 2])},
        "upsample": {"scale_factor": 2},
        "upsample_bilinear": {"scale_factor": 2},
        "upsample_nearest": {"scale_factor": 2},
    }
