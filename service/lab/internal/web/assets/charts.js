// The four panels of the source.
import { plot } from "./plot.js";
import { kind } from "./text.js";

const span = 150; // seconds shown: the tour

// Each kind has a colour and a dash of its own: colour is not the only difference.
const looks = {
  success: { color: "--success", draw: ["filled"] },
  rejected: { color: "--rejected", draw: [] },
  origin_timeout: { color: "--origin-timeout", draw: ["dashed"] },
  timeout: { color: "--timeout", draw: ["dotted"] },
  error: { color: "--error", draw: ["dashdot"] },
};
const order = Object.keys(looks);

// byStatus returns a series for each status in the samples.
function byStatus(samples) {
  const seen = new Set();
  for (const s of samples) {
    for (const [status, rate] of Object.entries(s.by_status ?? {})) if (rate > 0) seen.add(status);
  }
  const statuses = [...seen].sort((a, b) => order.indexOf(kind(a)) - order.indexOf(kind(b)) || a.localeCompare(b));
  return statuses.map((status) => ({ label: label(status), ...looks[kind(status)], of: (s) => s.by_status?.[status] ?? 0 }));
}

// label is the name of a status in a chart.
const labels = {
  200: "200 in time", timeout: "client gave up", "504 origin_timeout": "504 proxy gave up",
  "503 overdue": "503 rejected: waited too long for the limit", "503 queue_full": "503 rejected: too many wait for the limit",
};
const label = (status) => labels[status] ?? status.replaceAll("_", " ");

const inflight = [
  { label: "in flight", color: "--success", draw: ["filled"], of: (s) => s.origin.inflight },
  { label: "of these, waiting for a worker", color: "--rejected", draw: ["dashed"], of: (s) => s.origin.queued },
  { label: "limit", color: "--ink", draw: ["stepped"], digits: 0, of: (s) => s.proxy?.limit },
];

const throughput = [
  { label: "finished", color: "--success", draw: ["filled"], of: (s) => s.origin.throughput_rps },
  { label: "of these, in time", color: "--good", draw: ["dotted"], of: (s) => s.goodput_rps },
  { label: "possible: workers ÷ service time", color: "--quiet", draw: ["stepped", "dashed"], of: (s) => s.origin.capacity_rps },
];

const latency = (timeout) => [
  { label: "mean: R = N ÷ X", color: "--success", digits: 2, of: (s) => s.origin.residence_seconds },
  { label: "p50: half below", color: "--good", draw: ["dotted"], digits: 2, of: (s) => s.origin.p50_seconds },
  { label: "p99: 99 % below", color: "--rejected", draw: ["dashed"], digits: 2, of: (s) => s.origin.p99_seconds },
  { label: "clients give up", color: "--timeout", draw: ["dotted"], of: () => timeout },
];

// charts makes the panels, and returns a function that draws a state.
export function charts(boxes) {
  const panels = [
    { draw: plot(boxes.client, 6), of: (_, samples) => byStatus(samples) },
    { draw: plot(boxes.inflight, 10), of: () => inflight },
    { draw: plot(boxes.throughput, 6), of: () => throughput },
    { draw: plot(boxes.latency, 3), of: (state) => latency(state.client.timeout_seconds) },
  ];
  return (state) => {
    const end = state.samples.at(-1)?.at ?? 0;
    const range = { min: Math.max(0, end - span), max: Math.max(end, span / 4) };
    const samples = state.samples.filter((s) => s.at >= range.min);
    for (const p of panels) p.draw(p.of(state, samples), samples, state.changes, range);
  };
}
