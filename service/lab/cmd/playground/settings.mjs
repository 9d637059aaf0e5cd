// Prints a scenario file for each of some settings of the playground, as JSON. An address must carry its settings.
import assert from "node:assert";
import { address, fileAddress, fileOf, initial, law, limits, pasted, scenario, settingsOf } from "../../../../site/assets/model.js";

const variations = [
  {}, { users: 50, spike: 3 }, { slow: 3, retries: 2 }, { spike: 2.5, patience: 350 }, { instances: 4, workers: 40 }, { fixed: 12, queue: 0, wait: 40 },
];
const files = [];
for (const limit of limits) {
  for (const variation of variations) {
    const settings = { ...initial(), limit, ...variation };
    assert.deepStrictEqual(settingsOf(address(settings)), settings);
    files.push(scenario(settings));
    assert.strictEqual(fileOf(fileAddress(files.at(-1))), files.at(-1));
  }
}
assert.deepStrictEqual(settingsOf("workers=7e9&limit=odd&rate=x&other=1"), { ...initial(), workers: 200 });

assert.deepStrictEqual(settingsOf("workers=2.5&users=3.3&rate=7.5&constructor=1"), { ...initial(), workers: 3, users: 3, rate: 7.5 });
assert.strictEqual(fileOf("file=%"), "%");

// M/M/1 at one half waits as long as it works; the law is N = X · R.
const half = law(1, 0.1, 5);
assert.ok(Math.abs(half.wait - 0.1) < 1e-12 && half.load === 0.5 && half.capacity === 10, JSON.stringify(half));
assert.strictEqual(law(4, 1, 4).wait, Infinity);
assert.deepStrictEqual(pasted("16 workers, 80 ms, 150/s"), { workers: 16, time: 80, rate: 150 });
assert.deepStrictEqual(pasted("0,5 s with 300 rps on 8 threads"), { workers: 8, time: 500, rate: 300 });
assert.deepStrictEqual(pasted("16 80 150"), { workers: 16, time: 80, rate: 150 });
process.stdout.write(JSON.stringify(files));
