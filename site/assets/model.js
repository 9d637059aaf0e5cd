// The playground's scenario: its numbers, its address, its file; and the law of queues.

// Numbers of the controls, with their values to begin with.
export const numbers = {
  workers: { label: "workers", min: 1, max: 200, step: 1, value: 10, whole: true },
  service: { label: "service time, ms", min: 1, max: 1000, step: 1, value: 50 },
  slow: { label: "slower from 20 s to 30 s, ×", min: 1, max: 5, step: 0.5, value: 1 },
  rate: { label: "requests a second", min: 5, max: 2000, step: 5, value: 300 },
  users: { label: "or users that wait for answers", min: 0, max: 2000, step: 10, value: 0, whole: true },
  patience: { label: "time-out, ms", min: 50, max: 5000, step: 50, value: 1000 },
  retries: { label: "retries", min: 0, max: 5, step: 1, value: 0, whole: true },
  spike: { label: "more load from 20 s to 30 s, ×", min: 1, max: 5, step: 0.5, value: 1 },
  fixed: { label: "the fixed limit", min: 1, max: 500, step: 1, value: 10, whole: true },
  queue: { label: "queue", min: 0, max: 1000, step: 10, value: 1000, whole: true },
  wait: { label: "longest wait, ms", min: 10, max: 2000, step: 10, value: 500 },
  instances: { label: "instances, each with a limit", min: 1, max: 16, step: 1, value: 1, whole: true },
};

export const limits = ["auto", "fixed", "aimd", "gradient2", "none"];

// initial returns the settings to begin with.
export const initial = () => ({ limit: "auto", ...Object.fromEntries(Object.entries(numbers).map(([name, n]) => [name, n.value])) });

// address returns the fragment that carries settings: those that differ from the initial ones.
export function address(settings) {
  const first = initial();
  const changed = Object.entries(settings).filter(([name, v]) => v !== first[name]);
  return new URLSearchParams(changed).toString();
}

// settingsOf reads a fragment. What is not valid keeps its initial value.
export function settingsOf(fragment) {
  const settings = initial();
  for (const [name, text] of new URLSearchParams(fragment)) {
    if (name === "limit" && limits.includes(text)) settings.limit = text;
    if (Object.hasOwn(numbers, name) && text !== "" && Number.isFinite(Number(text))) settings[name] = within(name, Number(text));
  }
  return settings;
}

// within returns the value of a control that is closest to v.
export function within(name, v) {
  const { min, max, whole } = numbers[name];
  return Math.min(Math.max(whole ? Math.round(v) : v, min), max);
}

// fileAddress returns the fragment that carries a file; fileOf reads it, and returns null if there is none.
export const fileAddress = (text) => "file=" + encodeURIComponent(text);
export const fileOf = (fragment) => new URLSearchParams(fragment).get("file");

// scenario returns the settings as a scenario file.
export function scenario(s) {
  const lines = [
    "name: Playground", "duration: 1m", "step: 500ms", "seed: 1",
    "layers:", "  - name: service", `    workers: ${s.workers}`, `    service_time: {mean: ${s.service}ms, distribution: exponential}`,
  ];
  if (s.slow > 1) lines.push("    changes:", `      - {at: 20s, slowdown: ${s.slow}}`, "      - {at: 30s, slowdown: 1}");
  lines.push("clients:", "  - name: clients");
  if (s.users > 0) {
    lines.push(`    users: ${s.users}`);
  } else {
    lines.push(`    rate: ${s.spike > 1 ? `'${s.rate}@20s,${s.rate * s.spike}@10s,${s.rate}'` : s.rate}`);
  }
  lines.push(`    timeout: ${s.patience}ms`);
  if (s.retries > 0) lines.push(`    retry: {attempts: ${s.retries + 1}, backoff: 100ms, max_backoff: 1s}`);
  lines.push("variants:", "  - name: no limit");
  if (s.limit !== "none") {
    const limit = s.limit === "fixed" ? s.fixed : s.limit;
    const instances = s.instances > 1 ? `, instances: ${s.instances}` : "";
    const name = { auto: "Auto", fixed: `limit ${s.fixed}`, aimd: "AIMD", gradient2: "Gradient2" }[s.limit];
    lines.push(`  - name: ${name}`, "    set:", `      layers.service.guard: {limit: ${limit}, queue: ${s.queue}, max_wait: ${s.wait}ms${instances}}`);
  }
  return lines.join("\n") + "\n";
}

// law says what workers that take time seconds make of rate requests a second (M/M/c, Erlang's formula C).
export function law(workers, time, rate) {
  const capacity = workers / time;
  const load = rate * time; // work in flight, by Little's law
  const use = load / workers;
  let wait = Infinity; // the mean, in seconds
  if (use < 1) {
    let lost = 1; // Erlang's formula B
    for (let k = 1; k <= workers; k++) lost = (load * lost) / (k + load * lost);
    const waits = lost / (1 - use * (1 - lost));
    wait = (waits * time) / (workers * (1 - use));
  }
  return { capacity, load, use, wait, limit: workers, queue: Math.ceil(workers / 2) };
}

// pasted finds workers, a response time in milliseconds and a rate in a text. Without units, they come in this order.
export function pasted(text) {
  const number = "(\\d+(?:[.,]\\d+)?)\\s*";
  const find = (unit) => text.match(new RegExp(number + unit, "i"))?.[1];
  const ms = find("(?:ms|milli)");
  const s = ms ? null : find("(?:s|sec|seconds?)(?![a-z])");
  const found = {
    workers: find("(?:workers?|threads?|cores?|connections?)"),
    time: ms ?? (s && String(Number(s.replace(",", ".")) * 1000)),
    rate: find("(?:/\\s*s|rps|qps|req|requests?|per second|a second)"),
  };
  if (!Object.values(found).some(Boolean)) [found.workers, found.time, found.rate] = text.match(/\d+(?:[.,]\d+)?/g) ?? [];
  return Object.fromEntries(Object.entries(found).map(([k, v]) => [k, v === undefined || v === null ? null : Number(String(v).replace(",", "."))]));
}
