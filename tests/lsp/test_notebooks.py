"""A notebook is one program: what one cell defines is known in the next, and each finding stands in its cell."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lsp.client import FULL, PUSH, Client, Message, insertion, position, without
from tests.lsp.conftest import Start
from tests.lsp.editing import actions, apply, edits_of, everywhere, kinds, resolved

NOTEBOOK = "file:///project/train.ipynb"
IMPORT = "import torch\nfrom torch import nn"
TYPO = "weight = torch.ones(2, require_grad=True)"
CODE, MARKUP = 2, 1


def cell_uri(name: str) -> str:
    return f"vscode-notebook-cell:/project/train.ipynb#{name}"


def cell(name: str, kind: int = CODE) -> Message:
    return {"kind": kind, "document": cell_uri(name)}


def item(name: str, text: str, language: str = "python") -> Message:
    return {"uri": cell_uri(name), "languageId": language, "version": 1, "text": text}


class Notebook:
    """A notebook as the editor holds it."""

    def __init__(self, client: Client, cells: dict[str, str], uri: str = NOTEBOOK) -> None:
        """Open it, all its cells Python."""
        self.client, self.uri, self.version = client, uri, 1
        notebook = {
            "uri": uri,
            "notebookType": "jupyter-notebook",
            "version": 1,
            "cells": [cell(name) for name in cells],
        }
        texts = [item(name, text) for name, text in cells.items()]
        client.notify("notebookDocument/didOpen", {"notebookDocument": notebook, "cellTextDocuments": texts})

    def change(self, **cells: Any) -> None:
        self.version += 1
        notebook = {"uri": self.uri, "version": self.version}
        self.client.notify("notebookDocument/didChange", {"notebookDocument": notebook, "change": {"cells": cells}})

    def restructure(
        self,
        start: int,
        delete: int,
        cells: list[Message] | None = None,
        opened: list[Message] | None = None,
        closed: list[str] | None = None,
    ) -> None:
        structure: Message = {"array": {"start": start, "deleteCount": delete, "cells": cells or []}}
        structure["didOpen"] = opened or []
        structure["didClose"] = [{"uri": cell_uri(name)} for name in closed or []]
        self.change(structure=structure)

    def edit(self, name: str, version: int, *changes: Message) -> None:
        document = {"uri": cell_uri(name), "version": version}
        self.change(textContent=[{"document": document, "changes": list(changes)}])

    def codes(self, name: str) -> list[str]:
        return [found["code"] for found in self.client.findings(cell_uri(name))]


def test_names_of_one_cell_are_known_in_the_next(client: Client) -> None:
    notebook = Notebook(client, {"a": IMPORT, "b": f"# here\n{TYPO}"})
    assert notebook.codes("a") == []
    (found,) = client.findings(cell_uri("b"))
    assert found["code"] == "TL107"
    assert found["range"]["start"]["line"] == 1


def test_pushed_findings_name_the_cell_and_its_version(start: Start) -> None:
    client = start()
    client.initialize(PUSH)
    notebook = Notebook(client, {"a": IMPORT, "b": TYPO})
    assert [found["code"] for found in client.published(cell_uri("b"), 1)] == ["TL107"]
    assert client.published(cell_uri("a"), 1) == []
    notebook.edit("b", 2, {"text": "x = 1"})
    assert client.published(cell_uri("b"), 2) == []


def test_a_cell_that_moves_keeps_its_text_and_its_findings(client: Client) -> None:
    notebook = Notebook(client, {"a": IMPORT, "b": TYPO, "c": "x = 1\ny = 2"})
    notebook.restructure(1, 2, [cell("c"), cell("b")])
    assert notebook.codes("b") == ["TL107"]
    assert notebook.codes("c") == []
    notebook.restructure(0, 1)
    notebook.restructure(2, 0, [cell("a")])
    assert notebook.codes("a") == []


def test_a_cell_that_is_closed_and_opened_in_one_message_stays(client: Client) -> None:
    notebook = Notebook(client, {"a": IMPORT, "b": TYPO})
    notebook.restructure(1, 1, [cell("b")], opened=[item("b", f"\n{TYPO}")], closed=["b"])
    (found,) = client.findings(cell_uri("b"))
    assert found["range"]["start"]["line"] == 1


def test_a_new_cell_and_a_copied_one(client: Client) -> None:
    notebook = Notebook(client, {"a": IMPORT})
    notebook.restructure(1, 0, [cell("b"), cell("c")], opened=[item("b", TYPO), item("c", TYPO)])
    assert notebook.codes("b") == notebook.codes("c") == ["TL107"]


@pytest.mark.parametrize("pull", [True, False])
def test_a_deleted_cell_leaves_nothing_behind(start: Start, pull: bool) -> None:
    client = start()
    client.initialize(FULL if pull else PUSH)
    notebook = Notebook(client, {"a": IMPORT, "b": TYPO})
    if pull:
        assert notebook.codes("b") == ["TL107"]
    else:
        assert client.published(cell_uri("b"))
    seen = len(client.messages)
    notebook.restructure(1, 1, closed=["b"])
    if pull:
        assert client.wait(lambda message: message.get("method") == "workspace/diagnostic/refresh", seen)
        assert notebook.codes("b") == []
    else:
        cleared = client.wait(
            lambda message: (
                message.get("method") == "textDocument/publishDiagnostics" and message["params"]["uri"] == cell_uri("b")
            ),
            seen,
        )
        assert cleared["params"]["diagnostics"] == []


def test_deleting_the_import_ends_the_findings_of_other_cells(client: Client) -> None:
    notebook = Notebook(client, {"a": IMPORT, "b": TYPO})
    assert notebook.codes("b") == ["TL107"]
    seen = len(client.messages)
    notebook.edit("a", 2, {"text": ""})
    assert notebook.codes("b") == []
    # The client asks again only for the cell that was edited, unless it is told.
    assert client.wait(lambda message: message.get("method") == "workspace/diagnostic/refresh", seen)


def test_an_edit_that_changes_nothing_elsewhere_asks_for_no_refresh(client: Client) -> None:
    notebook = Notebook(client, {"a": IMPORT, "b": TYPO})
    assert notebook.codes("b") == ["TL107"]
    notebook.edit("b", 2, insertion(0, 0, "\n\n"))
    assert notebook.codes("b") == ["TL107"]
    assert client.said("workspace/diagnostic/refresh") == []


def test_a_cell_whose_language_changes(client: Client) -> None:
    """The selector names Python, so the cell leaves; it comes back as another document."""
    notebook = Notebook(client, {"a": IMPORT, "b": TYPO})
    notebook.restructure(1, 1, [cell("b")], opened=[item("b", TYPO, language="r")], closed=["b"])
    assert notebook.codes("b") == []
    notebook.restructure(1, 1, [cell("b")], opened=[item("b", TYPO)], closed=["b"])
    assert notebook.codes("b") == ["TL107"]


def test_a_cell_that_becomes_text(client: Client) -> None:
    notebook = Notebook(client, {"a": IMPORT, "b": TYPO})
    notebook.change(data=[cell("b", MARKUP)])
    assert notebook.codes("b") == []
    notebook.change(data=[cell("b", CODE)])
    assert notebook.codes("b") == ["TL107"]


def test_magics_are_not_python_and_move_nothing(client: Client) -> None:
    notebook = Notebook(client, {"a": IMPORT, "b": f"%matplotlib inline\n!pip install timm\n{TYPO}"})
    (found,) = client.findings(cell_uri("b"))
    assert found["range"]["start"] == position(2, TYPO.index("require_grad"))
    assert notebook.codes("a") == []


def test_hover_in_a_cell(client: Client) -> None:
    Notebook(client, {"a": IMPORT, "b": TYPO})
    place = position(0, TYPO.index("require_grad") + 1)
    found = client.request("textDocument/hover", {"textDocument": {"uri": cell_uri("b")}, "position": place})
    assert "requires-grad-typo" in found["contents"]["value"]
    assert found["range"]["start"]["line"] == 0


def test_a_fix_is_for_its_cell_and_the_version_of_that_cell(client: Client) -> None:
    notebook = Notebook(client, {"a": IMPORT, "b": TYPO})
    notebook.edit("b", 5, insertion(0, 0, "\n"))
    (found,) = client.findings(cell_uri("b"))
    fix = next(action for action in actions(client, cell_uri("b"), found["range"], [found]) if "isPreferred" in action)
    ((uri, (version, edits)),) = edits_of(fix["edit"]).items()
    assert (uri, version) == (cell_uri("b"), 5)
    assert apply(f"\n{TYPO}", edits) == f"\n{TYPO}".replace("require_grad", "requires_grad")


def test_fix_all_of_a_notebook_changes_each_cell_once(client: Client) -> None:
    """Editors ask for `source.fixAll` once per cell: only the notebook's own kind is answered."""
    Notebook(client, {"a": IMPORT, "b": TYPO, "c": f"x = 1\n{TYPO}\n{TYPO}"})
    for name in ("a", "b", "c"):
        assert actions(client, cell_uri(name), everywhere(), only=["source.fixAll"]) == []
    (action,) = actions(client, cell_uri("a"), everywhere(), only=["notebook.source.fixAll"])
    assert kinds([action]) == {"notebook.source.fixAll.torchlint"}
    found = edits_of(resolved(client, action))
    assert set(found) == {cell_uri("b"), cell_uri("c")}
    assert apply(TYPO, found[cell_uri("b")][1]) == TYPO.replace("require_grad", "requires_grad")
    assert "require_grad=" not in apply(f"x = 1\n{TYPO}\n{TYPO}", found[cell_uri("c")][1])


@pytest.mark.parametrize("uri", ["untitled:Untitled-1.ipynb?jupyter-notebook", "vscode-interactive:/Interactive-1"])
def test_a_notebook_without_a_file(client: Client, uri: str) -> None:
    notebook = Notebook(client, {"a": IMPORT, "b": TYPO}, uri)
    assert notebook.codes("b") == ["TL107"]
    closed = {"notebookDocument": {"uri": uri}, "cellTextDocuments": [{"uri": cell_uri("a")}, {"uri": cell_uri("b")}]}
    client.notify("notebookDocument/didClose", closed)
    assert notebook.codes("b") == []


def test_a_notebook_of_empty_cells_and_of_none(client: Client) -> None:
    notebook = Notebook(client, {"a": "", "b": "", "c": "\n"})
    assert notebook.codes("a") == notebook.codes("c") == []
    assert actions(client, cell_uri("b"), everywhere()) == []
    notebook.restructure(0, 3, closed=["a", "b", "c"])
    assert notebook.codes("a") == []
    notebook.restructure(0, 0, [cell("d")], opened=[item("d", f"{IMPORT}\n{TYPO}")])
    assert notebook.codes("d") == ["TL107"]


def test_closing_a_notebook_clears_all_its_cells(start: Start) -> None:
    client = start()
    client.initialize(without(PUSH, "general"))
    Notebook(client, {"a": IMPORT, "b": TYPO})
    assert client.published(cell_uri("b"))
    seen = len(client.messages)
    client.notify("notebookDocument/didClose", {"notebookDocument": {"uri": NOTEBOOK}, "cellTextDocuments": []})
    for uri in (cell_uri("a"), cell_uri("b")):
        cleared = client.wait(lambda message, uri=uri: message.get("params", {}).get("uri") == uri, seen)
        assert cleared["params"]["diagnostics"] == []
