import assert from "node:assert/strict";
import { test } from "node:test";
import { resolvePath } from "../src/variables";

const VARIABLES = { userHome: "/home/ada", workspaceFolder: "/home/ada/net", environment: { VENV: "/envs/net" } };

test("variables are replaced", () => {
  assert.equal(resolvePath("${workspaceFolder}/.venv/bin/python", VARIABLES), "/home/ada/net/.venv/bin/python");
  assert.equal(resolvePath("${userHome}/bin/python", VARIABLES), "/home/ada/bin/python");
  assert.equal(resolvePath("~/bin/python", VARIABLES), "/home/ada/bin/python");
  assert.equal(resolvePath("${env:VENV}/bin/python", VARIABLES), "/envs/net/bin/python");
});

test("what is no variable stays", () => {
  assert.equal(resolvePath("/opt/~x/$HOME/${file}", VARIABLES), "/opt/~x/$HOME/${file}");
  assert.equal(resolvePath("${workspaceFolder}/p", { ...VARIABLES, workspaceFolder: undefined }), "${workspaceFolder}/p");
});
