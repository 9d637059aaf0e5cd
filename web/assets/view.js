// Words and numbers of the page.

const $ = (id) => document.getElementById(id);
const none = "–";

export const number = (v, digits = 1) => (v == null ? none : v.toFixed(digits));

// classes sorts what came back into what it means to a client.
export function classes(byStatus) {
  const sum = { success: 0, rejected: 0, timeout: 0, error: 0 };
  for (const [label, rate] of Object.entries(byStatus ?? {})) {
    const code = parseInt(label, 10);
    if (code >= 200 && code < 400) sum.success += rate;
    else if (code === 429 || code === 503) sum.rejected += rate;
    else if (label === "timeout" || code === 504) sum.timeout += rate;
    else sum.error += rate;
  }
  return sum;
}

export function buildExperiments(state, steer) {
  const box = $("experiments");
  if (!box.children.length) {
    for (const e of state.experiments) {
      const button = document.createElement("button");
      button.type = "button";
      button.dataset.testid = "experiment-" + e.name;
      button.dataset.name = e.name;
      const title = document.createElement("b");
      title.textContent = e.title;
      const saw = document.createElement("small");
      saw.textContent = "the source saw " + e.saw;
      button.append(title, saw);
      button.onclick = () => steer({ experiment: e.name });
      box.append(button);
    }
  }
  for (const button of box.children) {
    button.setAttribute("aria-pressed", String(button.dataset.name === state.experiment));
  }
}

export function showSettings(state) {
  const s = state.settings;
  $("workers").textContent = s.workers;
  $("service-time").textContent = s.service_seconds + " s";
  for (const button of document.querySelectorAll("[data-proxy]")) {
    button.setAttribute("aria-pressed", String(button.dataset.proxy === s.proxy));
  }
  $("inflight-title").textContent = s.proxy === "off" ? "In flight at the origin (no proxy, no limit)" : "In flight through the proxy, and its limit";
}

export function showNumbers(state) {
  const s = state.samples.at(-1);
  say("story", story(state, s));
  if (!s) return;
  const c = classes(s.by_status);
  put("offered", number(s.offered_rps), "rps");
  put("goodput", number(s.goodput_rps), "rps");
  put("rejected", number(c.rejected), "rps");
  put("timed-out", number(c.timeout), "rps");
  put("limit", s.proxy ? s.proxy.limit : none);
  put("inflight", s.proxy ? s.proxy.inflight : s.origin.inflight + s.origin.waiting);
  put("origin-throughput", number(s.origin.throughput_rps), "rps");
  put("origin-p99", number(s.origin.p99_seconds, 2), "s");
  law(s.law);
}

// say changes a live region only if its words change: a screen reader reads it
// out each time.
function say(id, text) {
  const e = $(id);
  if (e.textContent !== text) e.textContent = text;
}

function put(id, value, unit) {
  const small = document.createElement("small");
  small.textContent = unit ? " " + unit : "";
  $(id).replaceChildren(String(value), small);
}

function law({ n, x, r }) {
  const unit = (text) => Object.assign(document.createElement("i"), { textContent: text });
  $("law").replaceChildren(
    number(n), unit(" in flight  "), r != null && Math.abs(n - x * r) < 0.15 * n + 0.3 ? "= " : "≠ ",
    number(x), unit(" /s  "), "× ", number(r, 2), unit(" s"),
  );
}

function story(state, s) {
  const { workers, service_seconds: service, proxy } = state.settings;
  const capacity = workers / service;
  const can = `${workers} workers × ${service} s can do ${number(capacity)} requests per second; ${state.client.rate_rps} arrive.`;
  if (!s) return can;
  const enough = capacity >= state.client.rate_rps;
  const c = classes(s.by_status);
  if (proxy === "off") {
    if (enough && c.timeout < 0.2) return can + " All is well.";
    if (enough) return can + " But the origin still works off a queue of requests whose clients have left.";
    if (s.goodput_rps < 0.3) {
      return can + " The origin is busy all the time, and all for nothing: each answer comes after its client gave up.";
    }
    return can + " The queue grows, and with it every client's wait.";
  }
  if (c.rejected < 0.2 && c.timeout < 0.2) return can + " The proxy has nothing to refuse.";
  const limit = s.proxy ? s.proxy.limit : none;
  if (s.goodput_rps < 0.3) return can + ` The proxy allows ${limit} in flight; the origin works off what it had taken on before.`;
  return can + ` The proxy allows ${limit} in flight and refuses the rest at once: ${number(s.goodput_rps)} per second are served in time.`;
}
