// One panel: an uPlot with the series that have values.
import { marker } from "./legend.js";

const height = 192;
const font = 'system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';

// css returns the current value of a colour of the style sheet.
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const draws = {
  filled: ({ color }) => ({ fill: () => css(color) + "22" }),
  stepped: () => ({ paths: uPlot.paths.stepped({ align: -1 }) }),
  dashed: () => ({ dash: [6, 5], width: 1.5 }),
  dotted: () => ({ dash: [2, 3] }),
  dashdot: () => ({ dash: [8, 3, 2, 3] }),
};

// series converts one of our series for uPlot:
// { label, color, draw: names of draws, digits, of: (sample) => value or null }.
function series(s) {
  const opts = {
    label: s.label, color: s.color, stroke: () => css(s.color), width: 2, points: { show: false },
    value: (_, v) => (v == null ? "–" : v.toFixed(s.digits ?? 1)),
  };
  return Object.assign(opts, ...(s.draw ?? []).map((name) => draws[name](s)));
}

const axis = (more) => ({
  stroke: () => css("--soft"), grid: { stroke: () => css("--line"), width: 1 }, ticks: { show: false },
  font: `12px ${font}`, ...more,
});

// plot makes a panel in box. It returns a function that draws the changes, and the
// series with at least one value from range.min to range.max.
export function plot(box, least) {
  let marks = [];
  let shown = "";
  const u = new uPlot({
    width: box.clientWidth, height,
    padding: [20, 14, 0, 0], // the labels of changes are above the lines
    cursor: { sync: { key: "weir" }, points: { size: 6 }, drag: { setScale: false } },
    legend: { markers: { width: 0, fill: (u, i) => marker(u.series[i]) } }, // follows dark and light
    scales: { x: { time: false }, y: { range: (_, min, max) => [0, Math.max(least, (max ?? 0) * 1.08)] } },
    axes: [
      axis({ values: (_, ticks) => ticks.map((t) => t + " s"), size: 28, incrs: [1, 2, 5, 10, 20, 30, 60] }),
      axis({ size: 40, incrs: [1, 2, 5].flatMap((n) => [n, n * 10, n * 100, n * 1000]).sort((a, b) => a - b) }),
    ],
    series: [{ label: "at", value: (_, t) => (t == null ? "" : t.toFixed(0) + " s") }],
    hooks: { draw: [(u) => mark(u, marks)], setLegend: [latest] },
  }, [[]], box);
  new ResizeObserver(() => u.setSize({ width: box.clientWidth, height })).observe(box);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => u.redraw());
  return (all, samples, changes, range) => {
    const rows = all.map((s) => samples.map(s.of));
    const there = all.map((_, i) => i).filter((i) => rows[i].some((v) => v != null));
    const names = there.map((i) => all[i].label).join("\n");
    if (names !== shown) {
      while (u.series.length > 1) u.delSeries(1);
      for (const i of there) u.addSeries(series(all[i]));
      shown = names;
    }
    marks = changes.filter((c) => c.at <= range.max);
    u.setData([samples.map((s) => s.at), ...there.map((i) => rows[i])], false);
    u.setScale("x", range);
    latest(u);
  };
}

// latest shows the newest values in the legend while the pointer is elsewhere.
function latest(u) {
  const last = u.data[0].length - 1;
  if (!(u.cursor.left >= 0) && last >= 0 && u.legend.idx !== last) u.setLegend({ idx: last }, false);
}

// mark draws a line where the settings changed, and the new settings in the room
// before the next change.
function mark(u, changes) {
  const { ctx, bbox } = u;
  const dot = devicePixelRatio;
  const right = bbox.left + bbox.width;
  const x = (c) => Math.round(u.valToPos(c.at, "x", true));
  ctx.save();
  ctx.strokeStyle = css("--quiet");
  ctx.fillStyle = css("--soft");
  ctx.lineWidth = dot;
  ctx.font = `${11 * dot}px ${font}`;
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  ctx.setLineDash([2 * dot, 3 * dot]);
  changes.forEach((c, i) => {
    const next = changes[i + 1] ? x(changes[i + 1]) : right;
    if (next < bbox.left) return;
    const from = Math.max(x(c), bbox.left);
    if (x(c) >= bbox.left) {
      ctx.beginPath();
      ctx.moveTo(from + 0.5, bbox.top - 14 * dot);
      ctx.lineTo(from + 0.5, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.fillText(fitting(ctx, c.text, next - from - 10 * dot), from + 4 * dot, bbox.top - 5 * dot);
  });
  ctx.restore();
}

// fitting returns the part of the text that fits: at least its number, if it has one, or
// nothing.
function fitting(ctx, text, room) {
  if (ctx.measureText(text).width <= room) return text;
  for (let n = text.length - 1; n >= 5; n--) {
    const cut = text.slice(0, n).trimEnd() + "…";
    if (ctx.measureText(cut).width <= room) return cut;
  }
  return text.match(/^[①-⑤]/)?.[0] ?? "";
}
