// The source's four panels.
import { classes, number } from "./view.js";

const span = 120; // seconds shown
const height = 262;

// css is a colour of the style sheet, as it is now.
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const line = (label, color, more) => ({
  label, stroke: () => css(color), width: 2, points: { show: false }, value: (_, v) => number(v), ...more,
});
const dashed = (label, color, more) => line(label, color, { dash: [6, 5], width: 1.5, ...more });
const filled = (label, color) => line(label, color, { fill: () => css(color) + "22" });
const stepped = (label, color) => line(label, color, { paths: uPlot.paths.stepped({ align: -1 }), value: (_, v) => v ?? "–" });

// plot is one panel. columns turns samples into its series; state comes along.
function plot(box, series, columns, least) {
  let changes = [];
  const axis = (more) => ({
    stroke: () => css("--soft"), grid: { stroke: () => css("--line"), width: 1 }, ticks: { show: false },
    font: '12px system-ui, "DejaVu Sans", sans-serif', ...more,
  });
  const u = new uPlot({
    width: box.clientWidth, height: height - 28,
    cursor: { sync: { key: "weir" }, points: { size: 6 }, drag: { setScale: false } },
    scales: {
      x: { time: false },
      y: { range: (_, min, max) => [0, Math.max(least, (max ?? 0) * 1.1)] },
    },
    padding: [12, 14, 0, 0],
    axes: [axis({ values: (_, ticks) => ticks.map((t) => t + " s"), size: 28 }), axis({ size: 40 })],
    series: [{ label: "at" }, ...series],
    hooks: { draw: [(u) => marks(u, changes)] },
  }, [[], ...series.map(() => [])], box);
  new ResizeObserver(() => u.setSize({ width: box.clientWidth, height: height - 28 })).observe(box);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => u.redraw());
  return (state, shown, range) => {
    changes = state.changes;
    const rows = shown.map((s) => columns(s, state));
    u.setData([shown.map((s) => s.at), ...series.map((_, i) => rows.map((r) => r[i]))], false);
    u.setScale("x", range);
  };
}

// marks draws a line where the setup changed.
function marks(u, changes) {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.strokeStyle = css("--quiet");
  ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
  for (const c of changes) {
    if (c.at < u.scales.x.min || c.at > u.scales.x.max) continue;
    const x = Math.round(u.valToPos(c.at, "x", true)) + 0.5;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.setLineDash([]);
  ctx.textAlign = "left";
  ctx.fillStyle = css("--soft");
  ctx.font = `${11 * devicePixelRatio}px system-ui, "DejaVu Sans", sans-serif`;
  label(u, changes, ctx);
  ctx.restore();
}

// label names the changes, each in the room that the next one leaves it.
function label(u, changes, ctx) {
  const right = u.bbox.left + u.bbox.width;
  const shown = changes.filter((c) => c.at <= u.scales.x.max);
  shown.forEach((c, i) => {
    const from = Math.max(u.valToPos(c.at, "x", true), u.bbox.left) + 4 * devicePixelRatio;
    const next = shown[i + 1] ? u.valToPos(shown[i + 1].at, "x", true) : right;
    if (ctx.measureText(c.text).width <= next - from) {
      ctx.fillText(c.text, from, u.bbox.top + 11 * devicePixelRatio);
    }
  });
}

// charts makes the panels and returns what draws a state into them.
export function charts(boxes) {
  const panels = [
    plot(boxes.client, [
      filled("success", "--success"), line("rejected", "--rejected"), line("timed out", "--timeout"), line("failed", "--error"),
    ], (s) => {
      const c = classes(s.by_status);
      return [c.success, c.rejected, c.timeout, c.error];
    }, 6),
    plot(boxes.inflight, [
      stepped("limit", "--timeout"), filled("in flight", "--success"), line("waiting", "--rejected"), line("abandoned", "--quiet"),
    ], (s) => (s.proxy
      ? [s.proxy.limit, s.proxy.inflight, s.proxy.waiting, s.proxy.abandoned]
      : [null, s.origin.inflight, s.origin.waiting, null]), 10),
    plot(boxes.throughput, [filled("finished", "--success"), dashed("could do", "--quiet")],
      (s) => [s.origin.throughput_rps, s.origin.capacity_rps], 6),
    plot(boxes.latency, [
      line("average", "--success"), line("p50", "--error"), line("p99", "--rejected"), dashed("clients give up", "--timeout"),
    ], (s, state) => [s.origin.avg_seconds, s.origin.p50_seconds, s.origin.p99_seconds, state.client.timeout_seconds], 3),
  ];
  return (state) => {
    const end = state.samples.at(-1)?.at ?? 0;
    const range = { min: Math.max(0, end - span), max: Math.max(end, span / 4) };
    const shown = state.samples.filter((s) => s.at >= range.min);
    for (const draw of panels) draw(state, shown, range);
  };
}
