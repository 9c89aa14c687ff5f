// Elements made by hand: text always becomes a text node, never markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

export function show(element, visible) {
  element.hidden = !visible;
}

// Rows of an answer as objects.
export function rows(table) {
  if (!table) return [];
  return table.rows.map((row) => Object.fromEntries(table.columns.map((c, i) => [c, row[i]])));
}

export function groupBy(list, key) {
  const groups = new Map();
  for (const item of list) {
    const k = key(item);
    if (!groups.has(k)) groups.set(k, []);
    groups.get(k).push(item);
  }
  return groups;
}

// Numbers as people read them.
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
export function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value >= 1e9) return (value / 1e9).toFixed(1) + " G";
  if (value >= 1e6) return (value / 1e6).toFixed(1) + " M";
  if (value >= 1e4) return (value / 1e3).toFixed(1) + " k";
  if (value >= 100 || Number.isInteger(value)) return whole.format(value);
  return value.toFixed(value >= 10 ? 1 : 2);
}

export function bytes(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (value < 1024) return `${value < 10 && unit !== "B" ? value.toFixed(1) : whole.format(value)} ${unit}`;
    value /= 1024;
  }
  return `${value.toFixed(1)} TiB`;
}

export function micros(us) {
  if (us === null || us === undefined || Number.isNaN(us)) return "–";
  if (us < 1000) return `${Math.round(us)} µs`;
  if (us < 1e6) return `${(us / 1e3).toFixed(us < 1e4 ? 2 : 1)} ms`;
  return duration(us / 1e6);
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const m = Math.floor(seconds / 60);
  if (m < 60) return `${m} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(m / 60);
  return hours < 48 ? `${hours} h ${m % 60} min` : `${Math.floor(hours / 24)} days`;
}

export function clock(ms, withSeconds = true) {
  const options = { hour: "2-digit", minute: "2-digit", hour12: false };
  if (withSeconds) options.second = "2-digit";
  return new Date(ms).toLocaleTimeString("en-GB", options);
}
