// Parameters of all instances.

import { groupBy, h, rows } from "/dom.js";
import { chips, table } from "/widgets.js";

export function parameters(app) {
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
