// Instances, and the blocks that they send each other.

import { splitBar, swatch } from "/chart.js";
import { bytes, duration, groupBy, h, micros, number, rows } from "/dom.js";
import { counted, Rates, resumed, SECOND_LOOK_MS, table } from "/widgets.js";

const PARTS = [
  ["interconnect_us", "Interconnect", "#bcae8e"],
  ["queue_us", "Others before it", "#ee72ad"],
  ["lms_us", "LMS queues", "#2462c8"],
  ["build_us", "Build", "#35a852"],
  ["pin_us", "Pins", "#8f1d1d"],
  ["flush_us", "Log flush", "#f2930d"],
];

export function instances(app) {
  const cards = h("div", { class: "grid-3" });
  const matrix = h("div");
  const pairs = h("div");
  const over = h("span", { class: "muted small" });
  const statistics = resumed(app, "statistics", () => new Rates(15000));
  const traffic = resumed(app, "traffic", () => new Rates(60000));
  let addresses = new Map();

  function drawCards() {
    const list = [...app.instances.values()].sort((a, b) => a.inst_id - b.inst_id);
    const s = statistics.seconds;
    cards.replaceChildren(
      ...list.map((one) => {
        const grown = statistics.grown(one.inst_id) ?? {};
        const rate = (...names) => {
          const known = names.map((n) => grown[n]).filter((v) => v !== undefined);
          return s && known.length ? number(known.reduce((a, b) => a + b, 0) / s) + "/s" : "–";
        };
        const at = addresses.get(one.inst_id) ?? {};
        const facts = one.open
          ? [
              ["Sessions", number(one.sessions)],
              ["Commits", rate("user commits")],
              ["Statements", rate("execute count")],
              ["Logical reads", rate("consistent gets", "db block gets")],
              ["Physical reads", rate("physical reads")],
              ["Physical writes", rate("physical writes")],
              ["Redo", s && grown["redo size"] !== undefined ? bytes(grown["redo size"] / s) + "/s" : "–"],
              ["Blocks received", rate("gc cr blocks received", "gc current blocks received")],
              ["Blocks served", rate("gc cr blocks served", "gc current blocks served")],
              ["Read from others' memory", rate("gc cr blocks read directly")],
              ["Open for", duration(Date.now() / 1000 - one.started_s)],
              ["Clients", at.listen ?? "–"],
              ["Cache", at.db_cache_size ?? "–"],
            ]
          : [];
        return h(
          "section",
          { class: "card" },
          h(
            "div",
            { class: "title" },
            h("span", { class: one.open ? "dot" : "dot down" }),
            h("h2", null, `Instance ${one.inst_id}`),
            h("span", { class: "muted small" }, one.open ? consoleOf(one.inst_id, at.console_listen) : "down"),
          ),
          one.open
            ? h("dl", { class: "facts" }, facts.map(([k, v]) => [h("dt", null, k), h("dd", { class: "num" }, v)]))
            : h("p", { class: "empty" }, "It does not take part in the cluster now."),
        );
      }),
    );
  }

  // Its own console, where the browser reaches it as it reaches this one.
  function consoleOf(id, address) {
    if (id === app.instance) return "this console";
    const port = address?.split(":").pop();
    if (!port || !/^\d+$/.test(port)) return "";
    return h("a", { href: `${location.protocol}//${location.hostname}:${port}/` }, "its console");
  }

  function drawTraffic() {
    const ids = [...app.instances.keys()].sort((a, b) => a - b);
    const moved = new Map();
    for (const key of traffic.kept.at(-1)?.totals.keys() ?? []) {
      const grown = traffic.grown(key);
      if (!grown || !grown.blocks) continue;
      const [to, from] = key.split(" ");
      const pair = `${to} ${from}`;
      const sum = moved.get(pair) ?? { to, from };
      for (const [name, v] of Object.entries(grown)) sum[name] = (sum[name] ?? 0) + v;
      moved.set(pair, sum);
    }
    const seconds = traffic.seconds || 1;
    const most = Math.max(1e-9, ...[...moved.values()].map((m) => m.blocks));
    const cell = (to, from) => {
      if (to === from) return h("td", { class: "self" }, "·");
      const sum = moved.get(`${to} ${from}`);
      if (!sum) return h("td", null, h("span", { class: "muted" }, "–"));
      const td = h(
        "td",
        null,
        h("span", { class: "rate" }, number(sum.blocks / seconds) + "/s"),
        h("span", { class: "small" }, micros(sum.total_us / sum.blocks)),
      );
      td.style.background = `rgba(var(--heat), ${(0.08 + (0.42 * sum.blocks) / most).toFixed(3)})`;
      return td;
    };
    matrix.replaceChildren(
      h(
        "div",
        { class: "scroll" },
        h(
          "table",
          { class: "matrix" },
          h("thead", null, h("tr", null, h("th", null, "to ↓  from →"), ids.map((id) => h("th", null, `Instance ${id}`)))),
          h("tbody", null, ids.map((to) => h("tr", null, h("th", null, `Instance ${to}`), ids.map((from) => cell(to, from))))),
        ),
      ),
    );
    const list = [...moved.values()].sort((a, b) => b.total_us - a.total_us);
    const columns = [
      ["From → to", "num", (m) => `${m.from} → ${m.to}`],
      ["Blocks/s", "num", (m) => number(m.blocks / seconds)],
      ["Average", "num", (m) => micros(m.total_us / m.blocks)],
      ["Where the time goes", "", (m) => {
        const parts = PARTS.map(([key, name, colour]) => ({ value: m[key], name: `${name} ${micros(m[key] / m.blocks)}`, colour }));
        return splitBar(parts, parts.map((p) => p.name).join(", "));
      }],
      ...PARTS.map(([key, name]) => [name, "num wide", (m) => micros(m[key] / m.blocks)]),
    ];
    const none = traffic.kept.length < 2 ? "Measuring…" : `No blocks were sent ${counted(traffic.seconds)}.`;
    over.textContent = traffic.kept.length < 2 ? "" : `rate and average time until a block is here, ${counted(traffic.seconds)}`;
    pairs.replaceChildren(table(columns, list, none));
  }

  return {
    elements: [
      cards,
      h(
        "section",
        { class: "card" },
        h("div", { class: "head" }, h("h2", null, "Block traffic"), over),
        matrix,
      ),
      h(
        "section",
        { class: "card" },
        h("div", { class: "head" }, h("h2", null, "Where a block's time goes")),
        h("div", { class: "legend" }, PARTS.map(([, name, colour]) => h("span", null, swatch(name, colour), name))),
        pairs,
      ),
    ],
    async poll() {
      const answer = await app.ask("/api/instances");
      for (const one of rows(answer.instances)) {
        app.instances.set(one.inst_id, { ...one, open: one.status === "OPEN" });
      }
      addresses = new Map(
        [...groupBy(rows(answer.addresses), (a) => a.inst_id)].map(([id, list]) => [
          id,
          Object.fromEntries(list.map((a) => [a.name, a.value])),
        ]),
      );
      statistics.add(
        new Map(
          [...groupBy(rows(answer.statistics), (a) => a.inst_id)].map(([id, list]) => [
            id,
            Object.fromEntries(list.map((a) => [a.name, a.value])),
          ]),
        ),
      );
      traffic.add(
        new Map(
          rows(answer.traffic).map(({ inst_id, instance, kind, max_us: _, ...totals }) => [
            `${inst_id} ${instance} ${kind}`,
            totals,
          ]),
        ),
      );
      drawCards();
      drawTraffic();
      return statistics.seconds === 0 ? SECOND_LOOK_MS : undefined;
    },
  };
}
