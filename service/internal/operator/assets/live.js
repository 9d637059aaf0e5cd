// What keeps a page live: it asks for the state while the page is visible.
import { $, ago, say } from "./text.js";

const every = 1000; // milliseconds between two states
const patience = 5000; // for an answer

// get returns the JSON of a path.
export async function get(path) {
  const answer = await fetch(path, { signal: AbortSignal.timeout(patience) });
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

let heard = 0; // time of the last answer

// live shows whether the server answers.
function live(error) {
  const s = $("status");
  if (!error) heard = Date.now();
  say(s, !error ? "live" : heard ? `no answer for ${ago(Date.now() - heard)}` : "no answer");
  s.className = error ? "status away" : "status live";
  s.title = error ? String(error.message) : "";
  document.body.classList.toggle("stale", Boolean(error));
}

// watch calls poll again and again, one call at a time, while the page is visible.
export async function watch(poll) {
  for (;;) {
    if (document.hidden) {
      await new Promise((seen) => document.addEventListener("visibilitychange", seen, { once: true }));
    }
    try {
      await poll();
      live();
    } catch (error) {
      live(error);
    }
    await new Promise((go) => setTimeout(go, every));
  }
}

const maxSamples = 300;

// add appends the newer samples to a history, which is bounded.
export const add = (samples, newer) => samples.concat(newer ?? []).slice(-maxSamples);

// post disables a button while it sends a request, and shows the result in an element:
// the text of done(answer), or why the request failed.
export async function post(button, result, request, done) {
  button.disabled = true;
  let failed = true;
  try {
    const answer = await request();
    failed = !answer.ok;
    result.textContent = await done(answer);
  } catch (error) {
    result.textContent = `No answer: it is unknown whether anything has changed (${error.message}).`;
  }
  result.classList.toggle("failed", failed);
  result.hidden = false;
  button.disabled = false;
  button.focus();
  return !failed;
}

// reloads makes the button reload reload the rules, and show the result in reloaded.
export function reloads() {
  $("reload").onclick = () => post($("reload"), $("reloaded"), () => fetch("/-/reload", { method: "POST" }), async (answer) => {
    const said = await answer.json();
    // The whole error stands in the alarm that the next state brings.
    return answer.ok ? `Loaded: ${said.change}` : `Nothing has changed: ${said.error.split("\n")[0]}`;
  });
}

// speak changes the text for a screen reader: at once if the words take a turn, else at
// most every 20 seconds.
const pause = 20_000; // milliseconds
let spoken = { turn: "", at: -pause };

export function speak(words, more = "") {
  const turn = words.replace(/[\d.,]+/g, "");
  const now = performance.now();
  if (turn === spoken.turn && now - spoken.at < pause) return;
  spoken = { turn, at: now };
  say($("spoken"), words + more);
}

// put shows a value and its unit in an element.
export function put(id, value, unit) {
  const e = $(id);
  if (e.dataset.shown === value) return;
  e.dataset.shown = value;
  e.textContent = value;
  if (unit && value !== "–") e.append(Object.assign(document.createElement("small"), { textContent: unit }));
}

// alarm shows a text in the element that ends with -text, or hides its parent.
export function alarm(id, text) {
  $(id).hidden = !text;
  say($(id + "-text"), text ?? "");
}
