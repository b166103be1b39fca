"""`initialize` and `initialized`: what both sides can do, and the settings of the editor."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING

from lsprotocol import types

from torchlint.lsp import capabilities, configuration, memory
from torchlint.lsp.editor_settings import EditorSettings
from torchlint.lsp.session import Session
from torchlint.lsp.transport import on_end_of_process

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchlint.lsp.analyses import LinterLike
    from torchlint.lsp.server import Server


_LATE_MODULES = ("torchlint.linter", "torchlint.lsp.hover", "torchlint.lsp.code_action", "torchlint.lsp.fix_all")


def initialize(ls: Server, params: types.InitializeParams) -> None:
    """Decide what this session can do; pygls computes the answer from what is registered when this returns."""
    client = capabilities.resolve(params.capabilities)
    if client.pull:
        ls.offer_pull()
    folders = [folder.uri for folder in params.workspace_folders or ()]
    if not folders and params.root_uri:
        folders = [params.root_uri]
    settings = EditorSettings(folders, ls.log, watched=client.watch_files)
    settings.set_options(params.initialization_options)
    ls.session = Session(ls, client, settings, ls.make_linter or _linter)
    if params.process_id is not None:
        loop = asyncio.get_running_loop()

        def stop() -> None:
            loop.call_soon_threadsafe(ls.stop, 1)

        on_end_of_process(params.process_id, stop)


async def initialized(ls: Server, params: types.InitializedParams) -> None:
    """Ask for the editor's settings, watch what may change, and begin to analyse."""
    ls.log.connect(ls.window_log_message)
    session = ls.session
    await configuration.register(ls)
    changed, _ = await asyncio.gather(configuration.pull(ls), session.analyses.call(_load))
    session.settings_known(changed=changed)


def _linter() -> LinterLike:
    from torchlint.linter import Linter

    return Linter()


def _load() -> None:
    """Load the rules and the handlers that need them, in the analysis thread, after `initialize` was answered."""
    for module in _LATE_MODULES:
        import_module(module)
    all_rules: Callable[[], object] = import_module("torchlint.rules").all_rules
    all_rules()
    memory.loaded()
