// pgx: pool, both protocols, batches, COPY, values of many types, errors, transactions,
// notifications, cancelling, and statements that go to one instance after another.
//
// PGPORT is the port of the first instance, PGPORTS those of all, with commas between.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

var ctx = context.Background()

// must ends the program, naming the caller's line, if something failed.
func must(err error) {
	if err != nil {
		_, _, line, _ := runtime.Caller(1)
		fmt.Fprintf(os.Stderr, "line %d: %v\n", line, err)
		os.Exit(1)
	}
}

// same ends the program, naming the caller's line, if two values differ.
func same(got, wanted any) {
	if !reflect.DeepEqual(got, wanted) {
		_, _, line, _ := runtime.Caller(1)
		fmt.Fprintf(os.Stderr, "line %d: %#v, not %#v\n", line, got, wanted)
		os.Exit(1)
	}
}

// code is the SQLSTATE of an error, empty if there is none.
func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

type executes interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
}

func exec(on executes, sql string, args ...any) int64 {
	tag, err := on.Exec(ctx, sql, args...)
	if err != nil {
		_, _, line, _ := runtime.Caller(1)
		fmt.Fprintf(os.Stderr, "line %d: %s: %v\n", line, sql, err)
		os.Exit(1)
	}
	return tag.RowsAffected()
}

func main() {
	config, err := pgx.ParseConfig("")
	must(err)
	modes := []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	}
	for _, mode := range modes {
		config.DefaultQueryExecMode = mode
		con, err := pgx.ConnectConfig(ctx, config)
		must(err)
		values(con, mode)
		faults(con)
		transactions(con)
		must(con.Close(ctx))
	}
	con, err := pgx.Connect(ctx, "")
	must(err)
	arrays(con)
	structs(con)
	batches(con)
	copies(con)
	prepared(con)
	large(con)
	notifications(con)
	cancelling(con)
	must(con.Close(ctx))
	pool()
	instances()
	fmt.Println("pgx", runtime.Version())
}

func values(con *pgx.Conn, mode pgx.QueryExecMode) {
	exec(con, "drop table if exists go_v")
	exec(con, `create table go_v (id int8 primary key, s int2, i int4, f float8, n numeric(20,4),
		t text, c varchar(10), b bytea, ok bool, d date, ts timestamp, tz timestamptz,
		u uuid, j json, jb jsonb, iv interval, tm time)`)
	day := time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)
	at := time.Date(2024, 2, 29, 23, 59, 59, 999999000, time.UTC)
	number := pgtype.Numeric{Int: big.NewInt(-123456789), Exp: -4, Valid: true}
	uuid := pgtype.UUID{Valid: true}
	must(uuid.Scan("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"))
	span := pgtype.Interval{Months: 14, Days: 3, Microseconds: -5000001, Valid: true}
	clock := pgtype.Time{Microseconds: 86399999999, Valid: true}
	doc := map[string]any{"a": []any{1.0, nil, "é"}, "b": map[string]any{"c": true}}
	json := `{"a": [1, null, "é"], "b": {"c": true}}` // not every mode knows a map's type
	row := []any{int64(1), int16(-32768), int32(2147483647), 0.1, number, "été \\ '", "varchar",
		[]byte{0, 255, 92}, true, day, at, at, uuid, json, json, span, clock}
	marks := make([]string, len(row))
	for i := range row {
		marks[i] = fmt.Sprintf("$%d", i+1)
	}
	insert := "insert into go_v values (" + strings.Join(marks, ", ") + ")"
	same(exec(con, insert, row...), int64(1))
	nulls := make([]any, len(row))
	nulls[0] = int64(2)
	same(exec(con, insert, nulls...), int64(1))

	var (
		id       int64
		s        int16
		i        int32
		f        float64
		n        pgtype.Numeric
		t, c     string
		b        []byte
		ok       bool
		d, ts    time.Time
		tz       time.Time
		u        pgtype.UUID
		j, jb    map[string]any
		iv       pgtype.Interval
		tm       pgtype.Time
		into     = []any{&id, &s, &i, &f, &n, &t, &c, &b, &ok, &d, &ts, &tz, &u, &j, &jb, &iv, &tm}
		select_1 = "select * from go_v where id = $1"
	)
	must(con.QueryRow(ctx, select_1, int64(1)).Scan(into...))
	float, err := n.Float64Value()
	must(err)
	same(float.Float64, -12345.6789)
	got := []any{id, s, i, f, number, t, c, b, ok, d, ts, tz.UTC(), u, j, jb, iv, tm}
	row[13], row[14] = doc, doc
	same(got, row)
	found, err := con.Query(ctx, select_1, int64(2))
	must(err)
	same(found.Next(), true)
	empty, err := found.Values()
	must(err)
	same(empty[1:], nulls[1:])
	names := []string{}
	for _, field := range found.FieldDescriptions() {
		names = append(names, field.Name)
	}
	same(strings.Join(names, " "), "id s i f n t c b ok d ts tz u j jb iv tm")
	found.Close()
	must(found.Err())

	var digits pgtype.Numeric
	must(con.QueryRow(ctx, "select 12345678901234567890.000000001::numeric").Scan(&digits))
	text, err := digits.Value()
	must(err)
	same(text, "12345678901234567890.000000001")
	// A parameter's type by its place and by a cast.
	var sum int64
	must(con.QueryRow(ctx, "select sum(g) from generate_series($1::int, $2::int) g",
		1, 100).Scan(&sum))
	same(sum, int64(5050))
	var back string
	must(con.QueryRow(ctx, "select $1::text || coalesce($2::text, '-')", "a", nil).Scan(&back))
	same(back, "a-")
	if mode != pgx.QueryExecModeSimpleProtocol && mode != pgx.QueryExecModeExec {
		var many []string
		rows, err := con.Query(ctx, "select t from go_v where id = any($1)", []int64{1, 7})
		must(err)
		many, err = pgx.CollectRows(rows, pgx.RowTo[string])
		must(err)
		same(many, []string{"été \\ '"})
	}
	exec(con, "drop table go_v")
}

// Errors with their SQLSTATEs; the connection serves on.
func faults(con *pgx.Conn) {
	exec(con, "drop table if exists go_e")
	exec(con, `create table go_e (id int primary key, v int not null check (v > 0), w int2)`)
	exec(con, "insert into go_e values (1, 1)")
	_, err := con.Exec(ctx, "insert into go_e values (1, 2)")
	var e *pgconn.PgError
	same(errors.As(err, &e), true)
	same([]string{e.Code, e.ConstraintName, e.TableName, e.SchemaName},
		[]string{"23505", "go_e_pkey", "go_e", "public"})
	_, err = con.Exec(ctx, "selec 1")
	same(errors.As(err, &e), true)
	same([]any{e.Code, e.Position}, []any{"42601", int32(1)})
	for _, wrong := range []struct {
		sql, code string
		args      []any
	}{
		{"insert into go_e values (2, null)", "23502", nil},
		{"insert into go_e values (2, 0)", "23514", nil},
		{"select * from go_none", "42P01", nil},
		{"select none from go_e", "42703", nil},
		{"select go_none(1)", "42883", nil},
		{"select 1 / (v - 1) from go_e", "22012", nil},
		{"insert into go_e values (3, 2147483648)", "22003", nil},
		{"insert into go_e values (3, 1, 40000)", "22003", nil},
		{"select 'x'::int", "22P02", nil},
		{"select '2024-02-30'::date", "22008", nil},
		{"select $1::text::int", "22P02", []any{"x"}},
		{"select v from go_e where id = $1::int8 / $2::int8", "22012", []any{1, 0}},
	} {
		_, err := con.Exec(ctx, wrong.sql, wrong.args...)
		if code(err) != wrong.code {
			must(fmt.Errorf("%s: %v, not %s", wrong.sql, err, wrong.code))
		}
		same(con.IsClosed(), false)
	}
	var one int
	must(con.QueryRow(ctx, "select count(*) from go_e").Scan(&one))
	same(one, 1)
	same(errors.Is(con.QueryRow(ctx, "select id from go_e where id = 9").Scan(&one), pgx.ErrNoRows),
		true)
	exec(con, "drop table go_e")
}

func transactions(con *pgx.Conn) {
	exec(con, "drop table if exists go_t")
	exec(con, "create table go_t (id int primary key)")
	count := func() (n int) {
		must(con.QueryRow(ctx, "select count(*) from go_t").Scan(&n))
		return n
	}
	tx, err := con.Begin(ctx)
	must(err)
	exec(tx, "insert into go_t values (1)")
	nested, err := tx.Begin(ctx) // a savepoint
	must(err)
	exec(nested, "insert into go_t values (2)")
	_, err = nested.Exec(ctx, "insert into go_t values (1)")
	same(code(err), "23505")
	_, err = nested.Exec(ctx, "select 1")
	same(code(err), "25P02")
	must(nested.Rollback(ctx))
	nested, err = tx.Begin(ctx)
	must(err)
	exec(nested, "insert into go_t values (3)")
	must(nested.Commit(ctx))
	must(tx.Commit(ctx))
	same(count(), 2)
	wanted := errors.New("to be rolled back")
	same(pgx.BeginFunc(ctx, con, func(tx pgx.Tx) error {
		exec(tx, "delete from go_t")
		return wanted
	}), wanted)
	same(count(), 2)
	// COMMIT of what has failed says so.
	tx, err = con.Begin(ctx)
	must(err)
	_, err = tx.Exec(ctx, "insert into go_t values (1)")
	same(code(err), "23505")
	same(errors.Is(tx.Commit(ctx), pgx.ErrTxCommitRollback), true)
	reading := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	same(code(pgx.BeginTxFunc(ctx, con, reading, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "insert into go_t values (5)")
		return err
	})), "25006")
	exec(con, "drop table go_t")
}

func arrays(con *pgx.Conn) {
	exec(con, "drop table if exists go_a")
	exec(con, `create table go_a (i int4[], l int8[], t text[], f float8[], b bool[], u uuid[],
		n numeric[], d date[], z timestamptz[])`)
	text := "quoted \"{},\\ "
	at := time.Date(2024, 2, 29, 1, 2, 3, 4000, time.UTC)
	day := time.Date(1999, 12, 31, 0, 0, 0, 0, time.UTC)
	var id [16]byte
	id[0] = 7
	exec(con, "insert into go_a values ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
		[]int32{1, -2}, []int64{}, []*string{&text, nil}, []float64{0.5}, []bool{true, false},
		[][16]byte{id}, []string{"1.5", "-3"}, []time.Time{day}, []time.Time{at, at})
	var (
		i []int32
		l []int64
		t []*string
		f []float64
		b []bool
		u [][16]byte
		n []string
		d []time.Time
		z []time.Time
	)
	must(con.QueryRow(ctx, "select i, l, t, f, b, u, n::text[], d, z from go_a").
		Scan(&i, &l, &t, &f, &b, &u, &n, &d, &z))
	same([]any{i, l, f, b, u, n, d}, []any{[]int32{1, -2}, []int64{}, []float64{0.5},
		[]bool{true, false}, [][16]byte{id}, []string{"1.5", "-3"}, []time.Time{day}})
	same(*t[0], text)
	same(t[1] == nil, true)
	same(z[1].UTC(), at)
	var sum []int64
	must(con.QueryRow(ctx, "select array_agg(x order by x desc) from unnest($1::int8[]) x",
		[]int64{3, 9, 4}).Scan(&sum))
	same(sum, []int64{9, 4, 3})
	exec(con, "drop table go_a")
}

type item struct {
	ID    int32
	Name  string
	Price *float64
	Tags  []string
}

func structs(con *pgx.Conn) {
	exec(con, "drop table if exists go_s")
	exec(con, `create table go_s (id int generated always as identity primary key, name text,
		price float8, tags text[] not null default '{}')`)
	rows, err := con.Query(ctx, `insert into go_s (name, price, tags)
		values (@name, @price, @tags), ('none', null, default)
		returning id, name, price, tags`,
		pgx.NamedArgs{"name": "one", "price": 1.5, "tags": []string{"a", "b"}})
	must(err)
	items, err := pgx.CollectRows(rows, pgx.RowToStructByName[item])
	must(err)
	price := 1.5
	same(items, []item{{1, "one", &price, []string{"a", "b"}}, {2, "none", nil, []string{}}})
	rows, err = con.Query(ctx, "select * from go_s where name = $1", "none")
	must(err)
	one, err := pgx.CollectExactlyOneRow(rows, pgx.RowToMap)
	must(err)
	same(one["id"], int32(2))
	same(one["tags"], []any{})
	exec(con, "drop table go_s")

	// A type of the user's.
	exec(con, "drop type if exists go_mood")
	exec(con, "create type go_mood as enum ('sad', 'ok')")
	mood, err := con.LoadType(ctx, "go_mood")
	must(err)
	con.TypeMap().RegisterType(mood)
	var text string
	must(con.QueryRow(ctx, "select $1::go_mood", "ok").Scan(&text))
	same(text, "ok")
	_, err = con.Exec(ctx, "select $1::go_mood", "glad")
	same(code(err), "22P02")
	exec(con, "drop type go_mood")
}

func batches(con *pgx.Conn) {
	exec(con, "drop table if exists go_b")
	exec(con, "create table go_b (id int primary key, v text)")
	batch := &pgx.Batch{}
	for i := 0; i < 100; i++ {
		batch.Queue("insert into go_b values ($1, $2)", i, fmt.Sprint("v", i))
	}
	queried := 0
	batch.Queue("select count(*) from go_b").QueryRow(func(row pgx.Row) error {
		return row.Scan(&queried)
	})
	batch.Queue("update go_b set v = 'x' where id < $1", 10).Exec(
		func(tag pgconn.CommandTag) error {
			same(tag.String(), "UPDATE 10")
			return nil
		})
	must(con.SendBatch(ctx, batch).Close())
	same(queried, 100)
	// A batch is one transaction: what fails takes the rest with it.
	batch = &pgx.Batch{}
	batch.Queue("delete from go_b")
	batch.Queue("insert into go_b values (1, 'a'), (1, 'b')")
	batch.Queue("select 1")
	results := con.SendBatch(ctx, batch)
	_, err := results.Exec()
	must(err)
	_, err = results.Exec()
	same(code(err), "23505")
	same(code(results.Close()), "23505")
	var n int
	must(con.QueryRow(ctx, "select count(*) from go_b").Scan(&n))
	same(n, 100)
	// Several statements in one message.
	several, err := con.PgConn().Exec(ctx,
		"begin; delete from go_b where id = 1; select count(*) from go_b; rollback").ReadAll()
	must(err)
	same(len(several), 4)
	same(string(several[2].Rows[0][0]), "99")
	exec(con, "drop table go_b")
}

func copies(con *pgx.Conn) {
	exec(con, "drop table if exists go_c")
	exec(con, `create table go_c (id int primary key, v text, n numeric, at timestamptz,
		tags text[], u uuid, j jsonb, iv interval)`)
	at := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	columns := []string{"id", "v", "n", "at", "tags", "u", "j", "iv"}
	source := pgx.CopyFromSlice(2000, func(i int) ([]any, error) {
		if i%3 == 0 {
			return []any{i, nil, nil, nil, nil, nil, nil, nil}, nil
		}
		return []any{i, strings.Repeat("x", i%50), fmt.Sprint(i, ".25"),
			at.Add(time.Duration(i) * time.Second), []string{"a", fmt.Sprint(i)}, [16]byte{byte(i)},
			map[string]any{"i": i}, time.Duration(i) * time.Millisecond}, nil
	})
	n, err := con.CopyFrom(ctx, pgx.Identifier{"go_c"}, columns, source)
	must(err)
	same(n, int64(2000))
	var text string
	must(con.QueryRow(ctx, `select concat_ws(' ', length(v), n, extract(epoch from at)::int8, tags[2],
		u, j ->> 'i', iv) from go_c where id = 1001`).Scan(&text))
	same(text, "1 1001.25 1577837801 1001 e9000000-0000-0000-0000-000000000000 1001 00:00:01.001")
	n, err = con.CopyFrom(ctx, pgx.Identifier{"go_c"}, columns[:2],
		pgx.CopyFromRows([][]any{{5000, "a"}, {1, "b"}}))
	same(code(err), "23505")
	same(n, int64(0))
	var out strings.Builder
	tag, err := con.PgConn().CopyTo(ctx, &out, "copy (select id, n from go_c where id < 3) to stdout")
	must(err)
	same(tag.RowsAffected(), int64(3))
	same(out.String(), "0\t\\N\n1\t1.25\n2\t2.25\n")
	in := strings.NewReader("9000,\"a,\"\"b\"\n9001,\n")
	tag, err = con.PgConn().CopyFrom(ctx, in, "copy go_c (id, v) from stdin with (format csv)")
	must(err)
	same(tag.RowsAffected(), int64(2))
	exec(con, "drop table go_c")
}

func prepared(con *pgx.Conn) {
	exec(con, "drop table if exists go_p")
	exec(con, "create table go_p (id int primary key, v int)")
	statement, err := con.Prepare(ctx, "put", "insert into go_p values ($1, $2) returning v * 2 as w")
	must(err)
	same(statement.ParamOIDs, []uint32{pgtype.Int4OID, pgtype.Int4OID})
	same(statement.Fields[0].Name, "w")
	same(statement.Fields[0].DataTypeOID, uint32(pgtype.Int4OID))
	for i := 1; i <= 20; i++ {
		var w int
		must(con.QueryRow(ctx, "put", i, i*i).Scan(&w))
		same(w, 2*i*i)
	}
	// The table's shape changes under a statement that is kept.
	rows, err := con.Query(ctx, "select * from go_p where id = $1", 3)
	must(err)
	_, err = pgx.CollectRows(rows, pgx.RowToMap)
	must(err)
	exec(con, "alter table go_p add column more text default 'm'")
	for try := 0; ; try++ {
		rows, err = con.Query(ctx, "select * from go_p where id = $1", 3)
		must(err)
		found, err := pgx.CollectRows(rows, pgx.RowToMap)
		if err == nil {
			same(found[0]["more"], "m")
			break
		}
		same(code(err), "0A000") // cached plan must not change result type
		same(try, 0)
	}
	must(con.Deallocate(ctx, "put"))
	must(con.DeallocateAll(ctx))
	exec(con, "drop table go_p")
}

// A result larger than any buffer, read slowly and left in the middle.
func large(con *pgx.Conn) {
	rows, err := con.Query(ctx, "select g, repeat('x', 1000) from generate_series(1, 20000) g")
	must(err)
	n := 0
	for rows.Next() && n < 10000 {
		n++
	}
	rows.Close()
	must(rows.Err())
	same(n, 10000)
	blob := make([]byte, 8<<20)
	for i := range blob {
		blob[i] = byte(i * 7)
	}
	var back []byte
	must(con.QueryRow(ctx, "select $1::bytea", blob).Scan(&back))
	same(string(back) == string(blob), true)
}

func notifications(con *pgx.Conn) {
	config := con.Config().Copy()
	ports := ports()
	fmt.Sscan(ports[len(ports)-1], &config.Port)
	other, err := pgx.ConnectConfig(ctx, config)
	must(err)
	defer other.Close(ctx)
	exec(con, "listen go_news")
	exec(other, "notify go_news, 'first'")
	exec(other, "select pg_notify($1, $2)", "go_news", "second")
	for _, wanted := range []string{"first", "second"} {
		limited, stop := context.WithTimeout(ctx, 30*time.Second)
		news, err := con.WaitForNotification(limited)
		stop()
		must(err)
		same([]string{news.Channel, news.Payload}, []string{"go_news", wanted})
	}
	exec(con, "unlisten *")
}

// Cancelling by a request of its own, and by a context's end, which costs the connection.
func cancelling(con *pgx.Conn) {
	go func() {
		for {
			watcher, err := pgx.Connect(ctx, "")
			must(err)
			var runs bool
			must(watcher.QueryRow(ctx, `select exists (select from pg_stat_activity
				where pid = $1 and state = 'active' and query like '%pg_sleep%')`,
				con.PgConn().PID()).Scan(&runs))
			must(watcher.Close(ctx))
			if runs {
				must(con.PgConn().CancelRequest(ctx))
				return
			}
		}
	}()
	_, err := con.Exec(ctx, "select pg_sleep(600)")
	same(code(err), "57014")
	exec(con, "select 1")

	short, err := pgx.Connect(ctx, "")
	must(err)
	limited, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stop()
	_, err = short.Exec(limited, "select pg_sleep(600)")
	same(errors.Is(err, context.DeadlineExceeded), true)
	same(short.IsClosed(), true)
	// The server has heard it, too: nobody sleeps any more.
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		var sleepers int
		must(con.QueryRow(ctx, `select count(*) from pg_stat_activity
			where state = 'active' and query = 'select pg_sleep(600)'`).Scan(&sleepers))
		if sleepers == 0 {
			break
		}
		same(time.Since(begun) < 30*time.Second, true)
	}
}

func pool() {
	config, err := pgxpool.ParseConfig("pool_max_conns=6")
	must(err)
	config.AfterConnect = func(ctx context.Context, con *pgx.Conn) error {
		_, err := con.Exec(ctx, "set application_name = 'go pool'")
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	must(err)
	defer pool.Close()
	exec(pool, "drop table if exists go_pool")
	exec(pool, "create table go_pool (id int primary key, v int)")
	exec(pool, "insert into go_pool select g, 0 from generate_series(1, 10) g")
	var wait sync.WaitGroup
	for worker := 0; worker < 12; worker++ {
		wait.Add(1)
		go func(worker int) {
			defer wait.Done()
			for i := 0; i < 50; i++ {
				must(pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					var v int
					id := (worker+i)%10 + 1
					row := tx.QueryRow(ctx, "select v from go_pool where id = $1 for update", id)
					if err := row.Scan(&v); err != nil {
						return err
					}
					_, err := tx.Exec(ctx, "update go_pool set v = $2 where id = $1", id, v+1)
					return err
				}))
			}
		}(worker)
	}
	wait.Wait()
	var sum int
	must(pool.QueryRow(ctx, "select sum(v) from go_pool").Scan(&sum))
	same(sum, 600)
	same(pool.Stat().TotalConns() <= 6, true)
	exec(pool, "drop table go_pool")
}

func ports() []string {
	return strings.Split(os.Getenv("PGPORTS"), ",")
}

// Each statement goes to another instance than the one before.
func instances() {
	cons := []*pgx.Conn{}
	for _, port := range ports() {
		con, err := pgx.Connect(ctx, "port="+port)
		must(err)
		defer con.Close(ctx)
		cons = append(cons, con)
	}
	turn := 0
	next := func() *pgx.Conn {
		turn++
		return cons[turn%len(cons)]
	}
	exec(next(), "drop table if exists go_i")
	exec(next(), "create table go_i (id int primary key, v text)")
	for i := 1; i <= 60; i++ {
		same(exec(next(), "insert into go_i values ($1, $2)", i, fmt.Sprint(i)), int64(1))
	}
	exec(next(), "alter table go_i add column w int default 1")
	for range cons {
		var n, w int
		con := next()
		must(con.QueryRow(ctx, "select count(*), sum(w) from go_i").Scan(&n, &w))
		same([]int{n, w}, []int{60, 60})
		_, err := con.Exec(ctx, "insert into go_i values (1, 'again')")
		same(code(err), "23505")
	}
	// One waits for another's row, and sees what it has written.
	tx, err := cons[0].Begin(ctx)
	must(err)
	exec(tx, "update go_i set w = w + 1 where id = 1")
	done := make(chan int64)
	last := cons[len(cons)-1]
	if len(cons) > 1 {
		go func() { done <- exec(last, "update go_i set w = w + 1 where id = 1") }()
	}
	must(tx.Commit(ctx))
	if len(cons) > 1 {
		same(<-done, int64(1))
	}
	var w int
	must(next().QueryRow(ctx, "select w from go_i where id = 1").Scan(&w))
	if len(cons) > 1 {
		same(w, 3)
	}
	exec(next(), "drop table go_i")
}
