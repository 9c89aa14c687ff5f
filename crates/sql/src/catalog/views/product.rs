//! What the program is and can do, as scripts of the field ask before they begin.
//!
//! What it promises: an option that is `TRUE` can be used in this release. What it must never do:
//! claim another product's name or version.

use super::registry::{Make, views};
use crate::catalog::rows::Shape::{Text, Timestamptz};
use crate::catalog::rows::{Rows, text};
use kernel::instance::Instance;
use kernel::row::Value;
use std::sync::Arc;

views! {
    "product_component_version", Make::Once(product), "What runs here." {
        product: Text, "Name of the program.";
        version: Text, "Its version.";
        version_full: Text, "The same.";
        status: Text, "Always NULL.";
    }
    "dba_registry", Make::Once(registry), "Parts of the server that scripts ask for: the views of \
        this list." {
        comp_id: Text, "`CATALOG`.";
        comp_name: Text, "Name of the part.";
        version: Text, "Its version: the program's.";
        version_full: Text, "The same.";
        status: Text, "`VALID`: it is part of the program.";
        modified: Timestamptz, "Always NULL: nobody notes when.";
        schema: Text, "`SYS`.";
    }
    "v$option", Make::Local(options), "What the field's editions differ in." {
        parameter: Text, "The field's name of it.";
        value: Text, "`TRUE`: there is something of the kind here; else `FALSE`.";
    }
    "dba_profiles", Make::Once(profiles), "Limits of users. There is one profile for all of them, \
        which nobody can alter." {
        profile: Text, "`DEFAULT`.";
        resource_name: Text, "What is limited.";
        resource_type: Text, "`KERNEL` or `PASSWORD`.";
        limit: Text, "How much is allowed; `UNLIMITED`: no limit. What a user may have of its own is \
            not among them: connections, and until when the password counts.";
        common: Text, "`NO`.";
    }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn product(_: &Arc<Instance>, rows: &mut Rows) {
    rows.push(vec![text("Skein"), text(VERSION), text(VERSION), Value::Null]);
}

fn registry(_: &Arc<Instance>, rows: &mut Rows) {
    let row = ["CATALOG", "Skein Database Catalog Views", VERSION, VERSION, "VALID"];
    let mut row = Vec::from(row.map(text));
    row.extend([Value::Null, text("SYS")]);
    rows.push(row);
}

fn options(_: &Arc<Instance>, rows: &mut Rows) {
    const HAS: [&str; 7] = [
        "Automatic Storage Management",
        "Bit-mapped indexes",
        "Fast-Start Fault Recovery",
        "OLAP Window Functions",
        "Parallel execution",
        "Real Application Clusters",
        "Sample Scan",
    ];
    const LACKS: [&str; 17] = [
        "Advanced Compression",
        "Advanced replication",
        "Block Change Tracking",
        "Database queuing",
        "Database resource manager",
        "Fine-grained access control",
        "Flashback Database",
        "Incremental backup and recovery",
        "Instead-of triggers",
        "Java",
        "Managed Standby",
        "Materialized view rewrite",
        "Partitioning",
        "Plan Stability",
        "Point-in-time tablespace recovery",
        "Spatial",
        "Transparent Data Encryption",
    ];
    let has = HAS.map(|name| (name, "TRUE"));
    for (name, value) in has.into_iter().chain(LACKS.map(|name| (name, "FALSE"))) {
        rows.push(vec![text(name), text(value)]);
    }
}

/// What the field limits, and nobody does here.
const UNLIMITED: [(&str, &str); 15] = [
    ("COMPOSITE_LIMIT", "KERNEL"),
    ("SESSIONS_PER_USER", "KERNEL"),
    ("CPU_PER_SESSION", "KERNEL"),
    ("CPU_PER_CALL", "KERNEL"),
    ("LOGICAL_READS_PER_SESSION", "KERNEL"),
    ("LOGICAL_READS_PER_CALL", "KERNEL"),
    ("CONNECT_TIME", "KERNEL"),
    ("PRIVATE_SGA", "KERNEL"),
    ("FAILED_LOGIN_ATTEMPTS", "PASSWORD"),
    ("PASSWORD_LIFE_TIME", "PASSWORD"),
    ("PASSWORD_REUSE_TIME", "PASSWORD"),
    ("PASSWORD_REUSE_MAX", "PASSWORD"),
    ("PASSWORD_LOCK_TIME", "PASSWORD"),
    ("PASSWORD_GRACE_TIME", "PASSWORD"),
    ("INACTIVE_ACCOUNT_TIME", "PASSWORD"),
];

fn profiles(instance: &Arc<Instance>, rows: &mut Rows) {
    let mut add = |name: &str, kind: &str, limit: &str| {
        rows.push(Vec::from(["DEFAULT", name, kind, limit, "NO"].map(text)));
    };
    for (name, kind) in UNLIMITED {
        add(name, kind, "UNLIMITED");
    }
    // In the field's minutes.
    let idle = match instance.params.idle_session_timeout() {
        0 => "UNLIMITED".to_owned(),
        ms => ms.div_ceil(60_000).to_string(),
    };
    add("IDLE_TIME", "KERNEL", &idle);
    add("PASSWORD_VERIFY_FUNCTION", "PASSWORD", "NULL");
}
