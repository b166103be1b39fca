"""The layer that fine-tuning puts in the place of the last one of a classifier of torchvision."""

from __future__ import annotations

import ast

from torchlint.semantics.nodes import enclosing_function, nodes_within

#: What torchvision's classifiers run last.
_HEADS = frozenset(("fc", "classifier", "head", "heads"))


def replaced_head(model: ast.expr) -> ast.expr | None:
    """The last layer that the function gives a model (``model.fc = nn.Linear(512, 10)``); None for none or several."""
    function = enclosing_function(model)
    if not isinstance(model, ast.Name) or function is None:
        return None
    heads: list[ast.expr] = []
    for node in nodes_within(function, ast.Assign):
        match node:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=name), attr=attribute)], value=layer) if (
                name == model.id and attribute in _HEADS
            ):
                heads.append(layer)
    return heads[0] if len(heads) == 1 else None
