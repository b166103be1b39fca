import assert from "node:assert/strict";
import { test } from "node:test";
import { Restarts } from "../src/restarts";

/** A restart that takes until it is told to finish. */
function slowRestart(): { restart: () => Promise<void>; finish: () => void; started: () => number } {
  let count = 0;
  let release: (() => void) | undefined;
  return {
    restart: () => {
      count += 1;
      return new Promise((resolve) => {
        release = resolve;
      });
    },
    finish: () => release?.(),
    started: () => count,
  };
}

test("ten requests during a restart lead to one more", async () => {
  const slow = slowRestart();
  const restarts = new Restarts(slow.restart);
  const first = restarts.request();
  const others = Array.from({ length: 10 }, () => restarts.request());
  assert.equal(slow.started(), 1);
  slow.finish();
  await first;
  await Promise.resolve();
  assert.equal(slow.started(), 2);
  slow.finish();
  await Promise.all(others);
  assert.equal(slow.started(), 2);
});

test("a restart that fails does not stop the next one", async () => {
  let count = 0;
  const restarts = new Restarts(() => {
    count += 1;
    return count === 1 ? Promise.reject(new Error("no server")) : Promise.resolve();
  });
  await assert.rejects(restarts.request());
  await restarts.request();
  assert.equal(count, 2);
});
