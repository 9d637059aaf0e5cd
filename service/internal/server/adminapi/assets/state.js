// What the state says: config, numbers, rules.
import { $, ago, clock, count, element, ms, none, printable, rate, say, tag } from "./text.js";
import { table } from "./table.js";

function alarm(id, text) {
  $(id).hidden = !text;
  say($(id + "-text"), text ?? "");
}

export function showConfig(state) {
  const { config: c, now_ms: now } = state;
  const at = (t) => `${ago(now - t)} ago, ${clock(t)}`;
  say($("hash"), c.hash ? c.hash : none);
  say($("path"), c.path ? printable(c.path) : "no file");
  say($("loaded"), `for ${ago(now - c.loaded_ms)}, since ${clock(c.loaded_ms)}`);
  const failed = Boolean(c.last_error);
  say($("load"), failed ? `FAILED ${at(c.last_failure_ms)}` : c.last_success_ms ? `ok, ${at(c.last_success_ms)}` : none);
  $("load").className = failed ? "failed" : "";
  say($("uptime"), ago(now - state.started_ms));
  alarm("config-error", c.last_error && printable(c.last_error).replaceAll("\\u{a}", "\n"));
  alarm("not-ready", state.ready ? "" : state.not_ready);
}

export function showNumbers(state) {
  const { per_second: f, waiting, leases } = state.total;
  const known = state.window_ms > 0;
  const put = (id, value, unit) => {
    const e = $(id);
    if (e.dataset.shown === value) return;
    e.dataset.shown = value;
    e.replaceChildren(value, ...(unit && value !== none ? [element("small", unit)] : []));
  };
  const perSecond = (id, v) => put(id, known ? rate(v) : none, "/s");
  perSecond("allowed", f.allowed);
  perSecond("denied", f.denied);
  perSecond("shadowed", f.shadowed);
  perSecond("refused", f.lease_refused);
  put("waiting", count(waiting));
  put("leases", count(leases));
  put("reasons", reasons(f.denied_by_reason) || none);
  $("denied").parentElement.classList.toggle("some", f.denied > 0);
  say($("story"), state.words);
  say($("window"), known ? `Rates are averages of the last ${ago(state.window_ms)}; the chart has each second.` : "");
}

// reasons says why, the most frequent reason first.
function reasons(by) {
  const sorted = Object.entries(by ?? {}).sort(([, a], [, b]) => b - a);
  return sorted.map(([why, v]) => `${why} ${rate(v)}`).join(" · ");
}

const refusing = (r) => r.per_second.denied + r.per_second.lease_refused;

const columns = [
  {
    label: "rule",
    show: (r) => ({
      text: `${r.name} ${r.kind} ${r.pattern} ${r.mode} ${r.per}`,
      nodes: () => [
        element("b", r.name), " ", ...(r.mode === "shadow" ? [tag("shadow", "shadow")] : []),
        ...(r.per === "rule" ? [tag("one bucket for all")] : []), element("code", `${r.kind} ${printable(r.pattern)}`),
      ],
    }),
  },
  {
    label: "quota",
    show: (r) => r.quota && { text: `${r.quota} ${queue(r)}`, nodes: () => [r.quota, element("small", queue(r))] },
  },
  { label: "allowed/s", number: true, show: (r) => rate(r.per_second.allowed) },
  {
    label: "denied/s", number: true,
    show: (r) => ({ text: rate(r.per_second.denied), nodes: () => [element("span", rate(r.per_second.denied), r.per_second.denied ? "hot" : "")] }),
  },
  {
    label: "because",
    show: (r) => {
      const why = [reasons(r.per_second.denied_by_reason)];
      if (r.per_second.shadowed) why.push(`would deny ${rate(r.per_second.shadowed)}`);
      if (r.forgotten) why.push(`${count(r.forgotten)} counts forgotten: memory is full`);
      return why.filter(Boolean).join(" · ") || none;
    },
  },
  { label: "waiting", number: true, show: (r) => (r.quota ? count(r.waiting) : none) },
  { label: "wait p95", title: "of those who stood in line and were granted", number: true, show: (r) => ms(r.wait_p95_ms) },
  { label: "candidate", title: "what the quota on trial would deny, beside what the rule does", show: trial },
  { label: "leases held", show: leases },
];

// line says who may stand in line for a bucket.
const queue = (r) => (r.queue ? `queue of ${count(r.queue)}${r.max_wait_ms ? `, ${ms(r.max_wait_ms)} at most` : ""}` : "no queue");

function trial(r) {
  if (!r.candidate) return none;
  const f = r.per_second;
  const more = f.trial_denied - f.denied - f.shadowed;
  const than = Math.abs(more) < 0.005 ? "as many" : `${rate(Math.abs(more))} ${more > 0 ? "more" : "fewer"}`;
  return `${r.candidate}: denies ${rate(f.trial_denied)}/s, ${than}`;
}

function leases(r) {
  const l = r.leases;
  if (!l) return none;
  const parts = [`${count(l.held)}, limit ${l.limit}${r.per === "rule" ? "" : ` × ${count(l.keys)} ${l.keys === 1 ? "key" : "keys"}`}`];
  if (l.waiting) parts.push(`${count(l.waiting)} wait`);
  if (r.per_second.lease_refused) parts.push(`${rate(r.per_second.lease_refused)}/s refused`);
  return parts.join(" · ");
}

const draw = table($("rules"), columns, (r) => r.name, "There are no rules: all requests are allowed.");

export function showRules(state, order) {
  const rules = [...state.rules];
  if (order === "refusing") rules.sort((a, b) => refusing(b) - refusing(a) || b.waiting - a.waiting);
  draw(rules);
  [...$("rules").children].forEach((row, i) => row.classList.toggle("refusing", rules[i] != null && refusing(rules[i]) > 0));
  const which = state.config.apply === "first" ? "the first one that matches counts" : state.config.apply === "all" ? "all that match count" : "those that match are merged";
  const some = rules.length < state.rules_in_force ? `${rules.length} of ${count(state.rules_in_force)}, those that refuse most; ` : "";
  const free = state.total.unmatched_per_second;
  const rest = `what no rule matches: ${state.config.unmatched}ed, ${rate(free.allowed + free.denied)}/s`.replace("denyed", "denied");
  say($("rules-note"), `${some}${which}; ${rest}`);
}

// speak tells a screen reader what is new: at once when the words take a turn,
// and otherwise no more often than one can listen to.
const pause = 20_000; // milliseconds
let spoken = { turn: "", at: -pause };

export function speak(state, denied) {
  const most = denied.keys[0]?.denied_per_second > 0 ? ` Most refused: ${printable(denied.keys[0].key).slice(0, 60)}.` : "";
  const turn = state.words.replace(/[\d.,]+/g, "");
  const now = performance.now();
  if (turn === spoken.turn && now - spoken.at < pause) return;
  spoken = { turn, at: now };
  say($("spoken"), state.words + most);
}
