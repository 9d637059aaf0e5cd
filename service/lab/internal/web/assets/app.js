// The page receives a stream of states and samples, and sends changes of the settings.
import { charts } from "./charts.js";
import { showNumbers, showSettings, buildExperiments } from "./view.js";
import { showTour } from "./story.js";

const $ = (id) => document.getElementById(id);
const draw = charts({
  client: $("client-chart"), inflight: $("inflight-chart"),
  throughput: $("throughput-chart"), latency: $("latency-chart"),
});

let state = null;
let pending = false;

// render draws at most once per frame.
function render() {
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => {
    pending = false;
    if (!state) return;
    showNumbers(state);
    draw(state);
  });
}

const history = 600;

const patience = 2000; // milliseconds until a new connection, after EventSource has given up

function connect() {
  const events = new EventSource("/api/events");
  events.addEventListener("state", (e) => {
    state = JSON.parse(e.data);
    state.samples ??= [];
    state.changes ??= [];
    buildExperiments(state, steer);
    showSettings(state);
    showTour(state);
    status("live");
    render();
  });
  events.addEventListener("sample", (e) => {
    if (!state) return;
    state.samples.push(JSON.parse(e.data));
    if (state.samples.length > history) state.samples.shift();
    render();
  });
  // EventSource reconnects after a broken stream, but not after an error status.
  events.onerror = () => {
    status("reconnecting");
    if (events.readyState === EventSource.CLOSED) setTimeout(connect, patience);
  };
}

function status(text) {
  const s = $("status");
  s.textContent = text;
  s.className = "status " + text;
  document.body.classList.toggle("stale", text !== "live");
}

async function steer(change) {
  const error = $("error");
  error.hidden = true;
  try {
    const answer = await fetch("/api/set", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(change),
    });
    if (!answer.ok) throw new Error(await answer.text());
  } catch (e) {
    error.textContent = e.message;
    error.hidden = false;
  }
}

// The steps include 7 and 20 workers, the numbers of the experiments.
const more = (n) => (n < 20 ? 20 : n + 5);
const fewer = (n) => (n > 20 ? n - 5 : n > 7 ? 7 : Math.max(1, n - 1));

$("tour").onclick = () => steer({ tour: true });
$("slow").onclick = () => state && steer({ service_seconds: Math.min(60, state.settings.service_seconds * 2) });
$("restore").onclick = () => steer({ service_seconds: 1 });
$("add-workers").onclick = () => state && steer({ workers: more(state.settings.workers) });
$("remove-workers").onclick = () => state && steer({ workers: fewer(state.settings.workers) });
for (const button of document.querySelectorAll("[data-proxy]")) {
  button.onclick = () => steer({ proxy: button.dataset.proxy });
}
connect();
