from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.data.loader_use import made_by
from torchlint.idioms.surroundings.saved_files import is_same_file
from torchlint.rules.base import Diagnosis, Level, Rule, on_method
from torchlint.semantics.nodes import argument, nodes_within
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

#: What wraps a module, and what it puts before the keys of its state (torch 2.13).
_PREFIXES = {
    "torch.nn.DataParallel": "module.",
    "torch.nn.parallel.DistributedDataParallel": "module.",
    "torch.compile": "_orig_mod.",
}
#: Methods that give the module that they are called on.
_SAME = frozenset(("cuda", "to", "train", "eval", "half", "float", "cpu"))
_MENDING_CALLS = ("consume_prefix_in_state_dict_if_present", "removeprefix", "lstrip")


class CheckpointKeyPrefix(Rule):
    """## What it does

    Reports a checkpoint that is written from a wrapped module (`nn.DataParallel`, `DistributedDataParallel`,
    `torch.compile`) and read, in the same file, into the plain one.

    ## Why is this bad?

    The wrapper holds the module as `module` (compiled: `_orig_mod`), so every key begins with that: `load_state_dict`
    raises "Missing key(s) in state_dict", and with `strict=False` nothing at all is loaded.

    ## Example

    ```python
    import torch
    from torch import nn

    model = nn.DataParallel(nn.Linear(4, 2))
    torch.save(model.state_dict(), "model.pt")

    plain = nn.Linear(4, 2)
    plain.load_state_dict(torch.load("model.pt"))
    ```

    ## Use instead

    ```python
    import torch
    from torch import nn

    model = nn.DataParallel(nn.Linear(4, 2))
    torch.save(model.module.state_dict(), "model.pt")

    plain = nn.Linear(4, 2)
    plain.load_state_dict(torch.load("model.pt"))
    ```

    ## Exceptions

    Files that are read into a wrapped module again, or that are not known to be the same; keys that are mended; a
    module that is wrapped only under a test.

    ## References

    - [Saving torch.nn.DataParallel models](https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html)
    - [torch.nn.DataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html)
    """

    code = "TL906"
    name = "checkpoint-key-prefix"
    level = Level.HINT
    summary = "The keys of a wrapped module have a prefix that the plain module does not know."

    @on_method("state_dict")
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        if not isinstance(call.func, ast.Attribute) or not semantics.module.mentions_call("load_state_dict"):
            return
        wrapper = _made(semantics, call.func.value)
        prefix = _PREFIXES.get(semantics.name(wrapper.func), "") if wrapper is not None else ""
        if wrapper is None or not prefix or not wrapper.args or _mends_keys(semantics):
            return
        inner = _made(semantics, wrapper.args[0])
        load = next((load for load in _loads(semantics, call) if _is_plain(semantics, load, inner)), None)
        if inner is None or load is None or not isinstance(load.func, ast.Attribute):
            return
        plain = ast.unparse(load.func)
        message = f"All keys here begin with `{prefix}`, and `{plain}` reads them into the module without its wrapper."
        related = [(wrapper, "wrapped here"), (load, "read into the plain module")]
        yield self.found(call, message, related=related)


def _made(semantics: Semantics, module: ast.expr) -> ast.Call | None:
    """The call that made a module: ``nn.DataParallel(net)`` of ``nn.DataParallel(net).cuda()``."""
    made = made_by(semantics, module)
    while made is not None and isinstance(made.func, ast.Attribute) and made.func.attr in _SAME:
        made = made_by(semantics, made.func.value)
    return made


def _is_plain(semantics: Semantics, load: ast.Call, inner: ast.Call | None) -> bool:
    """Whether a state is loaded into the module that was wrapped, or one of its class, without a wrapper."""
    if not isinstance(load.func, ast.Attribute) or inner is None:
        return False
    made = _made(semantics, load.func.value)
    if made is None:
        return False
    name = semantics.name(made.func)
    return name not in _PREFIXES and (made is inner or (bool(name) and name == semantics.name(inner.func)))


def _loads(semantics: Semantics, saved: ast.Call) -> Iterator[ast.Call]:
    """The calls of ``load_state_dict`` that read what was saved."""
    holder = parent_of(saved)
    key, keys = "", frozenset[str]()
    if isinstance(holder, ast.Dict):
        texts = [item.value if isinstance(item, ast.Constant) else "" for item in holder.keys]
        key = str(texts[holder.values.index(saved)])
        keys = frozenset(str(text) for text in texts if text) - {key}
        holder = parent_of(holder)
    if isinstance(holder, ast.keyword):
        holder = parent_of(holder)
    path = argument(holder, 1, "f") if isinstance(holder, ast.Call) and _is_save(semantics, holder) else None
    for load in semantics.module.calls_of("load_state_dict"):
        state = argument(load, 0, "state_dict")
        base = state.value if key and isinstance(state, ast.Subscript) else state
        if key and (not isinstance(state, ast.Subscript) or semantics.literal(state.slice) != key):
            continue
        read = semantics.value_of(base)
        if not isinstance(read, ast.Call) or not semantics.is_named(read.func, "torch.load"):
            continue
        if is_same_file(semantics, argument(read, 0, "f"), path) or (base is not None and _reads(base, keys)):
            yield load


def _is_save(semantics: Semantics, call: ast.Call) -> bool:
    return semantics.is_named(call.func, "torch.save")


def _reads(base: ast.expr, keys: frozenset[str]) -> bool:
    """Whether another of the saved keys is read from what was loaded: it is a checkpoint of this program."""
    if not isinstance(base, ast.Name):
        return False
    statement: ast.AST = base
    parent = parent_of(statement)
    while parent is not None and not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        statement, parent = parent, parent_of(parent)
    return any(
        isinstance(part, ast.Subscript)
        and isinstance(part.value, ast.Name)
        and part.value.id == base.id
        and isinstance(part.slice, ast.Constant)
        and part.slice.value in keys
        for part in nodes_within(statement, ast.Subscript)
    )


def _mends_keys(semantics: Semantics) -> bool:
    """Whether the file knows of the prefix: it takes it off, or unwraps."""
    module = semantics.module
    if any(module.mentions_call(name) for name in _MENDING_CALLS):
        return True
    return (
        module.reads_attribute("module") or module.reads_attribute("_orig_mod") or module.mentions_call("unwrap_model")
    )
