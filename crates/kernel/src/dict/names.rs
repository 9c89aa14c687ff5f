//! What objects may be called.

use std::sync::Arc;

use observe::Ctx;

use super::fixed::{RESERVED_SCHEMAS, TEMP_PREFIX};
use super::lists::schemas;
use crate::error::{Error, Result};
use crate::txn::{LockWait, TmMode, Transaction};

/// Bytes of a name at the most, as in PostgreSQL.
pub const NAME_BYTES_MAX: usize = 63;

/// Refuses names that are empty or too long.
pub(super) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(Error::Invalid(format!(
            "name \"{name}\" must have 1 to {NAME_BYTES_MAX} bytes"
        )));
    }
    Ok(())
}

/// Refuses schemas that are not there and those in which nobody makes objects; the schema stays
/// until the transaction has ended. Those of temporary objects are never declared.
pub(super) async fn check_schema(ctx: &Ctx, txn: &Arc<Transaction>, schema: &str) -> Result<()> {
    if RESERVED_SCHEMAS.contains(&schema) {
        return Err(Error::Invalid(format!("permission denied to create in schema \"{schema}\"")));
    }
    if schema.starts_with(TEMP_PREFIX) {
        return Ok(());
    }
    let missing = || undefined("schema", schema);
    let known = schemas(ctx, txn).await?.find(schema).ok_or_else(missing)?.obj;
    txn.core().lock_table(ctx, txn, known, TmMode::SS, LockWait::Wait).await?;
    // It may have been dropped while the lock was waited for.
    let now = schemas(ctx, txn).await?;
    if now.find(schema).is_none_or(|now| now.obj != known) {
        return Err(missing());
    }
    Ok(())
}

pub(super) fn undefined(what: &str, name: &str) -> Error {
    Error::UndefinedObject(format!("{what} \"{name}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_limits() {
        assert!(check_name("t").is_ok() && check_name(&"x".repeat(NAME_BYTES_MAX)).is_ok());
        assert!(check_name("").is_err() && check_name(&"x".repeat(NAME_BYTES_MAX + 1)).is_err());
    }
}
