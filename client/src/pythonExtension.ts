/** The active interpreter of the Python extension, which may be absent, old or slow. */

import * as vscode from "vscode";

const EXTENSION = "ms-python.python";
const PATIENCE_MS = 5_000;

/** The few things of its interface that are used here. */
interface PythonApi {
  readonly environments?: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { readonly path: string };
    resolveEnvironment(environment: {
      readonly path: string;
    }): Promise<{ readonly executable: { readonly uri?: vscode.Uri } } | undefined>;
    readonly onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
  };
}

/** The path of the active interpreter; undefined where there is none or it cannot be found out soon. */
export async function activeInterpreter(resource: vscode.Uri | undefined): Promise<string | undefined> {
  const environments = (await within(PATIENCE_MS, api()))?.environments;
  if (environments === undefined) {
    return undefined;
  }
  const active = environments.getActiveEnvironmentPath(resource);
  const resolved = await within(PATIENCE_MS, environments.resolveEnvironment(active));
  return resolved?.executable.uri?.fsPath ?? (active.path === "" ? undefined : active.path);
}

/** Calls when another interpreter was chosen; it also fires when nothing changed. */
export async function onInterpreterChange(call: () => void): Promise<vscode.Disposable | undefined> {
  return (await within(PATIENCE_MS, api()))?.environments?.onDidChangeActiveEnvironmentPath(call);
}

async function api(): Promise<PythonApi | undefined> {
  const extension = vscode.extensions.getExtension<PythonApi>(EXTENSION);
  return extension?.isActive === false ? await extension.activate() : extension?.exports;
}

async function within<T>(milliseconds: number, promise: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => {
      resolve(undefined);
    }, milliseconds);
  });
  try {
    return await Promise.race([promise.catch(() => undefined), late]);
  } finally {
    clearTimeout(timer);
  }
}
