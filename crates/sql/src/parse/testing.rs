//! For tests: what a statement has come to.

use super::{Parsed, parse_single};

/// The statement as it was understood, or the SQLSTATE that it is refused with.
pub(super) fn shown(text: &str) -> String {
    match parse_single(text) {
        Ok(statement) => match statement.parsed {
            Parsed::Sql(ast) => ast.to_string(),
            other => format!("{other:?}"),
        },
        Err(error) => error.code.to_owned(),
    }
}

/// Fails unless both are understood alike.
pub(super) fn same(field: &str, postgresql: &str) {
    assert_eq!(shown(field), shown(postgresql), "{field}");
    assert!(shown(field).len() > 5, "{field}: {}", shown(field));
}
