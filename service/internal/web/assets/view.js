// The texts and numbers of the page.

const $ = (id) => document.getElementById(id);
const none = "–";

const number = (v, digits = 1) => (v == null ? none : v.toFixed(digits));

// kind classifies a status for the client.
export function kind(status) {
  const code = parseInt(status, 10);
  if (code >= 200 && code < 400) return "success";
  if (code === 429 || code === 503) return "rejected";
  if (status === "timeout" || code === 504) return "timeout";
  return "error";
}

function kinds(byStatus) {
  const sum = { success: 0, rejected: 0, timeout: 0, error: 0 };
  for (const [status, rate] of Object.entries(byStatus ?? {})) sum[kind(status)] += rate;
  return sum;
}

const element = (tag, text) => Object.assign(document.createElement(tag), { textContent: text });

export function buildExperiments(state, steer) {
  const box = $("experiments");
  if (!box.children.length) {
    for (const e of state.experiments) {
      const button = document.createElement("button");
      button.type = "button";
      button.dataset.testid = "experiment-" + e.name;
      button.dataset.name = e.name;
      const [origin, ...rest] = e.title.split(", ");
      button.append(element("b", origin), element("span", rest.join(", ")), element("small", e.saw));
      button.onclick = () => steer({ experiment: e.name });
      box.append(button);
    }
  }
  for (const button of box.children) {
    button.setAttribute("aria-pressed", String(button.dataset.name === state.experiment));
  }
}

const modes = { off: "no proxy", auto: "proxy auto" };

export function showSettings(state) {
  const s = state.settings;
  say("workers", String(s.workers));
  say("service-time", s.service_seconds + " s");
  say("mode", modes[s.proxy] ?? "proxy, limit " + s.proxy);
  for (const button of document.querySelectorAll("[data-proxy]")) {
    button.setAttribute("aria-pressed", String(button.dataset.proxy === s.proxy));
  }
  $("inflight-title").textContent = s.proxy === "off" ? "In flight at the origin (no proxy, no limit)" : "In flight through the proxy, and its limit";
}

export function showNumbers(state) {
  const s = state.samples.at(-1);
  const sum = kinds(s?.by_status);
  const told = story(state, s, sum);
  say("story", told);
  put("offered", number(s?.offered_rps), "rps");
  put("goodput", number(s?.goodput_rps), "rps");
  put("rejected", number(s && sum.rejected), "rps");
  put("timed-out", number(s && sum.timeout), "rps");
  put("limit", s?.proxy?.limit ?? none);
  put("inflight", s ? s.proxy?.inflight ?? s.origin.inflight + s.origin.waiting : none);
  put("origin-throughput", number(s?.origin.throughput_rps), "rps");
  put("origin-p99", number(s?.origin.p99_seconds, 2), "s");
  const { n, x, r } = s?.law ?? {};
  speak(told, law(n, x, r, state.settings.workers));
}

// say sets a text only if it changes.
function say(id, text) {
  const e = $(id);
  if (e.textContent !== text) e.textContent = text;
}

function put(id, value, unit) {
  const parts = [String(value)];
  if (unit && value !== none) parts.push(element("small", " " + unit));
  $(id).replaceChildren(...parts);
}

// law shows N = X · R in numbers. The three are measured independently: while a queue
// grows, finished requests had shorter waits, and the law does not hold yet.
function law(n, x, r, workers) {
  const known = n != null && x != null && r != null;
  const holds = !known || Math.abs(n - x * r) < 0.15 * n + 0.3;
  const sign = holds ? "=" : "≠";
  $("law").replaceChildren(
    number(n), element("i", " in flight "), sign + " ", number(x), element("i", " /s "), "× ", number(r, 2), element("i", " s"),
  );
  say("law-note", holds ? "at the origin, over the last 5 s" : n > x * r && n > workers ? "not yet: the queue is growing" : "not yet: the load is changing");
  return known ? `${number(n)} in flight ${holds ? "equals" : "is not yet"} ${number(x)} per second times ${number(r, 2)} seconds.` : "";
}

// speak updates the text for screen readers: at once when the situation changes, and
// otherwise once per pause.
const pause = 20_000; // milliseconds
let spoken = { turn: "", at: 0 };

function speak(told, law) {
  const turn = told.replace(/[\d.]+/g, "");
  const now = performance.now();
  if (turn === spoken.turn && now - spoken.at < pause) return;
  spoken = { turn, at: now };
  say("spoken", `${told} ${law}`);
}

function story(state, s, sum) {
  const { workers, service_seconds: service, proxy } = state.settings;
  const rate = state.client.rate_rps;
  const capacity = workers / service;
  const can = `The origin can serve ${number(capacity)} requests per second, ${rate} arrive`;
  if (!s) return can + ".";
  const enough = capacity >= rate;
  if (proxy === "off") {
    if (enough && sum.timeout < 0.2) return can + ": every request is answered in time.";
    if (enough) return can + ", but it is still busy with queued requests of clients that have left.";
    if (s.goodput_rps < 0.3) return can + ": it is always busy, and every answer comes too late.";
    return can + ": the queue grows, and all clients wait longer.";
  }
  if (sum.rejected < 0.2 && sum.timeout < 0.2) return can + ": the proxy does not need to refuse any.";
  const bound = `the proxy allows ${s.proxy?.limit ?? none} in flight`;
  if (s.goodput_rps < 0.3) return `${can}: ${bound}; the origin is still busy with earlier requests.`;
  return `${can}: ${bound} and refuses the others. ${number(s.goodput_rps)} per second succeed.`;
}
