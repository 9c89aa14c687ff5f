//! The twelve consistency conditions (clause 3.3.2), and whether an instance shows what clients
//! know.
//!
//! A round is one REPEATABLE READ transaction: all conditions are asked of the same snapshot. Each
//! is one query for the rows that break it. Condition 11 holds as TPC-C has it only for tables just
//! made; its constant is told here by the customers' counts of deliveries.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use tokio_postgres::{Client, SimpleQueryMessage};

use super::ledger::{Changes, District, Progress, Stock};
use super::options::Options;
use super::tables::delivered_at_first;
use super::values::DISTRICTS;
use crate::client::describe;

/// Rows of a broken condition that are shown.
const ROWS_SHOWN: usize = 10;
/// The longest that one query may take before it counts as hung.
const HUNG: Duration = Duration::from_mins(5);

pub const CONDITIONS: [&str; 12] = [
    "select w_id, w_ytd, sum(d_ytd) districts from warehouse left join district on d_w_id = w_id
        group by w_id, w_ytd having w_ytd is distinct from sum(d_ytd)",
    "select d_w_id, d_id, d_next_o_id, o_max, no_max from district
        left join (select o_w_id, o_d_id, max(o_id) o_max from orders group by o_w_id, o_d_id) o
            on o_w_id = d_w_id and o_d_id = d_id
        left join (select no_w_id, no_d_id, max(no_o_id) no_max from new_order
                group by no_w_id, no_d_id) n
            on no_w_id = d_w_id and no_d_id = d_id
        where no_max <> o_max or d_next_o_id - 1 is distinct from o_max",
    "select no_w_id, no_d_id, min(no_o_id), max(no_o_id), count(*) from new_order
        group by no_w_id, no_d_id having max(no_o_id) - min(no_o_id) + 1 <> count(*)",
    "select * from
        (select o_w_id, o_d_id, sum(o_ol_cnt) o_lines from orders group by o_w_id, o_d_id) o
        full join (select ol_w_id, ol_d_id, count(*) lines from order_line
                group by ol_w_id, ol_d_id) l
            on ol_w_id = o_w_id and ol_d_id = o_d_id
        where o_lines is distinct from lines",
    "select o_w_id, o_d_id, o_id, o_carrier_id, no_w_id, no_d_id, no_o_id from orders
        full join new_order on no_w_id = o_w_id and no_d_id = o_d_id and no_o_id = o_id
        where o_id is null or (o_carrier_id is null) <> (no_o_id is not null)",
    "select o_w_id, o_d_id, o_id, o_ol_cnt, ol_w_id, ol_d_id, ol_o_id, lines from orders
        full join (select ol_w_id, ol_d_id, ol_o_id, count(*) lines from order_line
                group by ol_w_id, ol_d_id, ol_o_id) l
            on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id
        where o_ol_cnt is distinct from lines",
    "select ol_w_id, ol_d_id, ol_o_id, ol_number, ol_delivery_d, o_id, o_carrier_id
        from order_line left join orders
            on o_w_id = ol_w_id and o_d_id = ol_d_id and o_id = ol_o_id
        where o_id is null or (ol_delivery_d is null) <> (o_carrier_id is null)",
    "select w_id, w_ytd, paid from warehouse
        left join (select h_w_id, sum(h_amount) paid from history group by h_w_id) h
            on h_w_id = w_id
        where w_ytd is distinct from paid",
    "select d_w_id, d_id, d_ytd, paid from district
        left join (select h_w_id, h_d_id, sum(h_amount) paid from history
                group by h_w_id, h_d_id) h
            on h_w_id = d_w_id and h_d_id = d_id
        where d_ytd is distinct from paid",
    "select c_w_id, c_d_id, c_id, c_balance, delivered, paid from customer
        left join (select o_w_id, o_d_id, o_c_id, sum(ol_amount) delivered
                from orders join order_line
                    on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id
                where ol_delivery_d is not null group by o_w_id, o_d_id, o_c_id) o
            on o_w_id = c_w_id and o_d_id = c_d_id and o_c_id = c_id
        left join (select h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) paid from history
                group by h_c_w_id, h_c_d_id, h_c_id) h
            on h_c_w_id = c_w_id and h_c_d_id = c_d_id and h_c_id = c_id
        where c_balance <> coalesce(delivered, 0) - coalesce(paid, 0)",
    "select d_w_id, d_id, ordered, waiting, delivered from district
        left join (select o_w_id, o_d_id, count(*) ordered from orders
                group by o_w_id, o_d_id) o
            on o_w_id = d_w_id and o_d_id = d_id
        left join (select no_w_id, no_d_id, count(*) waiting from new_order
                group by no_w_id, no_d_id) n
            on no_w_id = d_w_id and no_d_id = d_id
        left join (select c_w_id, c_d_id, sum(c_delivery_cnt) delivered from customer
                group by c_w_id, c_d_id) c
            on c_w_id = d_w_id and c_d_id = d_id
        where coalesce(ordered, 0) - coalesce(waiting, 0)
            <> DELIVERED_AT_FIRST + coalesce(delivered, 0)",
    "select c_w_id, c_d_id, c_id, c_balance, c_ytd_payment, delivered from customer
        left join (select o_w_id, o_d_id, o_c_id, sum(ol_amount) delivered
                from orders join order_line
                    on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id
                where ol_delivery_d is not null group by o_w_id, o_d_id, o_c_id) o
            on o_w_id = c_w_id and o_d_id = c_d_id and o_c_id = c_id
        where c_balance + c_ytd_payment <> coalesce(delivered, 0)",
];

/// A session that checks; `whose` names its instance in what it complains of.
pub struct Checker {
    pub client: Client,
    pub whose: String,
    /// The longest round so far.
    pub longest: Duration,
    pub rounds: u64,
    /// The sizes that the tables were made with.
    warehouses: i64,
    customers: i64,
    delivered_at_first: i32,
}

impl Checker {
    #[must_use]
    pub fn new(client: Client, whose: String, options: &Options) -> Checker {
        let (longest, rounds) = (Duration::ZERO, 0);
        let delivered_at_first = delivered_at_first(options.customers);
        let (warehouses, customers) = (options.warehouses.into(), options.customers.into());
        Checker { client, whose, longest, rounds, warehouses, customers, delivered_at_first }
    }

    /// Rows as text.
    async fn rows(&self, what: &str, sql: &str) -> Result<Vec<String>, String> {
        let failed = |why: String| format!("{}: {what}: {why}", self.whose);
        let messages = tokio::time::timeout(HUNG, self.client.simple_query(sql)).await;
        let messages = messages.map_err(|_| failed(format!("hung for {HUNG:?}")))?;
        let mut rows = Vec::new();
        for message in messages.map_err(|e| failed(describe(&e)))? {
            let SimpleQueryMessage::Row(row) = message else { continue };
            let column =
                |i: usize| format!("{}={}", row.columns()[i].name(), row.get(i).unwrap_or("-"));
            rows.push((0..row.len()).map(column).collect::<Vec<_>>().join(" "));
        }
        Ok(rows)
    }

    async fn numbers<const N: usize>(
        &self,
        what: &str,
        sql: &str,
    ) -> Result<Vec<[i64; N]>, String> {
        let rows = self.rows(what, sql).await?;
        let parse = |row: &String| {
            let values = row.split(' ').map(|c| c.rsplit('=').next()?.parse().ok());
            let values: Option<Vec<i64>> = values.collect();
            values.and_then(|v| v.try_into().ok())
        };
        let all: Option<Vec<[i64; N]>> = rows.iter().map(parse).collect();
        all.ok_or_else(|| format!("{}: {what}: no {N} numbers in {rows:?}", self.whose))
    }

    /// All conditions in one snapshot, which must have what clients know to be committed when it
    /// is taken, and no more than they had begun.
    ///
    /// # Errors
    /// What the server said, or what is wrong with the rows.
    pub async fn round(&mut self, progress: &Progress) -> Result<(), String> {
        let began = Instant::now();
        let known =
            [&progress.orders_committed, &progress.payments_committed].map(|n| n.load(SeqCst));
        self.rows("begin", "begin isolation level repeatable read").await?;
        let [orders, payments] = self.totals().await?;
        let begun = [&progress.orders_begun, &progress.payments_begun].map(|n| n.load(SeqCst));
        for (what, seen, known, begun) in
            [("orders", orders, known[0], begun[0]), ("payments", payments, known[1], begun[1])]
        {
            if seen < known || seen > begun {
                return Err(format!(
                    "{}: a snapshot has {seen} {what}; {known} were committed before it was \
                     taken, {begun} begun after",
                    self.whose
                ));
            }
        }
        for (sql, number) in CONDITIONS.iter().zip(1..) {
            self.condition(number, sql).await?;
        }
        if self.totals().await? != [orders, payments] {
            return Err(format!("{}: the snapshot has changed meanwhile", self.whose));
        }
        self.rows("commit", "commit").await?;
        self.rounds += 1;
        self.longest = self.longest.max(began.elapsed());
        Ok(())
    }

    async fn condition(&self, number: i32, sql: &str) -> Result<(), String> {
        let sql = sql.replace("DELIVERED_AT_FIRST", &self.delivered_at_first.to_string());
        let broken = self.rows(&format!("condition {number}"), &sql).await?;
        if broken.is_empty() {
            return Ok(());
        }
        let shown = broken[..broken.len().min(ROWS_SHOWN)].join("\n  ");
        let (whose, count) = (&self.whose, broken.len());
        Err(format!("{whose}: condition {number} is broken by {count} rows:\n  {shown}"))
    }

    /// Orders and payments since the tables were made.
    async fn totals(&self) -> Result<[i64; 2], String> {
        let sql = "select (select sum(d_next_o_id - 1) from district),
            (select count(*) from history)";
        let rows = self.numbers::<2>("totals", sql).await?;
        let first = self.warehouses * i64::from(DISTRICTS) * self.customers;
        let row = rows.first().ok_or("totals have no row")?;
        Ok(row.map(|n| n - first))
    }

    /// What is there against what clients had acknowledged, all of them having ended.
    ///
    /// # Errors
    /// What the server said, or each difference.
    pub async fn compare(&self, known: &Changes) -> Result<(), String> {
        self.rows("begin", "begin isolation level repeatable read").await?;
        let found = Changes {
            districts: self.found_districts().await?,
            stocks: self.found_stocks().await?,
        };
        self.rows("commit", "commit").await?;
        let mut wrong = Vec::new();
        for (at, have) in &found.districts {
            let want = known.districts.get(at).copied().unwrap_or_default();
            if *have != want {
                wrong.push(format!("district {at:?}: it has {have:?}, acknowledged are {want:?}"));
            }
        }
        for (at, have) in &found.stocks {
            let want = known.stocks.get(at).copied().unwrap_or_default();
            if *have != want {
                wrong.push(format!("stock of {at}: it has {have:?}, acknowledged are {want:?}"));
            }
        }
        let count = i64::try_from(found.stocks.len()).unwrap_or(0);
        if count != self.warehouses || found.districts.len() != found.stocks.len() * 10 {
            wrong.push(format!("{count} warehouses, {} districts", found.districts.len()));
        }
        if wrong.is_empty() {
            return Ok(());
        }
        Err(format!("{}: {}", self.whose, wrong.join("\n  ")))
    }

    /// What happened in each district since the tables were made, but for its first lines.
    async fn found_districts(&self) -> Result<BTreeMap<(i32, i32), District>, String> {
        let sql = "select d_w_id, d_id, d_next_o_id - 1, coalesce(lines, 0), payments,
                (d_ytd * 100)::bigint, coalesce(waiting, 0)
            from district
            left join (select ol_w_id, ol_d_id, count(*) lines from order_line
                    where ol_o_id > FIRST group by ol_w_id, ol_d_id) l
                on ol_w_id = d_w_id and ol_d_id = d_id
            left join (select h_w_id, h_d_id, count(*) payments from history
                    group by h_w_id, h_d_id) h
                on h_w_id = d_w_id and h_d_id = d_id
            left join (select no_w_id, no_d_id, count(*) waiting from new_order
                    group by no_w_id, no_d_id) n
                on no_w_id = d_w_id and no_d_id = d_id";
        let first = self.customers;
        let sql = sql.replace("FIRST", &first.to_string());
        let rows = self.numbers::<7>("districts", &sql).await?;
        let one = |[w, d, orders, order_lines, payments, cents, waiting]: [i64; 7]| {
            let at = (i32::try_from(w).unwrap_or(0), i32::try_from(d).unwrap_or(0));
            let delivered = orders - waiting - i64::from(self.delivered_at_first);
            let (orders, payments) = (orders - first, payments - first);
            let paid_cents = cents - first * 1000;
            (at, District { orders, order_lines, payments, paid_cents, delivered })
        };
        Ok(rows.into_iter().map(one).collect())
    }

    async fn found_stocks(&self) -> Result<BTreeMap<i32, Stock>, String> {
        let sql = "select s_w_id, sum(s_ytd), sum(s_order_cnt), sum(s_remote_cnt) from stock
            group by s_w_id";
        let rows = self.numbers::<4>("stock", sql).await?;
        let one = |[w, quantity, lines, remote_lines]: [i64; 4]| {
            (i32::try_from(w).unwrap_or(0), Stock { quantity, lines, remote_lines })
        };
        Ok(rows.into_iter().map(one).collect())
    }
}
