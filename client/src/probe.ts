/** Runs a candidate once, isolated, to learn what it is. */

import { execFile } from "node:child_process";
import { homedir } from "node:os";
import { promisify } from "node:util";
import type { Candidate, Probed } from "./launch";

const run = promisify(execFile);

const TIMEOUT_MS = 15_000;

/** Looks torchlint up without importing it: an interpreter that lacks it must not print a traceback. */
const SCRIPT = `
import importlib.util, json, sys
version = None
if importlib.util.find_spec("torchlint"):
    from importlib import metadata
    version = metadata.version("torchlint")
print(json.dumps({"python": list(sys.version_info[:2]), "torchlint": version}))
`;

export async function probe(candidate: Candidate): Promise<Probed> {
  try {
    // Home, not the workspace: Windows looks for a program in the present folder before PATH.
    const options = { timeout: TIMEOUT_MS, env: isolatedEnvironment(process.env), cwd: homedir(), windowsHide: true };
    if (candidate.kind === "interpreter") {
      const { stdout } = await run(candidate.path, ["-I", "-c", SCRIPT], options);
      return parse(stdout);
    }
    const { stdout } = await run(candidate.path, ["--version"], options);
    const version = /torchlint\D+(\d\S*)/.exec(stdout)?.[1];
    return version === undefined ? { error: "it is not torchlint" } : { python: [3, 10], torchlint: version };
  } catch (error) {
    return { error: reason(error) };
  }
}

/** The environment without what would make Python import code of the user's. */
export function isolatedEnvironment(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const kept = Object.entries(environment).filter(([name]) => name !== "PYTHONPATH" && name !== "PYTHONHOME");
  return { ...Object.fromEntries(kept), PYTHONSAFEPATH: "1", PYTHONUTF8: "1" };
}

export function parse(stdout: string): Probed {
  const found: unknown = JSON.parse(stdout);
  if (isRecord(found) && Array.isArray(found["python"])) {
    const [major, minor] = found["python"] as unknown[];
    const version = found["torchlint"];
    if (typeof major === "number" && typeof minor === "number") {
      return { python: [major, minor], torchlint: typeof version === "string" ? version : undefined };
    }
  }
  return { error: "it does not answer like a Python interpreter" };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

function reason(error: unknown): string {
  if (isRecord(error)) {
    if (error["code"] === "ENOENT") {
      return "there is no such file";
    }
    if (error["killed"] === true) {
      return `it did not answer within ${TIMEOUT_MS / 1000} s`;
    }
    const lines = typeof error["stderr"] === "string" ? error["stderr"].trim().split("\n") : [];
    const last = lines.at(-1);
    if (last !== undefined && last !== "") {
      return last;
    }
  }
  return error instanceof Error ? (error.message.split("\n")[0] ?? "unknown error") : String(error);
}
