"""`codeAction/resolve`: the edit of an action that fixes many findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pygls.exceptions import JsonRpcInvalidParams

from torchlint.lsp.fix_all import asked_for, fix_all_edit

if TYPE_CHECKING:
    from lsprotocol import types

    from torchlint.lsp.server import Server


async def resolve(ls: Server, params: types.CodeAction) -> types.CodeAction:
    """The action with an edit of the text as it is now (perhaps newer than when the action was offered)."""
    asked = asked_for(params.data)
    if asked is None:
        if params.edit is not None:
            return params
        raise JsonRpcInvalidParams("this code action does not come from torchlint")
    uri, only = asked
    session = ls.session
    if found := await session.newest(uri):
        params.edit = await session.analyses.call(lambda: fix_all_edit(session, found[0], only))
    return params
