// A worker with the simulator. It gets { id, name, text }, and answers { id, figures } or { id, error }. It begins
// with { ready: milliseconds }. After { broken } it is of no use.
importScripts("wasm_exec.js");

const began = performance.now();
const ready = (async () => {
  const compressed = await fetch("sim.wasm.gzip");
  if (!compressed.ok) throw new Error(`sim.wasm.gzip: ${compressed.status}`);
  const stream = compressed.body.pipeThrough(new DecompressionStream("gzip"));
  const go = new Go();
  const wasm = new Response(stream, { headers: { "Content-Type": "application/wasm" } });
  const { instance } = await WebAssembly.instantiateStreaming(wasm, go.importObject);
  go.run(instance);
  postMessage({ ready: performance.now() - began });
})();

onmessage = async ({ data: { id, name, text } }) => {
  try {
    await ready;
    const from = performance.now();
    const result = weirSimulate(name, text);
    if (!result) throw new Error("the simulator has ended: the scenario needs more memory than a browser has for it");
    const { json, error } = result;
    if (error) return postMessage({ id, error });
    const took = performance.now() - from;
    postMessage({ id, took, figures: JSON.parse(json).map((f) => ({ title: f.title, runs: f.runs.map(columns) })) });
  } catch (e) {
    postMessage({ broken: e.message });
  }
};

// columns has the figures of a run, and of its time series a list for each line of a chart. A run that is shorter than its
// step has none.
function columns({ series = [], ...run }) {
  const rate = (of) => series.map((s, i) => s[of] / ((s.At - (series[i - 1]?.At ?? 0)) / 1e9));
  const layers = (of) => series.map((s) => of(s.Layers[0]));
  const limited = Boolean(run.layers[0].guard);
  return {
    ...run,
    at: series.map((s) => s.At / 1e9),
    offered: rate("Offered"),
    goodput: rate("Good"),
    slowest: series.map((s) => s.P99 / 1e9 || null),
    inside: series.map((s) => s.Layers.reduce((n, l) => n + l.Waiting + l.Busy + l.Queued, 0)),
    limit: limited ? layers((l) => (l.Limit < 1e9 ? l.Limit : null)) : null,
    inflight: limited ? layers((l) => l.Inflight) : null,
  };
}
