// Stacked areas over time, drawn as SVG.

import { clock, h, number, s } from "/dom.js";

// The field's colours of the classes: CPU green, User I/O blue, System I/O light blue, Concurrency
// dark red, Application red, Commit orange, Configuration brown, Cluster beige, Other pink.
export const CLASS_COLOURS = {
  CPU: "#35a852",
  "User I/O": "#2462c8",
  "System I/O": "#7cbcf5",
  Concurrency: "#8f1d1d",
  Application: "#e03a35",
  Commit: "#f2930d",
  Configuration: "#7d5534",
  Cluster: "#bcae8e",
  Network: "#93894f",
  Administrative: "#6f7a52",
  Other: "#ee72ad",
};

export function colourOf(name) {
  return CLASS_COLOURS[name] ?? CLASS_COLOURS.Other;
}

const LEFT = 34;
const RIGHT = 8;
const TOP = 8;
const BOTTOM = 20;

// A round number at or above `value`, and the step of its ticks.
function niceScale(value) {
  const rough = Math.max(value, 1) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((m) => m >= rough - 1e-9);
  return { top: Math.ceil(Math.max(value, 1) / step - 1e-9) * step, step };
}

function timeStep(windowMs) {
  const wanted = windowMs / 5;
  return [15, 30, 60, 120, 300, 600, 900, 1800].map((x) => x * 1000).find((x) => x >= wanted) ?? 3600e3;
}

// Pixels that a pointer may move and still only points at something.
const TAP = 6;

// A chart element with `update(points, from, to, stepMs)`; a point is `{ t, values }`, values in the
// order of `classes`. `compact`: without a reading under the pointer. `choose(from, to)`: called
// with what somebody has drawn the pointer over, or tapped at; `select(from, to)` shows such a part.
export function stackedArea(classes, { height = 240, compact = false, label, choose } = {}) {
  const box = h("div", { class: compact ? "chart compact" : choose ? "chart choosable" : "chart" });
  const reading = h("div", { class: "reading", hidden: true });
  let last = null;
  let selected = null;
  let drawing = false;

  function draw() {
    // What somebody is drawing is not taken from under the pointer.
    if (!last || !box.isConnected || drawing) return;
    const { points, from, to, stepMs, top: fixedTop } = last;
    const width = Math.max(box.clientWidth, 200);
    const plotWidth = width - LEFT - RIGHT;
    const plotHeight = height - TOP - BOTTOM;
    const sums = points.map((p) => p.values.reduce((a, b) => a + b, 0));
    const { top, step } = niceScale(1.05 * (fixedTop ?? Math.max(0, ...sums)));
    const x = (t) => LEFT + ((t - from) / (to - from)) * plotWidth;
    const y = (v) => TOP + plotHeight - (v / top) * plotHeight;
    const parts = [];
    for (let v = 0; v <= top + 1e-9; v += step) {
      parts.push(s("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(v), y2: y(v) }));
      parts.push(s("text", { class: "tick", x: LEFT - 5, y: y(v) + 4, "text-anchor": "end" }, number(v)));
    }
    const ticks = timeStep(to - from);
    for (let t = Math.ceil(from / ticks) * ticks; t <= to; t += ticks) {
      const at = x(t);
      if (at < LEFT + 12 || at > width - RIGHT - 12) continue;
      const text = clock(t, ticks < 60e3);
      parts.push(s("text", { class: "tick", x: at, y: height - 5, "text-anchor": "middle" }, text));
    }
    for (const run of runs(points, stepMs)) {
      const base = run.map(() => 0);
      classes.forEach((name, c) => {
        if (run.every((p) => !p.values[c])) return;
        const lower = run.map((p, i) => `${x(p.t).toFixed(1)},${y(base[i]).toFixed(1)}`);
        run.forEach((p, i) => (base[i] += p.values[c]));
        const upper = run.map((p, i) => `${x(p.t).toFixed(1)},${y(base[i]).toFixed(1)}`);
        const d = `M${upper.join("L")}L${lower.reverse().join("L")}Z`;
        parts.push(s("path", { d, fill: colourOf(name), "data-class": name }));
      });
    }
    const attributes = { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label };
    const svg = s("svg", attributes, parts);
    box.replaceChildren(svg, reading);
    if (compact) return;
    const band = s("rect", { class: "band", y: TOP, height: plotHeight });
    const put = (a, b) => {
      const [left, right] = [Math.max(LEFT, Math.min(a, b)), Math.min(width - RIGHT, Math.max(a, b))];
      band.setAttribute("x", left);
      band.setAttribute("width", Math.max(0, right - left));
    };
    if (selected) put(x(selected[0]), x(selected[1]));
    svg.append(band);
    follow(svg, { points, x, width, plotHeight });
    if (choose) chooseIn(svg, put, { from, to, width, plotWidth, choose });
  }

  // A part of the time, drawn or tapped.
  function chooseIn(svg, put, { from, to, width, plotWidth, choose }) {
    let begun = null;
    const place = (event) => {
      const at = event.clientX - svg.getBoundingClientRect().left;
      return Math.min(width - RIGHT, Math.max(LEFT, at));
    };
    const time = (px) => Math.round(from + ((px - LEFT) / plotWidth) * (to - from));
    svg.addEventListener("pointerdown", (event) => {
      begun = place(event);
      drawing = true;
      svg.setPointerCapture?.(event.pointerId);
    });
    svg.addEventListener("pointermove", (event) => {
      if (begun !== null) put(begun, place(event));
    });
    const end = (event, taken) => {
      if (begun === null) return;
      const [a, b] = [begun, place(event)].sort((p, q) => p - q);
      begun = null;
      drawing = false;
      if (!taken) return draw();
      const tapped = b - a < TAP;
      // A tap takes a tenth of what is shown, about where it was.
      const half = (to - from) / 20;
      const middle = Math.min(to - half, Math.max(from + half, time((a + b) / 2)));
      choose(...(tapped ? [Math.round(middle - half), Math.round(middle + half)] : [time(a), time(b)]));
    };
    svg.addEventListener("pointerup", (event) => end(event, true));
    svg.addEventListener("pointercancel", (event) => end(event, false));
  }

  // What the pointer is over.
  function follow(svg, { points, x, width, plotHeight }) {
    const line = s("line", { class: "cursor", y1: TOP, y2: TOP + plotHeight, visibility: "hidden" });
    svg.append(line);
    const move = (event) => {
      const at = event.clientX - svg.getBoundingClientRect().left;
      let nearest = null;
      for (const p of points) {
        if (!nearest || Math.abs(x(p.t) - at) < Math.abs(x(nearest.t) - at)) nearest = p;
      }
      if (!nearest) return;
      const px = x(nearest.t);
      line.setAttribute("x1", px);
      line.setAttribute("x2", px);
      line.setAttribute("visibility", "visible");
      const entries = classes.map((name, c) => [name, nearest.values[c]]).filter(([, v]) => v > 0);
      const total = entries.reduce((a, [, v]) => a + v, 0);
      reading.replaceChildren(
        h("strong", null, clock(nearest.t), " · ", number(total)),
        ...entries.reverse().map(([name, v]) => h("span", null, swatch(name), name, " ", number(v))),
      );
      reading.hidden = false;
      reading.classList.toggle("left", px > width / 2);
    };
    const leave = () => {
      reading.hidden = true;
      line.setAttribute("visibility", "hidden");
    };
    svg.addEventListener("pointermove", move);
    svg.addEventListener("pointerdown", move);
    svg.addEventListener("pointerleave", leave);
  }

  new ResizeObserver(draw).observe(box);
  return {
    element: box,
    select(from, to) {
      selected = [from, to];
    },
    update(points, from, to, stepMs, top) {
      last = { points, from, to, stepMs, top };
      draw();
    },
  };
}

// Points without a gap between them.
function runs(points, stepMs) {
  const all = [];
  let run = [];
  for (const p of points) {
    if (run.length && p.t - run[run.length - 1].t > 4 * stepMs + 2000) {
      all.push(run);
      run = [];
    }
    run.push(p);
  }
  if (run.length) all.push(run);
  return all.filter((r) => r.length > 1);
}

export function swatch(name, colour) {
  return s(
    "svg",
    { class: "swatch", width: 10, height: 10, "aria-hidden": "true" },
    s("rect", { width: 10, height: 10, rx: 2, fill: colour ?? colourOf(name) }),
  );
}

// A bar of parts that add up to the whole.
export function splitBar(parts, label) {
  const whole = parts.reduce((a, p) => a + p.value, 0);
  let at = 0;
  const pieces = parts
    .filter((p) => p.value > 0)
    .map((p) => {
      const width = (p.value / whole) * 100;
      const piece = s("rect", { x: at, y: 0, width, height: 10, fill: p.colour }, s("title", null, p.name));
      at += width;
      return piece;
    });
  const attributes = { class: "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img" };
  return s("svg", { ...attributes, "aria-label": label }, pieces);
}
