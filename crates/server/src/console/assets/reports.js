// Snapshots of the statistics, and the reports made of them.

import { clock, groupBy, h } from "/dom.js";
import { chips } from "/widgets.js";

const MINUTES = [[5, "5 min"], [15, "15 min"], [60, "1 h"]];

function day(ms) {
  return new Date(ms).toLocaleDateString("en-GB", { day: "2-digit", month: "short" });
}

export function reports(app) {
  let snapshots = [];
  let [begin, end] = [0, 0];
  let minutes = 5;
  let instance = 0;
  let drawn = "";
  const list = h("div", { class: "snapshots" });
  const told = h("p", { class: "small", role: "status", hidden: true });
  const whom = h("div");
  const shown = h("section", { class: "card", hidden: true });
  const take = h("button", { onclick: takeOne }, "Take a snapshot");
  const workload = h("button", { class: "primary", onclick: () => open("workload") }, "Workload report");
  const diagnosis = h("button", { onclick: () => open("diagnosis") }, "Diagnosis");

  function tell(text, isError) {
    told.textContent = text;
    told.className = isError ? "small error" : "small muted";
    told.hidden = !text;
  }

  async function takeOne() {
    take.disabled = true;
    tell("Taking a snapshot of all instances…");
    try {
      const answer = await app.ask("/api/snapshot", {});
      await load();
      [begin, end] = [end && end !== answer.snap_id ? end : begin, answer.snap_id];
      newest();
      tell([`Snapshot ${answer.snap_id} is taken.`, ...answer.notices].join(" "), answer.notices.length > 0);
    } catch (error) {
      tell(error.hint ? `${error.message}. ${error.hint}` : error.message, true);
    } finally {
      take.disabled = !app.superuser;
      draw(true);
    }
  }

  // Without a choice, the time between the two newest ones.
  function newest() {
    const ids = snapshots.map((one) => one.id);
    if (!ids.includes(end)) end = ids[0] ?? 0;
    if (!ids.includes(begin) || begin >= end) begin = ids.find((id) => id < end) ?? 0;
  }

  async function load() {
    const answer = await app.ask("/api/snapshots");
    snapshots = [...groupBy(answer.snapshots, (row) => row.snap_id)]
      .map(([id, rows]) => ({
        id,
        time: Math.max(...rows.map((row) => row.time_ms)),
        instances: rows.map((row) => row.inst_id),
        starts: rows.map((row) => `${row.inst_id}:${row.startup_ms}`).join(),
      }))
      .sort((a, b) => b.id - a.id);
    newest();
  }

  function draw(anew) {
    const state = JSON.stringify([snapshots, begin, end, [...app.instances.keys()]]);
    if (!anew && state === drawn) return;
    drawn = state;
    const at = list.scrollTop;
    const choose = (name, id, chosen, change) =>
      h("input", {
        type: "radio",
        name,
        value: String(id),
        checked: id === chosen,
        "aria-label": `${name} with snapshot ${id}`,
        onchange: () => {
          change(id);
          draw(true);
        },
      });
    list.replaceChildren(
      snapshots.length
        ? h(
            "table",
            null,
            h("thead", null, h("tr", null, ["Begin", "End", "Snapshot", "Time", "Instances"].map((t) => h("th", { scope: "col" }, t)))),
            h(
              "tbody",
              null,
              snapshots.map((one) =>
                h(
                  "tr",
                  { class: one.id > begin && one.id <= end && begin ? "within" : undefined },
                  h("td", null, choose("begin", one.id, begin, (id) => (begin = id))),
                  h("td", null, choose("end", one.id, end, (id) => (end = id))),
                  h("td", null, one.id),
                  h("td", null, `${day(one.time)} ${clock(one.time)}`),
                  h("td", null, one.instances.join(", ")),
                ),
              ),
            ),
          )
        : h("p", { class: "empty" }, "There is no snapshot yet: a report needs two."),
    );
    list.scrollTop = at;
    const fits = begin > 0 && end > begin;
    workload.disabled = !fits;
    diagnosis.disabled = !fits;
    take.disabled = !app.superuser;
    take.title = app.superuser ? "" : "Only superusers take snapshots.";
    const options = [[0, "All instances"], ...[...app.instances.keys()].sort((a, b) => a - b).map((id) => [id, String(id)])];
    whom.replaceChildren(
      chips("instance", options, instance, (id) => {
        instance = id;
      }),
    );
  }

  function open(kind) {
    const of = instance && kind !== "diagnosis" ? `, instance ${instance}` : ", all instances";
    const titles = {
      workload: `Workload report, snapshots ${begin} to ${end}${of}`,
      diagnosis: `Diagnosis, snapshots ${begin} to ${end}${of}`,
      ash: `Active sessions of the last ${minutes} min${of}`,
    };
    const query = kind === "ash" ? `minutes=${minutes}` : `begin=${begin}&end=${end}`;
    const path = `/api/report?kind=${kind}&${query}${instance && kind !== "diagnosis" ? `&instance=${instance}` : ""}`;
    const waits = h("p", { class: "muted small", role: "status" }, "The report is being made…");
    // Nothing in it runs: neither script nor form, and it is of no origin.
    const frame = h("iframe", {
      class: "report",
      sandbox: "",
      title: titles[kind],
      onload: () => {
        waits.hidden = true;
        frame.dataset.loaded = "yes";
      },
    });
    frame.setAttribute("src", path);
    shown.replaceChildren(
      h(
        "div",
        { class: "head" },
        h("h2", null, titles[kind]),
        h("a", { href: path, target: "_blank", rel: "noopener" }, "Open by itself"),
        h("a", { href: `${path}&download=1`, download: "" }, "Download"),
      ),
      waits,
      frame,
    );
    shown.hidden = false;
    shown.scrollIntoView({ block: "start", behavior: "instant" });
  }

  return {
    elements: [
      h(
        "section",
        { class: "card" },
        h("div", { class: "head" }, h("h2", null, "Reports"), whom),
        h("div", { class: "actions" }, workload, diagnosis, take),
        told,
        list,
      ),
      h(
        "section",
        { class: "card" },
        h(
          "div",
          { class: "head" },
          h("h2", null, "Active session history"),
          chips("minutes", MINUTES, minutes, (value) => {
            minutes = value;
          }),
          h("button", { onclick: () => open("ash") }, "ASH report"),
        ),
        h("p", { class: "muted small" }, "Of samples of all sessions, each second; it needs no snapshots."),
      ),
      shown,
    ],
    async poll() {
      try {
        await load();
      } finally {
        draw();
      }
    },
  };
}
