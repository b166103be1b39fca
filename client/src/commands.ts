/** The commands that need the server. */

import * as vscode from "vscode";
import type { LanguageClient } from "vscode-languageclient/node";

const SCHEME = "torchlint-rule";
const SOURCE = "torchlint";
const FIX_ALL = vscode.CodeActionKind.SourceFixAll.append("torchlint");
const NOTEBOOK_FIX_ALL = vscode.CodeActionKind.Empty.append("notebook.source.fixAll.torchlint");

interface RulePage {
  readonly name: string;
  readonly markdown: string;
}

type Client = () => LanguageClient | undefined;

export function registerCommands(client: Client): vscode.Disposable[] {
  return [
    vscode.commands.registerCommand("torchlint.fixAll", fixAll),
    vscode.commands.registerCommand("torchlint.openRuleDocumentation", () => openRuleDocumentation(client)),
    vscode.workspace.registerTextDocumentContentProvider(SCHEME, {
      provideTextDocumentContent: (uri) => rulePage(client, uri),
    }),
  ];
}

/** The document in front; of a notebook the focused cell, or any Python cell if none is being edited. */
function activeDocument(): vscode.TextDocument | undefined {
  const cells = vscode.window.activeNotebookEditor?.notebook.getCells() ?? [];
  const anyCell = cells.find((cell) => cell.document.languageId === "python")?.document;
  return vscode.window.activeTextEditor?.document ?? anyCell;
}

async function fixAll(): Promise<void> {
  const document = activeDocument();
  if (document === undefined) {
    return;
  }
  const inNotebook = document.uri.scheme === "vscode-notebook-cell";
  const kind = inNotebook ? NOTEBOOK_FIX_ALL : FIX_ALL;
  const whole = new vscode.Range(0, 0, document.lineCount, 0);
  const actions = await vscode.commands.executeCommand<vscode.CodeAction[] | undefined>(
    "vscode.executeCodeActionProvider",
    document.uri,
    whole,
    kind.value,
    1,
  );
  const edit = actions?.find((action) => action.edit !== undefined)?.edit;
  if (edit === undefined) {
    vscode.window.setStatusBarMessage("torchlint: nothing to fix", 3_000);
  } else {
    await vscode.workspace.applyEdit(edit);
  }
}

async function openRuleDocumentation(client: Client): Promise<void> {
  const rules = rulesAtCursor();
  const rule = rules.length > 1 ? await vscode.window.showQuickPick(rules) : rules[0];
  if (rule === undefined || client() === undefined) {
    vscode.window.setStatusBarMessage("torchlint: no finding here", 3_000);
    return;
  }
  const uri = vscode.Uri.from({ scheme: SCHEME, path: `/${rule}.md` });
  await vscode.commands.executeCommand("markdown.showPreview", uri);
}

/** The codes of the findings at the cursor, or in its row if there are none. */
function rulesAtCursor(): string[] {
  const editor = vscode.window.activeTextEditor;
  if (editor === undefined) {
    return [];
  }
  const { active } = editor.selection;
  const found = vscode.languages
    .getDiagnostics(editor.document.uri)
    .filter((diagnostic) => diagnostic.source === SOURCE);
  const here = found.filter((diagnostic) => diagnostic.range.contains(active));
  const row = found.filter(({ range }) => range.start.line <= active.line && active.line <= range.end.line);
  return [...new Set((here.length > 0 ? here : row).map(codeOf))];
}

function codeOf({ code }: vscode.Diagnostic): string {
  return String(typeof code === "object" ? code.value : code);
}

async function rulePage(client: Client, uri: vscode.Uri): Promise<string> {
  const rule = uri.path.replace(/^\//, "").replace(/\.md$/, "");
  const page = await client()?.sendRequest<RulePage>("torchlint/ruleDocumentation", { rule });
  return page?.markdown ?? "The torchlint server does not run.";
}
