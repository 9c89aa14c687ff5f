// Log-on, the pages' frame, and how they are kept up to date.

import { clock, h, rows, show } from "/dom.js";
import { forget } from "/names.js";
import { PAGES } from "/pages.js";

const PING_MS = 3000;
const byId = (id) => document.getElementById(id);

class Gone extends Error {}

// What pages are given: questions, the instances known, and what went wrong.
const app = {
  user: "",
  instance: 0,
  superuser: false,
  maySignal: false,
  // Number of an instance: what is known of it; `open` is false once it no longer answers.
  instances: new Map(),
  // What pages that were left have counted, by name.
  kept: new Map(),

  async ask(path, body) {
    const limit = path === "/api/snapshot" ? 125000 : 35000;
    const options = { credentials: "same-origin", cache: "no-store", signal: AbortSignal.timeout(limit) };
    if (body !== undefined) {
      options.method = "POST";
      options.headers = { "content-type": "application/json" };
      options.body = JSON.stringify(body);
    }
    let response;
    try {
      response = await fetch(path, options);
    } catch {
      throw new Gone("no answer");
    }
    let answer = {};
    try {
      answer = await response.json();
    } catch {
      throw new Gone("an answer was cut off");
    }
    if (response.ok) return answer;
    const error = new Error(answer.error?.message ?? response.statusText);
    error.status = response.status;
    error.code = answer.error?.code;
    error.hint = answer.error?.hint;
    throw error;
  },

  // Asks the viewer before something is done.
  confirm(title, text, verb) {
    const dialog = byId("dialog");
    return new Promise((resolve) => {
      const done = (yes) => {
        dialog.close();
        resolve(yes);
      };
      dialog.oncancel = () => resolve(false);
      dialog.replaceChildren(
        h("h2", null, title),
        h("p", null, text),
        h(
          "div",
          { class: "actions" },
          h("button", { onclick: () => done(false) }, "Back"),
          h("button", { class: "danger", onclick: () => done(true) }, verb),
        ),
      );
      dialog.showModal();
    });
  },

  // Shows something above the page.
  tell(title, ...content) {
    const dialog = byId("dialog");
    dialog.oncancel = null;
    const close = h("button", { onclick: () => dialog.close() }, "Close");
    dialog.replaceChildren(h("h2", null, title), ...content, h("div", { class: "actions" }, close));
    if (!dialog.open) dialog.showModal();
  },
};

// ---- log-on

let lost = "";

function logOnPage(why) {
  stop();
  byId("dialog").close();
  show(byId("console"), false);
  show(byId("log-on"), true);
  const told = byId("log-on-error");
  told.textContent = why ?? "";
  show(told, Boolean(why));
  const form = byId("log-on-form");
  form.elements.password.value = "";
  (form.elements.user.value ? form.elements.password : form.elements.user).focus();
}

byId("log-on-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = event.target;
  const button = form.querySelector("button");
  button.disabled = true;
  try {
    await app.ask("/api/log-on", { user: form.elements.user.value, password: form.elements.password.value });
    await enter();
  } catch (error) {
    logOnPage(error instanceof Gone ? "The instance does not answer." : sentence(error));
  } finally {
    button.disabled = false;
  }
});

function sentence(error) {
  return error.hint ? `${error.message}. ${error.hint}` : error.message;
}

async function enter() {
  forget();
  app.kept.clear();
  await me();
  show(byId("log-on"), false);
  show(byId("console"), true);
  banner();
  open();
  pinging = setTimeout(ping, PING_MS);
}

async function logOff() {
  try {
    await app.ask("/api/log-off", {});
  } catch {
    // The session ends by itself.
  }
  logOnPage();
}

// ---- who is there

const KNOWN = "skein-instances";

async function me() {
  const answer = await app.ask("/api/me");
  const [who] = rows(answer.me);
  app.user = answer.user;
  app.instance = answer.instance;
  app.superuser = Boolean(who?.superuser);
  app.maySignal = app.superuser || Boolean(who?.may_signal);
  noteInstances(rows(answer.instances));
}

function noteInstances(list) {
  if (!app.instances.size) {
    // Of before the page was loaded anew: what is down then would not be known else.
    for (const id of JSON.parse(sessionStorage.getItem(KNOWN) ?? "[]")) {
      app.instances.set(id, { inst_id: id, open: false });
    }
  }
  for (const one of app.instances.values()) one.open = false;
  for (const one of list) app.instances.set(one.inst_id, { ...one, open: one.status === "OPEN" });
  sessionStorage.setItem(KNOWN, JSON.stringify([...app.instances.keys()]));
  const dots = [...app.instances.values()]
    .sort((a, b) => a.inst_id - b.inst_id)
    .map((one) => {
      const text = `instance ${one.inst_id} is ${one.open ? "open" : "down"}`;
      return h("span", { class: one.open ? "dot" : "dot down", title: text, role: "img", "aria-label": text });
    });
  byId("who").replaceChildren(
    h("span", { class: "tag" }, ...dots),
    h("span", { class: "muted small wide" }, `${app.user} on instance ${app.instance}`),
    h("button", { class: "plain", onclick: logOff }, "Log off"),
  );
}

// What is wrong, above every page.
function banner() {
  const down = [...app.instances.values()].filter((one) => !one.open).map((one) => one.inst_id);
  const texts = [];
  if (lost) texts.push(`Instance ${app.instance} has not answered since ${lost}. Trying again.`);
  else if (down.length) texts.push(`Instance ${down.join(", ")} is down.`);
  byId("banner").textContent = texts.join(" ");
  show(byId("banner"), texts.length > 0);
  document.title = lost ? "Skein: no answer" : `Skein console · instance ${app.instance}`;
}

// ---- keeping up to date

let pinging = 0;
let polling = 0;
let page = null;

function stop() {
  clearTimeout(pinging);
  clearTimeout(polling);
  page = null;
}

// What a question's failure means for the whole console; true: it has been dealt with.
function failed(error) {
  if (error instanceof Gone) {
    lost ||= clock(Date.now());
    banner();
    return true;
  }
  if (error.status === 401) {
    logOnPage(lost ? "The instance is back. Log on again." : "The session has ended. Log on again.");
    lost = "";
    return true;
  }
  return false;
}

async function ping() {
  try {
    await me();
    lost = "";
    banner();
  } catch (error) {
    if (failed(error) && !(error instanceof Gone)) return;
  }
  if (!byId("console").hidden) pinging = setTimeout(ping, PING_MS);
}

// A page is asked again after its time, or sooner where it says so.
async function poll(current) {
  if (page !== current) return;
  let wait = current.every;
  if (!document.hidden) {
    try {
      wait = (await current.poll()) ?? wait;
      show(current.trouble, false);
    } catch (error) {
      if (page !== current) return;
      if (!failed(error)) {
        current.trouble.textContent = sentence(error);
        show(current.trouble, true);
      }
    }
  }
  if (page === current) polling = setTimeout(() => poll(current), wait);
}

function open() {
  clearTimeout(polling);
  // `#page`, or `#page/what is opened in it`.
  const [name, opened] = location.hash.slice(1).split("/");
  const chosen = PAGES.find((p) => p.name === name) ?? PAGES[0];
  byId("tabs").replaceChildren(
    ...PAGES.map((p) =>
      h("a", { href: `#${p.name}`, "aria-current": p === chosen ? "page" : undefined }, p.title),
    ),
  );
  // On a phone not all of them are in sight.
  byId("tabs").querySelector("[aria-current]").scrollIntoView({ block: "nearest", inline: "center", behavior: "instant" });
  const trouble = h("p", { class: "card error", role: "alert", hidden: true });
  const made = chosen.make(app, opened);
  byId("page").replaceChildren(trouble, ...made.elements.filter(Boolean));
  page = { every: chosen.every, poll: made.poll, trouble };
  app.refresh = () => {
    clearTimeout(polling);
    return poll(page);
  };
  poll(page);
}

addEventListener("hashchange", () => {
  if (!byId("console").hidden) open();
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && page) app.refresh();
});

try {
  await enter();
} catch (error) {
  logOnPage(error instanceof Gone ? "The instance does not answer." : undefined);
}
