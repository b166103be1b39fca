"""`torchlint/ruleDocumentation`: the page of a rule, for a client that shows it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pygls.exceptions import JsonRpcInvalidParams

from torchlint.lsp.protocol import Json
from torchlint.rules import find_rule

if TYPE_CHECKING:
    from torchlint.lsp.server import Server


async def rule_documentation(ls: Server, params: Any) -> Json:
    """In: `{"rule": code or name}`. Out: `{"code", "name", "markdown"}`."""
    asked = getattr(params, "rule", None)
    rule = find_rule(asked) if isinstance(asked, str) else None
    if rule is None:
        raise JsonRpcInvalidParams(f"there is no rule {asked!r}")
    page = f"# {rule.name} ({rule.code})\n\n{rule.summary}\n\n{rule.documentation()}"
    return Json(json.dumps({"code": rule.code, "name": rule.name, "markdown": page}))
