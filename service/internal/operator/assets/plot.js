// A plot of the last minutes.
import { marker } from "../legend.js";

const height = 240;
const span = 300; // seconds
const font = 'system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';

// css is a colour of the style sheet, as it is now.
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const axis = (more) => ({
  stroke: () => css("--soft"), grid: { stroke: () => css("--line"), width: 1 }, ticks: { show: false }, font: `12px ${font}`, ...more,
});

// draws converts the properties of a line for uPlot.
const draws = {
  fill: ({ color }) => ({ fill: () => css(color) + "22" }),
  stepped: () => ({ paths: uPlot.paths.stepped({ align: -1 }) }),
  dash: ({ dash }) => ({ dash }),
  right: () => ({ scale: "right" }),
};

function series(line) {
  const opts = {
    label: line.label, stroke: () => css(line.color), color: line.color, width: line.width ?? 2, points: { show: false },
    value: (_, v) => (v == null ? "–" : v.toLocaleString("en", { maximumFractionDigits: line.digits ?? 1 })),
  };
  return Object.assign(opts, ...Object.keys(draws).filter((name) => line[name]).map((name) => draws[name](line)));
}

const time = (t) => new Date(t * 1000).toLocaleTimeString("en-GB");
const upTo = (least) => (_, min, max) => [0, Math.max(least, (max ?? 0) * 1.08)];

// plot makes a plot in box. It returns a function that draws samples, each with at_ms.
// A line is { label, color: a variable of the style sheet, of: (sample) => value, fill,
// stepped, dash, right: by the axis at the right, width, digits }. changed(sample, was)
// returns the text for a mark between two samples, if there is one to draw.
export function plot(box, lines, { least = 5, changed = () => "" } = {}) {
  let changes = [];
  const right = lines.find((l) => l.right);
  const u = new uPlot({
    width: box.clientWidth, height, padding: [20, right ? 4 : 14, 0, 0],
    cursor: { points: { size: 6 }, drag: { setScale: false } },
    legend: { markers: { width: 0, fill: (u, i) => marker(u.series[i]) } }, // follows dark and light by itself
    scales: { x: { time: true }, y: { range: upTo(least) }, ...(right && { right: { range: upTo(least) } }) },
    axes: [
      axis({ size: 28, values: (_, ticks) => ticks.map(time), space: 90 }),
      axis({ size: 52 }),
      ...(right ? [axis({ size: 44, side: 1, scale: "right", grid: { show: false }, stroke: () => css(right.color) })] : []),
    ],
    series: [{ label: "at", value: (_, t) => (t == null ? "" : time(t)) }, ...lines.map(series)],
    hooks: { draw: [(u) => mark(u, changes)], setLegend: [latest] },
  }, [[], ...lines.map(() => [])], box);
  new ResizeObserver(() => u.setSize({ width: box.clientWidth, height })).observe(box);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => u.redraw());
  return (samples) => {
    changes = samples.flatMap((s, i) => {
      const text = i > 0 && changed(s, samples[i - 1]);
      return text ? [{ at: s.at_ms / 1000, text }] : [];
    });
    const times = samples.map((s) => s.at_ms / 1000);
    u.setData([times, ...lines.map((l) => samples.map((s) => l.of(s) ?? null))], false);
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

// mark draws a line and a text for each change.
function mark(u, changes) {
  const { ctx, bbox } = u;
  const dot = devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = css("--quiet");
  ctx.fillStyle = css("--soft");
  ctx.lineWidth = dot;
  ctx.font = `${11 * dot}px ${font}`;
  ctx.setLineDash([2 * dot, 3 * dot]);
  for (const { at, text } of changes) {
    const x = Math.round(u.valToPos(at, "x", true)) + 0.5;
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top - 14 * dot);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    const right = x + ctx.measureText(text).width + 6 * dot > bbox.left + bbox.width;
    ctx.textAlign = right ? "right" : "left";
    ctx.fillText(text, x + (right ? -4 : 4) * dot, bbox.top - 5 * dot);
  }
  ctx.restore();
}
