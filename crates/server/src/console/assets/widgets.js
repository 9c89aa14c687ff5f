// What several pages are made of.

import { colourOf, CLASS_COLOURS, swatch } from "/chart.js";
import { h, number, s } from "/dom.js";

export function chips(name, options, chosen, change) {
  return h(
    "div",
    { class: "chips", role: "radiogroup", "aria-label": name },
    options.map(([value, text]) => {
      const input = h("input", { type: "radio", name, checked: value === chosen, onchange: () => change(value) });
      return h("label", null, input, h("span", null, text));
    }),
  );
}

// Rows of a table, made anew; `columns`: title, class, cell of a row.
export function table(columns, list, empty) {
  if (!list.length) return h("p", { class: "empty" }, empty);
  return h(
    "div",
    { class: "scroll" },
    h(
      "table",
      null,
      h("thead", null, h("tr", null, columns.map(([title, kind]) => h("th", { class: kind, scope: "col" }, title)))),
      h(
        "tbody",
        null,
        list.map((row) => h("tr", null, columns.map(([, kind, cell]) => h("td", { class: kind }, cell(row))))),
      ),
    ),
  );
}

// How old figures may be for rates to begin with them, and up to when they just go on.
const RESUMED_MS = 60000;
const GOES_ON_MS = 10000;
// A page that has seen its totals once only looks again after this.
export const SECOND_LOOK_MS = 1000;

// What a page has counted before it was left, if that is not long ago: else it begins anew.
export function resumed(app, name, make) {
  const before = app.kept.get(name);
  const age = before ? Date.now() - before.at : Infinity;
  const of = age <= RESUMED_MS ? before : make();
  // Over a while in which nobody looked: what was then is the beginning.
  if (of === before && age > GOES_ON_MS) of.beginWithLast();
  app.kept.set(name, of);
  return of;
}

// Totals that only grow, and what they grew by over the last while.
export class Rates {
  constructor(spanMs) {
    this.spanMs = spanMs;
    this.kept = [];
  }

  // `totals`: a map from a key to an object of numbers.
  add(totals, now = Date.now()) {
    this.kept.push({ at: now, totals });
    while (this.kept.length > 2 && this.kept[1].at < now - this.spanMs) this.kept.shift();
  }

  // When it was looked last.
  get at() {
    return this.kept.at(-1)?.at ?? 0;
  }

  beginWithLast() {
    this.kept = this.kept.slice(-1);
  }

  get seconds() {
    const n = this.kept.length;
    return n < 2 ? 0 : (this.kept[n - 1].at - this.kept[0].at) / 1000;
  }

  // What has come about of a key; of an instance that was started anew, all it has. The key is as
  // far back as it is known.
  grown(key) {
    const last = this.kept.at(-1)?.totals.get(key);
    if (!last || this.kept.length < 2) return null;
    const first = this.kept[0].totals.get(key) ?? {};
    const grown = {};
    for (const [name, value] of Object.entries(last)) {
      const before = first[name] ?? 0;
      grown[name] = value >= before ? value - before : value;
    }
    return grown;
  }
}

// From so many seconds on, figures are called those of a minute: looks come some seconds apart.
const MINUTE_S = 50;

// What time figures are about that a page has counted by itself for so long.
export function counted(seconds) {
  return seconds >= MINUTE_S ? "in the last minute" : `since this page was opened, ${Math.max(1, Math.round(seconds))} s ago`;
}

// Parts of a whole as people read them.
export function share(part, whole) {
  if (!(whole > 0)) return "–";
  const percent = (100 * part) / whole;
  return percent < 0.95 && percent > 0 ? `${percent.toFixed(1)} %` : `${Math.round(percent)} %`;
}

// A bar of classes, as long as its sum is of `longest`.
export function classBar(values, longest) {
  const classes = Object.keys(CLASS_COLOURS);
  let at = 0;
  const pieces = values.map((value, c) => {
    if (!(value > 0) || !(longest > 0)) return null;
    const width = (100 * value) / longest;
    const title = s("title", null, `${classes[c]} ${number(value)}`);
    const piece = s("rect", { x: at, y: 0, width, height: 10, fill: colourOf(classes[c]) }, title);
    at += width;
    return piece;
  });
  return s("svg", { class: "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" }, pieces);
}

// What stands out: rows with a bar by class, a part of the whole, and what it is. `name` gives the
// first line of a row, `below` one under it.
export function topList(rows, whole, { name, below, empty }) {
  if (!rows.length) return h("p", { class: "empty" }, empty);
  const longest = Math.max(...rows.map((row) => row.active));
  return h(
    "div",
    { class: "top" },
    rows.map((row) =>
      h(
        "div",
        { class: "top-row", title: `${number(row.active)} sessions on average` },
        classBar(row.classes, longest),
        h("span", { class: "num" }, share(row.active, whole)),
        h("div", { class: "top-name" }, h("div", { class: "cut" }, name(row)), below && h("div", { class: "cut small muted" }, below(row))),
      ),
    ),
  );
}

// What somebody marks to copy it stays as it is.
export function isMarked(element) {
  const selection = getSelection();
  return !selection.isCollapsed && element.contains(selection.anchorNode);
}

export function eventTag(name, className) {
  return h("span", { class: "tag" }, swatch("", colourOf(className)), name || "on CPU");
}
