//! The nine tables of TPC-C and what they hold at first (clause 1.3 and 4.3.3).
//!
//! Sizes of items and customers may be smaller than TPC-C's; all that follows from them is in
//! proportion: as many orders as customers, of which the last three of ten wait for delivery.

use std::fmt::Write;
use std::sync::Arc;

use bytes::Bytes;
use futures::SinkExt;
use tokio_postgres::{Client, Error};

use super::options::Options;
use super::values::{DISTRICTS, Draw};
use crate::client::{connect, describe};

const CHUNK_BYTES: usize = 128 << 10;

const TABLES: &str = "
    drop table if exists order_line, new_order, orders, history, stock, item, customer, district,
        warehouse;
    create table warehouse (
        w_id int primary key, w_name varchar(10) not null, w_street_1 varchar(20) not null,
        w_street_2 varchar(20) not null, w_city varchar(20) not null, w_state char(2) not null,
        w_zip char(9) not null, w_tax numeric(4,4) not null, w_ytd numeric(12,2) not null);
    create table district (
        d_w_id int, d_id int, d_name varchar(10) not null, d_street_1 varchar(20) not null,
        d_street_2 varchar(20) not null, d_city varchar(20) not null, d_state char(2) not null,
        d_zip char(9) not null, d_tax numeric(4,4) not null, d_ytd numeric(12,2) not null,
        d_next_o_id int not null, primary key (d_w_id, d_id));
    create table customer (
        c_w_id int, c_d_id int, c_id int, c_first varchar(16) not null, c_middle char(2) not null,
        c_last varchar(16) not null, c_street_1 varchar(20) not null,
        c_street_2 varchar(20) not null, c_city varchar(20) not null, c_state char(2) not null,
        c_zip char(9) not null, c_phone char(16) not null, c_since timestamp not null,
        c_credit char(2) not null, c_credit_lim numeric(12,2) not null,
        c_discount numeric(4,4) not null, c_balance numeric(12,2) not null,
        c_ytd_payment numeric(12,2) not null, c_payment_cnt int not null,
        c_delivery_cnt int not null, c_data varchar(500) not null,
        primary key (c_w_id, c_d_id, c_id));
    create table history (
        h_c_id int not null, h_c_d_id int not null, h_c_w_id int not null, h_d_id int not null,
        h_w_id int not null, h_date timestamp not null, h_amount numeric(6,2) not null,
        h_data varchar(24) not null);
    create table item (
        i_id int primary key, i_im_id int not null, i_name varchar(24) not null,
        i_price numeric(5,2) not null, i_data varchar(50) not null);
    create table stock (
        s_w_id int, s_i_id int, s_quantity int not null, s_dist_01 char(24) not null,
        s_dist_02 char(24) not null, s_dist_03 char(24) not null, s_dist_04 char(24) not null,
        s_dist_05 char(24) not null, s_dist_06 char(24) not null, s_dist_07 char(24) not null,
        s_dist_08 char(24) not null, s_dist_09 char(24) not null, s_dist_10 char(24) not null,
        s_ytd int not null, s_order_cnt int not null, s_remote_cnt int not null,
        s_data varchar(50) not null, primary key (s_w_id, s_i_id));
    create table orders (
        o_w_id int, o_d_id int, o_id int, o_c_id int not null, o_entry_d timestamp not null,
        o_carrier_id int, o_ol_cnt int not null, o_all_local int not null,
        primary key (o_w_id, o_d_id, o_id));
    create table new_order (
        no_w_id int, no_d_id int, no_o_id int, primary key (no_w_id, no_d_id, no_o_id));
    create table order_line (
        ol_w_id int, ol_d_id int, ol_o_id int, ol_number int, ol_i_id int not null,
        ol_supply_w_id int not null, ol_delivery_d timestamp, ol_quantity int not null,
        ol_amount numeric(6,2) not null, ol_dist_info char(24) not null,
        primary key (ol_w_id, ol_d_id, ol_o_id, ol_number))";

const INDEXES: &str = "
    create index customer_by_name on customer (c_w_id, c_d_id, c_last, c_first);
    create unique index orders_by_customer on orders (o_w_id, o_d_id, o_c_id, o_id)";

/// TPC-C's (clause 1.4.2).
const FOREIGN_KEYS: &str = "
    alter table district add foreign key (d_w_id) references warehouse;
    alter table customer add foreign key (c_w_id, c_d_id) references district;
    alter table history add foreign key (h_c_w_id, h_c_d_id, h_c_id) references customer;
    alter table history add foreign key (h_w_id, h_d_id) references district;
    alter table stock add foreign key (s_w_id) references warehouse;
    alter table stock add foreign key (s_i_id) references item;
    alter table orders add foreign key (o_w_id, o_d_id, o_c_id) references customer;
    alter table new_order add foreign key (no_w_id, no_d_id, no_o_id) references orders;
    alter table order_line add foreign key (ol_w_id, ol_d_id, ol_o_id) references orders;
    alter table order_line add foreign key (ol_supply_w_id, ol_i_id) references stock";

/// Of each district, the orders that have been delivered at first; the others wait.
#[must_use]
pub fn delivered_at_first(customers: i32) -> i32 {
    customers * 7 / 10
}

/// Makes the tables and fills them through all instances at once.
///
/// # Errors
/// What a server said.
pub async fn make(options: &Options) -> Result<(), String> {
    let urls = &options.connect;
    let client = connect(&urls[0]).await?;
    execute(&client, "make the tables", TABLES).await?;
    let shared = Arc::new(options.clone());
    let mut tasks = vec![tokio::spawn(items(Arc::clone(&shared)))];
    for part in 0..urls.len() {
        tasks.push(tokio::spawn(warehouses(Arc::clone(&shared), part)));
    }
    for task in tasks {
        task.await.map_err(|e| format!("load: {e}"))??;
    }
    execute(&client, "make the indexes", INDEXES).await?;
    if options.foreign_keys {
        execute(&client, "add the foreign keys", FOREIGN_KEYS).await?;
    }
    execute(&client, "gather statistics", "analyze").await
}

async fn execute(client: &Client, what: &str, sql: &str) -> Result<(), String> {
    client.batch_execute(sql).await.map_err(|e| format!("{what}: {}", describe(&e)))
}

async fn items(options: Arc<Options>) -> Result<(), String> {
    let client = connect(&options.connect[0]).await?;
    let mut draw = Draw::new(u64::from(options.seed) + 1_000_000);
    let row = |i_id: i32, out: &mut String| {
        let (image, name) = (draw.between(1, 10_000), draw.text(14, 24));
        let price = money(draw.between(100, 10_000));
        let _ = writeln!(out, "{i_id}\t{image}\t{name}\t{price}\t{}", draw.data());
    };
    copy(&client, "item", 1..=options.items, row).await
}

/// The warehouses whose turn it is with the instance of index `part`.
async fn warehouses(options: Arc<Options>, part: usize) -> Result<(), String> {
    let client = connect(&options.connect[part]).await?;
    for w in (1..=options.warehouses).skip(part).step_by(options.connect.len()) {
        warehouse(&client, &options, w).await?;
        for d in 1..=DISTRICTS {
            district(&client, &options, w, d).await?;
        }
    }
    Ok(())
}

fn draw_for(options: &Options, w: i32, d: i32) -> Draw {
    let place = u64::try_from(w * (DISTRICTS + 1) + d).unwrap_or(0);
    Draw::new(u64::from(options.seed) + 2_000_000 + place)
}

fn money(cents: i32) -> String {
    format!("{}.{:02}", cents / 100, cents % 100)
}

/// Streets, city, state and zip code.
fn address(draw: &mut Draw) -> String {
    let (one, two, city) = (draw.text(10, 20), draw.text(10, 20), draw.text(10, 20));
    let (state, zip) = (draw.text(2, 2).to_uppercase(), draw.digits(4));
    format!("{one}\t{two}\t{city}\t{state}\t{zip}11111")
}

async fn warehouse(client: &Client, options: &Options, w: i32) -> Result<(), String> {
    let mut draw = draw_for(options, w, 0);
    let (name, address, tax) = (draw.text(6, 10), address(&mut draw), draw.between(0, 2000));
    // Ten for each customer, as in the districts and in the history.
    let year = DISTRICTS * options.customers * 10;
    let row = |_, out: &mut String| {
        let _ = writeln!(out, "{w}\t{name}\t{address}\t0.{tax:04}\t{year}.00");
    };
    copy(client, "warehouse", w..=w, row).await?;
    let row = |i_id: i32, out: &mut String| {
        let _ = write!(out, "{w}\t{i_id}\t{}", draw.between(10, 100));
        for _ in 0..DISTRICTS {
            let _ = write!(out, "\t{}", draw.text(24, 24));
        }
        let _ = writeln!(out, "\t0\t0\t0\t{}", draw.data());
    };
    copy(client, "stock", 1..=options.items, row).await
}

async fn district(client: &Client, options: &Options, w: i32, d: i32) -> Result<(), String> {
    let mut draw = draw_for(options, w, d);
    let customers = options.customers;
    let row = |_, out: &mut String| {
        let (name, tax, year) = (draw.text(6, 10), draw.between(0, 2000), customers * 10);
        let address = address(&mut draw);
        let next = customers + 1;
        let _ = writeln!(out, "{w}\t{d}\t{name}\t{address}\t0.{tax:04}\t{year}.00\t{next}");
    };
    copy(client, "district", d..=d, row).await?;
    let row = |id: i32, out: &mut String| {
        let (first, last) = (draw.text(8, 16), draw.name_of(id, customers));
        let (address, phone) = (address(&mut draw), draw.digits(16));
        let credit = if draw.chance(10) { "BC" } else { "GC" };
        let (discount, data) = (draw.between(0, 5000), draw.text(300, 500));
        let _ = write!(out, "{w}\t{d}\t{id}\t{first}\tOE\t{last}\t{address}\t{phone}\t2026-01-01");
        let _ = writeln!(out, "\t{credit}\t50000.00\t0.{discount:04}\t-10.00\t10.00\t1\t0\t{data}");
    };
    copy(client, "customer", 1..=customers, row).await?;
    let row = |id: i32, out: &mut String| {
        let data = draw.text(12, 24);
        let _ = writeln!(out, "{id}\t{d}\t{w}\t{d}\t{w}\t2026-01-01\t10.00\t{data}");
    };
    copy(client, "history", 1..=customers, row).await?;
    orders(client, &mut draw, options, w, d).await
}

async fn orders(
    client: &Client,
    draw: &mut Draw,
    options: &Options,
    w: i32,
    d: i32,
) -> Result<(), String> {
    let (orders, delivered) = (options.customers, delivered_at_first(options.customers));
    let customers = draw.permutation(orders);
    let counts: Vec<i32> = (0..orders).map(|_| draw.between(5, 15)).collect();
    let at = |o: i32| usize::try_from(o - 1).unwrap_or(0);
    let row = |o: i32, out: &mut String| {
        let carrier = if o <= delivered { draw.between(1, 10).to_string() } else { "\\N".into() };
        let (c, lines) = (customers[at(o)], counts[at(o)]);
        let _ = writeln!(out, "{w}\t{d}\t{o}\t{c}\t2026-01-01\t{carrier}\t{lines}\t1");
    };
    copy(client, "orders", 1..=orders, row).await?;
    let row = |o: i32, out: &mut String| {
        let _ = writeln!(out, "{w}\t{d}\t{o}");
    };
    copy(client, "new_order", delivered + 1..=orders, row).await?;
    let row = |o: i32, out: &mut String| {
        for number in 1..=counts[at(o)] {
            let (item, info) = (draw.between(1, options.items), draw.text(24, 24));
            let (date, amount) = if o <= delivered {
                ("2026-01-01", money(0))
            } else {
                ("\\N", money(draw.between(1, 999_999)))
            };
            let _ = write!(out, "{w}\t{d}\t{o}\t{number}\t{item}\t{w}\t{date}\t5");
            let _ = writeln!(out, "\t{amount}\t{info}");
        }
    };
    copy(client, "order_line", 1..=orders, row).await
}

/// Fills a table with COPY, in one transaction, with what `row` writes for each number.
async fn copy(
    client: &Client,
    table: &str,
    numbers: std::ops::RangeInclusive<i32>,
    mut row: impl FnMut(i32, &mut String),
) -> Result<(), String> {
    let failed = |e: Error| format!("load {table}: {}", describe(&e));
    let sql = format!("copy {table} from stdin");
    let mut sink = std::pin::pin!(client.copy_in::<_, Bytes>(&sql).await.map_err(failed)?);
    let (mut text, mut rows) = (String::new(), 0);
    for number in numbers {
        row(number, &mut text);
        if text.len() >= CHUNK_BYTES {
            rows += text.lines().count();
            sink.send(Bytes::from(std::mem::take(&mut text))).await.map_err(failed)?;
        }
    }
    rows += text.lines().count();
    sink.send(Bytes::from(text)).await.map_err(failed)?;
    let taken = sink.finish().await.map_err(failed)?;
    if usize::try_from(taken) == Ok(rows) {
        Ok(())
    } else {
        Err(format!("load {table}: the server took {taken} of {rows} rows"))
    }
}
