"""Modules that are built new in a file and meant to learn, as opposed to teachers, frozen parts and the like."""

from __future__ import annotations

import ast
import re

from torchlint import torch_api
from torchlint.idioms.modules.module_state import State, state_of
from torchlint.idioms.modules.module_uses import Uses
from torchlint.idioms.surroundings.stated import is_stated
from torchlint.idioms.training.construction import constructions
from torchlint.regex import regex
from torchlint.semantics.call_kinds import MODULE_RETURNS_SELF
from torchlint.semantics.nodes import has_unknown_arguments, nodes_within
from torchlint.semantics.scopes import dotted
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

_DEEPEST = 4
#: What an author calls a module that is not to learn.
FIXED = regex(
    r"teacher|target|frozen|freez|fixed|(^|_)ema|momentum|vgg|percep|lpips|vocoder|pretrain|reference|(^|_)ref(_|$)"
    r"|random|oracle|attack|surrogate|not (be )?(train|optimi[sz]|updat)|(^|_)old|inception|clip|backbone|constant",
    re.IGNORECASE,
)
#: What a class does whose layers come trained, or are frozen.
_PRETRAINED = regex(r"requires_grad|load_state_dict|from_pretrained|load|pretrained|weights?$|no_grad|detach|eval$")
#: What fills layers that are new.
_INITIALISES = regex(r"init|reset")
_CHOICES = ("pretrained", "weights", "weights_backbone", "pretrained_backbone")
#: What is asked of a module that is to learn, where its class cannot be seen.
_WANTED = frozenset(("train", "zero_grad", "parameters", "apply"))


def builds_of(semantics: Semantics, module: ast.expr, depth: int = 0) -> tuple[ast.Call, ...]:
    """The calls that make a module, without the conversions of one whose class is unknown; empty if one is missing."""
    found = constructions(semantics, module)
    builds: list[ast.Call] = []
    for build in found.calls if found.complete else ():
        inner = build
        while _converts(inner) and isinstance(inner.func, ast.Attribute) and isinstance(inner.func.value, ast.Call):
            inner = inner.func.value
        if not _converts(inner):
            builds.append(inner)
        elif isinstance(inner.func, ast.Attribute) and depth < _DEEPEST:
            earlier = builds_of(semantics, inner.func.value, depth + 1)
            if not earlier:
                return ()
            builds += earlier
    return tuple(builds)


def _converts(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in MODULE_RETURNS_SELF


def is_to_learn(semantics: Semantics, build: ast.Call, uses: Uses) -> bool:
    """Whether a module is new, and nothing says that it is to stay as it is."""
    if any(map(FIXED.search, (*uses.names, ast.unparse(build.func)))) or is_stated(build, FIXED):
        return False
    trains = not uses.methods.isdisjoint(_WANTED)
    saved = "state_dict" in uses.methods and "load_state_dict" not in uses.methods
    if not trains and not uses.methods.isdisjoint(("eval", "load_state_dict")):
        return False
    if (
        uses.overwritten
        or "requires_grad_" in uses.methods
        or semantics.is_named(build.func, "copy.copy", "copy.deepcopy")
    ):
        return False
    kind = semantics.kind(build)
    if kind is None:
        return (trains or saved) and not _is_loaded(semantics, build)
    if not kind.is_module or (kind.class_node is None and not kind.origin.startswith("torch.nn.")):
        return False
    return state_of(kind, semantics) is State.WEIGHTS and not (
        kind.class_node and _is_settled(semantics, kind.class_node)
    )


def _is_loaded(semantics: Semantics, build: ast.Call) -> bool:
    """Whether a call that cannot be seen may give a module with weights: by its name, or what it is given."""
    name = semantics.name(build.func) or dotted(build.func) or ""
    if not name.rpartition(".")[2][:1].isupper():
        return True
    return any(map(_PRETRAINED.search, (name, *(item.arg or "" for item in build.keywords))))


def _is_settled(semantics: Semantics, owner: ast.ClassDef) -> bool:
    """Whether a class of the file may hold layers that come trained, or freeze some."""
    for holder in (owner, *semantics.local_bases(owner)):
        if FIXED.search(holder.name):
            return True
        for method in semantics.module.methods(holder):
            if any(map(_settles, nodes_within(method, ast.Attribute, ast.keyword))):
                return True
            calls = (call for call in nodes_within(method, ast.Call) if isinstance(call, ast.Call))
            models = (call for call in calls if torch_api.is_torchvision_model(semantics.name(call.func)))
            if not all(_is_new(semantics, call) for call in models):
                return True
    return False


def _settles(node: ast.AST) -> bool:
    """Whether a name in a class says that its layers come trained, or are frozen; not what fills new ones."""
    match node:
        case ast.Attribute(attr="weight") if isinstance(node.ctx, ast.Load):
            holder = parent_of(node)  # `self.embed.weight.data.copy_(vectors)`
            inner = parent_of(holder) if isinstance(holder, ast.Attribute) and holder.attr == "data" else holder
            return isinstance(inner, ast.Attribute) and inner.attr == "copy_"
        case ast.Attribute(attr=name):
            return bool(_PRETRAINED.search(name)) and not _INITIALISES.search(name)
        case ast.keyword(arg=str(name), value=ast.Constant(value=False | None)) if name in _CHOICES:
            return False
        case ast.keyword(arg=str(name)):
            return bool(_PRETRAINED.search(name))
        case _:
            return False


def _is_new(semantics: Semantics, call: ast.Call) -> bool:
    """Whether a model of torchvision has new weights: it is given none, or is told so."""
    if call.args or has_unknown_arguments(call):
        return False
    given = [item.value for item in call.keywords if item.arg in _CHOICES]
    return bool(given) and all(semantics.literal(value) in (None, False) for value in given)
