from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint.idioms.surroundings.saved_files import is_same_file, loads_own_file
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import argument, contains, enclosing_class, enclosing_function, has_unknown_arguments
from torchlint.semantics.scopes import Definition, FunctionNode
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

#: Functions that say for a whole program on which device its tensors are.
_POLICIES = ("set_default_device", "set_default_tensor_type")
_ABOUT_DEVICES = regex(r"cuda|gpu|device|cpu|mps", re.IGNORECASE)
#: Words for what is trained, and so may have been saved from a GPU.
_TRAINED = regex(
    r"checkpoint|ckpt|cpkt|state_?dict|model|weight|pretrain|optim|snapshot|(^|_)(g|d|f)?(net|nets|network|ema)([_A-Z\d]|$)",
    re.IGNORECASE,
)
_METHODS_OF_MODULES = frozenset(("eval", "train", "parameters", "state_dict", "modules", "named_parameters"))
_LONGEST = 40


class LoadWithoutMapLocation(Rule):
    """## What it does

    Reports `torch.load` of a checkpoint (a module, or its state) without `map_location`, in code that nowhere says on
    which device tensors are to be.

    ## Why is this bad?

    Each tensor goes back to the device it was saved from. A checkpoint that was saved from a GPU raises on a machine
    without one ("Attempting to deserialize object on a CUDA device"), and where several processes load it, all of them
    fill the memory of the one GPU that wrote it.

    ## Example

    ```python
    import torch


    def resume(model, path):
        model.load_state_dict(torch.load(path))
    ```

    ## Use instead

    ```python
    import torch


    def resume(model, path):
        model.load_state_dict(torch.load(path, map_location="cpu"))
    ```

    `load_state_dict` copies into the module's own tensors, wherever they are, so `"cpu"` is right for checkpoints. The
    fix gives a `device` that the function has. Tensors that are used as they are loaded must be moved.

    ## Exceptions

    A file (or buffer) that the same function writes; a choice between two ways of loading, or a load under a test that
    asks about devices; a file with `torch.set_default_device`, or one that says `"cpu"` and never a GPU; tests;
    unpacked arguments; files of which nothing suggests that they hold what was trained (samples, features, graphs).

    ## References

    - [torch.load](https://docs.pytorch.org/docs/stable/generated/torch.load.html)
    - [Saving and loading models across devices](https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html)
    """

    code = "TL902"
    name = "load-without-map-location"
    level = Level.HINT
    fix = FixKind.UNSAFE
    summary = "Tensors are loaded to the device they were saved from, which this machine may not have."

    @on_call("torch.load")
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        loaded = argument(call, 0, "f")
        if loaded is None or argument(call, 1, "map_location") is not None or has_unknown_arguments(call):
            return
        if _has_policy(semantics) or _chooses(semantics, call, loaded) or loads_own_file(semantics, call):
            return
        if _is_test(call) or _is_of_dataset(semantics, call) or not _is_trained(semantics, call, loaded):
            return
        device = _device_in_scope(semantics, call)
        title = f"Load with `map_location={device}`"
        fix = FixPlan(title, "unsafe", lambda edit: edit.add_keyword(call, "map_location", device))
        message = f"{_shown(loaded)} is loaded to the device it was saved from: that raises on a machine without it."
        yield self.found(call, message, fixes=[fix])


def _has_policy(semantics: Semantics) -> bool:
    """Whether the file says once and for all which device is used, or knows only the CPU."""
    module = semantics.module
    if any(module.mentions_call(name) for name in _POLICIES):
        return True
    if module.mentions_call("cuda") or module.reads_attribute("cuda"):
        return False
    devices = [argument(made, 0, "device") or argument(made, 0, "type") for made in module.calls_of("device")]
    return bool(devices) and all(semantics.literal(device) == "cpu" for device in devices)


def _chooses(semantics: Semantics, call: ast.Call, loaded: ast.expr) -> bool:
    """Whether the function looks at devices before it loads, or loads the same file with ``map_location`` elsewhere."""
    child: ast.AST = call
    holder = parent_of(call)
    while holder is not None and not isinstance(holder, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        asked: list[ast.expr] = []
        if isinstance(holder, ast.If | ast.IfExp) and child is not holder.test:
            asked = [holder.test]
        elif isinstance(holder, ast.With | ast.AsyncWith):
            asked = [item.context_expr for item in holder.items]
        if any(_ABOUT_DEVICES.search(ast.unparse(expression)) for expression in asked):
            return True
        child, holder = holder, parent_of(holder)
    function = enclosing_function(call)
    return any(
        other is not call
        and argument(other, 1, "map_location") is not None
        and enclosing_function(other) is function
        and is_same_file(semantics, loaded, argument(other, 0, "f"))
        for other in semantics.module.calls_of("load")
    )


def _is_test(call: ast.Call) -> bool:
    function = enclosing_function(call)
    return function is not None and function.name.startswith("test")


def _is_of_dataset(semantics: Semantics, call: ast.Call) -> bool:
    """Whether a dataset loads its samples, which were made on the CPU."""
    holder = enclosing_class(call)
    return holder is not None and any(name.endswith("Dataset") for name in semantics.ancestors(holder))


def _is_trained(semantics: Semantics, call: ast.Call, loaded: ast.expr) -> bool:
    """Whether a file holds a module or its state, by what is done with it or by what it is called; files of features,
    graphs or numbers have seldom seen a GPU."""
    function = enclosing_function(call)
    names = [text.value for text in ast.walk(loaded) if isinstance(text, ast.Constant) and isinstance(text.value, str)]
    names += [part.id for part in ast.walk(loaded) if isinstance(part, ast.Name)]
    names += [part.attr for part in ast.walk(loaded) if isinstance(part, ast.Attribute)]
    names += [function.name] if function is not None else []
    current: ast.AST | None = call
    while current is not None and not isinstance(current, ast.stmt):
        holder = parent_of(current)
        if current is not call and _uses_as_state(current):
            return True
        if isinstance(current, ast.NamedExpr):
            names.append(current.target.id)
        current = holder
    if isinstance(current, ast.Assign | ast.AnnAssign) and current.value is not None and contains(current.value, call):
        targets = current.targets if isinstance(current, ast.Assign) else [current.target]
        names += [ast.unparse(target) for target in targets]
        bound = {target.id for target in targets if isinstance(target, ast.Name)}
        if any(enclosing_function(use) is function and _reads(use, bound) for use in _loading(semantics)):
            return True
    return any(_TRAINED.search(name) for name in names)


def _uses_as_state(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="load_state_dict")):
            return True
        case ast.Attribute(attr=name):
            return name in _METHODS_OF_MODULES
        case ast.Subscript(slice=ast.Constant(value=str(key))):
            return bool(_TRAINED.search(key))
        case _:
            return False


def _loading(semantics: Semantics) -> tuple[ast.Call, ...]:
    return semantics.module.calls_of("load_state_dict")


def _reads(call: ast.Call, names: set[str]) -> bool:
    given = [*call.args, *(item.value for item in call.keywords)]
    return any(isinstance(part, ast.Name) and part.id in names for item in given for part in ast.walk(item))


def _device_in_scope(semantics: Semantics, call: ast.Call) -> str:
    """Source text of the device that the function has: its ``device``, or the CPU."""
    function = enclosing_function(call)
    if function is None:
        return '"cpu"'
    arguments = function.args
    parameters = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    if any(parameter.arg == "device" for parameter in parameters) or _binds_device(function, call):
        return "device"
    made = semantics.module.definitions("device")
    is_device = bool(made) and all(_is_device(semantics, definition) for definition in made)
    return "device" if is_device else '"cpu"'


def _binds_device(function: FunctionNode, call: ast.Call) -> bool:
    """Whether the function's own body (no branch) assigns ``device`` before a call."""
    for statement in function.body:
        if contains(statement, call):
            return False
        match statement:
            case ast.Assign(targets=[ast.Name(id="device")]):
                return True
    return False


def _is_device(semantics: Semantics, definition: Definition) -> bool:
    kind = semantics.definition_kind(definition)
    return kind is not None and kind.what in (What.DEVICE, What.TEXT)


def _shown(loaded: ast.expr) -> str:
    text = ast.unparse(loaded)
    return f"`{text}`" if len(text) <= _LONGEST else "The file"
