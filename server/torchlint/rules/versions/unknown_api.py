from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.fixes.editor import Editor
from torchlint.idioms.surroundings.fallbacks import in_version_fallback
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_node, on_unit
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of
from torchlint.torch_api import class_meant_by, indexed_modules, is_unknown, newest_indexed, resembling, versioned_name

#: The last names of modules that are indexed: what a file may import, under whatever name.
_LAST_NAMES = frozenset(name.rpartition(".")[2] for name in indexed_modules())


class UnknownApi(Rule):
    """## What it does

    Reports names of torch that no release from 1.0 to 2.13 has: misspelt ones, and ones that were only imagined. A call
    of what is at most a module (`nn.linear(3, 3)`, `optim.adam(...)`) counts.

    ## Why is this bad?

    `AttributeError` or `ImportError` where the name is used, perhaps hours after the start of the program.

    ## Example

    ```python
    import torch

    loss = torch.nn.CrossEntropy()
    ```

    ## Use instead

    ```python
    import torch

    loss = torch.nn.CrossEntropyLoss()
    ```

    ## Exceptions

    Names that a release once had (`removed-api` knows them), names that the file itself assigns (`torch.helper = ...`),
    namespaces of other builds of torch (`torch.npu`) and modules that make names up (`torch.ops`); private names;
    annotations that stay texts; code under `hasattr`, a test of the version or `try`/`except`. A project that needs a
    torch newer than 2.13 is not looked at. The fix takes the one name that is nearly the same, if there is one.

    ## References

    - [PyTorch API](https://docs.pytorch.org/docs/stable/pytorch-api.html)
    """

    code = "TL008"
    name = "unknown-api"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = "No release of torch has this name: the import or the use raises."

    @on_unit()
    def check_attributes(self, whole: Unit, unit: Unit) -> Iterator[Diagnosis]:
        imported = unit.semantics.module.imported_from(_LAST_NAMES)
        if not imported:
            return
        written: dict[str, str] = {}
        for attribute in unit.all(ast.Attribute):
            root = attribute.value
            if isinstance(root, ast.Name) and root.id in imported:
                if root.id not in written:
                    written[root.id] = _imported_name(root.id, unit)
                dotted = written[root.id]
                node: ast.AST | None = attribute
                while isinstance(node, ast.Attribute):
                    dotted = f"{dotted}.{node.attr}"
                    if not written[root.id] or is_unknown(dotted) or class_meant_by(dotted):
                        yield from self._check_attribute(node, unit)
                    node = parent_of(node)

    def _check_attribute(self, node: ast.Attribute, unit: Unit) -> Iterator[Diagnosis]:
        if node.attr.startswith("_") or not isinstance(node.ctx, ast.Load):
            return
        module = unit.semantics.written_name(node.value)
        if module not in indexed_modules():
            return
        name = f"{module}.{node.attr}"
        holder = parent_of(node)
        meant = class_meant_by(name) if isinstance(holder, ast.Call) and holder.func is node else ""
        if not meant and not is_unknown(name):
            return
        alike = (meant,) if meant else resembling(name)
        if not alike and isinstance(parent_of(node), ast.Attribute):
            return  # a namespace that some package adds to torch
        if unit.semantics.module.writes_attribute_of_others(node.attr) or _is_never_evaluated(node, unit):
            return
        if _is_known(name, unit) or in_version_fallback(unit.semantics, node):
            return
        yield self._diagnosis(node, name, alike, node)

    @on_node(ast.ImportFrom)
    def check_import(self, statement: ast.ImportFrom, unit: Unit) -> Iterator[Diagnosis]:
        module = statement.module or ""
        if statement.level or module not in indexed_modules():
            return
        for alias in statement.names:
            name = f"{module}.{alias.name}"
            if alias.name == "*" or not is_unknown(name) or _is_known(name, unit):
                continue
            if not in_version_fallback(unit.semantics, statement):
                yield self._diagnosis(alias, name, resembling(name), None)

    def _diagnosis(
        self, node: ast.AST, name: str, alike: tuple[str, ...], attribute: ast.Attribute | None
    ) -> Diagnosis:
        fixes = []
        if attribute is not None and len(alike) == 1 and alike[0].rpartition(".")[0] == name.rpartition(".")[0]:
            right = alike[0].rpartition(".")[2]

            def apply(edit: Editor) -> None:
                edit.replace(attribute, f"{edit.source(attribute.value)}.{right}")

            fixes = [FixPlan(f"Write `{right}`", "unsafe", apply)]
        what = "" if is_unknown(name) else "a function "
        message = f"No release of torch has {what}`{name}`" + (f"; {_choice(alike)} may be meant." if alike else ".")
        return self.found(node, message, fixes=fixes)


def _imported_name(name: str, unit: Unit) -> str:
    """What the top level imports as ``name``; empty where it binds the name to several things."""
    bound = {definition.imported for definition in unit.semantics.module.definitions(name)}
    return bound.pop() if len(bound) == 1 else ""


def _is_never_evaluated(node: ast.expr, unit: Unit) -> bool:
    """Whether a node stands in an annotation that stays a text (``from __future__ import annotations``)."""
    imports = unit.semantics.module.definitions("annotations")
    if not any(definition.imported == "__future__.annotations" for definition in imports):
        return False
    child: ast.AST = node
    holder = parent_of(node)
    while isinstance(holder, ast.expr):
        child, holder = holder, parent_of(holder)
    return child in (getattr(holder, "annotation", None), getattr(holder, "returns", None))


def _choice(alike: tuple[str, ...]) -> str:
    return " or ".join(f"`{other}`" for other in alike[:2])


def _is_known(name: str, unit: Unit) -> bool:
    """Whether a name is told of by another rule, or may come with a release that is not indexed."""
    lower = unit.torch.lower if unit.torch is not None else None
    if lower is not None and lower.release[:2] > tuple(int(part) for part in newest_indexed().split(".")):
        return True
    return versioned_name(name) is not None
