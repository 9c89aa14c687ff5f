//! `docs/reference/views.md`, made from the registry; `cargo x bless` writes it.

use super::all;
use std::fmt::Write;

#[test]
fn the_manual_page_is_that_of_the_registry() {
    let path = "../../docs/reference/views.md";
    let page = page();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &page).expect("the page can be written");
    }
    let there = std::fs::read_to_string(path).unwrap_or_default();
    assert!(there == page, "docs/reference/views.md is old: run `cargo x bless`");
}

#[test]
fn names_and_sentences_are_as_the_page_needs_them() {
    let mut names = std::collections::BTreeSet::new();
    for view in all() {
        assert!(names.insert(view.name), "{} stands twice", view.name);
        let mut columns = std::collections::BTreeSet::new();
        for column in view.columns() {
            let what = format!("{}.{}", view.name, column.name);
            assert!(columns.insert(column.name), "{what} stands twice");
            assert!(column.doc.ends_with('.'), "{what}: a sentence ends with a full stop");
        }
        assert!(view.doc.ends_with('.'), "{}: a sentence ends with a full stop", view.name);
    }
}

fn page() -> String {
    let mut page = String::from(
        "# Views\n\n\
         Made from the registry in `crates/sql/src/catalog/views` by `cargo x bless`.\n\n\
         Names and columns are the field's. Names of objects that need no quotes are in capital \
         letters. Of a view `dba_name` whose first column is an owner, `all_name` shows the same, \
         and `user_name` the rows of the current schema, without that column. An owner is the \
         schema, so that `owner.table_name` is what a statement calls a table: who works in \
         `public` finds the own tables by `owner = sys_context('userenv', 'current_schema')`, not \
         by `owner = user`. \
         A view `v$name` shows this instance; `gv$name` shows all open instances, with `inst_id` \
         as first column. Times are microseconds unless the column says otherwise. Views without a \
         `gv$` form show what the dictionary or the whole cluster has. `v$fixed_table` and \
         `v$fixed_view_columns` hold this page.\n",
    );
    let mut views: Vec<_> = all().collect();
    views.sort_by_key(|view| view.name);
    for view in views {
        let global = if view.is_local() { format!(", `g{}`", view.name) } else { String::new() };
        let _ = write!(page, "\n## `{}`{global}\n\n{}\n\n", view.name, view.doc);
        page.push_str("| Column | Type | Meaning |\n|---|---|---|\n");
        for column in view.columns() {
            let (name, ty) = (column.name, column.type_name());
            let _ = writeln!(page, "| {name} | {ty} | {} |", column.doc.replace('|', "\\|"));
        }
    }
    page
}
