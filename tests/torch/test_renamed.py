"""Names that a fix renames are one thing in torch, or a program of this folder shows that they do the same."""

from __future__ import annotations

import importlib
import re
import warnings
from typing import Any

import pytest

from tests.torch.programs import FOLDER
from tests.torch.running import torch
from torchlint.torch_api import VersionedName, versioned_name
from torchlint.torch_api.tables import table

#: What no program can show on a machine like any other, and why; the old name calls the new one in torch 2.13.
NOT_RUN = {
    "torch.accelerator.current_device_idx": "needs an accelerator",
    "torch.accelerator.set_device_idx": "needs an accelerator",
    "torch.cuda.reset_max_memory_allocated": "needs a GPU",
    "torch.cuda.reset_max_memory_cached": "needs a GPU",
    "torch.distributed.all_gather_into_tensor": "needs a process group",
    "torch.distributed.reduce_scatter_tensor": "needs a process group",
    "torch.nn.parallel.DistributedDataParallelCPU": "needs a process group",
    "torch.set_autocast_gpu_dtype": "needs a GPU to have an effect",
    "torch.get_autocast_ipu_dtype": "needs an IPU",
    "torch.is_autocast_ipu_enabled": "needs an IPU",
    "torch.set_autocast_ipu_dtype": "needs an IPU",
    "torch.set_autocast_ipu_enabled": "needs an IPU",
    "torch.get_autocast_xla_dtype": "needs an XLA device",
    "torch.is_autocast_xla_enabled": "needs an XLA device",
    "torch.set_autocast_xla_dtype": "needs an XLA device",
    "torch.set_autocast_xla_enabled": "needs an XLA device",
}


def _renamed() -> list[VersionedName]:
    found = (versioned_name(name) for name in table("versions") if "(" not in name)
    return [name for name in found if name is not None and name.rewrite is not None]


RENAMED = _renamed()
PROGRAMS = "\n".join(path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md"))


def test_there_are_names_to_compare() -> None:
    assert len(RENAMED) > 60


@pytest.mark.parametrize("renamed", RENAMED, ids=lambda renamed: renamed.name)
def test_old_and_new_name_mean_the_same(renamed: VersionedName) -> None:
    rewrite = renamed.rewrite
    assert rewrite is not None
    old, new = _object(renamed.name), _object(rewrite.name)
    if rewrite.name.startswith("torch.") and new is None:
        pytest.fail(f"torch {torch.__version__} has no {rewrite.name}")
    if old is None:
        assert renamed.gone, f"torch {torch.__version__} has no {renamed.name}"
    elif rewrite.members:
        assert [name for name in rewrite.members if getattr(old, name) is not getattr(new, name)] == []
    elif old is not new:
        shown = re.search(rf"\b{renamed.name.rpartition('.')[2]}\b", PROGRAMS) is not None
        assert shown != (renamed.name in NOT_RUN), f"{renamed.name} is in a program: {shown}"


def _object(name: str) -> Any:
    """What a dotted name is; None where torch has no such thing."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                found: Any = importlib.import_module(".".join(parts[:length]))
                for part in parts[length:]:
                    found = getattr(found, part)
        except (ImportError, AttributeError):
            continue
        return found
    return None
