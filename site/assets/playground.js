// The playground: controls, a file, their charts, and what they say about a service of one's own.
import { charts, laws } from "./charts.js";
import { address, fileAddress, fileOf, initial, law, numbers, pasted, scenario, settingsOf, within } from "./model.js";
import { Simulator } from "./sim.js";

const at = (id) => document.getElementById(id);
const simulator = new Simulator("");
const drawn = charts("", at("charts"));
let settings = initial();
let own = false; // the file is not that of the controls

for (const [name, n] of Object.entries(numbers)) {
  const box = document.querySelector(`[data-number="${name}"]`);
  box.className = "control";
  box.innerHTML = `<label for="${name}">${n.label}</label><input id="${name}-slider" type="range" min="${n.min}" max="${n.max}" step="${n.step}" aria-label="${n.label}, slider"><input id="${name}" type="number" min="${n.min}" max="${n.max}" step="any">`;
  const set = (e) => {
    const v = Number(e.target.value);
    if (e.target.value === "" || !(v >= n.min && v <= n.max)) return;
    change({ [name]: within(name, v) });
  };
  at(name).addEventListener("input", set);
  at(name + "-slider").addEventListener("input", set);
}
at("limit").addEventListener("input", (e) => change({ limit: e.target.value }));

function change(some) {
  settings = { ...settings, ...some };
  own = false;
  remember(address(settings));
  controls();
  simulate(scenario(settings));
}

// remember puts a fragment in the address when it no longer changes: browsers refuse an address that changes all the time.
let remembering;
function remember(fragment) {
  clearTimeout(remembering);
  remembering = setTimeout(() => history.replaceState(null, "", "#" + fragment), 200);
}

// controls shows the settings.
function controls() {
  for (const name of Object.keys(numbers)) {
    for (const input of [at(name), at(name + "-slider")]) {
      if (input.value === "" || Number(input.value) !== settings[name]) input.value = settings[name];
    }
  }
  at("limit").value = settings.limit;
  const off = { fixed: settings.limit !== "fixed", rate: settings.users > 0, spike: settings.users > 0 };
  for (const name of ["queue", "wait", "instances"]) off[name] = settings.limit === "none";
  for (const name of Object.keys(off)) for (const input of [at(name), at(name + "-slider")]) input.disabled = off[name];
  document.querySelector('[data-number="fixed"]').hidden = off.fixed;
  at("controls").classList.toggle("other", own);
  if (!own) at("examples").value = "";
}

async function simulate(text) {
  if (at("text").value !== text) at("text").value = text;
  try {
    const result = await simulator.run(text);
    if (!result) return;
    const runs = result.figures[0].runs;
    (await drawn)(runs);
    laws(at("laws"), runs);
    at("mistake").textContent = "";
    at("status").textContent = `${runs.length === 1 ? "one run" : runs.length + " runs"} of ${runs[0].duration / 1e9} s each, simulated in ${result.took.toFixed(0)} ms` +
      (result.figures.length > 1 ? `; this is the first of ${result.figures.length} figures` : "");
    document.documentElement.dataset.shown = performance.now().toFixed(0);
    document.documentElement.dataset.took = result.took.toFixed(0);
  } catch (e) {
    at("mistake").textContent = e.message;
    at("status").textContent = e.message.split("\n")[0];
  }
}

// file simulates a file that is not that of the controls.
function file(text) {
  own = true;
  remember(fileAddress(text));
  controls();
  simulate(text);
}
at("text").addEventListener("input", () => file(at("text").value));

at("examples").addEventListener("input", async () => {
  const name = at("examples").value;
  if (!name) return change({});
  file(await (await fetch("service/lab/scenarios/" + name)).text());
});

at("reset").addEventListener("click", () => change(initial()));
at("copy").addEventListener("click", async () => {
  const copied = await navigator.clipboard?.writeText(location.href).then(() => true, () => false);
  at("status").textContent = copied ? "the link is in the clipboard" : "the address of this page is the link";
});

// What the law says about the reader's own numbers.
const fields = { workers: at("own-workers"), time: at("own-time"), rate: at("own-rate") };
at("paste").addEventListener("input", () => {
  for (const [name, v] of Object.entries(pasted(at("paste").value))) if (v) fields[name].value = v;
  answer();
});
for (const f of Object.values(fields)) f.addEventListener("input", answer);

const round = (x) => (x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x.toFixed(2));

function read() {
  const [workers, time, rate] = Object.values(fields).map((f) => Number(f.value.replace(",", ".")));
  const valid = workers >= 1 && workers <= 1e6 && time > 0 && rate > 0;
  return valid ? { workers: Math.round(workers), time, rate } : null;
}

function answer() {
  const v = read();
  if (!v) {
    at("answer").textContent = "Three numbers above 0, and at least one worker.";
    return;
  }
  const l = law(v.workers, v.time / 1000, v.rate);
  const state = l.use < 1
    ? `The workers are busy for ${round(l.use * 100)} % of the time. A request waits ${round(l.wait * 1000)} ms for a worker, on average, if arrivals and work are random.`
    : `${round(v.rate)} requests a second are ${round(l.use)} times what the service can do: at most ${round(100 / l.use)} % can be served, and without a limit few of them in time.`;
  at("answer").innerHTML = `
    <dl>
      <div><dt>Little’s law</dt><dd><var>N</var> = <var>X</var> · <var>R</var> = ${round(v.rate)}/s · ${round(v.time)} ms = <b>${round(l.load)}</b> in flight</dd></div>
      <div><dt>The knee</dt><dd>at <b>${v.workers}</b> in flight: ${round(l.capacity)} requests a second. More in flight add waiting, and no throughput.</dd></div>
      <div><dt>A limit</dt><dd><b>${l.limit}</b>, with a queue of ${l.queue}: half a response time of waiting at most. Or let the limit find itself, as these numbers change.</dd></div>
    </dl>
    <p>${state}</p>
    <pre tabindex="0"><code>// Go: the limit finds itself, or it is this one
httplimit.Handler(mux)
inflight.New(inflight.Config{Algorithm: limit.Fixed(${l.limit}), Queue: ${l.queue}})

# any service: the same
weir proxy --origin http://127.0.0.1:8000
weir proxy --origin http://127.0.0.1:8000 --limit ${l.limit} --queue ${l.queue}</code></pre>`;
}
at("numbers").addEventListener("submit", (e) => {
  e.preventDefault();
  const v = read();
  if (!v) return;
  change({ ...initial(), workers: within("workers", v.workers), service: within("service", v.time), rate: within("rate", v.rate), patience: within("patience", Math.ceil((v.time * 20) / 50) * 50) });
  at("controls").scrollIntoView();
});
answer();

// The address may carry settings or a file.
function follow() {
  const text = fileOf(location.hash.slice(1));
  if (text !== null) return file(text);
  settings = settingsOf(location.hash.slice(1));
  own = false;
  controls();
  simulate(scenario(settings));
}
addEventListener("hashchange", follow);
follow();
