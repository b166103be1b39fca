from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, Level, Rule, on_call, on_method
from torchlint.semantics.nodes import argument, has_unknown_arguments
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit

#: Libraries whose `from_pretrained` takes `revision=`.
_LIBRARIES = ("transformers.", "diffusers.", "peft.", "huggingface_hub.")
_REPOSITORY = regex(r"^[\w.-]+(/[\w.-]+)?$")
#: What names one state for ever: a commit, or a tag as releases are called.
_PINNED = regex(r"^([0-9a-f]{7,40}|v?\d+(\.\w+)*([-_.]\w+)*|refs/tags/.+)$")
#: Names of variables for a folder that the program writes itself. A `model_path` is often a repository.
_FOLDER_NAME = regex(r"(^|_)(output|out|save)_?(dir|directory|folder|path)(_|$|\d)", re.IGNORECASE)
_BRANCHES = ("main", "master", "dev", "develop", "latest")


class UnpinnedRevision(Rule):
    """## What it does

    Reports `torch.hub.load` of a repository without a tag or commit, and `from_pretrained` (transformers, diffusers,
    peft), `hf_hub_download` and `snapshot_download` of a repository without `revision=`.

    ## Why is this bad?

    The newest state of the repository is taken, which its owner can change at any time: `torch.hub.load` runs its code
    on your machine, and weights that have been changed give other results without an error.

    ## Example

    ```python
    import torch

    model = torch.hub.load("pytorch/vision", "resnet18", weights="DEFAULT")
    ```

    ## Use instead

    ```python
    import torch

    model = torch.hub.load("pytorch/vision:v0.20.0", "resnet18", weights="DEFAULT")
    ```

    ## Exceptions

    A tag or commit that is given (a branch such as `main` moves, and is reported); names that are not literals;
    paths, which are not downloaded, and folders for what is written (`output_dir`); `source="local"` and
    `local_files_only=True`; `from_pretrained` of other libraries (`nn.Embedding.from_pretrained`).

    ## References

    - [torch.hub.load](https://docs.pytorch.org/docs/stable/hub.html#torch.hub.load)
    - [from_pretrained](https://huggingface.co/docs/transformers/main_classes/model)
    """

    code = "TL910"
    name = "unpinned-revision"
    level = Level.OFF
    summary = "Code or weights are taken from whatever the repository holds today."

    @on_call("torch.hub.load")
    def check_hub(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        given = argument(call, 0, "repo_or_dir")
        repository = unit.semantics.literal(given)
        source = argument(call, None, "source")
        if given is None or not isinstance(repository, str) or (source is None and has_unknown_arguments(call)):
            return
        if source is not None and unit.semantics.literal(source) != "github":
            return
        name, _, reference = repository.partition(":")
        if not _REPOSITORY.match(name) or "/" not in name or name.startswith(".") or _PINNED.match(reference):
            return
        if reference and reference not in _BRANCHES:
            return  # may be a tag
        state = f"the branch `{reference}`" if reference else "its default branch"
        message = f"`torch.hub.load` runs code of `{name}` from {state}, which may change: name a tag or commit."
        yield self.found(given, message)

    @on_method("from_pretrained")
    def check_pretrained(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        if unit.semantics.name(call.func).startswith(_LIBRARIES):
            yield from self._of_repository(call, "pretrained_model_name_or_path", unit.semantics)

    @on_call("huggingface_hub.hf_hub_download", "huggingface_hub.snapshot_download")
    def check_download(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        yield from self._of_repository(call, "repo_id", unit.semantics)

    def _of_repository(self, call: ast.Call, parameter: str, semantics: Semantics) -> Iterator[Diagnosis]:
        given = argument(call, 0, parameter)
        repository = semantics.literal(given)
        if given is None or has_unknown_arguments(call) or not isinstance(repository, str):
            return
        if not _REPOSITORY.match(repository) or repository.startswith("."):
            return
        if semantics.literal(argument(call, None, "local_files_only")) is True or _is_folder(given):
            return
        revision = argument(call, None, "revision")
        value = semantics.literal(revision) if revision is not None else None
        if value is not None and value not in _BRANCHES:
            return
        state = f"the branch `{value}`" if value is not None else "no `revision`"
        message = f"`{repository}` is loaded with {state}, so its owner can change what you get: name a tag or commit."
        yield self.found(given if revision is None else revision, message)


def _is_folder(given: ast.expr) -> bool:
    """Whether the name of a variable says that the program writes there: ``from_pretrained(output_dir)``."""
    return isinstance(given, ast.Name) and bool(_FOLDER_NAME.search(given.id))
