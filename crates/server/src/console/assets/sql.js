// Statements by what they cost, and one of them in full.

import { CLASS_COLOURS, stackedArea } from "/chart.js";
import { clock, groupBy, h, micros, number, rows } from "/dom.js";
import { learn, textOf } from "/names.js";
import { chips, counted, eventTag, isMarked, resumed, SECOND_LOOK_MS, table, topList } from "/widgets.js";

// What statements are compared by: column, title, whether it is time, and what it is divided by.
const METRICS = [
  { key: "elapsed_time", title: "Elapsed", time: true },
  { key: "cpu_time", title: "CPU", time: true },
  { key: "buffer_gets", title: "Gets" },
  { key: "disk_reads", title: "Reads" },
  { key: "executions", title: "Executions" },
  { key: "each", title: "Elapsed each", time: true, each: true },
  { key: "gets_each", title: "Gets each", each: true },
  { key: "cluster_wait_time", title: "Cluster", time: true },
  { key: "concurrency_wait_time", title: "Concurrency", time: true },
  { key: "application_wait_time", title: "Application", time: true },
  { key: "user_io_wait_time", title: "User I/O", time: true },
];
const COUNTERS = METRICS.filter((m) => !m.each).map((m) => m.key);
const SHOWN = 40;
const RATES_MS = 60000;
// Statements that ended this long before the last look may have been missed by it.
const OVERLAP_MS = 5000;

function withAverages(sums) {
  sums.each = sums.executions > 0 ? sums.elapsed_time / sums.executions : 0;
  sums.gets_each = sums.executions > 0 ? sums.buffer_gets / sums.executions : 0;
  return sums;
}

function cell(metric, value, rate) {
  if (!(value > 0)) return h("span", { class: "muted" }, "–");
  const text = metric.time ? micros(value) : number(value);
  return rate && !metric.each ? `${text}/s` : text;
}

// Totals of all statements, by instance, and what has been added in the last minute.
class Totals {
  constructor() {
    // By statement and instance: looks at its totals, the oldest first.
    this.looks = new Map();
    this.begun = 0;
    this.at = 0;
    this.newest = 0;
  }

  add(list, now = Date.now()) {
    this.begun ||= now;
    for (const row of list) {
      const key = `${row.sql_id} ${row.inst_id}`;
      if (!this.looks.has(key)) this.looks.set(key, []);
      const looks = this.looks.get(key);
      // What has not been there before has begun with nothing, unless all of it is new to us.
      if (!looks.length && now > this.begun) looks.push({ at: this.at, row: null });
      looks.push({ at: now, row });
      this.newest = Math.max(this.newest, row.active_ms);
    }
    this.at = now;
    for (const looks of this.looks.values()) {
      while (looks.length > 1 && looks[1].at <= now - RATES_MS) looks.shift();
    }
  }

  // What was known at the last look holds until then: what has run since has been told by it.
  beginWithLast() {
    this.begun = this.at;
    for (const looks of this.looks.values()) {
      looks.splice(0, looks.length - 1);
      looks[0].at = this.at;
    }
  }

  get seconds() {
    return Math.min(this.at - this.begun, RATES_MS) / 1000;
  }

  // One row for each statement, over all instances.
  all(rate) {
    const found = new Map();
    for (const [key, looks] of this.looks) {
      const sqlId = key.split(" ")[0];
      const { row } = looks.at(-1);
      const before = rate ? (looks[0].row ?? {}) : {};
      if (rate && (looks.length < 2 || looks.at(-1).at <= this.at - RATES_MS)) continue;
      if (!found.has(sqlId)) found.set(sqlId, { sql_id: sqlId, instances: [] });
      const sums = found.get(sqlId);
      sums.instances.push(row.inst_id);
      for (const name of COUNTERS) {
        // One that had gone and came back begins at zero.
        const grown = row[name] - (before[name] ?? 0);
        sums[name] = (sums[name] ?? 0) + (grown >= 0 ? grown : row[name]);
      }
    }
    return [...found.values()].map(withAverages);
  }
}

export function sql(app, opened) {
  let by = "elapsed_time";
  let rate = true;
  let wanted = "";
  const totals = resumed(app, "statements", () => new Totals());
  const list = h("div", { class: "statements" });
  const head = h("span", { class: "muted small" });
  const modes = chips("figures", [[true, "Last minute"], [false, "Since start"]], rate, (value) => {
    rate = value;
    draw();
    app.refresh();
  });
  const order = h(
    "select",
    { "aria-label": "Sort by", onchange: (event) => sortBy(event.target.value) },
    METRICS.map((m) => h("option", { value: m.key }, m.title)),
  );
  const search = h("input", {
    type: "search",
    placeholder: "SQL or its name…",
    "aria-label": "Search statements",
    oninput: (event) => {
      wanted = event.target.value.toLowerCase();
      draw();
    },
  });

  function sortBy(key) {
    by = key;
    order.value = key;
    draw();
    app.refresh();
  }

  // Until there are rates the totals stand there.
  const rates = () => rate && totals.seconds > 0;

  function top() {
    const shown = totals.all(rates()).filter((q) => q.executions > 0 || q[by] > 0);
    if (rates()) for (const q of shown) for (const name of COUNTERS) q[name] /= totals.seconds || 1;
    return shown.sort((a, b) => b[by] - a[by] || (a.sql_id < b.sql_id ? -1 : 1));
  }

  function draw() {
    if (isMarked(list)) return;
    const shown = top();
    const matches = shown.filter((q) => !wanted || `${q.sql_id} ${textOf(q.sql_id)}`.toLowerCase().includes(wanted));
    const chosen = METRICS.find((m) => m.key === by);
    const columns = [
      [
        "Statement",
        "statement",
        (q) => [
          h("a", { class: "code", href: `#sql/${q.sql_id}` }, q.sql_id),
          h("span", { class: "muted small" }, ` on ${[...new Set(q.instances)].sort().join(", ")}`),
          h("div", { class: "cut code muted" }, textOf(q.sql_id) || "–"),
        ],
      ],
      ...METRICS.map((m) => [
        h("button", { class: "plain sort", "aria-pressed": m === chosen ? "true" : "false", onclick: () => sortBy(m.key) }, m.title),
        m === chosen ? "num chosen" : "num wide",
        (q) => cell(m, q[m.key], rates()),
      ]),
    ];
    const over = rates() ? ` ${counted(totals.seconds)}` : rate ? " since the start" : "";
    head.textContent = `${matches.length}${over}`;
    const none = rates() ? `No statement has ended ${counted(totals.seconds)}.` : "None.";
    list.replaceChildren(table(columns, matches.slice(0, SHOWN), none));
  }

  const detail = opened ? statement(app, opened) : null;
  return {
    elements: [
      detail?.element,
      h(
        "section",
        { class: "card" },
        h("div", { class: "head" }, h("h2", null, "Statements"), head, modes, h("label", { class: "narrow small" }, "by ", order), search),
        list,
      ),
    ],
    async poll() {
      const since = Math.max(0, totals.newest - OVERLAP_MS);
      totals.add(rows((await app.ask(`/api/statements?since=${since}`)).statements));
      await learn(app, { sql: top().slice(0, SHOWN).map((q) => q.sql_id) });
      draw();
      await detail?.poll();
      return totals.seconds === 0 ? SECOND_LOOK_MS : undefined;
    },
  };
}

// ---- one statement

function statement(app, sqlId) {
  const classes = Object.keys(CLASS_COLOURS);
  const text = h("pre", { class: "text" });
  const facts = h("div");
  const plans = h("div");
  const steps = h("div");
  const waits = h("div");
  const plan = h("div");
  const chart = stackedArea(classes, { height: 130, compact: true, label: "Sessions that ran it, last hour" });
  let whole = "";

  async function explain() {
    // The server cuts long texts, and marks them so.
    if (whole.endsWith("…")) {
      plan.replaceChildren(h("p", null, "This text is too long to be explained here."));
      return;
    }
    try {
      const answer = rows((await app.ask("/api/explain", { sql_text: whole })).plan);
      plan.replaceChildren(h("h3", null, "EXPLAIN"), h("pre", { class: "plan" }, answer.map((row) => Object.values(row)[0]).join("\n")));
    } catch (error) {
      plan.replaceChildren(h("p", { class: "error" }, `No plan: ${error.message}`));
    }
  }

  const figures = [
    ["Executions", "num", (p) => number(p.executions)],
    ["Elapsed", "num", (p) => micros(p.elapsed_time)],
    ["Each", "num", (p) => (p.executions > 0 ? micros(p.elapsed_time / p.executions) : "–")],
    ["CPU", "num", (p) => micros(p.cpu_time)],
    ["Gets", "num", (p) => number(p.buffer_gets)],
    ["Reads", "num", (p) => number(p.disk_reads)],
    ["Rows", "num", (p) => number(p.rows_processed)],
    ["Cluster", "num", (p) => micros(p.cluster_wait_time)],
    ["Concurrency", "num", (p) => micros(p.concurrency_wait_time)],
    ["Application", "num", (p) => micros(p.application_wait_time)],
    ["User I/O", "num", (p) => micros(p.user_io_wait_time)],
  ];

  // Sums over the rows of a group, with what they have in common.
  function sums(list, common) {
    const sum = { ...common, active_ms: 0, failed_executions: 0, rows_processed: 0 };
    for (const row of list) {
      for (const name of [...COUNTERS, "failed_executions", "rows_processed"]) sum[name] = (sum[name] ?? 0) + row[name];
      sum.active_ms = Math.max(sum.active_ms, row.active_ms);
    }
    return sum;
  }

  // Figures of rows; where there is little width, beneath each other. `first`: what a row is about.
  function figuresOf(list, [title, first], columns, empty) {
    if (!matchMedia("(max-width: 640px)").matches || !list.length) return table([[title, "", first], ...columns], list, empty);
    const cells = list.map((row) => [first(row), "num", ([, , cell]) => cell(row)]);
    return table([[title, "muted", ([name]) => name], ...cells], columns, empty);
  }

  function draw(known) {
    const instances = [...groupBy(known, (p) => p.inst_id)].map(([id, list]) => sums(list, { inst_id: id }));
    facts.replaceChildren(
      figuresOf(
        instances,
        ["Instance", (p) => p.inst_id],
        [...figures, ["Last", "num", (p) => clock(p.active_ms)]],
        "No instance knows this statement any more.",
      ),
    );
    const byPlan = [...groupBy(known, (p) => p.plan_hash_value)].map(([hash, list]) =>
      sums(list, { hash, ids: [...new Set(list.map((p) => p.inst_id))].sort() }),
    );
    byPlan.sort((a, b) => b.elapsed_time - a.elapsed_time);
    plans.replaceChildren(
      figuresOf(
        byPlan,
        ["Plan", (p) => h("span", { class: "code" }, p.hash ? p.hash : "none kept")],
        [["Instances", "num", (p) => p.ids.join(", ")], ...figures.slice(0, 5)],
        "None.",
      ),
    );
  }

  // The steps of each plan that is kept, as `dbms_xplan` shows them; several instances and cursors
  // may have the same.
  function drawSteps(known) {
    const one = ([hash, list]) => {
      const own = list.filter((s) => s.inst_id === list[0].inst_id && s.child_number === list[0].child_number);
      const conditions = (s) =>
        [["access", s.access_predicates], ["filter", s.filter_predicates]]
          .filter(([, text]) => text)
          .map(([kind, text]) => h("div", { class: "code muted small" }, `${"\u00a0".repeat(2 * s.depth + 2)}${kind}: ${text}`));
      const columns = [
        ["Id", "num", (s) => s.id],
        [
          "Operation",
          "step",
          (s) => [
            h("span", { class: "code" }, "\u00a0".repeat(2 * s.depth) + [s.operation, s.options].filter(Boolean).join(" ")),
            conditions(s),
          ],
        ],
        ["Name", "step", (s) => h("span", { class: "code" }, s.object_name ?? "")],
        ["Rows", "num", (s) => number(s.cardinality)],
        ["Cost", "num", (s) => number(s.cost)],
      ];
      return h("div", { class: "part steps" }, h("h3", null, `Plan hash value ${hash}`), table(columns, own, "None."));
    };
    steps.replaceChildren(...[...groupBy(known, (s) => s.plan_hash_value)].map(one));
  }

  const part = (heading, ...content) => h("div", { class: "part" }, h("h3", null, heading), content);
  const element = h(
    "section",
    { class: "card statement-open" },
    h(
      "div",
      { class: "head" },
      h("h2", null, "Statement ", h("span", { class: "code" }, sqlId)),
      h("button", { onclick: explain }, "Explain"),
      h("a", { href: "#sql" }, "Close"),
    ),
    text,
    part("By instance", facts),
    h("div", { class: "grid-2" }, part("Waits, last hour", chart.element, waits), h("div", { class: "part" }, h("h3", null, "Plans known"), plans, plan)),
    steps,
  );
  return {
    element,
    async poll() {
      const answer = await app.ask(`/api/statement?sql_id=${sqlId}`);
      whole = rows(answer.text)[0]?.sql_fulltext ?? "";
      if (text.textContent !== whole && !isMarked(text)) text.textContent = whole || "Its text is not known any more.";
      if (!isMarked(element)) {
        draw(rows(answer.plans));
        drawSteps(rows(answer.steps));
      }
      const shown = await app.ask(`/api/activity?minutes=60&range=whole&sql_id=${sqlId}`);
      const points = [...groupBy(shown.points, (p) => p[0])]
        .map(([t, list]) => ({ t, values: classes.map((_, c) => list.reduce((a, p) => a + p[2][c], 0)) }))
        .sort((a, b) => a.t - b.t);
      chart.update(points, shown.from, shown.to, shown.step_ms);
      waits.replaceChildren(
        topList(shown.events, shown.active, {
          name: (e) => [eventTag(e.name, e.class)],
          below: (e) => e.class,
          empty: "No sample of the last hour has it.",
        }),
      );
    },
  };
}
