// The page: asks for the state, and shows it.
import { plot } from "./operator/plot.js";
import { add, get, reloads, speak, watch } from "./operator/live.js";
import { $, printable } from "./operator/text.js";
import { showConfig, showNumbers, showRules } from "./state.js";
import { showFleet } from "./fleet.js";
import { showTop } from "./keys.js";
import { explain } from "./explain.js";

const maxRules = 100; // that are shown

const draw = plot($("plot"), [
  { label: "allowed/s", color: "--allowed", of: (s) => s.allowed, fill: true },
  { label: "denied/s", color: "--denied", of: (s) => s.denied, width: 2.5 },
  { label: "shadow would deny/s", color: "--shadow", of: (s) => s.shadowed, dash: [8, 4] },
  { label: "waiting (right)", color: "--waiting", of: (s) => s.waiting, right: true, dash: [2, 3] },
], { changed: (s, was) => s.reloads !== was.reloads && "other rules" });
let samples = [];
let state = null;
let order = "refusing";

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
  samples = add(samples, state.history);
  draw(samples);
  const top = (by, n) => get(`/-/top?by=${by}&n=${n}`);
  const [denied, hot, queues] = await Promise.all([
    top("denied", 8), top("requests", 8), state.total.waiting > 0 ? top("waiting", 8) : { keys: [] },
  ]);
  show();
  showTop("denied", denied, ask);
  showTop("hot", hot, ask);
  showTop("queues", queues, ask);
  const most = denied.keys[0]?.denied_per_second > 0 ? ` Most refused: ${printable(denied.keys[0].key).slice(0, 60)}.` : "";
  speak(state.words, most);
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

reloads();
watch(poll);
