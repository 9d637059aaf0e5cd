// Tests the page's side of the simulator, with a worker and a clock that are not real.
import assert from "node:assert";
import { mock } from "node:test";
import { Simulator } from "../../../../site/assets/sim.js";

mock.timers.enable({ apis: ["setTimeout"] });
let now = 0;
performance.now = () => now;
const pass = (ms) => { now += ms; mock.timers.tick(ms); };
const settled = () => new Promise((resolve) => setImmediate(resolve));

const workers = [];
globalThis.Worker = class {
  constructor() { workers.push(this); this.got = []; this.alive = true; }
  postMessage(job) { this.got.push(job); }
  terminate() { this.alive = false; }
  say(data) { this.onmessage({ data }); }
};
const outcome = (promise) => {
  const o = {};
  promise.then((v) => { o.value = v; }, (e) => { o.error = e.message; });
  return o;
};

const simulator = new Simulator("");

// A scenario without an end is given up after 20 s.
let endless = outcome(simulator.run("endless"));
pass(30_000); // loading takes as long as it takes
workers[0].say({ ready: 1 });
pass(19_999);
await settled();
assert.deepStrictEqual(endless, {});
pass(1);
await settled();
assert.match(endless.error, /longer than 20 s/);
assert.ok(!workers[0].alive);

// If another waits, after 3 s. Those between are left out.
endless = outcome(simulator.run("endless"));
workers[1].say({ ready: 1 });
pass(1_000);
const between = outcome(simulator.run("between"));
pass(1_000);
let newest = outcome(simulator.run("newest"));
pass(999);
assert.ok(workers[1].alive);
pass(1);
await settled();
assert.deepStrictEqual([endless, between], [{ value: null }, { value: null }]);
assert.ok(!workers[1].alive);
workers[2].say({ ready: 1 });
assert.strictEqual(workers[2].got[0].text, "newest");
workers[2].say({ id: workers[2].got[0].id, figures: [], took: 1 });
await settled();
assert.deepStrictEqual(newest.value.figures, []);

// A mistake in a scenario leaves the worker, and one that is broken makes way for another.
newest = outcome(simulator.run("mistake"));
workers[2].say({ error: "mistake" });
await settled();
assert.deepStrictEqual(newest, { error: "mistake" });
newest = outcome(simulator.run("too large"));
workers[2].say({ broken: "out of memory" });
await settled();
assert.deepStrictEqual(newest, { error: "out of memory" });
assert.ok(!workers[2].alive);
outcome(simulator.run("next"));
assert.strictEqual(workers[3].got[0].text, "next");
