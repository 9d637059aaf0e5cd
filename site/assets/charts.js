// Charts of simulated runs, by uPlot.

const font = 'system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// colour is the colour of the i-th of n runs: what is without protection is red if there are two.
export const colour = (i, n) => `--run-${n <= 2 ? i : i + 2}`;

let loaded;
const load = (base) => (loaded ??= new Promise((done, failed) => {
  const script = Object.assign(document.createElement("script"), { src: base + "uplot/uPlot.iife.min.js", onload: done, onerror: failed });
  document.head.append(script);
}));

const panels = {
  goodput: (runs) => [
    { label: "offered", of: runs[0].offered, color: "--quiet", width: 1.5 },
    ...runs.map((r, i) => ({ label: r.name, of: r.goodput, color: colour(i, runs.length) })),
  ],
  latency: (runs) => runs.map((r, i) => ({ label: r.name, of: r.slowest, color: colour(i, runs.length) })),
  inside: (runs) => runs.map((r, i) => ({ label: r.name, of: r.inside, color: colour(i, runs.length) })),
  limit: (runs) => runs.flatMap((r, i) => (r.limit === null ? [] : [
    { label: r.name + ": limit", of: r.limit, color: colour(i, runs.length), dash: [6, 4] },
    { label: r.name + ": in flight", of: r.inflight, color: colour(i, runs.length), width: 1.2, alpha: "90" },
  ])),
};

// charts returns a function that draws runs in the panels of an element.
export async function charts(base, element) {
  await load(base);
  const boxes = [...element.querySelectorAll("[data-panel]")].map((box) => ({ box, plot: null, shape: "" }));
  let last = null;
  const draw = (runs) => {
    last = runs;
    for (const b of boxes) {
      const lines = panels[b.box.dataset.panel](runs);
      b.box.closest("figure").hidden = lines.length === 0;
      if (lines.length === 0) continue;
      const data = [runs[0].at, ...lines.map((l) => l.of)];
      const shape = lines.map((l) => l.label + l.color).join("\n");
      if (shape !== b.shape) {
        b.plot?.destroy();
        b.plot = plot(b.box, lines, data);
        b.shape = shape;
      } else {
        b.plot.setData(data);
      }
    }
  };
  const resized = new ResizeObserver(() => {
    for (const { box, plot } of boxes) if (plot && plot.width !== box.clientWidth) plot.setSize({ width: box.clientWidth, height: 200 });
  });
  for (const { box } of boxes) resized.observe(box);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const b of boxes) b.shape = "";
    if (last) draw(last);
  });
  return draw;
}

const short = (v) => (v == null ? "–" : v >= 100 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v.toFixed(2));

function plot(box, lines, data) {
  const axis = (more) => ({ stroke: css("--soft"), grid: { stroke: css("--line"), width: 1 }, ticks: { show: false }, font: `12px ${font}`, ...more });
  box.replaceChildren();
  return new uPlot({
    width: box.clientWidth, height: 200, padding: [8, 16, 0, 0],
    cursor: { sync: { key: "runs" }, points: { size: 6 }, drag: { setScale: false } },
    legend: { live: true },
    scales: { x: { time: false }, y: { range: (_, __, max) => [0, (max || 1) * 1.08] } },
    axes: [axis({ size: 26, values: (_, ticks) => ticks.map((t) => t + " s") }), axis({ size: 46 })],
    series: [
      { label: "at", value: (_, v) => (v == null ? "" : v.toFixed(1) + " s") },
      ...lines.map((l) => ({
        label: l.label, stroke: css(l.color) + (l.alpha ?? ""), width: l.width ?? 2, dash: l.dash, points: { show: false }, value: (_, v) => (v == null ? "" : short(v)),
      })),
    ],
  }, data, box);
}

const seconds = (ns) => (ns >= 1e9 ? (ns / 1e9).toFixed(2) + " s" : ns >= 1e6 ? (ns / 1e6).toFixed(ns >= 1e8 ? 0 : 1) + " ms" : (ns / 1e6).toFixed(2) + " ms");

// law compares N with X · R. R is about the requests that have left: it lags behind while more come than leave.
function law({ inside, throughput_rps: x, sojourn }) {
  const product = (x * sojourn) / 1e9;
  const factors = `<var>X</var> <b>${short(x)}</b>/s · <var>R</var> <b>${seconds(sojourn)}</b>`;
  return Math.abs(product - inside) <= inside / 20 ? ` = ${factors}` : `, and ${factors} = ${short(product)}: the queue still grows or drains`;
}

// laws shows for each run its goodput, its latency, and N = X · R, with all three measured independently.
export function laws(element, runs) {
  element.replaceChildren(...runs.map((r, i) => {
    const layer = r.layers[0];
    const card = document.createElement("section");
    card.style.setProperty("--run", `var(${colour(i, runs.length)})`);
    card.innerHTML = `<p class="name"></p>
      <p class="big"><b>${short(r.goodput_rps)}</b> of ${short(r.offered_rps)} a second served in time${r.oracle_rps ? `; ${short(r.oracle_rps)} possible` : ""}</p>
      <p>${r.latency.count ? `99 % of these take at most ${seconds(r.latency.p99)}` : "no request is served in time"}</p>
      <p class="law"><var>N</var> <b>${short(layer.inside)}</b>${law(layer)}</p>`;
    card.querySelector(".name").textContent = r.name || "the scenario";
    return card;
  }));
}
