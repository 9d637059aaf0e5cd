// The page: asks for the state while somebody looks, and shows it.
import { plot } from "./plot.js";
import { showConfig, showNumbers, showRules, speak } from "./state.js";
import { showFleet } from "./fleet.js";
import { showTop } from "./keys.js";
import { explain } from "./explain.js";
import { $, ago, say } from "./text.js";

const every = 1000; // milliseconds between two states
const patience = 5000; // for an answer
const maxRules = 100; // that are shown
const maxSamples = 300;

const draw = plot($("plot"));
let samples = [];
let state = null;
let heard = 0; // when the last state came
let order = "refusing";

async function get(path) {
  const answer = await fetch(path, { signal: AbortSignal.timeout(patience) });
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

function show() {
  showConfig(state);
  showNumbers(state);
  showFleet(state);
  showRules(state, order, ask);
}

async function poll() {
  const since = samples.at(-1)?.at_ms ?? 0;
  const next = await get(`/-/status?rules=${maxRules}&since=${since}`);
  if (state && next.started_ms !== state.started_ms) samples = []; // another process
  state = next;
  heard = Date.now();
  samples = samples.concat(state.history ?? []).slice(-maxSamples);
  draw(samples);
  const top = (by, n) => get(`/-/top?by=${by}&n=${n}`);
  const [denied, hot, queues] = await Promise.all([
    top("denied", 8), top("requests", 8), state.total.waiting > 0 ? top("waiting", 8) : { keys: [] },
  ]);
  show();
  showTop("denied", denied, ask);
  showTop("hot", hot, ask);
  showTop("queues", queues, ask);
  speak(state, denied);
}

// live says whether what is shown is so.
function live(error) {
  const s = $("status");
  const text = !error ? "live" : heard ? `no answer for ${ago(Date.now() - heard)}` : "no answer";
  say(s, text);
  s.className = error ? "status away" : "status live";
  s.title = error ? String(error.message) : "";
  document.body.classList.toggle("stale", Boolean(error));
}

// watch asks again and again, one question at a time, unless nobody looks.
async function watch() {
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

function ask(key) {
  $("key").value = key;
  explain(key);
  $("explain").scrollIntoView({ block: "nearest" });
}

$("explain").onsubmit = (e) => {
  e.preventDefault();
  explain($("key").value);
};

for (const button of document.querySelectorAll("[data-order]")) {
  button.onclick = () => {
    order = button.dataset.order;
    for (const b of document.querySelectorAll("[data-order]")) b.setAttribute("aria-pressed", String(b === button));
    if (state) show();
  };
}

$("reload").onclick = async () => {
  const result = $("reloaded");
  const button = $("reload");
  button.disabled = true;
  let failed = true;
  try {
    const answer = await fetch("/-/reload", { method: "POST" });
    const said = await answer.json();
    failed = !answer.ok;
    // All that is wrong stands in the alarm that the next state brings.
    result.textContent = failed ? `Nothing has changed: ${said.error.split("\n")[0]}` : `Loaded: ${said.change}`;
  } catch (error) {
    result.textContent = `Unknown whether the rules were loaded: ${error.message}`;
  }
  result.classList.toggle("failed", failed);
  result.hidden = false;
  button.disabled = false;
  button.focus();
};

watch();
