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
  verdict.append(element("bdi", printable(x.request)), element("b", printable(x.words)));
  const list = element("ol");
  list.append(item(`class ${x.class}`, x.mode, x.route ? `route ${x.route}` : "no route of a class matches", about(x)));
  for (const r of x.rules) list.append(item(`rule ${r.name}`, r.mode, r.key ?? "", r.words));
  return [verdict, list, element("p", `At ${clock(Date.now())}, if no other request comes.`, "note")];
}

// about says what the class does with the request.
function about(x) {
  const { state: l, total: t } = x;
  const all = [x.limit, `now ${l.inflight} of ${l.limit_now} in flight, ${l.waiting} of ${l.queue} waiting`];
  if (t) all.push(`of all classes ${t.inflight} of ${t.limit_now} in flight`);
  all.push(`priority ${x.priority}`);
  if (x.tenant) all.push(`tenant ${x.tenant}`);
  if (x.deadline) all.push(`deadline ${x.deadline}`);
  return `${all.join("; ")}.`;
}

function item(name, mode, source, words) {
  const e = element("li");
  const title = element("p");
  title.append(element("b", printable(name)), " ", ...(mode === "shadow" ? [tag("shadow", "shadow")] : []));
  if (source) {
    const key = element("code");
    key.append(element("bdi", printable(source)));
    title.append(key);
  }
  e.append(title, element("p", printable(words)));
  return e;
}

$("explain").onsubmit = (e) => {
  e.preventDefault();
  explain();
};
