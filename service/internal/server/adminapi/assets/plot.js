// The plot of the last minutes.
import { marker } from "./legend.js";

const height = 240;
const span = 300; // seconds
const font = 'system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';

// css is a colour of the style sheet, as it is now.
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const axis = (more) => ({
  stroke: () => css("--soft"), grid: { stroke: () => css("--line"), width: 1 }, ticks: { show: false }, font: `12px ${font}`, ...more,
});

const series = (label, color, more) => ({
  label, stroke: () => css(color), color, width: 2, points: { show: false },
  value: (_, v) => (v == null ? "–" : v.toLocaleString("en", { maximumFractionDigits: 1 })), ...more,
});

const time = (t) => new Date(t * 1000).toLocaleTimeString("en-GB");
const upTo = (least) => (_, min, max) => [0, Math.max(least, (max ?? 0) * 1.08)];

// plot makes the plot in box. What it returns draws samples.
export function plot(box) {
  let changes = [];
  const u = new uPlot({
    width: box.clientWidth, height, padding: [20, 4, 0, 0],
    cursor: { points: { size: 6 }, drag: { setScale: false } },
    legend: { markers: { width: 0, fill: (u, i) => marker(u.series[i]) } }, // follows dark and light by itself
    scales: { x: { time: true }, y: { range: upTo(5) }, waiting: { range: upTo(5) } },
    axes: [
      axis({ size: 28, values: (_, ticks) => ticks.map(time), space: 90 }),
      axis({ size: 52 }),
      axis({ size: 44, side: 1, scale: "waiting", grid: { show: false }, stroke: () => css("--waiting") }),
    ],
    series: [
      { label: "at", value: (_, t) => (t == null ? "" : time(t)) },
      series("allowed/s", "--allowed", { fill: () => css("--allowed") + "22" }),
      series("denied/s", "--denied", { width: 2.5 }),
      series("shadow would deny/s", "--shadow", { dash: [8, 4] }),
      series("waiting (right)", "--waiting", { scale: "waiting", dash: [2, 3] }),
    ],
    hooks: { draw: [(u) => mark(u, changes)], setLegend: [latest] },
  }, [[], [], [], [], []], box);
  new ResizeObserver(() => u.setSize({ width: box.clientWidth, height })).observe(box);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => u.redraw());
  return (samples) => {
    changes = samples.filter((s, i) => i > 0 && s.reloads !== samples[i - 1].reloads).map((s) => s.at_ms / 1000);
    const of = (name) => samples.map((s) => s[name]);
    const times = samples.map((s) => s.at_ms / 1000);
    u.setData([times, of("allowed"), of("denied"), of("shadowed"), of("waiting")], false);
    const end = times.at(-1) ?? Date.now() / 1000;
    u.setScale("x", { min: Math.max(end - span, Math.min(times[0] ?? end, end - span / 5)), max: end });
    latest(u);
  };
}

// latest has the legend tell the newest values while nobody points at others.
function latest(u) {
  const last = u.data[0].length - 1;
  if (!(u.cursor.left >= 0) && last >= 0 && u.legend.idx !== last) u.setLegend({ idx: last }, false);
}

// mark draws a line where other rules came into force.
function mark(u, changes) {
  const { ctx, bbox } = u;
  const dot = devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = css("--quiet");
  ctx.fillStyle = css("--soft");
  ctx.lineWidth = dot;
  ctx.font = `${11 * dot}px ${font}`;
  ctx.setLineDash([2 * dot, 3 * dot]);
  for (const at of changes) {
    const x = Math.round(u.valToPos(at, "x", true)) + 0.5;
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top - 14 * dot);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    const text = "other rules";
    const right = x + ctx.measureText(text).width + 6 * dot > bbox.left + bbox.width;
    ctx.textAlign = right ? "right" : "left";
    ctx.fillText(text, x + (right ? -4 : 4) * dot, bbox.top - 5 * dot);
  }
  ctx.restore();
}
