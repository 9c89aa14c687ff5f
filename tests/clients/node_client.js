// node-postgres: parameters, named statements, types, transactions, errors.
const assert = require('assert');
const { Client } = require('pg');

(async () => {
  const client = new Client();
  await client.connect();
  await client.query(
    'create table js_t (id serial primary key, v text, j jsonb, ts timestamptz, b boolean, f float8)');
  const row = { id: 1, v: 'x', j: { a: [1, 2] }, ts: new Date(0), b: true, f: 1.5 };
  const made = await client.query(
    'insert into js_t (v, j, ts, b, f) values ($1, $2, $3, $4, $5) returning *',
    [row.v, row.j, row.ts, row.b, row.f]);
  assert.deepStrictEqual({ ...made.rows[0] }, row);
  const get = { name: 'get', text: 'select * from js_t where id = $1', values: [1] };
  for (let i = 0; i < 3; i++) {
    assert.deepStrictEqual({ ...(await client.query(get)).rows[0] }, row);
  }
  await assert.rejects(client.query('insert into js_t (id) values (1)'),
    { code: '23505', constraint: 'js_t_pkey' });
  await client.query('begin');
  await client.query('delete from js_t');
  await client.query('rollback');
  for (let i = 0; i < 100; i++) {
    await client.query('insert into js_t (v) values ($1)', [`n${i}`]);
  }
  assert.strictEqual((await client.query('select count(*) from js_t')).rows[0].count, '101');
  await client.end();
})().catch((e) => { console.error(e); process.exit(1); });
