//! What depends on what is dropped or changed: views on what they read, foreign keys on the table
//! they refer to, defaults on sequences.
//!
//! What it promises: nothing that a view reads or a key refers to goes without it, and it only with
//! CASCADE. The messages are PostgreSQL's. What it must never do: look before what is dropped is
//! locked.

use crate::session::Session;
use crate::{PgError, Result, Severity};
use block::ObjId;
use kernel::dict::{self, ForeignKeyDef, ObjectKind, RoutineDef, TableDef};
use query::functions::quote_ident;
use std::sync::Arc;

/// What can depend on something.
pub(super) enum Thing {
    View(Arc<TableDef>),
    /// A foreign key and the table that it is of.
    Key(Arc<TableDef>, Arc<ForeignKeyDef>),
    /// A routine that gives rows of the table or view.
    Routine(Arc<RoutineDef>),
    /// A table and the column of it whose default calls a sequence.
    Default(ObjId, String),
}

impl Thing {
    pub(super) fn obj(&self) -> ObjId {
        match self {
            Thing::View(view) => view.obj,
            Thing::Key(_, key) => key.obj,
            Thing::Routine(routine) => routine.obj,
            Thing::Default(table, _) => *table,
        }
    }
}

/// What depends on something, and how that is said.
pub(super) struct Dependent {
    pub(super) what: Thing,
    /// `view v`, `constraint c on table t`.
    pub(super) shown: String,
    /// `view v depends on table t`.
    pub(super) said: String,
}

/// One relation on the way down to what reads it.
struct Level {
    shown: String,
    /// Who is still to be looked at, the youngest last.
    readers: Vec<ObjId>,
    keys: Vec<Dependent>,
    own: Option<Dependent>,
}

/// The word for a relation.
pub(super) fn kind_of(def: &TableDef) -> &'static str {
    crate::access::relation_word(def)
}

impl Session {
    /// A relation's name as messages have it: with its schema if it is not found without.
    pub(super) async fn shown_relation(&mut self, def: &TableDef) -> Result<String> {
        let visible = self.find_table(None, &def.name).await?;
        if visible.is_some_and(|found| found.obj == def.obj) {
            return Ok(quote_ident(&def.name));
        }
        Ok(format!("{}.{}", quote_ident(&def.schema), quote_ident(&def.name)))
    }

    /// The views that read a relation, or one column of it, those that read these, and the keys
    /// that refer to it: in PostgreSQL's order, which is that of their making, each before those
    /// that read it.
    pub(super) async fn dependents_of(
        &mut self,
        def: &Arc<TableDef>,
        column: Option<&str>,
    ) -> Result<Vec<Dependent>> {
        let shown = format!("{} {}", kind_of(def), self.shown_relation(def).await?);
        let shown = match column {
            Some(column) => format!("column {column} of {shown}"),
            None => shown,
        };
        let readers = self.readers_of(def.obj, column.unwrap_or("")).await?;
        let mut keys = self.keys_on(def, column, &shown).await?;
        if column.is_none() {
            keys.extend(self.routines_over(def).await?);
            keys.sort_by_key(|key| key.what.obj());
        }
        let mut open = vec![Level { shown, readers, keys, own: None }];
        let mut seen: Vec<ObjId> = Vec::new();
        let mut found = Vec::new();
        let txn = self.transaction()?;
        while let Some(level) = open.last_mut() {
            // The younger of the two kinds' last ones.
            let key = level.keys.last().map(|key| key.what.obj());
            if key > level.readers.last().copied() {
                found.extend(level.keys.pop());
                continue;
            }
            let Some(obj) = level.readers.pop() else {
                found.extend(open.pop().and_then(|level| level.own));
                continue;
            };
            if seen.contains(&obj) {
                continue;
            }
            seen.push(obj);
            let on = level.shown.clone();
            let Some(view) = dict::table_by_obj(&self.ctx, &txn, obj).await? else { continue };
            let shown = format!("{} {}", kind_of(&view), self.shown_relation(&view).await?);
            let said = format!("{shown} depends on {on}");
            let readers = self.readers_of(obj, "").await?;
            let own = Dependent { what: Thing::View(view), shown: shown.clone(), said };
            open.push(Level { shown, readers, keys: Vec::new(), own: Some(own) });
        }
        found.reverse();
        Ok(found)
    }

    /// The routines that give rows of a relation.
    async fn routines_over(&mut self, def: &TableDef) -> Result<Vec<Dependent>> {
        let wanted = dict::RoutineResult::Row(def.obj);
        let on = format!("type {}", self.shown_relation(def).await?);
        let mut found = Vec::new();
        for one in &self.routines().await?.all {
            if one.body.result == wanted {
                let word = if one.body.procedure { "procedure" } else { "function" };
                let shown = format!("{word} {}", self.shown_routine(one).await?);
                let said = format!("{shown} depends on {on}");
                found.push(Dependent { what: Thing::Routine(one.clone()), shown, said });
            }
        }
        Ok(found)
    }

    /// The views that read an object or one of its columns, in the order of their numbers.
    async fn readers_of(&mut self, obj: ObjId, column: &str) -> Result<Vec<ObjId>> {
        let txn = self.transaction()?;
        let uses = dict::dependents(&self.ctx, &txn, obj).await?;
        let mut readers: Vec<ObjId> =
            uses.into_iter().filter(|(_, name)| name == column).map(|(view, _)| view).collect();
        readers.sort_unstable();
        Ok(readers)
    }

    /// Drops the views that call a routine, or refuses to.
    pub(crate) async fn drop_callers(
        &mut self,
        what: &str,
        routine: ObjId,
        cascade: bool,
    ) -> Result<()> {
        let txn = self.transaction()?;
        let mut all: Vec<Dependent> = Vec::new();
        for obj in self.readers_of(routine, "").await? {
            let Some(view) = dict::table_by_obj(&self.ctx, &txn, obj).await? else { continue };
            let shown = format!("{} {}", kind_of(&view), self.shown_relation(&view).await?);
            let said = format!("{shown} depends on {what}");
            let more = env::boxed!(self.dependents_of(&view, None)).await?;
            all.push(Dependent { what: Thing::View(view), shown, said });
            for one in more {
                if all.iter().all(|known| known.what.obj() != one.what.obj()) {
                    all.push(one);
                }
            }
        }
        self.drop_dependents(what, all, cascade).await
    }

    /// Drops what depends on `what`, or refuses to.
    pub(super) async fn drop_dependents(
        &mut self,
        what: &str,
        dependents: Vec<Dependent>,
        cascade: bool,
    ) -> Result<()> {
        if dependents.is_empty() {
            return Ok(());
        }
        if !cascade {
            let said: Vec<String> = dependents.into_iter().map(|one| one.said).collect();
            return Err(depended_on(what, &said));
        }
        let told: Vec<String> = dependents.iter().map(|one| one.shown.clone()).collect();
        self.notice_cascade(&told);
        for one in dependents.into_iter().rev() {
            self.drop_dependent(&one.what).await?;
        }
        Ok(())
    }

    pub(super) async fn drop_dependent(&mut self, what: &Thing) -> Result<()> {
        let txn = self.transaction()?;
        match what {
            Thing::View(view) if view.materialized.is_some() => {
                dict::drop_table(&self.ctx, &txn, view).await?;
            }
            Thing::View(view) => dict::drop_view(&self.ctx, &txn, view).await?,
            Thing::Key(child, key) => {
                dict::drop_foreign_key(&self.ctx, &txn, child, &key.name).await?;
            }
            Thing::Routine(routine) => {
                env::boxed!(self.drop_routine(routine, true)).await?;
            }
            Thing::Default(table, column) => self.drop_default(*table, column).await?,
        }
        Ok(())
    }

    /// Says what CASCADE drops.
    pub(super) fn notice_cascade(&mut self, told: &[String]) {
        match told {
            [] => {}
            [one] => self.notice(Severity::Notice, format!("drop cascades to {one}")),
            many => {
                let lines: Vec<String> =
                    many.iter().map(|one| format!("drop cascades to {one}")).collect();
                let text = format!("drop cascades to {} other objects", many.len());
                let notice = PgError::notice(Severity::Notice, text);
                self.notices.push(notice.with_detail(lines.join("\n")));
            }
        }
    }

    /// Drops relations of one kind together: what depends on them goes too, or stands in the way
    /// unless it is one of them.
    pub(crate) async fn drop_relations(
        &mut self,
        targets: Vec<Arc<TableDef>>,
        cascade: bool,
    ) -> Result<()> {
        let txn = self.transaction()?;
        let mut locked = Vec::with_capacity(targets.len());
        for target in &targets {
            locked.push(dict::lock_definition(&self.ctx, &txn, target).await?);
        }
        let (mut dependents, mut inside) = (Vec::<Dependent>::new(), Vec::new());
        for target in &locked {
            for one in self.dependents_of(target, None).await? {
                let goes = |obj| locked.iter().any(|other| other.obj == obj);
                match &one.what {
                    Thing::View(view) if goes(view.obj) => {}
                    Thing::Key(child, _) if goes(child.obj) => inside.push(one),
                    what if dependents.iter().any(|other| other.what.obj() == what.obj()) => {}
                    _ => dependents.push(one),
                }
            }
        }
        let goes = |obj| locked.iter().any(|other| other.obj == obj);
        dependents.extend(self.defaults_on_owned(goes).await?);
        let what = match &locked[..] {
            [one] => format!("{} {}", kind_of(one), self.shown_relation(one).await?),
            _ => "desired object(s)".to_owned(),
        };
        self.drop_dependents(&what, dependents, cascade).await?;
        for key in inside {
            self.drop_dependent(&key.what).await?;
        }
        for target in &locked {
            match target.view {
                Some(_) => dict::drop_view(&self.ctx, &txn, target).await?,
                None => dict::drop_table(&self.ctx, &txn, target).await?,
            }
        }
        Ok(())
    }

    /// Drops the keys of other tables that refer to one of these.
    pub(super) async fn drop_keys_to(&mut self, targets: &[Arc<TableDef>]) -> Result<()> {
        for target in targets {
            for one in self.dependents_of(target, None).await? {
                if matches!(one.what, Thing::Key(..)) {
                    self.drop_dependent(&one.what).await?;
                }
            }
        }
        Ok(())
    }

    /// The relation to be dropped as `kind`, if there is one of the name.
    pub(super) async fn droppable(
        &mut self,
        schema: Option<&str>,
        name: &str,
        kind: ObjectKind,
    ) -> Result<Option<Arc<TableDef>>> {
        let Some(found) = self.find_table(schema, name).await? else {
            return self.other_kind(schema, name, kind).await.map(|()| None);
        };
        let own = match (&found.view, &found.materialized) {
            (Some(_), _) => ObjectKind::View,
            (None, Some(_)) => ObjectKind::Materialized,
            (None, None) => ObjectKind::Table,
        };
        if own != kind {
            return Err(wrong_kind(name, kind, own));
        }
        if found.schema == dict::SYS {
            let text = format!("permission denied for {} {name}", kind_of(&found));
            return Err(PgError::new("42501", text));
        }
        self.check_droppable(kind_of(&found), name, &found.schema, found.owner).await?;
        Ok(Some(found))
    }

    /// 42501 unless the current role owns the object, or the schema that it is in.
    pub(crate) async fn check_droppable(
        &mut self,
        kind: &str,
        name: &str,
        schema: &str,
        owner: block::ObjId,
    ) -> Result<()> {
        if self.has_role(owner).await? {
            return Ok(());
        }
        let txn = self.transaction()?;
        let schemas = dict::schemas(&self.ctx, &txn).await?;
        if let Some(schema) = schemas.find(schema)
            && self.has_role(schema.owner).await?
        {
            return Ok(());
        }
        Err(crate::access::must_own(kind, name))
    }

    /// 42809 if there is an object of the name, of another kind.
    pub(super) async fn other_kind(
        &mut self,
        schema: Option<&str>,
        name: &str,
        kind: ObjectKind,
    ) -> Result<()> {
        let txn = self.transaction()?;
        for schema in self.schemas_for(schema).await? {
            if let Some(found) = dict::object(&self.ctx, &txn, &schema, name).await?
                && found.kind != kind
            {
                return Err(wrong_kind(name, kind, found.kind));
            }
        }
        Ok(())
    }
}

/// 2BP01, with who depends.
pub(super) fn depended_on(what: &str, said: &[String]) -> PgError {
    let them = if what == "desired object(s)" { "them" } else { "it" };
    let text = format!("cannot drop {what} because other objects depend on {them}");
    PgError::new("2BP01", text)
        .with_detail(said.join("\n"))
        .with_hint("Use DROP ... CASCADE to drop the dependent objects too.")
}

fn wrong_kind(name: &str, wanted: ObjectKind, is: ObjectKind) -> PgError {
    let word = |kind| match kind {
        ObjectKind::Table => ("a table", "TABLE"),
        ObjectKind::View => ("a view", "VIEW"),
        ObjectKind::Index => ("an index", "INDEX"),
        ObjectKind::Sequence => ("a sequence", "SEQUENCE"),
        ObjectKind::Materialized => ("a materialized view", "MATERIALIZED VIEW"),
    };
    let text = format!("\"{name}\" is not {}", word(wanted).0);
    let (one, command) = word(is);
    PgError::new("42809", text).with_hint(format!("Use DROP {command} to remove {one}."))
}
