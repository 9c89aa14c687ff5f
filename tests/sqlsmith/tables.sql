-- What the random statements of tests/sqlsmith/run.py are about.
create type mood as enum ('sad', 'ok', 'happy');
create table simple (id int primary key, v text, n numeric(10,2), ok bool default true);
create table many (id int8 generated always as identity primary key, simple int references simple, s int2, f float8,
  d date, t time, ts timestamp, tz timestamptz default now(), iv interval, u uuid, b bytea, j json, jb jsonb,
  m mood, li int4[], lt text[], c char(5), w varchar(20), twice int generated always as (s * 2) stored);
create index many_s on many (s desc, f);
create index many_lower on many (lower(w));
create index many_part on many (d) where s > 0;
create view shown as select m.id, s.v, m.f, m.m from many m join simple s on s.id = m.simple;
create view counted as select simple, count(*) as n, sum(f) as total from many group by simple;
insert into simple select g, 'v' || g, g / 3.0, g % 2 = 0 from generate_series(1, 50) g;
insert into many (simple, s, f, d, t, ts, iv, u, b, j, jb, m, li, lt, c, w)
  select g % 50 + 1, g, g / 7.0, date '2024-01-01' + g, time '00:00' + g * interval '1 minute', timestamp '2024-01-01' + g * interval '1 hour',
  g * interval '1 day', ('00000000-0000-0000-0000-' || lpad(g::text, 12, '0'))::uuid, decode(lpad(to_hex(g), 8, '0'), 'hex'), '{"a": 1}', '{"a": [1, null]}',
  (array['sad', 'ok', 'happy'])[g % 3 + 1]::mood, array[g, null, -g], array['a', 'b' || g], 'c' || g % 100, 'w' || g from generate_series(1, 300) g;
insert into many (simple) values (null), (1);
analyze;
