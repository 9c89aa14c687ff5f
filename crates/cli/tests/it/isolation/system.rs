//! Where specs run: a database of ours, or PostgreSQL. What differs is how to know that a session
//! is blocked: it waits for a lock, and whoever has that lock still has it.

use std::collections::BTreeMap;

use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

use crate::db::{Db, PASSWORD};

/// A session of a spec: its number on its instance, as the views show it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Sid {
    pub instance: u16,
    pub pid: i32,
}

/// What a session waits for; two looks that are equal saw the same wait.
pub type Wait = String;

pub enum System {
    /// A client of each instance looks on.
    Skein {
        configs: BTreeMap<u16, Config>,
        monitors: BTreeMap<u16, Client>,
    },
    PostgreSql {
        config: Box<Config>,
        monitor: Client,
    },
}

pub async fn connect(config: &Config) -> Client {
    let (client, connection) = config.connect(NoTls).await.expect("connects");
    tokio::spawn(connection);
    client
}

/// The rows of one statement, as text; NULL is empty.
async fn rows(client: &Client, sql: &str) -> Vec<Vec<String>> {
    let said = client.simple_query(sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    let row = |m: SimpleQueryMessage| match m {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|i| row.get(i).unwrap_or_default().to_owned()).collect())
        }
        _ => None,
    };
    said.into_iter().filter_map(row).collect()
}

impl System {
    pub async fn skein(db: &Db) -> System {
        let (mut configs, mut monitors) = (BTreeMap::new(), BTreeMap::new());
        for k in 1..=db.instances {
            let mut config = Config::new();
            config.host("127.0.0.1").port(db.port(k)).user("skein").dbname("skein");
            config.password(PASSWORD);
            monitors.insert(k, connect(&config).await);
            configs.insert(k, config);
        }
        System::Skein { configs, monitors }
    }

    /// By a connection string, of a database that this test may do with as it likes.
    pub async fn postgresql(url: &str) -> System {
        let config: Box<Config> = Box::new(url.parse().expect("a connection string"));
        let monitor = connect(&config).await;
        System::PostgreSql { config, monitor }
    }

    /// Who sets up and clears away.
    pub fn monitor(&self) -> &Client {
        match self {
            System::Skein { monitors, .. } => &monitors[&1],
            System::PostgreSql { monitor, .. } => monitor,
        }
    }

    /// A session on this instance, the `nth` of `all` of its spec.
    pub async fn session(&self, instance: u16, nth: usize, all: usize) -> (Client, Sid) {
        let (client, instance) = match self {
            System::Skein { configs, .. } => (connect(&configs[&instance]).await, instance),
            System::PostgreSql { config, .. } => {
                let client = connect(config).await;
                // Who closes a cycle last is its victim, as the youngest is with us.
                let timeout = if nth + 1 == all { 50 } else { 2000 * (all - nth) };
                let sql = format!("set deadlock_timeout = '{timeout}ms'");
                client.batch_execute(&sql).await.expect("only a superuser may");
                (client, 0)
            }
        };
        let pid = rows(&client, "select pg_backend_pid()").await[0][0].parse().expect("a number");
        (client, Sid { instance, pid })
    }

    /// What each of these sessions is blocked by; `None` if one of them is not.
    pub async fn blocked(&self, sids: &[Sid]) -> Option<Vec<Wait>> {
        let mut waits = Vec::new();
        for sid in sids {
            waits.push(match self {
                System::Skein { monitors, .. } => ours(&monitors[&sid.instance], *sid).await?,
                System::PostgreSql { monitor, .. } => theirs(monitor, *sid).await?,
            });
        }
        Some(waits)
    }

    /// What all sessions wait for, for messages of failed tests.
    pub async fn explain(&self) -> String {
        let sql = match self {
            System::Skein { .. } => {
                "select inst_id, sid, sql_text, event, p1, p2, p3, state from gv$session \
                 where type = 'USER'"
            }
            System::PostgreSql { .. } => {
                "select pid, query, wait_event, state, pg_blocking_pids(pid) from pg_stat_activity"
            }
        };
        rows(self.monitor(), sql).await.iter().map(|row| row.join(" | ") + "\n").collect()
    }
}

async fn theirs(monitor: &Client, sid: Sid) -> Option<Wait> {
    let sql = format!("select pg_blocking_pids({})", sid.pid);
    let by = rows(monitor, &sql).await.swap_remove(0).swap_remove(0);
    (by != "{}").then_some(by)
}

async fn ours(monitor: &Client, sid: Sid) -> Option<Wait> {
    let sql = format!(
        "select event, p1, p2, p3 from v$session where sid = {} and state = 'WAITING' \
         and event in ('enq: TX - row lock contention', 'enq: TM - contention', \
         'enq: UL - contention', 'library cache lock')",
        sid.pid
    );
    let row = rows(monitor, &sql).await.pop()?;
    let number = |i: usize| row[i].parse::<u64>().expect("a parameter");
    let stands = if row[0].starts_with("enq: TX") {
        // Its parameters are the holder's transaction, which must not have ended meanwhile.
        let id = number(2) << 32 | number(3);
        let sql = format!("select skein_transaction_outcome({id}) = 'in progress'");
        rows(monitor, &sql).await[0][0] == "t"
    } else if row[0].starts_with("library") {
        // The definition is kept by DDL, which also has its table until it commits.
        lock_is_taken(monitor, number(1), 3).await
    } else {
        lock_is_taken(monitor, number(2), number(1) & 0xffff).await
    };
    stands.then(|| row.join(" "))
}

/// Whether a mode of a lock is kept from who asks for it by somebody's hold, or by somebody who
/// asks too. A hold of its own that it wants to raise is not told apart.
async fn lock_is_taken(monitor: &Client, object: u64, wanted: u64) -> bool {
    let sql = format!(
        "select greatest(lmode, request) from gv$lock \
         where id1 = {object} and type <> 'TX' and (lmode > 0 or request <> {wanted})"
    );
    rows(monitor, &sql).await.iter().any(|row| !compatible(&row[0], wanted))
}

/// Modes by the field's numbers: SS 2, SX 3, S 4, SSX 5, X 6.
fn compatible(a: &str, b: u64) -> bool {
    let with: &[u64] = match a {
        "2" => &[2, 3, 4, 5],
        "3" => &[2, 3],
        "4" => &[2, 4],
        "5" => &[2],
        _ => &[],
    };
    with.contains(&b)
}
