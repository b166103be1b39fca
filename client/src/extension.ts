/** Starts the server and keeps it; everything about PyTorch is the server's. */

import { homedir } from "node:os";
import * as vscode from "vscode";
import { LanguageClient, State, type LanguageClientOptions, type ServerOptions } from "vscode-languageclient/node";
import { candidates } from "./candidates";
import { registerCommands } from "./commands";
import { choose, sameLaunch, type Choice, type Launch } from "./launch";
import { isolatedEnvironment, probe } from "./probe";
import { activeInterpreter, onInterpreterChange } from "./pythonExtension";
import { Restarts } from "./restarts";
import { Status } from "./status";

const SECTION = "torchlint";
/** A change of one of these starts another server; all other settings are followed live by the running one. */
const LAUNCH_SETTINGS = ["torchlint.enable", "torchlint.interpreter", "torchlint.path"];

const SELECTOR = [
  { scheme: "file", language: "python" },
  { scheme: "untitled", language: "python" },
  { notebook: "jupyter-notebook", language: "python" },
  { notebook: "interactive", language: "python" },
];

let client: LanguageClient | undefined;
let running: Launch | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const log = vscode.window.createOutputChannel("torchlint", { log: true });
  const status = new Status([{ language: "python" }]);
  const restarts = new Restarts(() => restart(log, status));
  /** Restarts only if that would start something else: the Python extension reports changes that are none. */
  const restartIfChanged = async (): Promise<void> => {
    const choice = isEnabled() ? await chooseLaunch() : undefined;
    const launch = choice !== undefined && "launch" in choice ? choice.launch : undefined;
    if (launch === undefined || !sameLaunch(launch, running)) {
      await restarts.request();
    }
  };
  context.subscriptions.push(
    log,
    status,
    vscode.commands.registerCommand("torchlint.restart", () => restarts.request()),
    vscode.commands.registerCommand("torchlint.showLog", () => {
      log.show();
    }),
    ...registerCommands(() => client),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (LAUNCH_SETTINGS.some((setting) => event.affectsConfiguration(setting))) {
        void restartIfChanged();
      }
    }),
    vscode.workspace.onDidGrantWorkspaceTrust(() => void restartIfChanged()),
  );
  void onInterpreterChange(() => void restartIfChanged()).then((listener) => {
    if (listener !== undefined) {
      context.subscriptions.push(listener);
    }
  });
  await restarts.request();
}

export async function deactivate(): Promise<void> {
  await stop();
}

async function restart(log: vscode.LogOutputChannel, status: Status): Promise<void> {
  await stop();
  if (!isEnabled()) {
    status.off();
    return;
  }
  status.starting();
  const choice = await chooseLaunch();
  if (!("launch" in choice)) {
    const install = choice.installInto === undefined ? "" : ` Install it: ${choice.installInto} -m pip install torchlint`;
    log.error(`${choice.missing}${install}`);
    status.failed(`${choice.missing}${install}`);
    return;
  }
  try {
    await start(choice.launch, log, status);
    running = choice.launch;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    log.error(`The server did not start: ${reason}`);
    status.failed(reason);
  }
}

async function start(launch: Launch, log: vscode.LogOutputChannel, status: Status): Promise<void> {
  log.info(`Starting ${launch.command} ${launch.args.join(" ")} (${launch.origin})`);
  const server: ServerOptions = {
    command: launch.command,
    args: [...launch.args],
    // Home, not the workspace: nothing there may be imported, and a folder that is in use cannot be deleted.
    options: { cwd: homedir(), env: isolatedEnvironment(process.env) },
  };
  const options: LanguageClientOptions = {
    documentSelector: SELECTOR,
    outputChannel: log,
    // A server that fails is told in the status item and the log, not in the user's face.
    initializationFailedHandler: (error) => {
      log.error(String(error));
      return false;
    },
    diagnosticPullOptions: { onChange: true, onSave: true, onFocus: true },
  };
  const starting = new LanguageClient(SECTION, "torchlint", server, options);
  starting.onDidChangeState(({ newState }) => {
    if (newState === State.Running) {
      status.running(launch);
    } else if (newState === State.Stopped && client === starting) {
      status.failed("The server stopped; see the log.");
    }
  });
  client = starting;
  await starting.start();
}

async function stop(): Promise<void> {
  const stopping = client;
  client = undefined;
  running = undefined;
  try {
    await stopping?.dispose();
  } catch {
    // It was not running any more.
  }
}

function isEnabled(): boolean {
  return vscode.workspace.getConfiguration(SECTION).get<boolean>("enable", true);
}

async function chooseLaunch(): Promise<Choice> {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri;
  const settings = vscode.workspace.getConfiguration(SECTION, folder ?? null);
  const found = candidates({
    path: settings.get<string | null>("path"),
    interpreter: settings.get<string | null>("interpreter"),
    // In an untrusted workspace its environment is code that nobody vouches for.
    active: vscode.workspace.isTrusted ? await activeInterpreter(folder) : undefined,
    variables: { userHome: homedir(), workspaceFolder: folder?.fsPath, environment: process.env },
    windows: process.platform === "win32",
  });
  return choose(found, probe);
}
