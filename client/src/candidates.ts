/** Which ways to start the server there are, best first. Knows nothing of VS Code. */

import type { Candidate } from "./launch";
import { resolvePath, type Variables } from "./variables";

export interface Sources {
  /** The setting torchlint.path. */
  readonly path: string | null | undefined;
  /** The setting torchlint.interpreter. */
  readonly interpreter: string | null | undefined;
  /** The active interpreter of the Python extension, if it is there and the workspace is trusted. */
  readonly active: string | undefined;
  readonly variables: Variables;
  readonly windows: boolean;
}

/** What the user named, else the active interpreter, else what is on PATH. */
export function candidates(sources: Sources): Candidate[] {
  const { path, interpreter, active, variables, windows } = sources;
  if (path) {
    return [executable(resolvePath(path, variables), "the setting torchlint.path", true)];
  }
  if (interpreter) {
    return [python(resolvePath(interpreter, variables), "the setting torchlint.interpreter", true)];
  }
  const found: Candidate[] = [];
  if (active !== undefined) {
    found.push(python(active, "the Python extension's interpreter", false));
  }
  found.push(executable("torchlint", "on PATH", false));
  found.push(...(windows ? ["python", "py"] : ["python3", "python"]).map((name) => python(name, "on PATH", false)));
  return found;
}

function python(path: string, origin: string, explicit: boolean): Candidate {
  return { kind: "interpreter", path, origin, explicit };
}

function executable(path: string, origin: string, explicit: boolean): Candidate {
  return { kind: "executable", path, origin, explicit };
}
