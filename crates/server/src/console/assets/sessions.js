// Sessions: who is there, who stands in whose way, and how to end one.

import { colourOf, swatch } from "/chart.js";
import { clock, duration, groupBy, h, micros, rows } from "/dom.js";
import { learn, nameOf } from "/names.js";
import { chips, isMarked } from "/widgets.js";

function stateOf(session) {
  if (session.status !== "ACTIVE") return { name: "idle", colour: null };
  if (session.state === "WAITING") return { name: session.event, colour: colourOf(session.wait_class) };
  return { name: "on CPU", colour: colourOf("CPU") };
}

const MODES = ["none", "null", "row share", "row exclusive", "share", "share row exclusive", "exclusive"];
const KINDS = { UL: "user lock", UP: "user lock", UN: "turn to notify", AN: "turn to analyze" };

// The lock that a session waits for, out of the wait's parameters; null: it waits for none.
function lockOf(x) {
  if (x.status !== "ACTIVE" || x.state !== "WAITING" || x.p1text !== "name|mode") return null;
  const type = String.fromCharCode((x.p1 >>> 24) & 255, (x.p1 >>> 16) & 255);
  return { type, mode: MODES[x.p1 & 0xffff] ?? `mode ${x.p1 & 0xffff}`, id1: x.p2, id2: x.p3 };
}

// What a session waits for, in words; null: for no lock.
function wantedLock(x) {
  const lock = lockOf(x);
  const row = x["row_wait_obj#"] > 0 ? nameOf(x["row_wait_obj#"]) : "";
  const place =
    typeof x["row_wait_row#"] === "number"
      ? `row ${x["row_wait_row#"]} in block ${x["row_wait_block#"]} of file ${x["row_wait_file#"]}`
      : `block ${x["row_wait_block#"]} of file ${x["row_wait_file#"]}`;
  const where = row && (x["row_wait_block#"] ? `${row}, ${place}` : row);
  if (!lock) return where || null;
  const { type, mode, id1, id2 } = lock;
  if (type === "TM") return `table ${nameOf(id1)}, ${mode}`;
  if (type === "TX") {
    const transaction = `transaction ${id1 >> 16}.${id1 & 0xffff}.${id2}`;
    return where ? `${where}, ${mode}; ${transaction}` : `${transaction}, ${mode}`;
  }
  return `${KINDS[type] ?? type} ${id1}${id2 ? `, ${id2}` : ""}, ${mode}`;
}

export function sessions(app) {
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
  const blockers = h("div", { id: "blockers" });
  const blockedCount = h("span", { class: "muted small" });
  const blocked = h(
    "section",
    { class: "card" },
    h("div", { class: "head" }, h("h2", null, "Blocked sessions"), blockedCount),
    blockers,
  );
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

  const keyOf = (x) => `${x.inst_id}:${x.sid}:${x["serial#"]}`;

  async function signal(x, ends) {
    const what = `session ${x.sid} of ${x.username ?? "?"} on instance ${x.inst_id}`;
    const title = ends ? "Terminate the session?" : "Cancel its statement?";
    const text = ends
      ? `${what}: its transaction is rolled back and its client disconnected.`
      : `${what}: the statement that it runs ends with an error.`;
    if (!(await app.confirm(title, text, ends ? "Terminate" : "Cancel the statement"))) return;
    try {
      const path = ends ? "/api/terminate" : "/api/cancel";
      const [done] = rows((await app.ask(path, { sid: x.sid, serial: x["serial#"] })).signal);
      if (!done?.done) app.tell("It has gone", h("p", null, `There is no ${what} any more.`));
      app.refresh();
    } catch (error) {
      app.tell("Not done", h("p", { class: "error" }, error.message));
    }
  }

  // `waiters`: how many sessions it keeps waiting, in a tree of blockers.
  function item(x, waiters) {
    const state = stateOf(x);
    const isOpen = openKey === keyOf(x);
    const waits = x.state === "WAITING" && x.status === "ACTIVE";
    const sql = x.sql_text ?? "";
    const toggle = () => {
      openKey = isOpen ? "" : keyOf(x);
      draw();
    };
    const params = [1, 2, 3].filter((i) => x[`p${i}text`]).map((i) => `${x[`p${i}text`]} ${x[`p${i}`]}`);
    const may = x.type === "USER" && (app.maySignal || x.username?.toLowerCase() === app.user.toLowerCase());
    const wants = x.blocking_session ? wantedLock(x) : null;
    // A lock is waited for in parts, each a wait of its own: what counts is since when.
    const lasts = x.blocking_session ? duration(x.seconds_in_wait) : micros(x.wait_time_micro);
    const since = waits ? lasts : duration(x.last_call_et);
    return h(
      "div",
      { class: isOpen ? "item open" : "item", "data-sid": x.sid },
      h(
        "div",
        { class: "line" },
        h("button", { class: "plain", "aria-expanded": isOpen ? "true" : "false", onclick: toggle }, `${x.sid}`),
        h("strong", null, x.username ?? x.program),
        h("span", { class: "muted small" }, `instance ${x.inst_id}`),
        x.username && h("span", { class: "muted small wide" }, `${x.program} ${x.machine}`),
        waiters > 0 && h("span", { class: "badge" }, `blocks ${waiters}`),
        h("span", { class: "tag" }, state.colour && swatch("", state.colour), state.name),
        h("span", { class: "muted small num" }, since),
      ),
      wants && h("div", { class: "small wants" }, `waits for ${wants}`),
      sql && h("div", { class: "sql code" }, isOpen ? sql : sql.replace(/\s+/g, " ").slice(0, 240)),
      isOpen &&
        h(
          "div",
          { class: "small muted" },
          `serial ${x["serial#"]}, logged on ${clock(x.logon_s * 1000)}`,
          x.username && `, ${x.program} from ${x.machine}`,
          waits && params.length > 0 && `; ${params.join(", ")}`,
          x.sql_id && [" · ", h("a", { class: "code", href: `#sql/${x.sql_id}` }, x.sql_id)],
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
    if (isMarked(blockers)) return;
    const waiting = all.filter((x) => x.blocking_session);
    blockedCount.textContent = waiting.length ? `${waiting.length}` : "";
    if (!waiting.length) {
      blockers.replaceChildren(h("p", { class: "empty" }, "Nobody waits for another session."));
      return;
    }
    const waitersOf = groupBy(waiting, (x) => x.blocking_session);
    const bySid = new Map(all.map((x) => [x.sid, x]));
    const seen = new Set();
    // All that wait for a session, those behind them too.
    const behind = (sid, counted = new Set()) => {
      for (const x of waitersOf.get(sid) ?? []) {
        if (!counted.has(x.sid)) {
          counted.add(x.sid);
          behind(x.sid, counted);
        }
      }
      return counted;
    };
    const branch = (x) => {
      if (seen.has(x.sid)) return h("p", { class: "error small" }, `session ${x.sid} again: a deadlock`);
      seen.add(x.sid);
      const below = waitersOf.get(x.sid) ?? [];
      return h("div", { class: "tree" }, item(x, behind(x.sid).size), below.map(branch));
    };
    const roots = [...waitersOf.keys()].filter((sid) => !bySid.get(sid)?.blocking_session);
    const longest = (sid) => Math.max(...(waitersOf.get(sid) ?? []).map((x) => x.seconds_in_wait ?? 0));
    roots.sort((a, b) => behind(b).size - behind(a).size || longest(b) - longest(a) || a - b);
    // A blocker on an instance that has just gone.
    const unknown = (sid) => {
      const inst = waitersOf.get(sid)[0].blocking_instance ?? "?";
      return { sid, inst_id: inst, program: "?", status: "", type: "", last_call_et: null };
    };
    const trees = roots.map((sid) => branch(bySid.get(sid) ?? unknown(sid)));
    const rest = [];
    for (const x of waiting) if (!seen.has(x.sid)) rest.push(branch(x));
    blockers.replaceChildren(...trees, ...rest);
  }

  function draw() {
    // Who is marking a text to copy it keeps it.
    if (isMarked(list)) return;
    const matches = (x) =>
      !wanted ||
      [x.username, x.program, x.machine, x.sql_text, x.event, String(x.sid)].some((t) => t?.toLowerCase().includes(wanted));
    const shown = all.filter(FILTERS[filter]).filter(matches);
    const weight = (x) => (x.status === "ACTIVE" ? 0 : 1);
    shown.sort((a, b) => weight(a) - weight(b) || a.sid - b.sid);
    count.textContent = `${shown.length} of ${all.length}`;
    list.replaceChildren(...(shown.length ? shown.map((x) => item(x)) : [h("p", { class: "empty" }, "None.")]));
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
      const waiting = all.filter((x) => x.blocking_session);
      const tables = waiting.map(lockOf).filter((lock) => lock?.type === "TM").map((lock) => lock.id1);
      const rowsOf = waiting.map((x) => x["row_wait_obj#"]).filter((object) => object > 0);
      await learn(app, { of: [...tables, ...rowsOf] });
      draw();
    },
  };
}
