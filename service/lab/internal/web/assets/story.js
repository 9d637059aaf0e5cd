// What happens, in words: the tour's steps and its captions, and the story of any setup.
import { $, element, number, say } from "./text.js";

const titles = { normal: "Normal", overload: "Overload", collapse: "Collapse of goodput", proxy: "Proxy on", recovery: "Recovery" };

// showTour shows the steps of the tour, and which one it is at.
export function showTour({ phase, phases }) {
  const list = $("phases");
  if (!list.children.length) list.append(...phases.map((p) => element("li", titles[p])));
  const at = phases.indexOf(phase);
  [...list.children].forEach((step, i) => {
    step.className = i < at ? "past" : i === at ? "now" : "";
    if (i === at) step.setAttribute("aria-current", "step");
    else step.removeAttribute("aria-current");
  });
  say("tour", phase ? "Restart the tour" : "Start the tour");
}

// captions tell what happens in each step of the tour.
const captions = {
  normal: ({ rate, settings: { workers, service_seconds: time }, s }) =>
    `${rate} requests per second arrive, each takes ${time} s: ${number(s.origin.inflight)} of ${workers} workers are busy. Every request is answered in time.`,
  overload: ({ rate, settings: { workers, service_seconds: time }, capacity }) =>
    `A new release takes ${time} s per request. ${workers} workers ÷ ${time} s = ${number(capacity)} requests per second at most, and clients want ${rate}: the queue grows.`,
  collapse: ({ s, client }) =>
    `The origin still finishes ${number(s.origin.throughput_rps)} requests per second, but all of them too late: clients leave after ${client.timeout_seconds} s. Useful answers: ${number(s.goodput_rps)} per second.`,
  proxy: ({ s, settings }) =>
    `The proxy lets ${s.proxy?.limit ?? "a few"} requests in, and refuses the others early. The origin first finishes the ${number(Math.max(s.origin.inflight - settings.workers, 0), 0)} requests of its queue, most of them abandoned.`,
  recovery: ({ s, sum, capacity, reached }) => {
    const now = `${number(s.goodput_rps)} useful answers per second`;
    // A limit that has just been lowered below the average in flight is such a test.
    const tests = reached && s.proxy.limit < s.origin.inflight - 1;
    if (s.goodput_rps >= 0.95 * capacity && !tests) {
      return `${now}: all that the law allows (${number(capacity)}). The limit found itself: ${s.proxy.limit} in flight. ${number(sum.rejected)} per second are refused early. Your turn: choose an experiment, or change the settings.`;
    }
    if (reached) return `${now}, of ${number(capacity)} possible. For a moment, the limit is ${s.proxy.limit}: Auto tests whether requests queue at the origin.`;
    return `${now}, of ${number(capacity)} possible. The limit, now ${s.proxy.limit}, finds itself: it rises while more requests in flight bring more answers.`;
  },
};

// story tells what happens, in words.
export function story(state, s, sum) {
  const { settings, client } = state;
  const { workers, service_seconds: service, proxy } = settings;
  const rate = client.rate_rps;
  const capacity = workers / service;
  const can = `The origin can serve ${number(capacity)} requests per second, clients want ${rate}`;
  if (!s) return can + ".";
  if (state.phase) {
    const reached = state.samples.some((past) => past.phase === "recovery" && past.goodput_rps >= 0.95 * capacity);
    return captions[state.phase]({ rate, settings, client, capacity, s, sum, reached });
  }
  const enough = capacity >= rate;
  const late = sum.timeout + sum.origin_timeout;
  if (proxy === "off") {
    if (enough && late < 0.2) return can + ": every request is answered in time.";
    if (enough) return can + ", but it is still busy with queued requests of clients that have left.";
    if (s.goodput_rps < 0.3) return can + ": it is always busy, and every answer comes too late.";
    return can + ": the queue grows, and all clients wait longer.";
  }
  if (sum.rejected < 0.2 && late < 0.2) return can + ": the proxy does not need to refuse any.";
  const bound = `the proxy allows ${s.proxy?.limit ?? "a few"} in flight`;
  if (s.goodput_rps < 0.3) return `${can}: ${bound}; the origin is still busy with earlier requests.`;
  return `${can}: ${bound} and refuses the others. ${number(s.goodput_rps)} per second succeed.`;
}

// speak updates the text for screen readers: at once when the situation changes, and
// otherwise once per pause.
const pause = 20_000; // milliseconds
let spoken = { turn: "", at: 0 };

export function speak(told, law) {
  const turn = told.replace(/[\d.]+/g, "");
  const now = performance.now();
  if (turn === spoken.turn && now - spoken.at < pause) return;
  spoken = { turn, at: now };
  say("spoken", `${told} ${law}`);
}
