"""Fixes: computed from the text as it is, for the version that it has, and nothing but what was asked for."""

from __future__ import annotations

import pytest

from tests.lsp.client import FULL, Client, Failed, Message, insertion, span, whole, without
from tests.lsp.conftest import Start
from tests.lsp.editing import actions, apply, edits_of, everywhere, kinds, resolved
from tests.lsp.examples import FIXED, NO_ZERO_GRAD, STEP_LINE, TYPO, TYPO_END, TYPO_LINE, TYPO_START
from torchlint.lsp.analyses import PROGRAMS_KEPT
from torchlint.text import Encoding

URI = "file:///project/net.py"
TWO = f"{TYPO}bias = torch.zeros(2, require_grad=True)\n"
TWO_FIXED = f"{FIXED}bias = torch.zeros(2, requires_grad=True)\n"
FIX_ALL = "source.fixAll.torchlint"


def fix_of(found: list[Message]) -> Message:
    """The one action that mends a single finding: not the suppression, not fix-all."""
    (fix,) = [action for action in found if action["kind"] == "quickfix" and is_fix(action)]
    return fix


def is_fix(action: Message) -> bool:
    return not action["title"].startswith(("Suppress", "Fix all"))


def test_a_safe_fix_is_preferred_and_for_the_version_it_was_computed_from(client: Client) -> None:
    client.open(URI, TYPO, version=7)
    (finding,) = client.findings(URI)
    fix = fix_of(actions(client, URI, finding["range"], [finding]))
    assert fix["isPreferred"] is True
    assert fix["diagnostics"] == [finding]
    version, edits = edits_of(resolved(client, fix))[URI]
    assert version == 7
    assert apply(TYPO, edits) == FIXED
    assert "changeAnnotations" not in fix["edit"]


def test_the_fix_is_of_the_live_text_though_the_finding_is_of_an_older_one(client: Client) -> None:
    client.open(URI, TYPO)
    (stale,) = client.findings(URI)
    client.change(URI, 2, insertion(0, 0, "# one more row\n"))
    moved = span(TYPO_LINE + 1, TYPO_START, TYPO_END)
    fix = fix_of(actions(client, URI, moved, [stale]))
    version, edits = edits_of(resolved(client, fix))[URI]
    assert version == 2
    assert apply(f"# one more row\n{TYPO}", edits) == f"# one more row\n{FIXED}"


def test_a_menu_does_not_wait_for_a_long_analysis(start: Start) -> None:
    """Above what was found a row was inserted; its analysis takes a second, and the fix comes out of it."""
    client = start(fake=True)
    client.initialize()
    client.open(URI, "good\nx = bad\n")
    (finding,) = client.findings(URI)
    client.change(URI, 2, insertion(0, 0, "# slow 100\n"))
    asked = client.start_request("textDocument/diagnostic", {"textDocument": {"uri": URI}})
    here = span(2, 4, 7)
    found = actions(client, URI, here, [{**finding, "range": here}])
    assert not any(message.get("id") == asked for message in client.messages), "it is still being analysed"
    fix = fix_of(found)
    assert fix["title"] == "Make it good"
    assert fix["isPreferred"] is True
    assert [item["range"] for item in fix["diagnostics"]] == [here]
    assert "edit" not in fix
    version, edits = edits_of(resolved(client, fix))[URI]
    assert version == 2
    assert apply("# slow 100\ngood\nx = bad\n", edits) == "# slow 100\ngood\nx = good\n"


def test_suppressing_a_line_is_offered_before_a_long_analysis_ends(start: Start) -> None:
    client = start(fake=True)
    client.initialize()
    client.open(URI, "x = bad\n")
    client.findings(URI)
    client.change(URI, 2, insertion(0, 0, "# slow 100\n"))
    (action,) = [a for a in actions(client, URI, span(1, 4, 7)) if a["title"].startswith("Suppress")]
    assert "edit" not in action
    version, edits = edits_of(resolved(client, action))[URI]
    assert version == 2
    assert apply("# slow 100\nx = bad\n", edits).splitlines()[1] == "x = bad  # torchlint: ignore[TL201]"


def test_of_two_findings_alike_the_chosen_one_is_mended_wherever_it_has_moved(start: Start) -> None:
    client = start(fake=True)
    client.initialize()
    client.open(URI, "bad\nbad\n")
    client.findings(URI)
    client.change(URI, 2, insertion(0, 0, "# slow 100\n"))
    fix = fix_of(actions(client, URI, span(2, 0, 3)))
    client.change(URI, 3, insertion(0, 0, "\n"))
    version, edits = edits_of(resolved(client, fix))[URI]
    assert version == 3
    assert apply("\n# slow 100\nbad\nbad\n", edits) == "\n# slow 100\nbad\ngood\n"


def test_a_fix_that_was_offered_for_what_is_gone_does_nothing_and_says_why(start: Start) -> None:
    client = start(fake=True)
    client.initialize()
    client.open(URI, "bad\n")
    client.findings(URI)
    client.change(URI, 2, insertion(0, 0, "# slow 100\n"))
    fix = fix_of(actions(client, URI, span(1, 0, 3)))
    client.change(URI, 3, whole("good\n"))
    with pytest.raises(Failed, match="the code has changed") as failed:
        client.request("codeAction/resolve", fix)
    assert failed.value.code == -32801, "which clients pass over in silence"
    assert client.said("window/showMessage") == []


def test_nothing_is_offered_for_text_that_was_edited_since(start: Start) -> None:
    client = start(fake=True)
    client.initialize()
    client.open(URI, "x = bad\n")
    client.findings(URI)
    client.change(URI, 2, whole("# slow 1000\nx = b_d\n"))
    assert actions(client, URI, span(1, 4, 7)) == []


def test_a_client_that_cannot_resolve_waits_for_the_newest_text(start: Start) -> None:
    client = start(fake=True)
    client.initialize(without(FULL, "textDocument.codeAction.resolveSupport"))
    client.open(URI, "bad\n")
    client.findings(URI)
    client.change(URI, 2, insertion(0, 0, "# slow 20\n"))
    version, edits = edits_of(fix_of(actions(client, URI, span(1, 0, 3)))["edit"])[URI]
    assert version == 2
    assert apply("# slow 20\nbad\n", edits) == "# slow 20\ngood\n"


def test_a_finding_that_is_gone_has_no_fix(client: Client) -> None:
    client.open(URI, TYPO)
    (stale,) = client.findings(URI)
    client.change(URI, 2, whole("x = 1\n" * 9))
    assert actions(client, URI, stale["range"], [stale]) == []


def test_two_fixes_without_saving(client: Client) -> None:
    """The second one is computed after the first was applied."""
    text = TWO
    client.open(URI, text)
    for version in (2, 3):
        finding = client.findings(URI)[0]
        fix = fix_of(actions(client, URI, finding["range"], [finding]))
        of_version, edits = edits_of(resolved(client, fix))[URI]
        assert of_version == version - 1
        text = apply(text, edits)
        client.change(URI, version, whole(text))
    assert text == TWO_FIXED
    assert client.findings(URI) == []


def test_an_unsafe_fix_is_not_preferred_and_asks_first(client: Client) -> None:
    client.open(URI, NO_ZERO_GRAD)
    finding = next(item for item in client.findings(URI) if item["code"] == "TL201")
    assert finding["range"]["start"]["line"] == STEP_LINE
    fix = fix_of(actions(client, URI, finding["range"], [finding]))
    assert "isPreferred" not in fix
    (annotation,) = fix["edit"]["changeAnnotations"].items()
    assert annotation[1]["needsConfirmation"] is True
    _, edits = edits_of(resolved(client, fix))[URI]
    assert {edit["annotationId"] for edit in edits} == {annotation[0]}
    assert "optimizer.zero_grad()" in apply(NO_ZERO_GRAD, edits)


def test_a_client_without_versions_or_annotations_gets_plain_changes(start: Start) -> None:
    client = start()
    client.initialize(without(FULL, "workspace.workspaceEdit"))
    client.open(URI, NO_ZERO_GRAD)
    finding = next(item for item in client.findings(URI) if item["code"] == "TL201")
    fix = fix_of(actions(client, URI, finding["range"], [finding]))
    assert set(fix["edit"]) == {"changes"}
    assert all(set(edit) == {"range", "newText"} for edit in fix["edit"]["changes"][URI])


def test_findings_are_recognised_without_their_data(client: Client) -> None:
    client.open(URI, TYPO)
    (finding,) = client.findings(URI)
    bare = {key: finding[key] for key in ("range", "message", "code", "source")}
    assert fix_of(actions(client, URI, finding["range"], [bare]))


def test_the_range_is_enough(client: Client) -> None:
    client.open(URI, TYPO)
    assert fix_of(actions(client, URI, span(TYPO_LINE, TYPO_START + 1, TYPO_START + 1)))
    assert actions(client, URI, span(0, 0, 3), only=["quickfix"]) == []


def test_findings_of_other_servers_are_not_ours(client: Client) -> None:
    client.open(URI, TYPO)
    other = {"range": span(0, 0, 6), "message": "unused", "code": "TL107", "source": "Ruff", "data": {"fix": []}}
    assert actions(client, URI, span(0, 0, 6), [other], ["quickfix"]) == []


def test_suppressing_a_line(client: Client) -> None:
    client.open(URI, TYPO)
    (finding,) = client.findings(URI)
    (action,) = [a for a in actions(client, URI, finding["range"], [finding]) if a["title"].startswith("Suppress")]
    assert "isPreferred" not in action
    _, edits = edits_of(action["edit"])[URI]
    text = apply(TYPO, edits)
    assert "# torchlint: ignore[" in text.splitlines()[TYPO_LINE]
    client.change(URI, 2, whole(text))
    assert client.findings(URI) == []


def test_suppressing_a_second_rule_extends_the_comment(client: Client) -> None:
    text = TYPO.replace("True)", "True)  # torchlint: ignore[TL201]")
    client.open(URI, text)
    (finding,) = client.findings(URI)
    (action,) = [a for a in actions(client, URI, finding["range"], [finding]) if a["title"].startswith("Suppress")]
    _, edits = edits_of(action["edit"])[URI]
    text = apply(text, edits)
    assert text.count("torchlint: ignore") == 1
    client.change(URI, 2, whole(text))
    assert client.findings(URI) == []


def test_all_findings_of_a_rule(client: Client) -> None:
    client.open(URI, TWO)
    finding = client.findings(URI)[0]
    (action,) = [a for a in actions(client, URI, finding["range"], [finding]) if a["title"].startswith("Fix all 2")]
    assert action["kind"] == "quickfix"
    assert "edit" not in action, "computed when it is asked for"
    _, edits = edits_of(resolved(client, action))[URI]
    assert apply(TWO, edits) == TWO_FIXED


def test_fix_all_and_then_nothing_is_left_to_do(client: Client) -> None:
    client.open(URI, TWO)
    (action,) = actions(client, URI, everywhere(), only=[FIX_ALL])
    version, edits = edits_of(resolved(client, action))[URI]
    assert version == 1
    text = apply(TWO, edits)
    assert text == TWO_FIXED
    client.change(URI, 2, whole(text))
    assert actions(client, URI, everywhere(), only=[FIX_ALL]) == []


def test_fix_all_leaves_unsafe_fixes(client: Client) -> None:
    client.open(URI, NO_ZERO_GRAD)
    assert any(item["code"] == "TL201" for item in client.findings(URI))
    assert actions(client, URI, everywhere(), only=[FIX_ALL]) == []


def test_fix_all_is_of_the_text_at_the_time_it_is_resolved(client: Client) -> None:
    client.open(URI, TWO)
    (action,) = actions(client, URI, everywhere(), only=[FIX_ALL])
    client.change(URI, 2, insertion(0, 0, "# one more row\n"))
    version, edits = edits_of(resolved(client, action))[URI]
    assert version == 2
    assert apply(f"# one more row\n{TWO}", edits) == f"# one more row\n{TWO_FIXED}"


def test_a_client_that_cannot_resolve_gets_the_edit_at_once(start: Start) -> None:
    client = start()
    client.initialize(without(FULL, "textDocument.codeAction.resolveSupport"))
    client.open(URI, TWO)
    (action,) = actions(client, URI, everywhere(), only=[FIX_ALL])
    _, edits = edits_of(action["edit"])[URI]
    assert apply(TWO, edits) == TWO_FIXED


def test_a_client_that_says_nothing_about_itself_gets_fixes(start: Start) -> None:
    client = start()
    client.initialize({})
    client.open(URI, TYPO)
    (finding,) = client.published(URI)
    fix = fix_of(actions(client, URI, finding["range"], [finding]))
    assert apply(TYPO, fix["edit"]["changes"][URI]) == FIXED


def test_an_action_of_another_server_is_not_resolved(client: Client) -> None:
    with pytest.raises(Failed, match="does not come from torchlint"):
        client.request("codeAction/resolve", {"title": "x", "data": ["x"]})


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        (["quickfix"], {"quickfix"}),
        (["source"], {FIX_ALL}),
        (["source.fixAll"], {FIX_ALL}),
        ([FIX_ALL], {FIX_ALL}),
        (["source.fixAll.ruff"], set()),
        (["source.fix"], set()),
        (["refactor"], set()),
        (["quickfix", "source.fixAll"], {"quickfix", FIX_ALL}),
        (None, {"quickfix", FIX_ALL}),
    ],
)
def test_every_kind_that_was_asked_for_and_no_other(client: Client, only: list[str] | None, expected: set[str]) -> None:
    client.open(URI, TYPO)
    assert kinds(actions(client, URI, everywhere(), only=only)) == expected


@pytest.mark.parametrize("encoding", list(Encoding), ids=lambda encoding: encoding.value)
def test_a_fix_behind_an_emoji_in_each_encoding(start: Start, encoding: Encoding) -> None:
    client = start()
    capabilities = without(FULL, "general")
    capabilities["general"] = {"positionEncodings": [encoding.value]}
    client.initialize(capabilities)
    for newline in ("\n", "\r\n"):
        text = newline.join(["import torch", "x = '😀é', torch.ones(2, require_grad=True)", ""])
        client.open(URI, text)
        (finding,) = client.findings(URI)
        fix = fix_of(actions(client, URI, finding["range"], [finding]))
        _, edits = edits_of(resolved(client, fix))[URI]
        assert apply(text, edits, encoding) == text.replace("require_grad", "requires_grad")


def test_fix_all_of_a_broken_file_says_nothing_to_the_user(client: Client) -> None:
    client.open(URI, f"{TYPO}\ndef broken(:\n")
    for action in actions(client, URI, everywhere(), only=[FIX_ALL]):
        resolved(client, action)
    assert client.said("window/showMessage") == []


def test_a_file_whose_trees_were_let_go_still_has_its_fix_and_goes_on_with_edits(client: Client) -> None:
    """Of many open files only those that were analysed last keep their trees."""
    client.open(URI, TYPO)
    (finding,) = client.findings(URI)
    for number in range(PROGRAMS_KEPT + 2):
        other = f"file:///project/other{number}.py"
        client.open(other, TYPO)
        assert len(client.findings(other)) == 1
    _, edits = edits_of(fix_of(actions(client, URI, finding["range"], [finding]))["edit"])[URI]
    assert apply(TYPO, edits) == FIXED
    client.change(URI, 2, insertion(0, 0, "\n"))
    assert [moved["range"] for moved in client.findings(URI)] == [span(TYPO_LINE + 1, TYPO_START, TYPO_END)]
