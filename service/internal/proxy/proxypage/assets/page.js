// The page: asks for the state, and shows it.
import { plot } from "./operator/plot.js";
import { add, get, reloads, speak, watch } from "./operator/live.js";
import { $ } from "./operator/text.js";
import { showConfig, showNumbers } from "./state.js";
import { showClasses, showOrigins, showRules } from "./tables.js";
import "./explain.js";
import "./recording.js";
import { showLimits } from "./change.js";

const changed = (s, was) => s.reloads !== was.reloads && "other rules";
const plots = [
  plot($("plot-inflight"), [
    { label: "in flight", color: "--allowed", of: (s) => s.inflight, fill: true, digits: 0 },
    { label: "limit", color: "--ink", of: (s) => s.limit, stepped: true, width: 1.5, digits: 0 },
    { label: "waiting", color: "--waiting", of: (s) => s.waiting, dash: [6, 4], digits: 0 },
  ], { changed }),
  plot($("plot-rates"), [
    { label: "finished", color: "--allowed", of: (s) => s.throughput, fill: true },
    { label: "rejected", color: "--rejected", of: (s) => s.rejected, width: 2.5 },
    { label: "denied", color: "--denied", of: (s) => s.denied, dash: [8, 3] },
    { label: "shadow", color: "--shadow", of: (s) => s.would, dash: [2, 3] },
  ], { changed }),
  plot($("plot-times"), [
    { label: "p50", color: "--allowed", of: (s) => s.p50_ms },
    { label: "p95", color: "--waiting", of: (s) => s.p95_ms, dash: [6, 4] },
    { label: "p99", color: "--ink", of: (s) => s.p99_ms, dash: [2, 3] },
  ], { changed }),
];
let samples = [];
let started = 0;

async function poll() {
  const state = await get(`/-/live?since=${samples.at(-1)?.at_ms ?? 0}`);
  if (state.started_ms !== started) samples = []; // another process
  started = state.started_ms;
  samples = add(samples, state.history);
  for (const draw of plots) draw(samples);
  showConfig(state);
  showNumbers(state);
  showClasses(state);
  showRules(state);
  showOrigins(state);
  showLimits(state);
  speak(state.words);
}

reloads();
watch(poll);
