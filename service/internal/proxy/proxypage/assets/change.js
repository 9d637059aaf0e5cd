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

$("change").onsubmit = async (e) => {
  e.preventDefault();
  try {
    change = read();
    if (!Object.keys(change).length) throw new Error("Nothing to change: all fields are empty.");
    const now = await get("/-/set");
    $("confirm-list").replaceChildren(...Object.keys(change).map((name) => {
      const was = name === "limit" && now.limit !== now.limit_now ? `${now.limit}, now ${now.limit_now}` : String(now[name]);
      return element("li", printable(`${names[name]}: from ${was} to ${change[name]}`));
    }));
    $("confirm-note").textContent = "limit" in change
      ? `${now.inflight} requests are in flight, and ${now.waiting} wait. An automatic limit starts from the beginning.` : "";
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
    const now = await answer.json();
    return `Changed: limit ${now.limit} (now ${now.limit_now}), queue ${now.queue}, longest wait ${now.max_wait}.`;
  };
  if (await post($("change").querySelector("button"), $("changed"), request, done)) $("change").reset();
};
