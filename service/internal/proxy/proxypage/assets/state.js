// What the state says in one sentence and in numbers.
import { $, ago, clock, count, element, none, printable, printableLines, rate, say } from "./operator/text.js";
import { alarm, put } from "./operator/live.js";

export function showConfig(state) {
  const { file, now_ms: now } = state;
  const at = (t) => `${ago(now - t)} ago, ${clock(t)}`;
  document.body.classList.remove("healthy", "degraded", "shedding", "failing", "draining");
  document.body.classList.add(state.level);
  say($("story"), printable(state.words));
  say($("since"), `${state.level} for ${ago(now - state.since_ms)}, since ${clock(state.since_ms)}`);
  say($("mode"), state.shadow ? "shadow: no request is rejected" : "enforce");
  say($("uptime"), ago(now - state.started_ms));
  for (const e of document.querySelectorAll(".file")) e.hidden = !file;
  say($("hash"), file ? file.hash || none : "no file");
  if (!file) return;
  say($("path"), printable(file.path));
  const failed = Boolean(file.error);
  say($("load"), failed ? `FAILED ${at(Date.parse(file.failed))}` : `ok, ${at(Date.parse(file.loaded))}${file.change ? `: ${printable(file.change)}` : ""}`);
  $("load").className = failed ? "failed" : "";
  alarm("config-error", failed ? printableLines(file.error) : "");
}

// digits is a number with three significant digits.
export const digits = (v) => (v === 0 ? "0" : v < 1000 ? v.toPrecision(3) : count(Math.round(v)));

// time is a time in milliseconds, with three significant digits.
export const time = (v) => (v == null ? none : v < 1000 ? `${digits(v)} ms` : `${digits(v / 1000)} s`);

export function showNumbers(state) {
  const { total: t, per_second: f, law } = state;
  const known = state.window_ms > 0;
  const perSecond = (id, v) => {
    put(id, known ? rate(v) : none, "/s");
    $(id).parentElement.classList.toggle("some", v > 0);
  };
  showLaw(state, known);
  put("limit", count(t.limit));
  say($("limit-label"), t.limits > 1 ? `limit, ${count(t.limits)} classes` : `limit, ${/^\d+$/.test(t.mode) ? "fixed" : t.mode}`);
  put("inflight", count(t.inflight));
  put("waiting", count(t.waiting));
  $("waiting").parentElement.classList.toggle("some", t.waiting > 0);
  put("throughput", known ? digits(law.throughput) : none, "/s");
  perSecond("requests", f.requests);
  perSecond("rejected", f.rejected);
  perSecond("denied", f.denied);
  perSecond("would", f.would_reject + state.rules.reduce((sum, r) => sum + r.would_deny_per_second, 0));
  put("times", law.p50_ms == null ? none : [law.p50_ms, law.p95_ms, law.p99_ms].map(time).join(" · "), "in flight");
  put("waits", state.waits?.join(" · ") || none, "in the queue");
  put("wasted", wasted(f));
  $("wasted").parentElement.classList.toggle("some", f.wasted > 0.1);
  put("reasons", reasons(f.rejected_by_reason) || none);
  showPressure(state.pressure);
  put("long", count(t.long_lived));
  put("abandoned", count(t.abandoned));
}

// showPressure shows the pressure on the processor and its bound, if there is one.
function showPressure(pressure) {
  $("pressure-tile").hidden = !pressure;
  if (!pressure) return;
  const percent = (v) => `${Math.round(100 * v)} %`;
  put("pressure", pressure.error ? "not known" : percent(pressure.now), pressure.error ? "" : ` of ${percent(pressure.max)}`);
  $("pressure").parentElement.classList.toggle("some", pressure.shed > 0);
}

// showLaw shows Little's law of the period. It holds by the way its terms are measured.
function showLaw({ law, window_ms: window }, known) {
  say($("law-note"), known ? `over the last ${Math.round(window / 1000)} s` : "no rates yet");
  const text = !known ? none
    : law.mean_ms == null ? `${digits(law.inflight)} in flight, none has finished`
    : `${digits(law.inflight)} in flight = ${digits(law.throughput)} /s × ${time(law.mean_ms)}`;
  const e = $("law");
  if (e.dataset.shown === text) return;
  e.dataset.shown = text;
  // Numbers are set off from words; each term stays on one line.
  e.replaceChildren(...text.split(/(?= [=×] )/).map((term) => {
    const span = element("span");
    span.append(...term.split(/( in flight| ?\/s| m?s$)/).filter(Boolean).map((part, i) => (i % 2 ? element("i", part) : part)));
    return span;
  }));
}

// wasted is the share of the finished requests whose client had left.
export const wasted = (f) => (f.wasted == null ? none : `${Math.round(100 * f.wasted)} %`);

// reasons says why, the most frequent reason first.
export function reasons(by) {
  const sorted = Object.entries(by ?? {}).sort(([, a], [, b]) => b - a);
  return sorted.map(([why, v]) => `${why} ${rate(v)}`).join(" · ");
}
