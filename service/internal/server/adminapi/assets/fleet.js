// The fleet: the store, the upstream, the leaves and the members that share keys.
import { $, ago, count, element, ms, none, printable, say, tag } from "./operator/text.js";
import { table } from "./operator/table.js";

const slots = 65_536; // of all keys

// meanings say what the status of a member means.
const meanings = {
  live: "this instance reaches it: it decides about its keys",
  cut: "this instance cannot reach it, but others may: it keeps its keys",
  dead: "no member reaches it: the others decide about its keys",
  left: "it is shutting down, or has: the others decide about its keys",
  alias: "it is the same process as another member: it counts once and owns no keys",
};

function status(m) {
  const e = tag(m.status, m.status);
  e.title = meanings[m.status] ?? "";
  return e;
}

const columns = [
  {
    label: "member",
    show: (m) => ({
      text: `${m.name} ${m.url} ${m.here}`,
      nodes: () => [
        element("b", printable(m.name)), " ", ...(m.here ? [tag("this instance")] : []),
        ...(m.url !== m.name ? [element("code", printable(m.url))] : []),
      ],
    }),
  },
  { label: "status", show: (m) => ({ text: m.status, nodes: () => [status(m)] }) },
  { label: "for", title: "for how long it has been reached, or not", number: true, show: (m) => ago(m.since_ms) },
  { label: "keys", title: "its part of all keys", number: true, show: (m) => (m.slots ? `${((100 * m.slots) / slots).toFixed(1)} %` : none) },
  { label: "asked", title: "requests that this instance has forwarded to it", number: true, show: (m) => (m.here ? none : count(m.forwarded)) },
  {
    label: "no answer", title: "of these, requests without an answer", number: true,
    show: (m) => (m.here ? none : { text: count(m.failed), nodes: () => [element("span", count(m.failed), m.failed ? "hot" : "")] }),
  },
  { label: "round trip", number: true, show: (m) => (m.round_trip_ms ? short(m.round_trip_ms) : none) },
  { label: "note", show: (m) => m.note },
];

// short is a time that may be far below a millisecond.
const short = (v) => (v < 10 ? `${v.toFixed(1)} ms` : ms(v));

const draw = table($("peers"), columns, (m) => m.name, "No member is known.");

// note says why a member is not reached, and whether it has other rules or another list.
function note(m, rules) {
  if (m.error) return printable(m.error);
  const notes = [];
  if (m.rules && rules && m.rules !== rules) notes.push(`other rules: ${m.rules}`);
  if (m.only_here) notes.push(`its list lacks ${printable(m.only_here.join(" "))}`);
  if (m.only_there) notes.push(`its list also has ${printable(m.only_there.join(" "))}`);
  return notes.join("; ") || none;
}

const plural = (n, one, more) => `${count(n)} ${n === 1 ? one : more}`;

// steps lists decisions by the step on which they are based.
function steps(decisions) {
  const some = Object.entries(decisions).filter(([, n]) => n > 0);
  return some.length ? `decisions: ${some.map(([step, n]) => `${step} ${count(n)}`).join(" · ")}` : "no decisions yet";
}

// facts are lines [label, state, whether that is bad, details].
function facts({ store, upstream, peers, total }) {
  const all = [];
  if (store) {
    all.push(["store", store.away ? "away" : "answers", store.away, `${plural(store.instances, "instance shares", "instances share")} the limits; ${steps(store.decisions)}`]);
  }
  if (upstream) {
    const keys = `${count(upstream.assigned)} of ${plural(upstream.keys, "key has", "keys have")} an assignment`;
    const share = `without it, limits are divided among ${plural(upstream.leaves, "leaf", "leaves")}`;
    const why = upstream.error ? [printable(upstream.error)] : [];
    all.push(["upstream", upstream.away ? "away" : "answers", upstream.away, [upstream.url, ...why, keys, share, steps(upstream.decisions)].join("; ")]);
  }
  if (peers) {
    const live = peers.members.filter((m) => m.status === "live").length;
    const counted = peers.members.filter((m) => m.status !== "left" && m.status !== "alias").length;
    all.push(["peers", peers.quorum ? "quorum" : "no quorum", !peers.quorum, `this instance sees ${count(live)} of ${plural(counted, "member", "members")}; ${steps(peers.decisions)}`]);
  }
  if (total.leaves > 0) {
    all.push(["leaves", "", false, `${plural(total.leaves, "leaf decides by itself", "leaves decide by themselves")}, with ${plural(total.assignments, "assignment", "assignments")}`]);
  }
  return all;
}

export function showFleet(state) {
  const lines = facts(state);
  $("fleet").hidden = !lines.length;
  const text = JSON.stringify(lines);
  const list = $("fleet-facts");
  if (list.dataset.shown !== text) {
    list.dataset.shown = text;
    list.replaceChildren(...lines.map(([label, word, bad, details]) => {
      const line = element("div");
      const value = element("dd");
      value.append(...(word ? [tag(word, bad ? "bad" : "good")] : []), details);
      line.append(element("dt", label), value);
      return line;
    }));
  }
  const { peers } = state;
  $("peers").parentElement.hidden = !peers;
  if (!peers) return;
  const rules = peers.members.find((m) => m.name === peers.self)?.rules;
  draw(peers.members.map((m) => ({ ...m, here: m.name === peers.self, note: note(m, rules) })));
  say($("fleet-note"), peers.self ? "" : "this instance is none of the members");
}
