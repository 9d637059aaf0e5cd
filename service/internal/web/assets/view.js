// Words and numbers of the page.

const $ = (id) => document.getElementById(id);
const none = "–";

const number = (v, digits = 1) => (v == null ? none : v.toFixed(digits));

// kind is what a status means to a client.
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

// say changes words only if they change.
function say(id, text) {
  const e = $(id);
  if (e.textContent !== text) e.textContent = text;
}

function put(id, value, unit) {
  const parts = [String(value)];
  if (unit && value !== none) parts.push(element("small", " " + unit));
  $(id).replaceChildren(...parts);
}

// law writes N = X · R in numbers, each measured on its own, so that it need
// not hold: while a queue grows, what has finished had it shorter.
function law(n, x, r, workers) {
  const known = n != null && x != null && r != null;
  const holds = !known || Math.abs(n - x * r) < 0.15 * n + 0.3;
  const sign = holds ? "=" : "≠";
  $("law").replaceChildren(
    number(n), element("i", " in flight "), sign + " ", number(x), element("i", " /s "), "× ", number(r, 2), element("i", " s"),
  );
  say("law-note", holds ? "at the origin, over the last 5 s" : n > x * r && n > workers ? "not yet: the queue is growing" : "not yet: things are changing");
  return known ? `${number(n)} in flight ${holds ? "equals" : "is not yet"} ${number(x)} per second times ${number(r, 2)} seconds.` : "";
}

// speak tells a screen reader what the page shows: at once when the story
// takes a turn, and otherwise no more often than one can listen to.
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
  const can = `The origin can do ${number(capacity)} requests per second, ${rate} arrive`;
  if (!s) return can + ".";
  const enough = capacity >= rate;
  if (proxy === "off") {
    if (enough && sum.timeout < 0.2) return can + ": all is well.";
    if (enough) return can + ", but it still works off a queue of requests whose clients have left.";
    if (s.goodput_rps < 0.3) return can + ": it is busy all the time, and all for nothing. Every answer comes too late.";
    return can + ": the queue grows, and with it every client’s wait.";
  }
  if (sum.rejected < 0.2 && sum.timeout < 0.2) return can + ": the proxy has nothing to refuse.";
  const bound = `the proxy allows ${s.proxy?.limit ?? none} in flight`;
  if (s.goodput_rps < 0.3) return `${can}: ${bound}; the origin works off what it had taken on before.`;
  return `${can}: ${bound} and refuses the rest early. ${number(s.goodput_rps)} per second are served in time.`;
}
