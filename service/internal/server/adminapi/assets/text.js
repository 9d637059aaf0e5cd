// Words and numbers.

export const $ = (id) => document.getElementById(id);
export const none = "–";

// say changes the text of an element only if it changes.
export function say(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

export function element(tag, text, className) {
  const e = document.createElement(tag);
  if (text != null) e.textContent = text;
  if (className) e.className = className;
  return e;
}

// rate is a number per second, as short as it says enough.
export function rate(v) {
  if (v == null) return none;
  if (v === 0) return "0";
  if (v < 10) return v.toFixed(v < 1 ? 2 : 1);
  return count(Math.round(v));
}

export const count = (n) => n.toLocaleString("en");

// ms is a time given in milliseconds.
export function ms(v) {
  if (v == null) return none;
  if (v < 1000) return `${Math.round(v)} ms`;
  if (v < 10_000) return `${(v / 1000).toFixed(1)} s`;
  return ago(v);
}

// ago is a time of which nobody wants to know the milliseconds.
export function ago(v) {
  const s = Math.max(0, Math.round(v / 1000));
  if (s < 120) return `${s} s`;
  if (s < 7200) return `${Math.floor(s / 60)} min`;
  if (s < 172_800) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86_400)} d`;
}

export const clock = (at) => new Date(at).toLocaleTimeString("en-GB");

// printable shows what a text hides: controls, marks that turn its direction or
// have no width, and lone surrogates.
export const printable = (text) =>
  text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);

// A long key is cut in the middle, because keys of a kind often begin alike.
const longest = 160; // characters of a key that are shown
const tail = 60; // of them at its end

const cut = (text) => (text.length > longest ? text.slice(0, longest - tail - 1) + "…" + text.slice(-tail) : text);

// keyButton shows a key, which is anybody's text, and asks about it.
export function keyButton(key, ask) {
  const shown = printable(key);
  const button = element("button", null, "key");
  button.type = "button";
  button.title = `Explain ${shown}`;
  button.append(element("bdi", cut(shown)));
  button.onclick = () => ask(key);
  return button;
}

export function tag(text, className) {
  return element("span", text, `tag ${className ?? ""}`);
}
