//! The sessions of a script, which go from instance to instance.
//!
//! What it promises: with several instances, a statement runs on another one than the statement
//! before it, wherever its session may go: not from an open transaction block, and not away from
//! what a session keeps where it is (temporary tables, cursors beyond their transaction, the last
//! number of a sequence). Settings and prepared statements are made on every instance. With one
//! instance all of this is one session.

use crate::runner::{Client, Database, Order, await_wait};
use sql::PgError;
use std::collections::BTreeMap;

/// A session of the script: one of the server on each instance.
struct Session {
    clients: Vec<Client>,
    /// Where it ran last.
    at: usize,
    /// Whether it may not leave.
    stays: bool,
    in_block: bool,
    /// What was ordered and not yet answered.
    ordered: Option<Order>,
}

pub struct Sessions<'a> {
    database: &'a Database,
    by_name: BTreeMap<String, Session>,
    /// Where the last statement of any session ran.
    last: usize,
    /// Whether the script wants all of them there.
    staying: bool,
}

impl Sessions<'_> {
    pub fn new(database: &Database) -> Sessions<'_> {
        Sessions { database, by_name: BTreeMap::new(), last: 0, staying: false }
    }

    pub fn stay(&mut self, staying: bool) {
        self.staying = staying;
    }

    pub fn order(&mut self, name: &str, order: Order) {
        let instances = &self.database.instances;
        let session = self.by_name.entry(name.to_owned()).or_insert_with(|| Session {
            clients: instances.iter().map(|instance| Client::new(instance, name)).collect(),
            at: 0,
            stays: false,
            in_block: false,
            ordered: None,
        });
        let text = order.text.to_lowercase();
        let own_number = text.contains("currval") || text.contains("lastval");
        if !session.in_block && !session.stays && !own_number {
            session.at = (self.last + usize::from(!self.staying)) % instances.len();
        }
        self.last = session.at;
        session.stays |= stays_with_its_instance(&text, session.in_block);
        session.ordered = Some(order.clone());
        session.clients[session.at].order(order);
    }

    pub fn await_wait(&self, name: &str) {
        let session = &self.by_name[name];
        await_wait(&self.database.instances[session.at], &session.clients[session.at]);
    }

    pub fn answer(&mut self, name: &str) -> Result<String, PgError> {
        let session = self.by_name.get_mut(name).expect("a session that was given a statement");
        let order = session.ordered.take().expect("a statement that was ordered");
        let answer = session.clients[session.at].answer(&order.text);
        let was_in_block = std::mem::replace(&mut session.in_block, answer.in_block);
        // Where a script stays, what it prepares may suit that one session only.
        let for_all = is_for_all(&order.text) && !(self.staying && is_prepare(&order.text));
        if answer.result.is_ok() && !was_in_block && !answer.in_block && for_all {
            // What stands behind the first statement was not for all.
            let text = order.text.split(';').next().unwrap_or_default().to_owned();
            let others = session.clients.iter().enumerate().filter(|(i, _)| *i != session.at);
            for (i, client) in others {
                client.order(Order { text: text.clone(), params: None });
                let there = client.answer(&text).result;
                assert!(there.is_ok(), "on instance {}: {text}: {there:?}", i + 1);
            }
        }
        answer.result
    }
}

/// Settings and prepared statements: the same in all sessions that stand for one.
fn is_for_all(text: &str) -> bool {
    let word = text.split_ascii_whitespace().next().unwrap_or_default().to_lowercase();
    matches!(&*word, "set" | "reset" | "prepare" | "deallocate" | "discard")
        || text.to_lowercase().contains("set_config(")
}

fn is_prepare(text: &str) -> bool {
    text.split_ascii_whitespace().next().is_some_and(|word| word.eq_ignore_ascii_case("prepare"))
}

/// Whether a session has something of its own after this statement that it cannot take along.
fn stays_with_its_instance(text: &str, in_block: bool) -> bool {
    let makes = |what: &str| text.contains(what);
    let setting = in_block && text.starts_with("set ") && !text.starts_with("set local");
    let temporary = makes("create temp") || makes("create local temp") || makes("into temp");
    temporary || makes("with hold") || makes("advisory_lock") || makes("listen") || setting
}
