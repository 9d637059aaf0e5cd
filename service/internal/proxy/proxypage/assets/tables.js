// The classes, the rules and the origins.
import { $, ago, count, element, ms, none, printable, rate, say, tag } from "./operator/text.js";
import { table } from "./operator/table.js";
import { reasons, wasted } from "./state.js";

const maxRoutes = 5; // that are shown of a class or a rule

// routes shows patterns, which are text of the file.
function routes(patterns, more) {
  const shown = patterns.slice(0, maxRoutes).map((p) => element("code", printable(p)));
  if (patterns.length > maxRoutes) shown.push(element("code", `and ${count(patterns.length - maxRoutes)} more`));
  return more ? [...shown, element("code", more)] : shown;
}

// marked is a rate that stands out if it is not zero.
const marked = (v, className) => ({ text: rate(v), nodes: () => [element("span", rate(v), v ? className : "")] });

const shadow = (mode) => (mode === "shadow" ? [tag("shadow", "shadow")] : []);

const seconds = (text) => (/^0s$/.test(text) ? "" : text);

function limit(c) {
  if (!c.limit) return { text: "as default", nodes: () => [element("span", "as default", "note")] };
  const l = c.limit;
  const set = /^\d+$/.test(String(l.limit)) ? "fixed" : String(l.limit);
  const queue = l.queue ? `queue of ${count(l.queue)}${seconds(l.max_wait) && `, ${l.max_wait} at most`}` : "no queue";
  const small = l.slow_start ? `${queue}, slow start after ${l.slow_start}` : queue;
  return { text: `${l.limit_now} ${set} ${small}`, nodes: () => [element("b", count(l.limit_now)), ` ${set}`, element("small", small)] };
}

// size is a number of bytes, exactly.
function size(n) {
  const units = ["bytes", "KiB", "MiB", "GiB"];
  let i = 0;
  while (n % 1024 === 0 && i < units.length - 1) [n, i] = [n / 1024, i + 1];
  return `${count(n)} ${units[i]}`;
}

// bounds are what a class bounds besides its requests in flight, if it is not as in other.
function bounds(c, other) {
  const all = [];
  if (seconds(c.timeout) && c.timeout !== other?.timeout) all.push(`time-out ${c.timeout}`);
  if (seconds(c.deadline)) all.push(`deadline ${c.deadline}`);
  if (c.max_body > 0) all.push(`body ${size(c.max_body)}`);
  if (c.priority && c.priority !== "critical") all.push(`priority ${c.priority}`);
  return all.join(" · ");
}

function cache(c) {
  const k = c.cache;
  if (!k) return none;
  const asked = k.hits + k.stale + k.coalesced + k.filled + k.failed + k.rejected;
  const hit = k.hits + k.stale;
  const share = asked ? `${((100 * hit) / asked).toFixed(0)} % hits` : "no requests";
  const parts = [
    `${count(hit)} of ${count(asked)}`, k.stale && `${count(k.stale)} stale`, k.coalesced && `${count(k.coalesced)} coalesced`,
    k.passed && `${count(k.passed)} passed it`, `${count(k.entries)} ${k.entries === 1 ? "response" : "responses"} kept`,
  ];
  const small = parts.filter(Boolean).join(", ");
  return { text: `${share} ${small}`, nodes: () => [share, element("small", small)] };
}

const classColumns = [
  {
    label: "class",
    show: (c) => ({
      text: JSON.stringify([c.name, c.mode, c.routes, c.bounds]),
      nodes: () => [element("b", printable(c.name)), " ", ...shadow(c.mode), ...routes(c.routes ?? []), ...(c.bounds ? [element("small", c.bounds)] : [])],
    }),
  },
  { label: "limit", show: limit },
  { label: "in flight", number: true, show: (c) => (c.limit ? count(c.limit.exchanges) : none) },
  { label: "waiting", number: true, show: (c) => (c.limit ? count(c.limit.waiting) : none) },
  { label: "arriving/s", number: true, show: (c) => rate(c.per_second.requests) },
  { label: "rejected/s", number: true, show: (c) => marked(c.per_second.rejected, "rejects") },
  {
    label: "because",
    show: (c) => {
      const would = c.per_second.would_reject ? `shadow would reject ${rate(c.per_second.would_reject)}` : "";
      return [reasons(c.per_second.rejected_by_reason), would].filter(Boolean).join(" · ") || none;
    },
  },
  { label: "denied/s", title: "by rules", number: true, show: (c) => marked(c.per_second.denied, "hot") },
  { label: "wasted", title: "the share of the finished requests whose client had left, or whose deadline had passed, before they ended", number: true, show: (c) => wasted(c.per_second) },
  { label: "ordinary", title: "upper bound of the duration of ordinary work, as the limit has learned it; what lasts longer becomes long-lived", number: true, show: (c) => (c.limit?.usual_ms ? ms(c.limit.usual_ms) : none) },
  { label: "cache", show: cache },
];

const ruleColumns = [
  {
    label: "rule",
    show: (r) => ({
      text: JSON.stringify([r.name, r.mode, r.routes, r.except]),
      nodes: () => [
        element("b", printable(r.name)), " ", ...shadow(r.mode),
        ...routes(r.routes?.length ? r.routes : ["all requests"], r.except?.length ? `except ${printable(r.except.slice(0, maxRoutes).join(", "))}` : ""),
      ],
    }),
  },
  { label: "key", show: (r) => (r.by?.length ? printable(r.by.join(", or ")) : "one bucket for all") },
  { label: "quota", show: (r) => (r.limit ? `${count(r.limit)} in flight` : `${r.rate}, burst ${count(r.burst)}`) },
  { label: "allowed/s", number: true, show: (r) => rate(r.allowed_per_second) },
  { label: "denied/s", number: true, show: (r) => marked(r.denied_per_second, "hot") },
  { label: "would deny/s", title: "let through in shadow mode", number: true, show: (r) => rate(r.would_deny_per_second) },
  { label: "denied in all", number: true, show: (r) => count(r.denied) },
  { label: "would deny in all", number: true, show: (r) => count(r.would_deny) },
];

// meanings say what the state of an origin means.
const meanings = {
  in: "it gets its share of the requests", starting: "it is back: its share grows to the full one",
  ejected: "it fails: it gets one request at times, as a trial", held: "it asked for a pause by Retry-After",
};

// causes say why an origin is ejected.
const causes = {
  failures: "500, 502, 503, 504, connections that break off, or answers that are no HTTP", connections: "there is no connection",
  silence: "others answer, and it does not", check: "its health check fails",
};

const originColumns = [
  { label: "origin", show: (o) => ({ text: o.url, nodes: () => [element("b", printable(o.url))] }) },
  {
    label: "state",
    show: (o) => {
      const until = o.until_ms > o.now_ms ? ` for ${ago(o.until_ms - o.now_ms)}` : "";
      return {
        text: [o.state, o.cause].filter(Boolean).join(" ") + until,
        nodes: () => {
          const e = tag(o.state, o.state);
          e.title = [meanings[o.state], causes[o.cause]].filter(Boolean).join(": ");
          return [e, o.cause ? ` ${o.cause}` : "", until];
        },
      };
    },
  },
  { label: "in flight", number: true, show: (o) => count(o.inflight) },
  { label: "limit", title: "its adaptive limits, added up", number: true, show: (o) => (o.limit ? count(o.limit) : none) },
  { label: "served/s", number: true, show: (o) => rate(o.answers_per_second.served ?? 0) },
  {
    label: "other answers/s",
    show: (o) => reasons(Object.fromEntries(Object.entries(o.answers_per_second).filter(([sign]) => sign !== "served"))) || none,
  },
  { label: "retried", title: "requests that went to another origin, because this one did not answer", number: true, show: (o) => count(o.retried) },
];

const drawClasses = table($("classes"), classColumns, (c) => c.name, "There are no classes.");
const drawRules = table($("rules"), ruleColumns, (r) => r.name, "There are no rules: no request is denied.");
const drawOrigins = table($("origins"), originColumns, (o) => o.url, "There are no origins.");

const some = (shown, all) => (shown < all ? `${shown} of ${count(all)}, the busiest ones` : "");

export function showClasses(state) {
  const last = state.classes.at(-1); // the class default
  drawClasses(state.classes.map((c) => ({ ...c, bounds: bounds(c, c === last ? null : last) })));
  const { total_limit: t, total: { former } } = state;
  const together = t ? `together at most ${count(t.limit_now)} in flight, ${count(t.waiting)} waiting for that` : "";
  const gone = former ? `${count(former)} in flight in classes that are gone` : "";
  say($("classes-note"), [some(state.classes.length, state.all_classes), together, gone].filter(Boolean).join("; "));
}

export function showRules(state) {
  drawRules(state.rules);
  say($("rules-note"), some(state.rules.length, state.all_rules));
}

export function showOrigins(state) {
  $("origins-card").hidden = !state.origins.length;
  drawOrigins(state.origins.map((o) => ({ ...o, now_ms: state.now_ms })));
  say($("origins-note"), some(state.origins.length, state.all_origins));
}
