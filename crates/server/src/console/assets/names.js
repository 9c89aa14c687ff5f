// Texts of statements and names of objects: each is asked for once.

import { rows } from "/dom.js";

const AT_ONCE = 60;
const AGAIN_MS = 10000;

const texts = new Map();
const objects = new Map();
// Those that nobody knew: asked for again after a while only.
const unknown = new Map();

// Texts are shown as the user's rights allow.
export function forget() {
  for (const known of [texts, objects, unknown]) known.clear();
}

export function textOf(sqlId) {
  return texts.get(sqlId) ?? "";
}

export function nameOf(object) {
  return objects.get(object) ?? `object ${object}`;
}

// Learns what is not known yet.
export async function learn(app, { sql = [], of = [] }) {
  const now = Date.now();
  const wanted = (all, known) =>
    [...new Set(all)].filter((one) => one && !known.has(one) && !(unknown.get(one) > now)).slice(0, AT_ONCE);
  const [sqlIds, numbers] = [wanted(sql, texts), wanted(of, objects)];
  if (!sqlIds.length && !numbers.length) return;
  const answer = await app.ask(`/api/names?sql=${sqlIds.join()}&objects=${numbers.join()}`);
  for (const row of rows(answer.texts)) texts.set(row.sql_id, row.sql_text.replace(/\s+/g, " "));
  for (const row of rows(answer.objects)) {
    const schema = row.schema === "public" ? "" : `${row.schema}.`;
    objects.set(row.oid, `${schema}${row.name}`);
  }
  for (const one of [...sqlIds, ...numbers]) {
    if (!texts.has(one) && !objects.has(one)) unknown.set(one, now + AGAIN_MS);
  }
}
