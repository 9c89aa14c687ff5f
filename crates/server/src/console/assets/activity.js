// What sessions do over time, and what stands out in a part of it.

import { CLASS_COLOURS, stackedArea, swatch } from "/chart.js";
import { clock, h, number } from "/dom.js";
import { learn, nameOf, textOf } from "/names.js";
import { chips, eventTag, topList } from "/widgets.js";

const WINDOWS = [
  [5, "5 min"],
  [15, "15 min"],
  [30, "30 min"],
  [60, "1 h"],
];

export function activity(app) {
  let minutes = 5;
  let which = 0;
  // "last": the last half minute, "whole": all that the chart shows, or what is chosen in it.
  let range = "last";
  let last = null;
  const classes = Object.keys(CLASS_COLOURS);
  const main = stackedArea(classes, {
    height: 280,
    label: "Active sessions by wait class over time",
    choose: (from, to) => setRange([from, to]),
  });
  const legend = h("div", { class: "legend" });
  const title = h("h2", null, "Active sessions, whole cluster");
  const instanceChips = h("div");
  const small = h("div", { class: "grid-3" });
  const smallCharts = new Map();
  const rangeTitle = h("h2", { id: "range" });
  const rangeChips = h("div");
  const lists = h("div", { class: "grid-2" });
  let chipsShown = "";

  function setRange(value) {
    range = value;
    drawRangeChips();
    app.refresh();
  }

  function drawRangeChips() {
    const options = [["last", "Last 30 s"], ["whole", "All shown"]];
    if (Array.isArray(range)) options.push([range, "Chosen"]);
    rangeChips.replaceChildren(chips("range", options, range, setRange));
  }

  const windowChips = chips("window", WINDOWS, minutes, (m) => {
    minutes = m;
    if (Array.isArray(range)) range = "last";
    drawRangeChips();
    app.refresh();
  });

  function drawChips(ids) {
    if (chipsShown === ids.join()) return;
    chipsShown = ids.join();
    const options = [[0, "Cluster"], ...ids.map((id) => [id, String(id)])];
    instanceChips.replaceChildren(
      chips("instance", options, which, (id) => {
        which = id;
        if (last) draw();
        app.refresh();
      }),
    );
  }

  // The points of an instance; 0: sums over all.
  function pointsOf(id) {
    const at = new Map();
    for (const [t, inst, values] of last.points) {
      if (id && inst !== id) continue;
      const known = at.get(t);
      if (!known) at.set(t, values.slice());
      else values.forEach((v, i) => (known[i] += v));
    }
    return [...at].sort((a, b) => a[0] - b[0]).map(([t, values]) => ({ t, values }));
  }

  const sum = (values) => values.reduce((a, b) => a + b, 0);

  function draw() {
    const ids = [...app.instances.keys()].sort((a, b) => a - b);
    drawChips(ids);
    const { from, to, step_ms: stepMs } = last;
    const shown = pointsOf(which);
    title.textContent = which ? `Active sessions, instance ${which}` : "Active sessions, whole cluster";
    main.select(last.range_from, last.range_to);
    main.update(shown, from, to, stepMs);
    const latest = shown.at(-1)?.values ?? classes.map(() => 0);
    legend.replaceChildren(
      ...classes.map((name, c) =>
        h("span", { class: latest[c] > 0 ? "" : "off" }, swatch(name), name, h("span", { class: "num" }, number(latest[c]))),
      ),
    );
    const perInstance = ids.map((id) => [id, pointsOf(id)]);
    const top = Math.max(1, ...perInstance.flatMap(([, ps]) => ps.map((p) => sum(p.values))));
    for (const [id, ps] of perInstance) {
      if (!smallCharts.has(id)) {
        const chart = stackedArea(classes, { height: 130, compact: true, label: `Active sessions of instance ${id}` });
        const state = h("span", { class: "dot" });
        const now = h("span", { class: "muted small" });
        const card = h(
          "section",
          { class: "card" },
          h("div", { class: "title" }, state, h("h3", null, `Instance ${id}`), now),
          chart.element,
        );
        smallCharts.set(id, { chart, state, now });
        small.append(card);
      }
      const { chart, state, now } = smallCharts.get(id);
      const open = app.instances.get(id).open;
      state.className = open ? "dot" : "dot down";
      now.textContent = open ? `${number(sum(ps.at(-1)?.values ?? []))} active` : "down";
      chart.update(ps, from, to, stepMs, top);
    }
    drawLists();
  }

  function card(heading, content) {
    return h("section", { class: "card", "data-list": heading }, h("div", { class: "head" }, h("h2", null, heading)), content);
  }

  function drawLists() {
    const { range_from: from, range_to: to, active } = last;
    const seconds = Math.round((to - from) / 1000);
    const long = seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
    rangeTitle.textContent = `${clock(from)} to ${clock(to)}: ${number(active)} active sessions on average`;
    rangeTitle.title = long;
    const empty = "No session was at work.";
    lists.replaceChildren(
      card("Top wait events", topList(last.events, active, { name: (e) => [eventTag(e.name, e.class)], below: (e) => e.class, empty })),
      card(
        "Top SQL",
        topList(last.statements, active, {
          name: (q) => [h("a", { class: "code", href: `#sql/${q.sql_id}` }, q.sql_id), " ", h("span", { class: "muted small" }, `${q.event || "on CPU"}, ${q.sessions} session${q.sessions > 1 ? "s" : ""}`)],
          below: (q) => h("span", { class: "code" }, textOf(q.sql_id) || "–"),
          empty: active > 0 ? "No statement was known of those that worked." : empty,
        }),
      ),
      card(
        "Top sessions",
        topList(last.sessions, active, {
          name: (x) => [h("strong", null, x.sid), ` ${x.username || "?"} `, h("span", { class: "muted small" }, `instance ${x.inst_id}`)],
          below: (x) => `${x.program || "–"}: ${x.event || "on CPU"}`,
          empty,
        }),
      ),
      card(
        "Top objects",
        topList(last.objects, active, {
          name: (o) => nameOf(o.object),
          below: (o) => o.event || "on CPU",
          empty: active > 0 ? "No object was waited for." : empty,
        }),
      ),
    );
  }

  drawRangeChips();
  return {
    elements: [
      h(
        "section",
        { class: "card" },
        h("div", { class: "head" }, title, instanceChips, windowChips),
        main.element,
        legend,
      ),
      small,
      h("div", { class: "head range" }, rangeTitle, rangeChips),
      lists,
    ],
    async poll() {
      let query = `minutes=${minutes}&instance=${which}`;
      if (Array.isArray(range)) query += `&from=${range[0]}&to=${range[1]}`;
      else if (range === "whole") query += "&range=whole";
      last = await app.ask(`/api/activity?${query}`);
      await learn(app, { sql: last.statements.map((q) => q.sql_id), of: last.objects.map((o) => o.object) });
      draw();
    },
  };
}
