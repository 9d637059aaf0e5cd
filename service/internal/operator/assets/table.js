// Tables whose rows stay the same elements while their numbers change, so that
// neither the focus nor a selection is lost.
import { element, none } from "./text.js";

// table makes a table of columns { label, title, number, show: (item) => text, or { text, nodes } }.
// What it returns shows items, each known by its id.
export function table(body, columns, idOf, empty) {
  const head = element("tr");
  for (const c of columns) {
    const th = element("th", c.label, c.number ? "number" : "");
    th.scope = "col";
    th.setAttribute("role", "columnheader");
    if (c.title) th.title = c.title;
    head.append(th);
  }
  head.setAttribute("role", "row");
  body.previousElementSibling.append(head);
  const nothing = element("tr", null, "nothing");
  const cell = element("td", empty);
  cell.colSpan = columns.length;
  nothing.append(cell);

  let rows = new Map();
  return (items) => {
    const next = new Map();
    items.forEach((item, i) => {
      const id = idOf(item);
      const row = rows.get(id) ?? build(columns);
      next.set(id, row);
      fill(row, columns, item);
      if (body.children[i] !== row) body.insertBefore(row, body.children[i] ?? null);
    });
    while (body.children.length > items.length) body.lastChild.remove();
    if (!items.length) body.append(nothing);
    rows = next;
  };
}

function build(columns) {
  const row = element("tr");
  row.setAttribute("role", "row");
  for (const c of columns) {
    const td = element("td", null, c.number ? "number" : "");
    td.setAttribute("role", "cell");
    td.dataset.label = c.label;
    row.append(td);
  }
  return row;
}

function fill(row, columns, item) {
  columns.forEach((c, i) => {
    const td = row.children[i];
    const shown = c.show(item) ?? none;
    // What a cell with elements shows is told by a text, so that it stays if nothing is new.
    const text = typeof shown === "string" ? shown : shown.text;
    if (td.dataset.shown === text) return;
    td.dataset.shown = text;
    td.classList.toggle("none", text === none || text === "0");
    if (typeof shown === "string") td.textContent = shown;
    else td.replaceChildren(...shown.nodes());
  });
}
