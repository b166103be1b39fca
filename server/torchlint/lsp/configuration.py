"""`workspace/didChangeConfiguration`, `didChangeWatchedFiles`, `didChangeWorkspaceFolders`, and asking for settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from torchlint.lsp.editor_settings import SECTION, WATCHED_FILES

if TYPE_CHECKING:
    from torchlint.lsp.server import Server


def did_change_configuration(ls: Server, params: types.DidChangeConfigurationParams) -> None:
    """Take the settings that come along, or ask for them; findings follow without a restart."""
    session = ls.session
    if session.client.configuration:
        session.in_background(_pull_and_apply(ls))
    elif params.settings is not None:
        session.settings.set_options(params.settings)
        session.settings_changed()


def did_change_watched_files(ls: Server, params: types.DidChangeWatchedFilesParams) -> None:
    """A file with settings was created, changed or deleted."""
    ls.session.settings.forget_files()
    ls.session.settings_changed()


def did_change_workspace_folders(ls: Server, params: types.DidChangeWorkspaceFoldersParams) -> None:
    """Folders come and go; each may have settings of its own in the editor."""
    ls.session.settings.change_folders(
        added=[folder.uri for folder in params.event.added], removed=[folder.uri for folder in params.event.removed]
    )
    ls.session.in_background(_pull_and_apply(ls))


async def register(ls: Server) -> None:
    """Ask to be told when settings change, where the client offers that."""
    client = ls.session.client
    registrations = []
    if client.watch_configuration:
        options = types.DidChangeConfigurationRegistrationOptions(section=SECTION)
        registrations.append(_registration(types.WORKSPACE_DID_CHANGE_CONFIGURATION, options))
    if client.watch_files:
        watchers = [types.FileSystemWatcher(glob_pattern=f"**/{name}") for name in WATCHED_FILES]
        files = types.DidChangeWatchedFilesRegistrationOptions(watchers=watchers)
        registrations.append(_registration(types.WORKSPACE_DID_CHANGE_WATCHED_FILES, files))
    if registrations:
        # Nothing depends on the answer: a client that refuses is one that does not tell.
        ls.client_register_capability(types.RegistrationParams(registrations=registrations))


async def pull(ls: Server) -> bool:
    """Ask for the settings of the editor, for every folder and for files outside of them; whether they changed."""
    session = ls.session
    if not session.client.configuration:
        return False
    scopes = [*session.settings.folders, None]
    items = [types.ConfigurationItem(scope_uri=scope, section=SECTION) for scope in scopes]
    try:
        answers = await ls.workspace_configuration_async(types.ConfigurationParams(items=items))
    except JsonRpcException as error:
        ls.log.warning(f"the editor's settings are unknown: {error}")
        return False
    return session.settings.set_by_folder(dict(zip(scopes, answers or (), strict=False)))


async def _pull_and_apply(ls: Server) -> None:
    await pull(ls)
    ls.session.settings_changed()


def _registration(method: str, options: object) -> types.Registration:
    return types.Registration(id=f"{SECTION}-{method}", method=method, register_options=options)
