//! A load like TPC-C's, its conditions checked from every instance while it runs. See `lab::tpcc`.

use crate::db::{Db, PASSWORD};
use lab::tpcc::{Kind, Options, run};

/// One deck of TPC-C's mix for each client.
const TRANSACTIONS: u64 = 23;
const CLIENTS: usize = 3;

/// Small tables with foreign keys, all clients on both warehouses, checks without a pause.
#[tokio::test(flavor = "multi_thread")]
async fn tpccs_conditions_hold_in_every_snapshot_of_three_instances() {
    let db = Db::open(3);
    let password = PASSWORD.replace(' ', "%20").replace('\'', "%27");
    let url = |k| format!("postgresql://skein:{password}@127.0.0.1:{}/skein", db.port(k));
    let options = Options {
        connect: (1..=db.instances).map(url).collect(),
        warehouses: 2,
        items: 1000,
        customers: 40,
        clients: CLIENTS,
        transactions: Some(TRANSACTIONS),
        check_every_s: 0,
        foreign_keys: true,
        // One that draws an item that does not exist.
        seed: 5,
        ..Options::default()
    };
    let report = run(&options).await.unwrap_or_else(|why| panic!("{why}"));
    println!("{}", report.text());
    for (kind, of_a_deck) in Kind::ALL.into_iter().zip([10, 10, 1, 1, 1]) {
        let wanted = of_a_deck * CLIENTS as u64 * u64::from(db.instances);
        assert_eq!(report.ledger.count(kind), wanted, "{kind:?}");
    }
    assert!(report.ledger.rolled_back > 0, "no order has had an item that does not exist");
    let rounds = &report.rounds_meanwhile;
    assert!(rounds.len() == usize::from(db.instances) && rounds.iter().all(|n| *n > 0));
}
