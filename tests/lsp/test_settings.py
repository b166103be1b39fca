"""Settings of the project and of the editor are followed live, and a broken one costs one message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.lsp.client import FULL, PUSH, Client, Message, insertion, position, without
from tests.lsp.conftest import Start
from tests.lsp.examples import DEPRECATED, TYPO

#: A client that neither watches files nor offers its settings.
PLAIN = without(FULL, "workspace.configuration", "workspace.didChangeWatchedFiles", "workspace.didChangeConfiguration")
BOTH = f"{TYPO}{DEPRECATED.removeprefix('import torch')}"


def open_in(client: Client, folder: Path, text: str = BOTH, name: str = "net.py") -> str:
    """Open a file of a folder; its URI."""
    uri = (folder / name).as_uri()
    client.open(uri, text)
    return uri


def codes(client: Client, uri: str) -> list[str]:
    return sorted(item["code"] for item in client.findings(uri))


def refreshed_codes(client: Client, uri: str, expected: list[str]) -> list[str]:
    """What is found after the server has told, once or more often, to ask again."""
    told = 0
    while (found := codes(client, uri)) != expected:
        client.wait(lambda _, told=told: len(client.said("workspace/diagnostic/refresh")) > told)
        told += 1
    return found


def configure(client: Client, settings: Any) -> None:
    """Have the client answer every question about its settings with this."""
    client.answers["workspace/configuration"] = lambda params: [settings for _ in params["items"]]


@pytest.mark.parametrize(
    "options",
    [
        {"ignore": ["TL107"]},
        {"settings": {"ignore": ["requires-grad-typo"]}},
        {"torchlint": {"ignore": ["TL1"]}},
        {"settings": {"torchlint": {"select": ["TL0"]}}},
    ],
)
def test_options_at_the_start_in_every_shape_that_clients_send(start: Start, tmp_path: Path, options: Message) -> None:
    client = start()
    client.initialize(PLAIN, folder=tmp_path, options=options)
    assert codes(client, open_in(client, tmp_path)) == ["TL013"]


def test_settings_that_the_server_asks_for(start: Start, tmp_path: Path) -> None:
    client = start()
    configure(client, {"ignore": ["TL013"], "select": None, "interpreter": None, "trace": {"server": "off"}})
    client.initialize(folder=tmp_path)
    assert codes(client, open_in(client, tmp_path)) == ["TL107"]
    assert client.said("window/logMessage") == []
    asked = client.said("workspace/configuration")[0]
    assert {item.get("scopeUri") for item in asked["items"]} == {tmp_path.as_uri(), None}
    assert {item["section"] for item in asked["items"]} == {"torchlint"}


def test_a_change_in_the_editor_is_followed_without_a_restart(start: Start, tmp_path: Path) -> None:
    client = start()
    client.initialize(folder=tmp_path)
    uri = open_in(client, tmp_path)
    assert codes(client, uri) == ["TL013", "TL107"]
    configure(client, {"severity": {"TL107": "hint"}, "ignore": ["deprecated-amp-api"]})
    client.notify("workspace/didChangeConfiguration", {"settings": None})
    # The client that pulls is told to ask again.
    assert refreshed_codes(client, uri, ["TL107"]) == ["TL107"]
    (found,) = client.findings(uri)
    assert (found["code"], found["severity"]) == ("TL107", 4)


def test_a_change_that_comes_with_the_notification(start: Start, tmp_path: Path) -> None:
    client = start()
    client.initialize(PLAIN, folder=tmp_path)
    uri = open_in(client, tmp_path)
    client.notify(
        "workspace/didChangeConfiguration", {"settings": {"torchlint": {"extendSelect": [], "ignore": ["TL1"]}}}
    )
    assert codes(client, uri) == ["TL013"]


def test_a_pushing_server_pushes_again_after_a_change(start: Start, tmp_path: Path) -> None:
    client = start()
    client.initialize(PUSH, folder=tmp_path)
    uri = open_in(client, tmp_path, TYPO)
    assert client.published(uri)
    seen = len(client.messages)
    client.notify("workspace/didChangeConfiguration", {"settings": {"ignore": ["TL107"]}})
    again = client.wait(lambda message: message.get("method") == "textDocument/publishDiagnostics", seen)
    assert again["params"]["diagnostics"] == []


def test_the_nearest_file_of_settings_wins(start: Start, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "torchlint.toml").write_text('ignore = ["TL107"]\n')
    (inner / "pyproject.toml").write_text('[tool.torchlint]\nignore = ["TL013"]\n')
    client = start()
    client.initialize(folder=tmp_path)
    assert codes(client, open_in(client, tmp_path)) == ["TL013"]
    assert codes(client, open_in(client, inner)) == ["TL107"]


def test_a_file_outside_of_every_folder_has_the_settings_around_it(start: Start, tmp_path: Path) -> None:
    workspace, outside = tmp_path / "workspace", tmp_path / "outside"
    workspace.mkdir()
    outside.mkdir()
    (outside / "torchlint.toml").write_text('ignore = ["TL107"]\n')
    client = start()
    client.initialize(folder=workspace)
    assert codes(client, open_in(client, outside)) == ["TL013"]


def test_the_editor_goes_before_the_file(start: Start, tmp_path: Path) -> None:
    (tmp_path / "torchlint.toml").write_text('select = ["TL013"]\n[severity]\nTL013 = "hint"\n')
    client = start()
    client.initialize(PLAIN, folder=tmp_path, options={"extendSelect": ["TL107"], "severity": {"TL107": "warning"}})
    uri = open_in(client, tmp_path)
    assert {item["code"]: item["severity"] for item in client.findings(uri)} == {"TL013": 4, "TL107": 2}


def test_an_unsaved_document_has_the_settings_of_the_first_folder(start: Start, tmp_path: Path) -> None:
    (tmp_path / "torchlint.toml").write_text('ignore = ["TL107"]\n')
    client = start()
    client.initialize(folder=tmp_path)
    client.open("untitled:Untitled-1", BOTH)
    assert codes(client, "untitled:Untitled-1") == ["TL013"]


def test_a_file_that_the_project_excludes_has_no_findings(start: Start, tmp_path: Path) -> None:
    (tmp_path / "torchlint.toml").write_text('extend-exclude = ["generated"]\n')
    client = start()
    client.initialize(folder=tmp_path)
    for folder, expected in (("generated", []), (".venv", []), ("src", ["TL013", "TL107"])):
        (tmp_path / folder).mkdir()
        assert codes(client, open_in(client, tmp_path / folder)) == expected


def test_watched_files_created_changed_and_deleted(start: Start, tmp_path: Path) -> None:
    client = start()
    client.initialize(folder=tmp_path)
    uri = open_in(client, tmp_path)
    assert codes(client, uri) == ["TL013", "TL107"]
    (registered,) = client.said("client/registerCapability")
    watched = next(one for one in registered["registrations"] if one["method"] == "workspace/didChangeWatchedFiles")
    globs = {watcher["globPattern"] for watcher in watched["registerOptions"]["watchers"]}
    assert {"**/torchlint.toml", "**/pyproject.toml", "**/requirements.txt"} <= globs

    settings = tmp_path / "torchlint.toml"
    for kind, ignore, expected in ((1, "TL107", ["TL013"]), (2, "TL013", ["TL107"]), (3, None, ["TL013", "TL107"])):
        if ignore is None:
            settings.unlink()
        else:
            settings.write_text(f'ignore = ["{ignore}"]\n')
        changes = {"changes": [{"uri": settings.as_uri(), "type": kind}]}
        client.notify("workspace/didChangeWatchedFiles", changes)
        assert codes(client, uri) == expected


def test_without_watching_a_save_is_when_files_are_looked_at(start: Start, tmp_path: Path) -> None:
    client = start()
    client.initialize(PLAIN, folder=tmp_path)
    uri = open_in(client, tmp_path)
    assert codes(client, uri) == ["TL013", "TL107"]
    assert client.said("client/registerCapability") == []
    (tmp_path / "torchlint.toml").write_text('ignore = ["TL107"]\n')
    client.notify("textDocument/didSave", {"textDocument": {"uri": uri}})
    assert codes(client, uri) == ["TL013"]
    (tmp_path / "torchlint.toml").unlink()
    client.notify("textDocument/didSave", {"textDocument": {"uri": uri}})
    assert codes(client, uri) == ["TL013", "TL107"]


def test_broken_settings_are_shown_in_their_file_and_the_last_good_ones_stay(start: Start, tmp_path: Path) -> None:
    settings = tmp_path / "torchlint.toml"
    settings.write_text('ignore = ["TL107"]\n')
    client = start()
    client.initialize(folder=tmp_path)
    uri = open_in(client, tmp_path)
    assert codes(client, uri) == ["TL013"]

    settings.write_text('ignore = ["TL107"]\nselectt = ["TL0"]\n')
    changes = {"changes": [{"uri": settings.as_uri(), "type": 2}]}
    client.notify("workspace/didChangeWatchedFiles", changes)
    assert codes(client, uri) == ["TL013"]
    (problem,) = client.published(settings.as_uri())
    assert problem["range"]["start"] == position(1, 0)
    assert "selectt" in problem["message"]
    assert "select" in problem["message"]
    (logged,) = [params["message"] for params in client.said("window/logMessage")]
    assert f"{settings}:2:1" in logged

    seen = len(client.messages)
    settings.write_text('ignore = ["TL013"]\n')
    client.notify("workspace/didChangeWatchedFiles", changes)
    assert codes(client, uri) == ["TL107"]
    cleared = client.wait(lambda message: message.get("method") == "textDocument/publishDiagnostics", seen)
    assert cleared["params"] == {"uri": settings.as_uri(), "diagnostics": []}
    assert client.said("window/showMessage") == []


def test_a_broken_setting_of_the_editor_costs_only_itself(start: Start, tmp_path: Path) -> None:
    client = start()
    options = {"ignore": ["TL107"], "severity": {"TL013": "fatal"}, "colour": "red", "extendSelect": ["no-such-rule"]}
    client.initialize(PLAIN, folder=tmp_path, options=options)
    uri = open_in(client, tmp_path)
    assert codes(client, uri) == ["TL013"]
    client.change(uri, 2, insertion(0, 0, "\n"))
    assert codes(client, uri) == ["TL013"]
    logged = [params["message"] for params in client.said("window/logMessage")]
    assert len(logged) == 3
    for word in ("fatal", "colour", "no-such-rule"):
        assert any(word in message for message in logged)


def test_nested_folders_have_settings_of_their_own_in_the_editor(start: Start, tmp_path: Path) -> None:
    """A sibling whose name begins alike is no parent."""
    folders = [tmp_path / name for name in ("net", "net/inner", "net-old")]
    for folder in folders:
        folder.mkdir()
    client = start()
    ignored = {folders[0].as_uri(): "TL107", folders[1].as_uri(): "TL013", None: "ALL"}
    client.answers["workspace/configuration"] = lambda params: [
        {"ignore": [ignored.get(item.get("scopeUri"), "TL9")]} for item in params["items"]
    ]
    client.initialize(folder=folders[0])
    event = {"added": [{"uri": folder.as_uri(), "name": folder.name} for folder in folders[1:]], "removed": []}
    client.notify("workspace/didChangeWorkspaceFolders", {"event": event})
    client.wait(lambda _: len(client.said("workspace/configuration")) == 2)
    assert codes(client, open_in(client, folders[0])) == ["TL013"]
    assert codes(client, open_in(client, folders[1])) == ["TL107"]
    assert codes(client, open_in(client, folders[2])) == ["TL013", "TL107"]


def test_the_torch_versions_of_the_project_count(start: Start, tmp_path: Path) -> None:
    text = 'import torch\n\nstate = torch.load("model.pt", map_location="cpu")\n'
    old, new = tmp_path / "old", tmp_path / "new"
    for folder, requirement in ((old, "torch>=2.0"), (new, "torch>=2.8")):
        folder.mkdir()
        (folder / "requirements.txt").write_text(f"{requirement}\n")
    client = start()
    client.initialize(folder=tmp_path)
    assert codes(client, open_in(client, old, text)) == ["TL901"]
    assert codes(client, open_in(client, new, text)) == []


def test_settings_that_come_late_are_followed(start: Start, tmp_path: Path) -> None:
    """Findings do not wait for them for ever, and change when they come."""
    client = start()
    client.answering = False
    client.initialize(folder=tmp_path)
    uri = open_in(client, tmp_path)
    assert codes(client, uri) == ["TL013", "TL107"]
    asked = client.wait(lambda message: message.get("method") == "workspace/configuration")
    client.send({"jsonrpc": "2.0", "id": asked["id"], "result": [{"ignore": ["TL107"]}, None]})
    assert refreshed_codes(client, uri, ["TL013"]) == ["TL013"]
