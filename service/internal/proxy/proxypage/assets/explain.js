// What the proxy would do with a request now, and why.
import { $, clock, element, printable, tag } from "./operator/text.js";

let last = 0; // the question that counts

async function explain() {
  const asked = ++last;
  const q = new URLSearchParams({ method: $("method").value, url: $("url").value, address: $("address").value });
  for (const line of $("headers").value.split("\n")) if (line.trim()) q.append("header", line);
  let nodes;
  try {
    const answer = await fetch(`/-/explain?${q}`);
    const x = await answer.json();
    nodes = answer.ok ? explanation(x) : [element("p", printable(x.error), "failed")];
  } catch (error) {
    nodes = [element("p", error.message, "failed")];
  }
  if (asked === last) $("explanation").replaceChildren(...nodes);
}

function explanation(x) {
  const verdict = element("p", null, `verdict ${x.verdict === "deny" ? "denied" : x.verdict}`);
  verdict.append(element("b", printable(x.words)));
  const c = x.class;
  const list = element("ol");
  list.append(item(`class ${printable(c.name)}`, c.mode, c.route ? `route ${c.route}` : "no route matches", c.words));
  for (const r of x.rules) list.append(item(`rule ${printable(r.name)}`, r.mode, r.by ? `${r.by}: ${r.key}` : "one bucket for all", r.words));
  if (!x.rules.length) list.append(element("li", "No rule matches."));
  return [verdict, list, element("p", `At ${clock(Date.now())}, if no other request comes.`, "note")];
}

function item(name, mode, source, words) {
  const e = element("li");
  const title = element("p");
  const key = element("code");
  key.append(element("bdi", printable(source)));
  title.append(element("b", name), " ", ...(mode === "shadow" ? [tag("shadow", "shadow")] : []), key);
  e.append(title, element("p", printable(words)));
  return e;
}

$("explain").onsubmit = (e) => {
  e.preventDefault();
  explain();
};
