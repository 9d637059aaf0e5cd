// What all pages have: the search, the list of versions, and the pictures that a document can play.
const { base, version } = document.body.dataset;
const query = document.getElementById("query");
const found = document.getElementById("found");

let sections;
const load = () => (sections ??= fetch(base + "search.json").then((r) => r.json()).then((all) => all.map((s) => ({
  ...s, page: s.t.toLowerCase(), heading: (s.h ?? "").toLowerCase(), text: s.x.toLowerCase(),
}))));

// What few readers look for comes later.
const aside = /^(changelog|contributing|architecture|docs\/(sim-reference|sla-table|arena|internals|performance))/;

// find returns the sections that have all words, the best first, and three of a page at most. A word is better in a
// title than in a text, and better in a short text than in a long one.
function find(all, words) {
  const scored = [];
  for (const s of all) {
    let score = 0;
    for (const w of words) {
      const count = s.text.split(w).length - 1;
      const inPage = s.page.includes(w), inHeading = s.heading.includes(w);
      if (!count && !inPage && !inHeading) { score = 0; break; }
      score += (inHeading ? 12 : 0) + (inPage ? (s.h ? 4 : 14) : 0) + Math.min(count, 8) * (1000 / (1000 + s.text.length));
    }
    if (score) scored.push({ s, score: score * (s.p.match(aside) ? 0.15 : 1) });
  }
  const shown = {}; // of each page
  return scored.sort((a, b) => b.score - a.score).map(({ s }) => s)
    .filter((s) => (shown[s.t] = (shown[s.t] ?? 0) + 1) <= 3).slice(0, 12);
}

// around returns the words of a text around the first one that is looked for.
function around(s, words) {
  const at = Math.max(s.text.indexOf(words[0]), 0);
  const from = at < 50 ? 0 : s.x.indexOf(" ", at - 45) + 1;
  return (from ? "… " : "") + s.x.slice(from, from + 130).trim();
}

let chosen = -1;
async function search() {
  const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
  const results = words.length ? find(await load(), words) : [];
  chosen = -1;
  query.removeAttribute("aria-activedescendant");
  found.replaceChildren(...results.map((s, i) => {
    const li = Object.assign(document.createElement("li"), { id: "found-" + i });
    li.setAttribute("role", "option");
    li.setAttribute("aria-selected", "false");
    const a = Object.assign(document.createElement("a"), { href: base + s.p, tabIndex: -1 });
    const title = document.createElement("b"), text = document.createElement("span");
    title.textContent = s.h ? `${s.t} › ${s.h}` : s.t;
    text.textContent = around(s, words);
    a.append(title, text);
    li.append(a);
    return li;
  }));
  if (words.length && !results.length) {
    const li = document.createElement("li");
    li.setAttribute("role", "option");
    li.setAttribute("aria-selected", "false");
    li.textContent = "Nothing found";
    found.append(li);
  }
  show(words.length > 0);
}

function show(visible) {
  found.hidden = !visible;
  query.setAttribute("aria-expanded", String(visible));
}

function choose(i) {
  const all = [...found.querySelectorAll("li:has(a)")];
  if (!all.length) return;
  chosen = (i + all.length) % all.length;
  all.forEach((li, k) => li.setAttribute("aria-selected", String(k === chosen)));
  query.setAttribute("aria-activedescendant", all[chosen].id);
  all[chosen].scrollIntoView({ block: "nearest" });
}

query.addEventListener("input", search);
query.addEventListener("focus", load);
query.addEventListener("keydown", (e) => {
  if (e.key === "ArrowDown") { e.preventDefault(); choose(chosen + 1); }
  if (e.key === "ArrowUp") { e.preventDefault(); choose(chosen - 1); }
  if (e.key === "Escape") show(false);
  if (e.key === "Enter") {
    e.preventDefault();
    (found.querySelector('[aria-selected="true"] a') ?? found.querySelector("a"))?.click();
  }
});
found.addEventListener("click", () => show(false));
document.addEventListener("click", (e) => { if (!e.target.closest(".search")) show(false); });
document.addEventListener("keydown", (e) => {
  if (e.key === "/" && !e.target.closest("input, textarea, select")) { e.preventDefault(); query.focus(); }
});

// The list of versions is beside all of them. A page that another version does not have leads to its first page.
const select = document.getElementById("version");
const here = new URL(base || ".", location.href);
fetch(new URL("../../versions.json", here)).then((r) => r.json()).then((all) => {
  select.replaceChildren(...all.map((v) => new Option(v, v, v === version, v === version)));
}).catch(() => {});
select.addEventListener("change", async () => {
  const other = new URL(`../${select.value}/`, here);
  const page = new URL(location.href.slice(here.href.length).split("#")[0], other);
  const there = await fetch(page, { method: "HEAD" }).catch(() => null);
  location.href = there?.ok ? page : other + "index.html";
});

// On a telephone, the contents of the documentation begin closed.
const contents = document.querySelector(".contents");
if (contents && matchMedia("(max-width: 860px)").matches) contents.open = false;
contents?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });

// A document's scenario is simulated when the reader asks for it.
const picture = document.querySelector(".live");
picture?.querySelector("button").addEventListener("click", async ({ target }) => {
  target.disabled = true;
  target.textContent = "Simulating…";
  const [{ charts, laws }, { fileAddress }, { Simulator }] = await Promise.all([import("./charts.js"), import("./model.js"), import("./sim.js")]);
  const text = await (await fetch(base + "service/lab/scenarios/" + picture.dataset.scenario)).text();
  const list = Object.assign(document.createElement("div"), { className: "laws" });
  const panels = Object.assign(document.createElement("div"), { className: "panels" });
  panels.innerHTML = `<figure><figcaption>Served in time, a second</figcaption><div data-panel="goodput"></div></figure>
    <figure><figcaption>Latency that 99 % stay below, seconds</figcaption><div data-panel="latency"></div></figure>
    <figure><figcaption>N: requests in the service</figcaption><div data-panel="inside"></div></figure>
    <figure><figcaption>Limit, and requests in flight below it</figcaption><div data-panel="limit"></div></figure>`;
  try {
    const { figures } = await new Simulator(base).run(text, picture.dataset.scenario);
    const more = Object.assign(document.createElement("a"), { href: `${base}playground.html#${fileAddress(text)}`, textContent: "Change it in the playground" });
    picture.append(list, panels, more);
    target.remove();
    (await charts(base, panels))(figures[0].runs);
    laws(list, figures[0].runs);
  } catch (e) {
    target.textContent = e.message;
  }
});
