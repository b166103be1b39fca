// Bundles the VS Code client into dist/, or with --tests its tests into out/tests/.
import { build } from "esbuild";
import { readdirSync } from "node:fs";

const common = {
  bundle: true,
  format: "cjs",
  platform: "node",
  target: "node20",
  sourcemap: true,
  logLevel: "warning",
};

if (process.argv.includes("--tests")) {
  const tests = readdirSync("client/tests").filter((name) => name.endsWith(".test.ts"));
  await build({
    ...common,
    entryPoints: tests.map((name) => `client/tests/${name}`),
    outdir: "out/tests",
  });
} else {
  const production = process.argv.includes("--production");
  await build({
    ...common,
    entryPoints: ["client/src/extension.ts"],
    outfile: "dist/extension.js",
    external: ["vscode"],
    minify: production,
    sourcemap: !production,
  });
}
