// What one more request of a key would get, and why.
import { $, clock, element, printable, tag } from "./operator/text.js";

let last = 0; // the question that counts

export async function explain(key) {
  const asked = ++last;
  let nodes;
  try {
    const answer = await fetch("/-/explain?" + new URLSearchParams({ key }));
    const x = await answer.json();
    nodes = answer.ok ? explanation(x) : [element("p", x.error, "failed")];
  } catch (error) {
    nodes = [element("p", error.message, "failed")];
  }
  if (asked === last) $("explanation").replaceChildren(...nodes);
}

function explanation(x) {
  const verdict = element("p", null, x.allowed ? "verdict allowed" : "verdict denied");
  verdict.append(element("bdi", printable(x.key)), element("b", x.words));
  const list = element("ol");
  for (const r of x.rules) {
    const item = element("li");
    const name = element("p");
    name.append(element("b", r.name), " ", ...(r.mode === "shadow" ? [tag("shadow", "shadow")] : []), element("code", `${r.kind} ${printable(r.pattern)}`));
    item.append(name, element("p", r.words));
    list.append(item);
  }
  return [verdict, list, element("p", `At ${clock(Date.now())}, if no other request comes.`, "note")];
}
