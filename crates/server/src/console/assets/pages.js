// The pages: each makes its elements once and then fills them at every poll.

import { CLASS_COLOURS, colourOf, splitBar, stackedArea, swatch } from "/chart.js";
import { bytes, clock, duration, groupBy, h, micros, number, rows } from "/dom.js";

function chips(name, options, chosen, change) {
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
function table(columns, list, empty) {
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

// Totals that only grow, and what they grew by over the last while.
class Rates {
  constructor(spanMs) {
    this.spanMs = spanMs;
    this.kept = [];
  }

  // `totals`: a map from a key to an object of numbers.
  add(totals, now = Date.now()) {
    this.kept.push({ at: now, totals });
    while (this.kept.length > 2 && this.kept[1].at < now - this.spanMs) this.kept.shift();
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

// ---- activity

const WINDOWS = [
  [5, "5 min", 5],
  [15, "15 min", 15],
  [60, "1 h", 60],
];

function activity(app) {
  let minutes = 5;
  let which = 0;
  let classes = Object.keys(CLASS_COLOURS);
  let since = 0;
  let points = [];
  const step = () => WINDOWS.find(([m]) => m === minutes)[2];
  const main = stackedArea(classes, { height: 280, label: "Active sessions by wait class over time" });
  const legend = h("div", { class: "legend" });
  const title = h("h2", null, "Active sessions, whole cluster");
  const instanceChips = h("div");
  const small = h("div", { class: "grid-3" });
  const smallCharts = new Map();
  const events = h("div");
  const rates = new Rates(30000);
  let chipsShown = "";

  const restart = () => {
    since = 0;
    points = [];
    app.refresh();
  };
  const windowChips = chips("window", WINDOWS.map(([m, text]) => [m, text]), minutes, (m) => {
    minutes = m;
    restart();
  });

  function drawChips(ids) {
    if (chipsShown === ids.join()) return;
    chipsShown = ids.join();
    const options = [[0, "Cluster"], ...ids.map((id) => [id, String(id)])];
    instanceChips.replaceChildren(
      chips("instance", options, which, (id) => {
        which = id;
        draw();
        drawEvents();
      }),
    );
  }

  // The points of an instance; 0: sums over all.
  function pointsOf(id) {
    const at = new Map();
    for (const [t, inst, values] of points) {
      if (id && inst !== id) continue;
      const known = at.get(t);
      if (!known) at.set(t, values.slice());
      else values.forEach((v, i) => (known[i] += v));
    }
    return [...at].sort((a, b) => a[0] - b[0]).map(([t, values]) => ({ t, values }));
  }

  function draw() {
    const ids = [...app.instances.keys()].sort((a, b) => a - b);
    drawChips(ids);
    const stepMs = step() * 1000;
    const to = points.length ? Math.max(...points.map((p) => p[0])) : Date.now();
    const from = to - minutes * 60000;
    const shown = pointsOf(which);
    title.textContent = which ? `Active sessions, instance ${which}` : "Active sessions, whole cluster";
    main.update(shown, from, to, stepMs);
    const latest = shown.slice(-Math.max(1, Math.round(10 / step())));
    const mean = classes.map((_, c) => latest.reduce((a, p) => a + p.values[c], 0) / Math.max(1, latest.length));
    legend.replaceChildren(
      ...classes
        .map((name, c) => [name, mean[c]])
        .map(([name, v]) =>
          h("span", { class: v > 0 ? "" : "off" }, swatch(name), name, h("span", { class: "num" }, number(v))),
        ),
    );
    const perInstance = ids.map((id) => [id, pointsOf(id)]);
    const top = Math.max(1, ...perInstance.flatMap(([, ps]) => ps.map((p) => p.values.reduce((a, b) => a + b, 0))));
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
      const last = ps.slice(-Math.max(1, Math.round(10 / step())));
      const sum = last.reduce((a, p) => a + p.values.reduce((x, y) => x + y, 0), 0) / Math.max(1, last.length);
      now.textContent = open ? `${number(sum)} active` : "down";
      chart.update(ps, from, to, stepMs, top);
    }
  }

  function drawEvents() {
    const sums = new Map();
    const latest = rates.kept.at(-1)?.totals.keys() ?? [];
    for (const key of latest) {
      const grown = rates.grown(key);
      const [inst, event, name] = key.split("\u0000");
      if (!grown || (which && Number(inst) !== which)) continue;
      const sum = sums.get(event) ?? { event, name, waits: 0, time_us: 0 };
      sum.waits += grown.waits;
      sum.time_us += grown.time_us;
      sums.set(event, sum);
    }
    const seconds = rates.seconds || 1;
    const list = [...sums.values()].filter((e) => e.waits > 0).sort((a, b) => b.time_us - a.time_us).slice(0, 12);
    const columns = [
      ["Wait event", "", (e) => h("span", { class: "tag" }, swatch(e.name), e.event)],
      ["Class", "wide", (e) => e.name],
      ["Sessions", "num", (e) => number(e.time_us / 1e6 / seconds)],
      ["Waits/s", "num", (e) => number(e.waits / seconds)],
      ["Average", "num", (e) => micros(e.time_us / e.waits)],
    ];
    const none = rates.kept.length < 2 ? "Measuring…" : "No session has waited in the last half minute.";
    events.replaceChildren(table(columns, list, none));
  }

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
      h(
        "section",
        { class: "card" },
        h("div", { class: "head" }, h("h2", null, "Top wait events"), h("span", { class: "muted small" }, "last 30 s")),
        events,
      ),
    ],
    async poll() {
      const answer = await app.ask(`/api/activity?since=${since}&step=${step()}`);
      classes = answer.classes;
      points.push(...answer.points);
      for (const p of answer.points) since = Math.max(since, p[0]);
      const oldest = since - minutes * 60000;
      points = points.filter((p) => p[0] >= oldest);
      draw();
      const waited = rows((await app.ask("/api/events")).events);
      const key = (e) => [e.inst_id, e.event, e.wait_class].join("\u0000");
      rates.add(new Map(waited.map((e) => [key(e), { waits: e.waits, time_us: e.time_us }])));
      drawEvents();
    },
  };
}

// ---- instances and their traffic

const PARTS = [
  ["interconnect_us", "Interconnect", "#bcae8e"],
  ["queue_us", "Others before it", "#ee72ad"],
  ["lms_us", "LMS queues", "#2462c8"],
  ["build_us", "Build", "#35a852"],
  ["pin_us", "Pins", "#8f1d1d"],
  ["flush_us", "Log flush", "#f2930d"],
];

function instances(app) {
  const cards = h("div", { class: "grid-3" });
  const matrix = h("div");
  const pairs = h("div");
  const statistics = new Rates(15000);
  const traffic = new Rates(60000);
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
    const none = traffic.kept.length < 2 ? "Measuring…" : "No blocks were sent in the last minute.";
    pairs.replaceChildren(table(columns, list, none));
  }

  return {
    elements: [
      cards,
      h(
        "section",
        { class: "card" },
        h("div", { class: "head" }, h("h2", null, "Block traffic"), h("span", { class: "muted small" }, "last minute; rate and average time until a block is here")),
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
    },
  };
}

// ---- sessions

function stateOf(session) {
  if (session.status !== "ACTIVE") return { name: "idle", colour: null };
  if (session.state === "WAITING") return { name: session.event, colour: colourOf(session.wait_class) };
  return { name: "on CPU", colour: colourOf("CPU") };
}

function sessions(app) {
  const FILTERS = {
    active: (x) => x.type === "USER" && x.status === "ACTIVE",
    clients: (x) => x.type === "USER",
    background: (x) => x.type !== "USER",
  };
  let filter = "clients";
  let wanted = "";
  let all = [];
  let openKey = "";
  const list = h("div", { class: "list" });
  const blockers = h("div");
  const blocked = h("section", { class: "card" }, h("div", { class: "head" }, h("h2", null, "Blocked sessions")), blockers);
  const count = h("span", { class: "muted small" });
  const search = h("input", {
    type: "search",
    placeholder: "user, program, SQL…",
    "aria-label": "Search sessions",
    oninput: (event) => {
      wanted = event.target.value.toLowerCase();
      draw();
    },
  });
  const filters = [["active", "Active"], ["clients", "Clients"], ["background", "Background"]];

  const keyOf = (x) => `${x.inst_id}:${x.sid}:${x.serial}`;

  async function signal(x, ends) {
    const what = `session ${x.sid} of ${x.username ?? "?"} on instance ${x.inst_id}`;
    const title = ends ? "Terminate the session?" : "Cancel its statement?";
    const text = ends
      ? `${what}: its transaction is rolled back and its client disconnected.`
      : `${what}: the statement that it runs ends with an error.`;
    if (!(await app.confirm(title, text, ends ? "Terminate" : "Cancel the statement"))) return;
    try {
      const path = ends ? "/api/terminate" : "/api/cancel";
      const [done] = rows((await app.ask(path, { sid: x.sid, serial: x.serial })).signal);
      if (!done?.done) app.tell("It has gone", h("p", null, `There is no ${what} any more.`));
      app.refresh();
    } catch (error) {
      app.tell("Not done", h("p", { class: "error" }, error.message));
    }
  }

  function item(x) {
    const state = stateOf(x);
    const isOpen = openKey === keyOf(x);
    const waits = x.state === "WAITING" && x.status === "ACTIVE";
    const sql = x.sql_text ?? "";
    const toggle = () => {
      openKey = isOpen ? "" : keyOf(x);
      draw();
    };
    const params = [1, 2, 3].filter((i) => x[`p${i}text`]).map((i) => `${x[`p${i}text`]} ${x[`p${i}`]}`);
    const may = x.type === "USER" && (app.maySignal || x.username === app.user);
    return h(
      "div",
      { class: isOpen ? "item open" : "item" },
      h(
        "div",
        { class: "line" },
        h("button", { class: "plain", "aria-expanded": isOpen ? "true" : "false", onclick: toggle }, `${x.sid}`),
        h("strong", null, x.username ?? x.program),
        h("span", { class: "muted small" }, `instance ${x.inst_id}`),
        x.username && h("span", { class: "muted small wide" }, `${x.program} ${x.machine}`),
        h("span", { class: "tag" }, state.colour && swatch("", state.colour), state.name),
        h("span", { class: "muted small num" }, waits ? micros(x.wait_time_micro) : duration(x.last_call_et)),
      ),
      sql && h("div", { class: "sql code" }, isOpen ? sql : sql.replace(/\s+/g, " ").slice(0, 240)),
      isOpen &&
        h(
          "div",
          { class: "small muted" },
          `serial ${x.serial}, logged on ${clock(x.logon_s * 1000)}`,
          x.username && `, ${x.program} from ${x.machine}`,
          waits && params.length > 0 && `; ${params.join(", ")}`,
        ),
      isOpen &&
        may &&
        h(
          "div",
          { class: "actions" },
          h("button", { onclick: () => signal(x, false) }, "Cancel statement"),
          h("button", { class: "danger", onclick: () => signal(x, true) }, "Terminate session"),
        ),
    );
  }

  // Who waits for whom, from those who wait for nobody down.
  function drawBlockers() {
    blocked.hidden = !all.some((x) => "blocking_session" in x);
    const waiting = all.filter((x) => x.blocking_session);
    if (!waiting.length) {
      blockers.replaceChildren(h("p", { class: "empty" }, "Nobody waits for another session."));
      return;
    }
    const waitersOf = groupBy(waiting, (x) => x.blocking_session);
    const bySid = new Map(all.map((x) => [x.sid, x]));
    const seen = new Set();
    const branch = (x) => {
      if (seen.has(x.sid)) return h("p", { class: "error small" }, `session ${x.sid} again: a deadlock`);
      seen.add(x.sid);
      const below = waitersOf.get(x.sid) ?? [];
      return h("div", { class: "tree" }, item(x), below.map(branch));
    };
    const roots = [...waitersOf.keys()].filter((sid) => !bySid.get(sid)?.blocking_session);
    const unknown = (sid) => ({ sid, inst_id: Math.floor(sid / 100000), program: "?", status: "", type: "" });
    const trees = roots.map((sid) => branch(bySid.get(sid) ?? unknown(sid)));
    const rest = waiting.filter((x) => !seen.has(x.sid)).map(branch);
    blockers.replaceChildren(...trees, ...rest);
  }

  function draw() {
    // Who is marking a text to copy it keeps it.
    if (!getSelection().isCollapsed && list.contains(getSelection().anchorNode)) return;
    const matches = (x) =>
      !wanted ||
      [x.username, x.program, x.machine, x.sql_text, x.event, String(x.sid)].some((t) => t?.toLowerCase().includes(wanted));
    const shown = all.filter(FILTERS[filter]).filter(matches);
    const weight = (x) => (x.status === "ACTIVE" ? 0 : 1);
    shown.sort((a, b) => weight(a) - weight(b) || a.sid - b.sid);
    count.textContent = `${shown.length} of ${all.length}`;
    list.replaceChildren(...(shown.length ? shown.map(item) : [h("p", { class: "empty" }, "None.")]));
    drawBlockers();
  }

  const change = (value) => {
    filter = value;
    draw();
  };
  return {
    elements: [
      blocked,
      h(
        "section",
        { class: "card" },
        h("div", { class: "head" }, h("h2", null, "Sessions"), count, chips("filter", filters, filter, change), search),
        list,
      ),
    ],
    async poll() {
      all = rows((await app.ask("/api/sessions")).sessions);
      draw();
    },
  };
}

// ---- SQL

function sql(app) {
  const list = h("div", { class: "list" });

  async function explain(text) {
    // The server cuts long texts, and marks them so.
    if (text.endsWith("…")) {
      app.tell("No plan", h("p", null, "This text is too long to be explained here."));
      return;
    }
    try {
      const plan = rows((await app.ask("/api/explain", { sql_text: text })).plan);
      const lines = plan.map((row) => Object.values(row)[0]).join("\n");
      app.tell("Plan as it would be made now", h("pre", null, text), h("pre", null, lines));
    } catch (error) {
      app.tell("No plan", h("pre", null, text), h("p", { class: "error" }, error.message));
    }
  }

  return {
    elements: [
      h(
        "section",
        { class: "card" },
        h("div", { class: "head" }, h("h2", null, "SQL of active sessions"), h("span", { class: "muted small" }, "now")),
        list,
      ),
    ],
    async poll() {
      const active = rows((await app.ask("/api/sessions")).sessions).filter(
        (x) => x.type === "USER" && x.status === "ACTIVE" && x.sql_text && x.program !== "skein console",
      );
      const groups = [...groupBy(active, (x) => x.sql_text)].sort((a, b) => b[1].length - a[1].length);
      list.replaceChildren(
        ...groups.map(([text, all]) => {
          const states = [...groupBy(all, (x) => stateOf(x).name)].sort((a, b) => b[1].length - a[1].length);
          const ids = [...new Set(all.map((x) => x.inst_id))].sort();
          return h(
            "div",
            { class: "item" },
            h(
              "div",
              { class: "line" },
              h("strong", { class: "num" }, all.length),
              h("span", { class: "muted small" }, `on instance ${ids.join(", ")}`),
              states.map(([name, of]) => h("span", { class: "tag small" }, swatch("", stateOf(of[0]).colour), `${name} ${of.length}`)),
              h("button", { onclick: () => explain(text) }, "Plan"),
            ),
            h("div", { class: "sql code" }, text.replace(/\s+/g, " ").slice(0, 400)),
          );
        }),
        groups.length ? "" : h("p", { class: "empty" }, "No session runs a statement now."),
      );
    },
  };
}

// ---- parameters

function parameters(app) {
  let all = [];
  let wanted = "";
  let onlySet = false;
  const body = h("div");
  const search = h("input", {
    type: "search",
    placeholder: "name or text…",
    "aria-label": "Search parameters",
    oninput: (event) => {
      wanted = event.target.value.toLowerCase();
      draw();
    },
  });
  const filter = chips("parameters", [[false, "All"], [true, "Set"]], onlySet, (value) => {
    onlySet = value;
    draw();
  });

  function draw() {
    const ids = [...new Set(all.map((p) => p.inst_id))].sort((a, b) => a - b);
    const list = [...groupBy(all, (p) => p.name).values()]
      .filter((of) => !onlySet || of.some((p) => !p.isdefault))
      .filter((of) => `${of[0].name} ${of[0].description}`.toLowerCase().includes(wanted));
    const addresses = ["listen", "interconnect", "interconnect_published", "console_listen"];
    const differs = (of) => !addresses.includes(of[0].name) && new Set(of.map((p) => p.value)).size > 1;
    const value = (of, id) => {
      const one = of.find((p) => p.inst_id === id);
      return one ? h("span", { class: one.isdefault ? "" : "set" }, one.value === "" ? "–" : one.value) : "";
    };
    const columns = [
      ["Name", "", (of) => h("span", { class: "code" }, of[0].name)],
      ...ids.map((id) => [`Instance ${id}`, "", (of) => (differs(of) ? h("span", { class: "error" }, value(of, id)) : value(of, id))]),
      ["Default", "wide", (of) => of[0].default_value || "–"],
      ["Meaning", "wide small", (of) => of[0].description],
    ];
    body.replaceChildren(table(columns, list, "None."));
  }

  return {
    elements: [
      h(
        "section",
        { class: "card" },
        h("div", { class: "head" }, h("h2", null, "Parameters"), filter, search),
        body,
      ),
    ],
    async poll() {
      all = rows((await app.ask("/api/parameters")).parameters);
      draw();
    },
  };
}

export const PAGES = [
  { name: "activity", title: "Activity", every: 2000, make: activity },
  { name: "instances", title: "Instances", every: 3000, make: instances },
  { name: "sql", title: "SQL", every: 2000, make: sql },
  { name: "sessions", title: "Sessions", every: 2000, make: sessions },
  { name: "parameters", title: "Parameters", every: 15000, make: parameters },
];
