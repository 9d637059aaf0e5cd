// Lists of keys.
import { $, count, keyButton, rate } from "./text.js";
import { table } from "./table.js";

let ask = () => {};

const key = { label: "key", show: (k) => ({ text: k.key, nodes: () => [keyButton(k.key, (key) => ask(key))] }) };
const rule = { label: "rule", show: (k) => k.rules.join(", ") };
const perSecond = (label, of) => ({ label: label + "/s", number: true, show: (k) => (k.known ? rate(of(k)) : "…") });
const denied = perSecond("denied", (k) => k.denied_per_second);
const allowed = perSecond("allowed", (k) => k.allowed_per_second);
const refused = perSecond("leases refused", (k) => k.lease_refused_per_second);
const total = { label: "in all", title: "denied, and leases refused, since the key is remembered", number: true, show: (k) => count(k.denied + k.lease_refused) };
const waiting = { label: "waiting", number: true, show: (k) => count(k.waiting) };

const id = (k) => k.key;
const lists = {
  denied: table($("denied-keys"), [key, rule, denied, refused, allowed, total], id, "No request was rejected."),
  hot: table($("hot-keys"), [key, rule, allowed, denied], id, "No requests yet."),
  queues: table($("queues"), [key, rule, waiting], id, "No requests are waiting."),
};

export function showTop(list, top, asking) {
  ask = asking;
  lists[list](top.keys.map((k) => ({ ...k, known: top.window_ms > 0 })));
}
