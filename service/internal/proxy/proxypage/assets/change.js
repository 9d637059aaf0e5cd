// Changes of the limit, after a confirmation.
import { $, element, printable } from "./operator/text.js";
import { get, post } from "./operator/live.js";

const fields = [["limit", "new-limit"], ["queue", "new-queue"], ["max_wait", "new-wait"]];
const names = { limit: "Limit", queue: "Queue", max_wait: "Longest wait" };
let change = {};

function fail(text) {
  $("changed").textContent = text;
  $("changed").className = "result failed";
  $("changed").hidden = false;
}

// showLimits lists the classes that have a limit of their own, and the limit of all.
export function showLimits(state) {
  const names = state.classes.filter((c) => c.limit).map((c) => c.name).reverse(); // the class default is the last one
  if (state.total_limit) names.push("total");
  const select = $("new-class");
  const text = JSON.stringify(names);
  if (select.dataset.shown === text) return;
  select.dataset.shown = text;
  const chosen = select.value;
  select.replaceChildren(...names.map((name) => {
    const option = element("option", name === "total" ? "all classes together" : `class ${printable(name)}`);
    option.value = name;
    return option;
  }));
  if (names.includes(chosen)) select.value = chosen;
}

// read returns the fields that are filled in.
function read() {
  const all = {};
  for (const [name, id] of fields) {
    const text = $(id).value.trim();
    if (text) all[name] = /^\d+$/.test(text) && name !== "max_wait" ? Number(text) : text;
  }
  if (typeof all.queue === "string") throw new Error(`Queue: want a whole number, not ${all.queue}`);
  return all;
}

// settings are those of a limit.
const settings = (all, name) => (name === "default" ? all : all.classes?.[name] ?? {});

$("change").onsubmit = async (e) => {
  e.preventDefault();
  try {
    change = read();
    if (!Object.keys(change).length) throw new Error("Nothing to change: all fields are empty.");
    const now = settings(await get("/-/set"), $("new-class").value);
    $("confirm-title").textContent = `Change ${printable($("new-class").selectedOptions[0].text)} of the running proxy?`;
    $("confirm-list").replaceChildren(...Object.keys(change).map((name) => {
      return element("li", printable(`${names[name]}: from ${now[name]} to ${change[name]}`));
    }));
    $("confirm-note").textContent = "limit" in change ? "A limit that adapts starts from the beginning." : "";
    change.class = $("new-class").value;
    $("confirm").showModal();
    $("confirm-no").focus();
  } catch (error) {
    fail(printable(error.message));
  }
};

$("confirm-no").onclick = () => $("confirm").close();

$("confirm-yes").onclick = async () => {
  $("confirm").close();
  const request = () => fetch("/-/set", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(change) });
  const done = async (answer) => {
    if (!answer.ok) return printable((await answer.text()).trim());
    const now = settings(await answer.json(), change.class);
    return printable(`Changed ${change.class}: limit ${now.limit}, queue ${now.queue}, longest wait ${now.max_wait}.`);
  };
  if (!(await post($("change").querySelector("button"), $("changed"), request, done))) return;
  for (const [, id] of fields) $(id).value = "";
};
