// The numbers and settings of the page.
import { $, element, kinds, none, number, say } from "./text.js";
import { speak, story } from "./story.js";

export function buildExperiments(state, steer) {
  const box = $("experiments");
  if (!box.children.length) {
    for (const e of state.experiments) {
      const button = document.createElement("button");
      button.type = "button";
      button.dataset.testid = "experiment-" + e.name;
      button.dataset.name = e.name;
      const [origin, ...rest] = e.title.split(", ");
      button.append(element("b", origin), element("span", rest.join(", ")), element("small", "source: " + e.saw));
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
  say("scale", scale(state));
}

// scale tells what the numbers are relative to.
function scale({ speed, client, window_seconds: window }) {
  const time = speed === 1 ? "" : ` Time runs ${speed}× as fast as there.`;
  return `Clients give up after ${client.timeout_seconds} s. Numbers are averages of ${window} s.${time}`;
}

export function showNumbers(state) {
  const s = state.samples.at(-1);
  const sum = kinds(s?.by_status);
  const told = story(state, s, sum);
  say("story", told);
  put("offered", number(s?.offered_rps), "rps");
  say("offered-note", `${state.client.rate_rps} wanted, up to ${state.client.workers} at once`);
  say("timed-out-note", `no answer within ${state.client.timeout_seconds} s`);
  put("goodput", number(s?.goodput_rps), "rps");
  put("rejected", number(s && sum.rejected), "rps");
  put("timed-out", number(s && sum.timeout + sum.origin_timeout), "rps");
  put("limit", s?.proxy?.limit ?? none);
  put("inflight", number(s?.origin.inflight));
  put("origin-throughput", number(s?.origin.throughput_rps), "rps");
  put("origin-p99", number(s?.origin.p99_seconds, 2), "s");
  const { inflight: n, throughput_rps: x, residence_seconds: r } = s?.origin ?? {};
  law(n, x, r);
  say("law-note", `at the origin, last ${state.window_seconds} s`);
  speak(told, r == null ? "" : `${number(n)} in flight equals ${number(x, 2)} per second times ${number(r, 2)} seconds.`);
}

function put(id, value, unit) {
  const parts = [String(value)];
  if (unit && value !== none) parts.push(element("small", " " + unit));
  $(id).replaceChildren(...parts);
}

// law shows N = X · R in numbers, as in the charts.
function law(n, x, r) {
  $("law").replaceChildren(
    number(n), element("i", " in flight "), "= ", number(x, 2), element("i", " /s "), "× ", number(r, 2), element("i", " s"),
  );
}
