//! Lists of rights as the catalog shows them.

use kernel::dict::{Acl, EVERYBODY, Roles, letters};
use query::functions::quote_ident;

/// PostgreSQL's text of one entry.
fn shown_item(item: &kernel::dict::AclItem, roles: &Roles) -> String {
    let name = |obj| quote_ident(&roles.name(obj));
    let grantee = if item.grantee == EVERYBODY { String::new() } else { name(item.grantee) };
    let letters = letters(item.privileges, item.options);
    format!("{grantee}={letters}/{}", name(item.grantor))
}

/// The entries of a list.
pub(crate) fn items(acl: &Acl, roles: &Roles) -> Vec<String> {
    acl.0.iter().map(|item| shown_item(item, roles)).collect()
}
