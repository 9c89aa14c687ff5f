//! Traces that are on for every session of a service, a module or a client, on all instances, or of
//! one instance: `dbms_monitor.serv_mod_act_trace_enable` and its like, and `dba_enabled_traces`.
//!
//! What it promises: what is on stays on until it is switched off, restarts included; when a call
//! has returned, a session that logs on to any instance follows it from its beginning, and those
//! open on other instances within two seconds. What it must never do: let anybody but a superuser
//! trace others.
//!
//! As with definitions, the others are told that what they know is old before the call returns, and
//! whoever needs it next reads it.

use super::statements::Statements;
use crate::session::Session;
use crate::{PgError, Result};
use futures::future::LocalBoxFuture;
use kernel::gcs::CallKind;
use kernel::instance::Instance;
use kernel::row::Value;
use observe::{
    AlertLevel, Ctx, SessionKind, TRACE_BINDS, TRACE_CALLS, TRACE_WAITS, TraceRule, WaitEvent,
};
use std::sync::Arc;

/// The sessions that a rule is about; `None`: any.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TracedSessions {
    Service { service: String, module: Option<String>, action: Option<String> },
    Client(String),
    All,
}

/// A call that switches such a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleCall {
    pub on: bool,
    pub sessions: TracedSessions,
    pub waits: bool,
    pub binds: bool,
    /// Only on this one.
    pub instance: Option<String>,
}

impl RuleCall {
    /// Type and names, as the table has them.
    fn columns(&self) -> [Option<&str>; 5] {
        let named = self.instance.as_deref();
        match &self.sessions {
            TracedSessions::All => [Some("DATABASE"), None, None, None, named],
            TracedSessions::Client(id) => [Some("CLIENT_ID"), Some(id), None, None, named],
            TracedSessions::Service { service, module, action } => {
                let kind = match (module, action) {
                    (_, Some(_)) => "SERVICE_MODULE_ACTION",
                    (Some(_), None) => "SERVICE_MODULE",
                    (None, None) => "SERVICE",
                };
                [Some(kind), Some(service), module.as_deref(), action.as_deref(), named]
            }
        }
    }
}

fn literal(text: Option<&str>) -> String {
    text.map_or_else(|| "null".to_owned(), |text| format!("'{}'", text.replace('\'', "''")))
}

impl Session {
    /// Switches a trace of many sessions.
    pub(crate) async fn trace_by_rule(&mut self, call: &RuleCall) -> Result<()> {
        self.check_writable("dbms_monitor")?;
        if !self.is_superuser().await? {
            return Err(PgError::new("42501", "permission denied to trace other sessions"));
        }
        change(&self.instance, &self.ctx, call).await?;
        // Whatever becomes of what follows, and in whatever order two calls come to it.
        self.instance.observer.outdate_trace_rules();
        let node = self.instance.node.clone();
        for peer in node.view().members.iter().copied().filter(|peer| *peer != self.instance.me) {
            let asked = node.call_peer(peer, CallKind::Trace, crate::trace::RULES);
            let p = [0, 0, u64::from(CallKind::Trace.code())];
            // One that has left reads them when it comes back. One that is told too late would
            // trace what nobody wants: this is not broken off.
            let _ = self.ctx.wait(WaitEvent::ReliableMessage, p, asked).await;
        }
        read_rules(&self.instance, &self.ctx).await
    }
}

fn change<'a>(
    instance: &'a Arc<Instance>,
    ctx: &'a Ctx,
    call: &'a RuleCall,
) -> LocalBoxFuture<'a, Result<()>> {
    // A boxed future of a named type: a statement of a session is the caller.
    env::boxed!(async move {
        let mut statements = Statements::new(instance, ctx).await?;
        statements.install().await?;
        statements.begin();
        let done = statements.change_rule(call).await;
        statements.end(done).await
    })
}

impl Statements {
    async fn change_rule(&mut self, call: &RuleCall) -> Result<()> {
        let table = "pg_awr.wri$_tracing_enabled";
        self.run(&format!("lock table {table} in exclusive mode")).await?;
        let names = ["trace_type", "primary_id", "qualifier_id1", "qualifier_id2", "instance_name"];
        let columns = call.columns();
        let same: Vec<String> = names
            .iter()
            .zip(columns)
            .map(|(name, value)| format!("{name} is not distinct from {}", literal(value)))
            .collect();
        let same = same.join(" and ");
        let there = self.run(&format!("select 1 from {table} where {same}")).await?;
        if !call.on && there.is_empty() {
            return Err(PgError::new("42704", "no such trace is on")
                .with_hint("dba_enabled_traces shows those that are."));
        }
        self.run(&format!("delete from {table} where {same}")).await?;
        if call.on {
            let values: Vec<String> = columns.into_iter().map(literal).collect();
            self.run(&format!(
                "insert into {table} (trace_id, {}, waits, binds) \
                 select coalesce(max(trace_id), 0) + 1, {}, {}, {} from {table}",
                names.join(", "),
                values.join(", "),
                call.waits,
                call.binds
            ))
            .await?;
        }
        Ok(())
    }

    async fn rules(&mut self, instance: &str) -> Result<Vec<TraceRule>> {
        if self.table(super::tables::TRACING).await?.is_none() {
            return Ok(Vec::new());
        }
        let rows = self
            .run(
                "select trace_type, primary_id, qualifier_id1, qualifier_id2, waits, binds, \
                 instance_name from pg_awr.wri$_tracing_enabled",
            )
            .await?;
        Ok(rows.iter().filter_map(|row| rule_of(row, instance)).collect())
    }
}

/// The rule of a row of the table; `None`: it is about another instance.
fn rule_of(row: &[Value], instance: &str) -> Option<TraceRule> {
    let text = |at: usize| match row.get(at) {
        Some(Value::Text(text)) => Some(text.to_string()),
        _ => None,
    };
    let truth = |at: usize| row.get(at) == Some(&Value::Bool(true));
    if text(6).is_some_and(|only| !only.eq_ignore_ascii_case(instance)) {
        return None;
    }
    let level = TRACE_CALLS
        | if truth(4) { TRACE_WAITS } else { 0 }
        | if truth(5) { TRACE_BINDS } else { 0 };
    let rule = TraceRule { level, ..TraceRule::default() };
    Some(match text(0)?.as_str() {
        "DATABASE" => rule,
        "CLIENT_ID" => TraceRule { client_identifier: text(1), ..rule },
        _ => TraceRule { service: text(1), module: text(2), action: text(3), ..rule },
    })
}

/// A session begins: it shall be traced by what is on now, wherever that was switched on.
pub(crate) async fn read_newest_rules(instance: &Arc<Instance>) {
    if instance.observer.outdated_trace_rules().is_some() {
        // The reader is the superuser, as whom the session must not appear.
        let ctx = instance.observer.ctx(SessionKind::Background, "trace rules");
        try_read_rules(instance, &ctx).await;
    }
}

/// Reads what is on, if that is not known; what fails is tried again by whoever comes next.
pub(super) async fn try_read_rules(instance: &Arc<Instance>, ctx: &Ctx) {
    if let Err(error) = read_rules(instance, ctx).await
        && !instance.is_closing()
    {
        ctx.alert(AlertLevel::Warning, format!("read what is to be traced: {error}"));
    }
}

/// Reads what is on, if that is not known, and follows it.
///
/// # Errors
/// What reading the table fails with.
fn read_rules<'a>(instance: &'a Arc<Instance>, ctx: &'a Ctx) -> LocalBoxFuture<'a, Result<()>> {
    env::boxed!(async move {
        let Some(number) = instance.observer.outdated_trace_rules() else { return Ok(()) };
        let mut statements = Statements::new(instance, ctx).await?;
        statements.begin();
        let rules = statements.rules(&format!("skein{}", instance.me)).await;
        let rules = statements.end(rules).await?;
        let most = instance.params.max_dump_file_size();
        instance.observer.set_trace_rules(number, rules, (most > 0).then_some(most));
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_a_rule_of_the_instances_that_it_is_about() {
        let text = |text: &str| Value::Text(text.into());
        let row = |kind: &str, names: [Value; 3], only: Value| {
            let [a, b, c] = names;
            vec![text(kind), a, b, c, Value::Bool(true), Value::Bool(false), only]
        };
        let names = [text("s"), text("m"), Value::Null];
        let rule = TraceRule {
            service: Some("s".into()),
            module: Some("m".into()),
            level: TRACE_CALLS | TRACE_WAITS,
            ..TraceRule::default()
        };
        let of_module = row("SERVICE_MODULE", names.clone(), Value::Null);
        assert_eq!(rule_of(&of_module, "skein1"), Some(rule));
        let elsewhere = row("SERVICE_MODULE", names, text("skein2"));
        assert_eq!(rule_of(&elsewhere, "skein1"), None);
        let client = row("CLIENT_ID", [text("c"), Value::Null, Value::Null], text("SKEIN1"));
        let client = rule_of(&client, "skein1").expect("it is about this one");
        assert_eq!((client.client_identifier.as_deref(), client.service), (Some("c"), None));
        let all = row("DATABASE", [Value::Null, Value::Null, Value::Null], Value::Null);
        let level = TRACE_CALLS | TRACE_WAITS;
        assert_eq!(rule_of(&all, "skein1"), Some(TraceRule { level, ..TraceRule::default() }));
    }
}
