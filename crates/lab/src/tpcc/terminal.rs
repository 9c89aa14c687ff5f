//! A client with its prepared statements, and the five transactions (clause 2.4 to 2.8), all at
//! READ COMMITTED.
//!
//! What a transaction must find is checked on the way: a statement that should meet one row and
//! meets none, or an order without its lines, is an error of the server.

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, Statement};

use super::ledger::Changes;
use super::values::DISTRICTS;
use crate::client::{connect, describe};

type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Why an attempt did not end.
#[derive(Debug)]
pub enum Trouble {
    /// SQLSTATE of a deadlock or serialization failure: to be repeated.
    Again(String),
    /// What must not happen.
    Wrong(String),
}

impl From<Error> for Trouble {
    fn from(e: Error) -> Trouble {
        match e.code().map(tokio_postgres::error::SqlState::code) {
            Some(code @ ("40P01" | "40001")) => Trouble::Again(code.to_owned()),
            _ => Trouble::Wrong(describe(&e)),
        }
    }
}

fn wrong<T>(text: String) -> Result<T, Trouble> {
    Err(Trouble::Wrong(text))
}

/// How a customer is named.
#[derive(Clone, Debug)]
pub enum Who {
    Id(i32),
    LastName(String),
}

#[derive(Clone, Copy, Debug)]
pub struct Line {
    pub item: i32,
    pub supply: i32,
    pub quantity: i32,
}

/// A transaction with its input; repeated attempts have the same.
#[derive(Clone, Debug)]
pub enum Task {
    /// The last item of some does not exist: then all is rolled back.
    NewOrder {
        w: i32,
        d: i32,
        c: i32,
        lines: Vec<Line>,
    },
    Payment {
        w: i32,
        d: i32,
        c_w: i32,
        c_d: i32,
        who: Who,
        cents: i64,
    },
    OrderStatus {
        w: i32,
        d: i32,
        who: Who,
    },
    Delivery {
        w: i32,
        carrier: i32,
    },
    StockLevel {
        w: i32,
        d: i32,
        threshold: i32,
    },
}

/// What an attempt that ended did.
#[derive(Debug)]
pub enum Done {
    Committed(Changes),
    RolledBack,
}

macro_rules! statements {
    ($($name:ident = $sql:expr;)*) => {
        struct Statements { $($name: Statement,)* stock: Vec<Statement> }

        impl Statements {
            async fn prepare(client: &Client) -> Result<Statements, Error> {
                let mut stock = Vec::new();
                for d in 1..=DISTRICTS {
                    stock.push(client.prepare(&STOCK.replace("DD", &format!("{d:02}"))).await?);
                }
                Ok(Statements { $($name: client.prepare($sql).await?,)* stock })
            }
        }
    };
}

/// One for each district, whose text is returned.
const STOCK: &str = "
    update stock set
        s_quantity = s_quantity - $3 + case when s_quantity - $3 < 10 then 91 else 0 end,
        s_ytd = s_ytd + $3, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $4
    where s_w_id = $1 and s_i_id = $2 returning s_dist_DD, s_data, s_quantity";

statements! {
    customer_and_tax = "
        select (w_tax * 10000)::int, (c_discount * 10000)::int, c_last, c_credit
        from warehouse join customer on c_w_id = w_id
        where w_id = $1 and c_d_id = $2 and c_id = $3";
    next_order = "
        update district set d_next_o_id = d_next_o_id + 1 where d_w_id = $1 and d_id = $2
        returning d_next_o_id - 1, (d_tax * 10000)::int";
    insert_order = "
        insert into orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
        values ($1, $2, $3, $4, localtimestamp, $5, $6)";
    insert_new_order = "insert into new_order (no_w_id, no_d_id, no_o_id) values ($1, $2, $3)";
    item = "select (i_price * 100)::bigint, i_name, i_data from item where i_id = $1";
    insert_line = "
        insert into order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id,
            ol_quantity, ol_amount, ol_dist_info)
        values ($1, $2, $3, $4, $5, $6, $7, $8::bigint * 0.01, $9)";
    pay_warehouse = "
        update warehouse set w_ytd = w_ytd + $2::bigint * 0.01 where w_id = $1
        returning w_name, w_street_1, w_street_2, w_city, w_state, w_zip";
    pay_district = "
        update district set d_ytd = d_ytd + $3::bigint * 0.01 where d_w_id = $1 and d_id = $2
        returning d_name, d_street_1, d_street_2, d_city, d_state, d_zip";
    by_name = "
        select c_id from customer where c_w_id = $1 and c_d_id = $2 and c_last = $3
        order by c_first";
    lock_customer = "
        select c_credit, c_first, c_last, c_data from customer
        where c_w_id = $1 and c_d_id = $2 and c_id = $3 for update";
    pay_customer = "
        update customer set c_balance = c_balance - $4::bigint * 0.01,
            c_ytd_payment = c_ytd_payment + $4::bigint * 0.01, c_payment_cnt = c_payment_cnt + 1
        where c_w_id = $1 and c_d_id = $2 and c_id = $3";
    pay_bad_customer = "
        update customer set c_balance = c_balance - $4::bigint * 0.01,
            c_ytd_payment = c_ytd_payment + $4::bigint * 0.01, c_payment_cnt = c_payment_cnt + 1,
            c_data = $5
        where c_w_id = $1 and c_d_id = $2 and c_id = $3";
    insert_history = "
        insert into history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
        values ($1, $2, $3, $4, $5, localtimestamp, $6::bigint * 0.01, $7)";
    customer = "
        select c_first, c_middle, c_last, (c_balance * 100)::bigint from customer
        where c_w_id = $1 and c_d_id = $2 and c_id = $3";
    last_order = "
        select o_id, o_ol_cnt, o_carrier_id from orders
        where o_w_id = $1 and o_d_id = $2 and o_c_id = $3 order by o_id desc limit 1";
    lines = "
        select ol_i_id, ol_supply_w_id, ol_quantity, (ol_amount * 100)::bigint, ol_delivery_d::text
        from order_line where ol_w_id = $1 and ol_d_id = $2 and ol_o_id = $3";
    oldest = "
        select no_o_id from new_order where no_w_id = $1 and no_d_id = $2
        order by no_o_id limit 1 for update";
    any_waiting = "select exists (select 1 from new_order where no_w_id = $1 and no_d_id = $2)";
    delete_new_order = "delete from new_order where no_w_id = $1 and no_d_id = $2 and no_o_id = $3";
    deliver_order = "
        update orders set o_carrier_id = $4 where o_w_id = $1 and o_d_id = $2 and o_id = $3
        returning o_c_id, o_ol_cnt";
    deliver_lines = "
        update order_line set ol_delivery_d = localtimestamp
        where ol_w_id = $1 and ol_d_id = $2 and ol_o_id = $3";
    amount = "
        select (sum(ol_amount) * 100)::bigint from order_line
        where ol_w_id = $1 and ol_d_id = $2 and ol_o_id = $3";
    deliver_customer = "
        update customer set c_balance = c_balance + $4::bigint * 0.01,
            c_delivery_cnt = c_delivery_cnt + 1
        where c_w_id = $1 and c_d_id = $2 and c_id = $3";
    next_order_id = "select d_next_o_id from district where d_w_id = $1 and d_id = $2";
    stock_level = "
        select count(distinct s_i_id) from order_line join stock
            on s_w_id = ol_w_id and s_i_id = ol_i_id
        where ol_w_id = $1 and ol_d_id = $2 and ol_o_id >= $3 - 20 and ol_o_id < $3
            and s_quantity < $4";
}

/// A connection that runs transactions.
pub struct Terminal {
    client: Client,
    sql: Statements,
}

impl Terminal {
    /// # Errors
    /// What the server said.
    pub async fn connect(url: &str) -> Result<Terminal, String> {
        let client = connect(url).await?;
        let sql = Statements::prepare(&client).await;
        let sql = sql.map_err(|e| format!("prepare a statement: {}", describe(&e)))?;
        Ok(Terminal { client, sql })
    }

    /// One attempt, which has ended for the server too when this returns.
    ///
    /// # Errors
    /// It was rolled back, or the connection has failed.
    pub async fn attempt(&self, task: &Task) -> Result<Done, Trouble> {
        let result = self.work(task).await;
        if result.is_err() && !self.client.is_closed() {
            // The first error is the one to tell.
            let _ = self.client.batch_execute("rollback").await;
        }
        result
    }

    async fn work(&self, task: &Task) -> Result<Done, Trouble> {
        self.client.batch_execute("begin").await?;
        let mut changes = Changes::default();
        match task {
            Task::NewOrder { w, d, c, lines } => {
                if !self.new_order(*w, *d, *c, lines, &mut changes).await? {
                    self.client.batch_execute("rollback").await?;
                    return Ok(Done::RolledBack);
                }
            }
            Task::Payment { w, d, c_w, c_d, who, cents } => {
                self.payment((*w, *d), (*c_w, *c_d), who, *cents).await?;
                let at = changes.districts.entry((*w, *d)).or_default();
                (at.payments, at.paid_cents) = (1, *cents);
            }
            Task::OrderStatus { w, d, who } => self.order_status(*w, *d, who).await?,
            Task::Delivery { w, carrier } => {
                for d in 1..=DISTRICTS {
                    if self.deliver(*w, d, *carrier).await? {
                        changes.districts.entry((*w, d)).or_default().delivered = 1;
                    }
                }
            }
            Task::StockLevel { w, d, threshold } => {
                let next: i32 = self.one(&self.sql.next_order_id, &[w, d]).await?.try_get(0)?;
                let low = self.one(&self.sql.stock_level, &[w, d, &next, threshold]).await?;
                let _: i64 = low.try_get(0)?;
            }
        }
        self.client.batch_execute("commit").await?;
        Ok(Done::Committed(changes))
    }

    /// The only row.
    async fn one(&self, sql: &Statement, values: Parameters<'_>) -> Result<Row, Trouble> {
        let mut rows = self.client.query(sql, values).await?;
        match (rows.pop(), rows.len()) {
            (Some(row), 0) => Ok(row),
            (_, more) => wrong(format!("{more} rows beside the last, of {values:?}: {sql:?}")),
        }
    }

    /// Changes `count` rows.
    async fn change(
        &self,
        sql: &Statement,
        values: Parameters<'_>,
        count: i32,
    ) -> Result<(), Trouble> {
        let changed = self.client.execute(sql, values).await?;
        if i32::try_from(changed) == Ok(count) {
            return Ok(());
        }
        wrong(format!("{changed} rows changed where {count} are, of {values:?}: {sql:?}"))
    }

    /// Whether all items exist; if not, the transaction is to be rolled back.
    async fn new_order(
        &self,
        w: i32,
        d: i32,
        c: i32,
        lines: &[Line],
        changes: &mut Changes,
    ) -> Result<bool, Trouble> {
        let sql = &self.sql;
        let row = self.one(&sql.customer_and_tax, &[&w, &d, &c]).await?;
        let (w_tax, discount): (i32, i32) = (row.try_get(0)?, row.try_get(1)?);
        let row = self.one(&sql.next_order, &[&w, &d]).await?;
        let (o, d_tax): (i32, i32) = (row.try_get(0)?, row.try_get(1)?);
        if [w_tax, d_tax, discount].iter().any(|r| !(0..=5000).contains(r)) {
            return wrong(format!("taxes {w_tax} and {d_tax}, discount {discount}"));
        }
        let count = i32::try_from(lines.len()).unwrap_or(i32::MAX);
        let all_local = i32::from(lines.iter().all(|l| l.supply == w));
        self.change(&sql.insert_order, &[&w, &d, &o, &c, &count, &all_local], 1).await?;
        self.change(&sql.insert_new_order, &[&w, &d, &o], 1).await?;
        let stock = &sql.stock[usize::try_from(d - 1).unwrap_or(0)];
        for (line, number) in lines.iter().zip(1_i32..) {
            let Line { item, supply, quantity } = line;
            let found = self.client.query_opt(&sql.item, &[item]).await?;
            let Some(found) = found else { return Ok(false) };
            let cents = found.try_get::<_, i64>(0)? * i64::from(*quantity);
            let remote = i32::from(*supply != w);
            let row = self.one(stock, &[supply, item, quantity, &remote]).await?;
            let (info, left): (&str, i32) = (row.try_get(0)?, row.try_get(2)?);
            if !(0..=100).contains(&left) {
                return wrong(format!("{left} left of item {item} in warehouse {supply}"));
            }
            let values: Parameters = &[&w, &d, &o, &number, item, supply, quantity, &cents, &info];
            self.change(&sql.insert_line, values, 1).await?;
            let sum = changes.stocks.entry(*supply).or_default();
            sum.quantity += i64::from(*quantity);
            sum.lines += 1;
            sum.remote_lines += i64::from(remote);
        }
        let sum = changes.districts.entry((w, d)).or_default();
        (sum.orders, sum.order_lines) = (1, i64::from(count));
        Ok(true)
    }

    /// The customer's number; of those with one last name the one in the middle.
    async fn find(&self, w: i32, d: i32, who: &Who) -> Result<i32, Trouble> {
        let name = match who {
            Who::Id(id) => return Ok(*id),
            Who::LastName(name) => name,
        };
        let rows = self.client.query(&self.sql.by_name, &[&w, &d, name]).await?;
        match rows.get(rows.len().div_ceil(2).saturating_sub(1)) {
            Some(row) => Ok(row.try_get(0)?),
            None => wrong(format!("nobody in district {w}.{d} is called {name}")),
        }
    }

    async fn payment(
        &self,
        (w, d): (i32, i32),
        (c_w, c_d): (i32, i32),
        who: &Who,
        cents: i64,
    ) -> Result<(), Trouble> {
        let sql = &self.sql;
        let row = self.one(&sql.pay_warehouse, &[&w, &cents]).await?;
        let w_name: &str = row.try_get(0)?;
        let row = self.one(&sql.pay_district, &[&w, &d, &cents]).await?;
        let h_data = format!("{w_name}    {}", row.try_get::<_, &str>(0)?);
        let c = self.find(c_w, c_d, who).await?;
        let row = self.one(&sql.lock_customer, &[&c_w, &c_d, &c]).await?;
        let (credit, data): (&str, &str) = (row.try_get(0)?, row.try_get(3)?);
        if credit == "BC" {
            let mut data = format!("{c} {c_d} {c_w} {d} {w} {cents}|{data}");
            data.truncate(500);
            self.change(&sql.pay_bad_customer, &[&c_w, &c_d, &c, &cents, &data], 1).await?;
        } else {
            self.change(&sql.pay_customer, &[&c_w, &c_d, &c, &cents], 1).await?;
        }
        self.change(&sql.insert_history, &[&c, &c_d, &c_w, &d, &w, &cents, &h_data], 1).await
    }

    async fn order_status(&self, w: i32, d: i32, who: &Who) -> Result<(), Trouble> {
        let sql = &self.sql;
        let c = self.find(w, d, who).await?;
        let row = self.one(&sql.customer, &[&w, &d, &c]).await?;
        let _: i64 = row.try_get(3)?;
        // Each customer has one from the beginning.
        let row = self.one(&sql.last_order, &[&w, &d, &c]).await?;
        let (o, count): (i32, i32) = (row.try_get(0)?, row.try_get(1)?);
        let lines = self.client.query(&sql.lines, &[&w, &d, &o]).await?;
        if i32::try_from(lines.len()) != Ok(count) {
            let found = lines.len();
            return wrong(format!("order {w}.{d}.{o} has {found} of its {count} lines"));
        }
        let delivered = |line: &Row| line.get::<_, Option<&str>>(4).is_some();
        let first = lines.first().map(delivered);
        if lines.iter().any(|line| Some(delivered(line)) != first) {
            return wrong(format!("order {w}.{d}.{o} has been delivered in parts"));
        }
        Ok(())
    }

    /// Delivers the district's oldest order; whether one was waiting.
    async fn deliver(&self, w: i32, d: i32, carrier: i32) -> Result<bool, Trouble> {
        let sql = &self.sql;
        let o: i32 = loop {
            if let Some(row) = self.client.query_opt(&sql.oldest, &[&w, &d]).await? {
                break row.try_get(0)?;
            }
            // Somebody else's delivery may have taken the one for whose lock this has waited.
            if !self.one(&sql.any_waiting, &[&w, &d]).await?.try_get::<_, bool>(0)? {
                return Ok(false);
            }
        };
        self.change(&sql.delete_new_order, &[&w, &d, &o], 1).await?;
        let row = self.one(&sql.deliver_order, &[&w, &d, &o, &carrier]).await?;
        let (c, count): (i32, i32) = (row.try_get(0)?, row.try_get(1)?);
        self.change(&sql.deliver_lines, &[&w, &d, &o], count).await?;
        let cents: i64 = self.one(&sql.amount, &[&w, &d, &o]).await?.try_get(0)?;
        self.change(&sql.deliver_customer, &[&w, &d, &c, &cents], 1).await?;
        Ok(true)
    }
}
