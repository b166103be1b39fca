/** The language status item: what runs, or what is missing. */

import * as vscode from "vscode";
import type { Launch } from "./launch";

export class Status implements vscode.Disposable {
  private readonly item: vscode.LanguageStatusItem;

  public constructor(selector: vscode.DocumentSelector) {
    this.item = vscode.languages.createLanguageStatusItem("torchlint", selector);
    this.item.name = "torchlint";
    this.item.command = { command: "torchlint.showLog", title: "Show Log" };
  }

  public starting(): void {
    this.show("torchlint", "starting", vscode.LanguageStatusSeverity.Information);
    this.item.busy = true;
  }

  public running(launch: Launch): void {
    const detail = `${launch.command}, ${launch.origin}`;
    this.show(`torchlint ${launch.version}`, detail, vscode.LanguageStatusSeverity.Information);
  }

  public off(): void {
    this.show("torchlint", "switched off in the settings", vscode.LanguageStatusSeverity.Information);
  }

  public failed(reason: string): void {
    this.show("torchlint does not run", reason, vscode.LanguageStatusSeverity.Error);
  }

  public dispose(): void {
    this.item.dispose();
  }

  private show(text: string, detail: string, severity: vscode.LanguageStatusSeverity): void {
    this.item.busy = false;
    this.item.text = text;
    this.item.detail = detail;
    this.item.severity = severity;
  }
}
