// The live picture of the first page.
import { charts, laws } from "./charts.js";
import { address, initial, scenario } from "./model.js";
import { Simulator } from "./sim.js";

const load = document.getElementById("load");
const simulator = new Simulator("");
const drawn = charts("", document.getElementById("hero"));

async function show() {
  const settings = { ...initial(), rate: Number(load.value) };
  document.getElementById("load-value").value = load.value;
  document.getElementById("more").href = "playground.html#" + address(settings);
  try {
    const result = await simulator.run(scenario(settings));
    if (!result) return;
    (await drawn)(result.figures[0].runs);
    laws(document.getElementById("laws"), result.figures[0].runs);
    document.documentElement.dataset.shown = performance.now().toFixed(0);
  } catch (e) {
    document.getElementById("laws").textContent = e.message;
  }
}

load.addEventListener("input", show);
show();
