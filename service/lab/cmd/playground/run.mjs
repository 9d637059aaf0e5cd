// node run.mjs WASM WASM_EXEC FILE...
// Simulates scenario files with the simulator of the playground, and prints a JSON line for each: what
// weirSimulate returns.
import { readFileSync } from "node:fs";

const [wasm, exec, ...files] = process.argv.slice(2);
await import(exec);
const go = new Go();
const { instance } = await WebAssembly.instantiate(readFileSync(wasm), go.importObject);
go.run(instance);
for (const file of files) {
  await new Promise((done) => process.stdout.write(JSON.stringify(weirSimulate(file, readFileSync(file, "utf8"))) + "\n", done));
}
process.exit(0);
