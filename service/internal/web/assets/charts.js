// The four panels of the source.
import { plot } from "./plot.js";
import { kind } from "./view.js";

const span = 120; // seconds shown

const colors = { success: "--success", rejected: "--rejected", timeout: "--timeout", error: "--error" };
const order = Object.keys(colors);

// byStatus returns a series for each status in the samples.
function byStatus(samples) {
  const seen = new Set();
  for (const s of samples) {
    for (const [status, rate] of Object.entries(s.by_status ?? {})) if (rate > 0) seen.add(status);
  }
  const statuses = [...seen].sort((a, b) => order.indexOf(kind(a)) - order.indexOf(kind(b)) || a.localeCompare(b));
  return statuses.map((status, i) => ({
    label: status.replaceAll("_", " "), color: colors[kind(status)], of: (s) => s.by_status?.[status] ?? 0,
    // Another status of the same kind has the same colour, and is dotted.
    draw: kind(status) === "success" ? ["filled"] : i > 0 && kind(statuses[i - 1]) === kind(status) ? ["dotted"] : [],
  }));
}

// Without a proxy, the second panel shows the origin.
const inflight = [
  { label: "in flight", color: "--success", draw: ["filled"], digits: 0, of: (s) => (s.proxy ?? s.origin).inflight },
  { label: "waiting", color: "--rejected", digits: 0, of: (s) => (s.proxy ?? s.origin).waiting },
  { label: "abandoned", color: "--quiet", digits: 0, of: (s) => s.proxy?.abandoned },
  { label: "limit", color: "--ink", draw: ["stepped"], digits: 0, of: (s) => s.proxy?.limit },
];

const throughput = [
  { label: "finished", color: "--success", draw: ["filled"], of: (s) => s.origin.throughput_rps },
  { label: "capacity", color: "--quiet", draw: ["stepped", "dashed"], of: (s) => s.origin.capacity_rps },
];

const latency = (timeout) => [
  { label: "average", color: "--quiet", digits: 2, of: (s) => s.origin.avg_seconds },
  { label: "p50", color: "--success", digits: 2, of: (s) => s.origin.p50_seconds },
  { label: "p99", color: "--rejected", digits: 2, of: (s) => s.origin.p99_seconds },
  { label: "client time-out", color: "--timeout", draw: ["dashed"], of: () => timeout },
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
