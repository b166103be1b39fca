import assert from "node:assert/strict";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { candidates } from "../src/candidates";
import { choose, type Candidate } from "../src/launch";
import { isolatedEnvironment, parse, probe } from "../src/probe";

function interpreter(path: string): Candidate {
  return { kind: "interpreter", path, origin: "test", explicit: true };
}

test("the Python of this checkout has torchlint", { skip: process.platform === "win32" }, async () => {
  const path = join(process.cwd(), ".venv", "bin", "python");
  const choice = await choose([interpreter(path)], probe);
  assert.ok("launch" in choice, JSON.stringify(choice));
  assert.match(choice.launch.version, /^\d+\.\d+/);
});

test("a file that does not exist is said not to exist", async () => {
  assert.deepEqual(await probe(interpreter("/nowhere/python")), { error: "there is no such file" });
});

test("a program that fails is quoted", { skip: process.platform === "win32" }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "torchlint-"));
  try {
    const broken = join(folder, "python");
    writeFileSync(broken, "#!/bin/sh\necho 'bad interpreter: home was moved' >&2\nexit 1\n");
    chmodSync(broken, 0o755);
    assert.deepEqual(await probe(interpreter(broken)), { error: "bad interpreter: home was moved" });
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("torchlint.path that points at another program is refused", { skip: process.platform === "win32" }, async () => {
  const variables = { userHome: "/", workspaceFolder: undefined, environment: {} };
  const sources = { path: process.execPath, interpreter: null, active: undefined, variables, windows: false };
  const choice = await choose(candidates(sources), probe);
  assert.ok("missing" in choice);
  assert.match(choice.missing, /it is not torchlint/);
});

test("an answer that is not an interpreter's is an error", () => {
  assert.ok("error" in parse("[]"));
  assert.ok("error" in parse('{"python": "3.12"}'));
});

test("PYTHONPATH of the user does not reach the server", () => {
  const environment = isolatedEnvironment({ PYTHONPATH: "/net", PYTHONHOME: "/x", PATH: "/bin" });
  assert.deepEqual(Object.keys(environment).sort(), ["PATH", "PYTHONSAFEPATH", "PYTHONUTF8"]);
});
