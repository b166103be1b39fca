import assert from "node:assert/strict";
import { test } from "node:test";
import { candidates, type Sources } from "../src/candidates";
import { choose, sameLaunch, type Candidate, type Launch, type Probed } from "../src/launch";

const VARIABLES = { userHome: "/home/ada", workspaceFolder: "/home/ada/net", environment: {} };
const NOTHING: Sources = { path: null, interpreter: null, active: undefined, variables: VARIABLES, windows: false };

/** A machine: what each program answers; one that is not named does not exist. */
function machine(programs: Record<string, Probed>): (candidate: Candidate) => Promise<Probed> {
  return ({ path }) => Promise.resolve(programs[path] ?? { error: "there is no such file" });
}

const WITH: Probed = { python: [3, 12], torchlint: "0.1.0" };
const WITHOUT: Probed = { python: [3, 12], torchlint: undefined };

test("the active interpreter is used when torchlint is installed there, isolated", async () => {
  const found = candidates({ ...NOTHING, active: "/env/bin/python" });
  const choice = await choose(found, machine({ "/env/bin/python": WITH, torchlint: WITH }));
  assert.ok("launch" in choice);
  assert.equal(choice.launch.command, "/env/bin/python");
  assert.deepEqual(choice.launch.args, ["-I", "-m", "torchlint", "server"]);
});

test("an executable on PATH is next", async () => {
  const found = candidates({ ...NOTHING, active: "/env/bin/python" });
  const choice = await choose(found, machine({ "/env/bin/python": WITHOUT, torchlint: WITH }));
  assert.ok("launch" in choice);
  assert.equal(choice.launch.command, "torchlint");
  assert.deepEqual(choice.launch.args, ["server"]);
});

test("what the user set is used and nothing else, with variables replaced", async () => {
  const found = candidates({ ...NOTHING, interpreter: "${workspaceFolder}/.venv/bin/python", active: "/env/bin/python" });
  const choice = await choose(found, machine({ "/env/bin/python": WITH }));
  assert.ok("missing" in choice);
  assert.match(choice.missing, /^\/home\/ada\/net\/\.venv\/bin\/python \(the setting torchlint\.interpreter\)/);
  assert.equal(choice.installInto, undefined, "nothing can be installed into what cannot be run");
});

test("torchlint.path goes before torchlint.interpreter", () => {
  const [first] = candidates({ ...NOTHING, path: "~/.local/bin/torchlint", interpreter: "/env/bin/python" });
  assert.equal(first?.path, "/home/ada/.local/bin/torchlint");
});

test("when nothing has torchlint the message names the active interpreter, to install it there", async () => {
  const found = candidates({ ...NOTHING, active: "/env/bin/python" });
  const choice = await choose(found, machine({ "/env/bin/python": WITHOUT, python3: WITHOUT }));
  assert.ok("missing" in choice);
  assert.match(choice.missing, /torchlint is not installed in \/env\/bin\/python/);
  assert.equal(choice.installInto, "/env/bin/python");
});

test("a Python that is too old is said to be", async () => {
  const found = candidates({ ...NOTHING, interpreter: "/usr/bin/python2" });
  const choice = await choose(found, machine({ "/usr/bin/python2": { python: [2, 7], torchlint: undefined } }));
  assert.ok("missing" in choice);
  assert.match(choice.missing, /is Python 2\.7; torchlint needs 3\.10 or newer/);
});

test("Python 3.9 is too old and Python 3.10 is not", async () => {
  const found = candidates({ ...NOTHING, active: "/old/python" });
  const old = machine({ "/old/python": { python: [3, 9], torchlint: "0.1.0" } });
  const young = machine({ "/old/python": { python: [3, 10], torchlint: "0.1.0" } });
  assert.ok("missing" in (await choose(found, old)));
  assert.ok("launch" in (await choose(found, young)));
});

test("another version in the same interpreter is another launch, the same one is not", () => {
  const launch: Launch = { command: "/env/bin/python", args: ["-I"], origin: "a", version: "0.1.0" };
  assert.ok(sameLaunch(launch, { ...launch, origin: "b" }));
  assert.ok(!sameLaunch(launch, { ...launch, version: "0.2.0" }));
  assert.ok(!sameLaunch(launch, undefined));
});
