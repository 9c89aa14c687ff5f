//! Values of the session in an expression: each becomes a hidden parameter.
//!
//! What it promises: one call before the statement, whose value all rows see. What it must never
//! do: hide a call that each row needs for itself.

use super::build::call;
use super::function::plain_args;
use crate::bind::{Advisory, Binder, HiddenCall, SessionFn, refuse};
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, Function, FunctionArguments, Ident, ObjectName, TimezoneInfo, Value,
};

impl Binder<'_> {
    /// Words that look like columns but are functions.
    pub(super) fn identifier(&mut self, ident: &Ident) -> Result<Option<Expr>> {
        if ident.quote_style.is_some() {
            return Ok(None);
        }
        let function = match ident.value.to_ascii_lowercase().as_str() {
            "sysdate" => SessionFn::SystemDate,
            "systimestamp" => SessionFn::SystemTime,
            name if self.is_uid(name) => SessionFn::UserId,
            "current_schema" => SessionFn::CurrentSchema,
            "current_role" => SessionFn::CurrentUser,
            "rownum" | "rowid" | "connect_by_root" => {
                return refuse(format!("the pseudo-column {}", ident.value));
            }
            _ => return Ok(None),
        };
        self.hidden(function, Vec::new()).map(Some)
    }

    /// `sequence.nextval`.
    pub(super) fn compound(&mut self, parts: &[String]) -> Result<Option<Expr>> {
        let Some((last, name)) = parts.split_last() else { return Ok(None) };
        let function = match last.as_str() {
            "nextval" => SessionFn::NextVal,
            "currval" => SessionFn::CurrVal,
            _ => return Ok(None),
        };
        if name.is_empty() {
            return Ok(None);
        }
        if function == SessionFn::NextVal && !self.one_row {
            let sequence = Expr::value(Value::SingleQuotedString(name.join(".")));
            return self.of_each_row("nextval", function, vec![sequence]).map(Some);
        }
        let sequence = query::Scalar::Const(kernel::row::Value::Text(name.join(".").into()));
        self.hidden(function, vec![sequence]).map(Some)
    }

    /// A value of a sequence, of which a row has one.
    pub(super) fn next_of_row(&mut self, args: Vec<Expr>) -> Result<Expr> {
        if !self.one_row {
            return Ok(call(&query::row_calls::called("nextval"), args));
        }
        let constants = args.iter().filter_map(super::constant::constant);
        let args = constants.map(|(value, _)| query::Scalar::Const(value)).collect();
        self.hidden(SessionFn::NextVal, args)
    }

    /// A call that each row makes for itself.
    pub(super) fn of_each_row(
        &mut self,
        name: &str,
        function: SessionFn,
        given: Vec<Expr>,
    ) -> Result<Expr> {
        let (text, int8) = (DataType::Text, DataType::BigInt(None));
        let types = match (function, given.len()) {
            (SessionFn::NextVal, 1) => vec![text],
            (SessionFn::SetVal, 2) => vec![text, int8],
            (SessionFn::SetVal, 3) => vec![text, int8, DataType::Boolean],
            (SessionFn::Notify, 2) => vec![text.clone(), text],
            (SessionFn::Sleep, 1) => vec![DataType::DoublePrecision],
            (
                SessionFn::ClockTimestamp
                | SessionFn::CreateSnapshot
                | SessionFn::Advisory(Advisory::UnlockAll),
                0,
            ) => vec![],
            (SessionFn::Advisory(Advisory::UnlockAll), _) => return Err(no_function(name)),
            (SessionFn::SignalBackend { .. }, 1) => vec![DataType::Int(None)],
            (SessionFn::SignalBackend { ends: true }, 2) => vec![DataType::Int(None), int8],
            (SessionFn::Advisory(_) | SessionFn::ScnToTimestamp, 1) => vec![int8],
            (SessionFn::TimestampToScn, 1) => {
                vec![DataType::Timestamp(None, TimezoneInfo::WithTimeZone)]
            }
            (SessionFn::Advisory(_), 2) => vec![DataType::Int(None), DataType::Int(None)],
            _ => return Err(no_function(name)),
        };
        let mut args: Vec<Expr> = given.into_iter().zip(types).map(typed).collect();
        self.all(args.iter_mut())?;
        Ok(call(&query::row_calls::called(name), args))
    }

    /// A parameter in place of a call.
    pub(super) fn hidden(&mut self, function: SessionFn, args: Vec<query::Scalar>) -> Result<Expr> {
        if function == SessionFn::RandomUuid && !self.one_row {
            // One value for the statement, from which each row gets its own.
            let seed = self.params.add_hidden(HiddenCall { function, args });
            return Ok(call("$row_uuid", vec![Binder::placeholder(seed)]));
        }
        if function.per_row() && !self.one_row {
            return refuse("this form of a function with an effect");
        }
        let at = self.params.add_hidden(HiddenCall { function, args });
        Ok(Binder::placeholder(at))
    }
}

fn no_function(name: &str) -> PgError {
    PgError::new("42883", format!("function {name} does not exist with these arguments"))
}

/// An argument as the function takes it; the name of a sequence may be called one.
fn typed((arg, data_type): (Expr, DataType)) -> Expr {
    let arg = match arg {
        Expr::Cast { expr, data_type: DataType::Regclass, .. }
            if data_type == DataType::Text && matches!(*expr, Expr::Value(_)) =>
        {
            *expr
        }
        other => other,
    };
    let (kind, expr) = (CastKind::Cast, Box::new(arg));
    Expr::Cast { kind, expr, data_type, array: false, format: None }
}

/// `current_timestamp(n)`, `localtimestamp(n)` and `localtime` as casts; `None`: another call.
pub(crate) fn rounded_now(name: &str, function: &Function) -> Result<Option<Expr>> {
    let zone = match name {
        "current_timestamp" => TimezoneInfo::WithTimeZone,
        "localtimestamp" | "localtime" => TimezoneInfo::WithoutTimeZone,
        "current_time" => return Err(PgError::unsupported("type TIME WITH TIME ZONE")),
        _ => return Ok(None),
    };
    let digits = match &plain_args(function)?[..] {
        [] if name != "localtime" => return Ok(None),
        [] => None,
        [digits] => {
            let wrong = |_| PgError::syntax(format!("syntax error at or near \"{digits}\""));
            Some(digits.to_string().parse().map_err(wrong)?)
        }
        _ => return Err(no_function(name)),
    };
    let (data_type, now) = match name {
        "localtime" => {
            let now = ObjectName::from(vec![Ident::new("localtimestamp")]);
            (DataType::Time(digits, zone), now)
        }
        _ => (DataType::Timestamp(digits, zone), function.name.clone()),
    };
    let function = Function { name: now, args: FunctionArguments::None, ..function.clone() };
    let (kind, expr) = (CastKind::Cast, Box::new(Expr::Function(function)));
    Ok(Some(Expr::Cast { kind, expr, data_type, array: false, format: None }))
}

/// The function of the session with this name.
pub(crate) fn session_function(name: &str) -> Option<SessionFn> {
    Some(match name {
        "now" | "current_timestamp" | "transaction_timestamp" | "statement_timestamp" => {
            SessionFn::Now
        }
        "sys_context" => SessionFn::Context,
        "userenv" => SessionFn::UserEnv,
        "timestamp_to_scn" => SessionFn::TimestampToScn,
        "scn_to_timestamp" => SessionFn::ScnToTimestamp,
        "clock_timestamp" => SessionFn::ClockTimestamp,
        "localtimestamp" => SessionFn::LocalTimestamp,
        "current_date" => SessionFn::CurrentDate,
        "current_user" | "user" | "current_role" => SessionFn::CurrentUser,
        "session_user" => SessionFn::SessionUser,
        "current_schema" => SessionFn::CurrentSchema,
        "current_schemas" => SessionFn::CurrentSchemas,
        "pg_notify" => SessionFn::Notify,
        "pg_backend_pid" => SessionFn::BackendPid,
        "current_setting" => SessionFn::Setting,
        "set_config" => SessionFn::SetConfig,
        "txid_current" | "pg_current_xact_id" => SessionFn::TransactionId,
        "skein_transaction_outcome" | "txid_status" | "pg_xact_status" => {
            SessionFn::TransactionOutcome
        }
        "nextval" => SessionFn::NextVal,
        "currval" => SessionFn::CurrVal,
        "lastval" => SessionFn::LastVal,
        "setval" => SessionFn::SetVal,
        "pg_sleep" => SessionFn::Sleep,
        "pg_cancel_backend" => SessionFn::SignalBackend { ends: false },
        "pg_terminate_backend" => SessionFn::SignalBackend { ends: true },
        "pg_postmaster_start_time" => SessionFn::StartTime,
        "gen_random_uuid" => SessionFn::RandomUuid,
        query::row_calls::CREATE_SNAPSHOT => SessionFn::CreateSnapshot,
        other => SessionFn::Advisory(Advisory::named(other)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rows_call_are_functions_of_the_session_with_the_same_results() {
        for (name, result) in query::row_calls::FUNCTIONS {
            let function = session_function(name).unwrap_or_else(|| panic!("{name}"));
            assert!(function.per_row(), "{name}");
            assert_eq!(function.result().kind, *result, "{name}");
        }
    }
}
