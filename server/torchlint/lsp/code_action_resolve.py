"""`codeAction/resolve`: the edit of an action that was offered without one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygls.exceptions import JsonRpcInvalidParams

from torchlint.lsp.fix_all import asked_for, fix_all_edit
from torchlint.lsp.offers import offered_edit

if TYPE_CHECKING:
    from lsprotocol import types

    from torchlint.lsp.server import Server


async def resolve(ls: Server, params: types.CodeAction) -> types.CodeAction:
    """The action with an edit of the text as it is now (perhaps newer than when the action was offered)."""
    session, data = ls.session, _fields(params.data)
    asked = asked_for(data)
    if asked is None:
        if params.edit is not None:
            return params
        raise JsonRpcInvalidParams("this code action does not come from torchlint")
    uri, only = asked
    if "fix" in data:
        params.edit = await offered_edit(session, uri, data["fix"], params.title)
    elif found := await session.newest(uri):
        params.edit = await session.analyses.call(lambda: fix_all_edit(session, found[0], only))
    return params


def _fields(data: Any) -> dict[str, Any]:
    """What was sent along with an action, whatever came back of it."""
    fields: dict[str, Any] = (
        data if isinstance(data, dict) else getattr(data, "__dict__", None) or getattr(data, "_asdict", dict)()
    )
    return fields
