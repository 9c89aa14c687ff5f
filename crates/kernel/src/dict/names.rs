//! What objects may be called.

use super::fixed::{PUBLIC, RESERVED_SCHEMAS};
use crate::error::{Error, Result};

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

/// Refuses schemas in which nobody makes objects.
pub(super) fn check_schema(schema: &str) -> Result<()> {
    if RESERVED_SCHEMAS.contains(&schema) {
        return Err(Error::Invalid(format!("permission denied to create in schema \"{schema}\"")));
    }
    if schema != PUBLIC {
        return Err(undefined("schema", schema));
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

    #[test]
    fn objects_go_to_public_only() {
        assert!(check_schema("public").is_ok());
        assert!(matches!(check_schema("sys"), Err(Error::Invalid(_))));
        assert!(matches!(check_schema("nowhere"), Err(Error::UndefinedObject(_))));
    }
}
