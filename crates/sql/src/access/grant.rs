//! GRANT and REVOKE on objects.
//!
//! What it promises: PostgreSQL's choice of the grantor, its warnings where less was granted than
//! asked for, its refusal where nothing could be. What it must never do: write a list that was not
//! read under its row's lock.

use super::statement::{GrantSpec, Item, ObjectClass};
use super::{denied, held};
use crate::pl::{RoutineKind, RoutineName};
use crate::session::Session;
use crate::{PgError, Result, Severity};
use block::ObjId;
use kernel::dict::{
    self, Acl, AclKind, AclTarget, DependentPrivileges, ObjectKind, Privileges, Roles, RoutineDef,
};

/// The word of a kind in messages.
fn class_of(kind: AclKind) -> &'static str {
    match kind {
        AclKind::Relation => "table",
        AclKind::Column => "column",
        AclKind::Sequence => "sequence",
        AclKind::Schema => "schema",
        AclKind::Database => "database",
        AclKind::Function => "function",
        AclKind::Type => "type",
    }
}

const EVERYBODY_CALLS: &str = "everybody may call it";

const REPOSITORY: &str = "dbms_workload_repository";

/// Packages of the field that there are here, and who may call them: rights on them are none of
/// the database's objects.
const PACKAGES: [(&str, &str); 10] = [
    ("dbms_application_info", EVERYBODY_CALLS),
    ("dbms_lock", EVERYBODY_CALLS),
    ("dbms_monitor", "everybody may call it for the own session, superusers for those of others"),
    ("dbms_output", EVERYBODY_CALLS),
    ("dbms_random", EVERYBODY_CALLS),
    ("dbms_session", EVERYBODY_CALLS),
    ("dbms_stats", EVERYBODY_CALLS),
    ("dbms_utility", EVERYBODY_CALLS),
    (REPOSITORY, "superusers alone may call it"),
    ("dbms_xplan", EVERYBODY_CALLS),
];

/// What a name stands for behind ON without a word for what it is.
enum ByName {
    Routine(On),
    /// A package of the field: what there is to be said of it has been said.
    Package,
    Relation,
}

/// One object, or a column, that privileges are granted on.
struct On {
    kind: AclKind,
    /// As messages call it.
    word: &'static str,
    name: String,
    owner: ObjId,
    /// The relation and a column of it, or the relation.
    obj: ObjId,
    column: Option<usize>,
    acl: Option<Acl>,
}

impl On {
    fn target(&self) -> AclTarget<'_> {
        match (self.kind, self.column) {
            (AclKind::Schema, _) => AclTarget::Schema(&self.name),
            (AclKind::Database, _) => AclTarget::Database,
            (AclKind::Type, _) => AclTarget::Type(self.obj),
            (AclKind::Function, _) => AclTarget::Routine(self.obj),
            (_, Some(column)) => AclTarget::Column(self.obj, column),
            (_, None) => AclTarget::Relation(self.obj),
        }
    }

    fn current(&self) -> Acl {
        self.acl.clone().unwrap_or_else(|| Acl::default_of(self.kind, self.owner))
    }
}

fn on_routine(def: &RoutineDef) -> On {
    On {
        kind: AclKind::Function,
        word: if def.body.procedure { "procedure" } else { "function" },
        name: def.name.clone(),
        owner: def.owner,
        obj: def.obj,
        column: None,
        acl: def.acl.clone(),
    }
}

/// What the words of a statement ask for on a kind of object.
pub(super) fn wanted(items: &[&Item], kind: AclKind) -> Result<Privileges> {
    let mut all = Privileges::NONE;
    for item in items {
        if item.name.is_empty() {
            all = all.with(kind.all());
            continue;
        }
        let one = Privileges::named(&item.name).ok_or_else(|| {
            PgError::syntax(format!("unrecognized privilege type \"{}\"", item.name))
        })?;
        if !kind.all().has(one) {
            let (word, kind) = (item.name.to_uppercase(), class_of(kind));
            let text = format!("invalid privilege type {word} for {kind}");
            return Err(PgError::new("0LP01", text));
        }
        all = all.with(one);
    }
    Ok(all)
}

/// Who grants: the owner if the role stands for it, else a role that it stands for and that may
/// grant most of what is wanted.
fn best_grantor(
    roles: &Roles,
    role: ObjId,
    owner: ObjId,
    acl: &Acl,
    wanted: Privileges,
) -> (ObjId, Privileges) {
    let above = roles.above(role, true);
    if roles.is_superuser(role) || above.contains(&owner) {
        return (owner, wanted);
    }
    let mut best = (role, acl.options_of(&[role], owner).and(wanted));
    for one in above {
        let options = acl.options_of(&[one], owner).and(wanted);
        if options.0.count_ones() > best.1.0.count_ones() {
            best = (one, options);
        }
    }
    best
}

impl Session {
    pub(super) async fn grant(&mut self, spec: &GrantSpec) -> Result<String> {
        let mut grantees = Vec::new();
        for name in &spec.grantees {
            let grantee = self.grantee(name).await?;
            if spec.grant && spec.option && grantee == dict::EVERYBODY {
                let text = "grant options can only be granted to roles";
                return Err(PgError::new("0LP01", text));
            }
            grantees.push(grantee);
        }
        if let Some(by) = &spec.granted_by
            && self.role_named(by).await?.obj != self.identity.role
        {
            return Err(PgError::new("0LP01", "grantor must be current user"));
        }
        for on in self.granted_objects(spec).await? {
            self.grant_on(spec, &on, &grantees).await?;
        }
        Ok(if spec.grant { "GRANT" } else { "REVOKE" }.to_owned())
    }

    async fn granted_objects(&mut self, spec: &GrantSpec) -> Result<Vec<On>> {
        let mut found = Vec::new();
        match spec.target.class {
            ObjectClass::Relation | ObjectClass::Sequence => {
                let sequences = spec.target.class == ObjectClass::Sequence;
                for (schema, name) in &spec.target.names {
                    let schema = schema.as_deref();
                    match self.granted_by_name(spec, schema, name).await? {
                        ByName::Routine(routine) => found.push(routine),
                        ByName::Package => {}
                        ByName::Relation => {
                            found.push(self.granted_relation(schema, name, sequences).await?);
                        }
                    }
                }
                for schema in &spec.target.in_schemas {
                    found.extend(self.granted_in(schema, sequences).await?);
                }
            }
            ObjectClass::Schema => {
                let txn = self.transaction()?;
                let schemas = dict::schemas(&self.ctx, &txn).await?;
                for (_, name) in &spec.target.names {
                    if dict::RESERVED_SCHEMAS.contains(&name.as_str()) {
                        return Err(denied("schema", name));
                    }
                    let missing = || crate::ddl::missing_schema(name);
                    let one = schemas.find(name).ok_or_else(missing)?;
                    found.push(On {
                        kind: AclKind::Schema,
                        word: "schema",
                        name: name.clone(),
                        owner: one.owner,
                        obj: one.obj,
                        column: None,
                        acl: one.acl.clone(),
                    });
                }
            }
            ObjectClass::Database => {
                let roles = self.roles().await?;
                for (_, name) in &spec.target.names {
                    if name != crate::DATABASE {
                        let text = format!("database \"{name}\" does not exist");
                        return Err(PgError::new("3D000", text));
                    }
                    found.push(On {
                        kind: AclKind::Database,
                        word: "database",
                        name: name.clone(),
                        owner: roles.owner,
                        obj: ObjId(0),
                        column: None,
                        acl: roles.acl.clone(),
                    });
                }
            }
            ObjectClass::Function => {
                for name in &spec.target.routines {
                    let one = self.routine_named(spec.target.kind, name).await?;
                    found.push(on_routine(&one));
                }
                for schema in &spec.target.in_schemas {
                    let txn = self.transaction()?;
                    if dict::schemas(&self.ctx, &txn).await?.find(schema).is_none() {
                        return Err(crate::ddl::missing_schema(schema));
                    }
                    let wanted = |one: &RoutineDef| match spec.target.kind {
                        RoutineKind::Function => !one.body.procedure,
                        RoutineKind::Procedure => one.body.procedure,
                        RoutineKind::Either => true,
                    };
                    let routines = self.routines().await?;
                    let inside = routines.all.iter().filter(|one| one.schema == *schema);
                    found.extend(inside.filter(|one| wanted(one)).map(|one| on_routine(one)));
                }
            }
            ObjectClass::Type => {
                for (schema, name) in &spec.target.names {
                    let schema = schema.as_deref();
                    let missing = || crate::named_types::missing_type(schema, name);
                    let one = self.find_type(schema, name).await?.ok_or_else(missing)?;
                    found.push(On {
                        kind: AclKind::Type,
                        word: "type",
                        name: one.name,
                        owner: one.owner,
                        obj: one.obj,
                        column: None,
                        acl: one.acl,
                    });
                }
            }
            ObjectClass::Other(kind) => {
                return Err(PgError::unsupported(format!("privileges on a {kind}")));
            }
        }
        Ok(found)
    }

    /// What may be executed, if nothing else is asked for and no relation has the name: the field
    /// names functions, procedures and packages without saying what they are.
    async fn granted_by_name(
        &mut self,
        spec: &GrantSpec,
        schema: Option<&str>,
        name: &str,
    ) -> Result<ByName> {
        let executes = |item: &Item| item.name == "execute" && item.columns.is_empty();
        if spec.target.class != ObjectClass::Relation || !spec.items.iter().all(executes) {
            return Ok(ByName::Relation);
        }
        let in_sys = schema.is_none_or(|schema| schema == dict::SYS);
        let package = PACKAGES.iter().find(|(known, _)| in_sys && *known == name);
        if let Some((name, who)) = package.filter(|_| schema.is_some()) {
            self.tell_of_package(spec.grant, name, who);
            return Ok(ByName::Package);
        }
        if self.find_table(schema, name).await?.is_some()
            || self.find_sequence(schema, name).await?.is_some()
        {
            return Ok(ByName::Relation);
        }
        let (schema, name) = (schema.map(str::to_owned), name.to_owned());
        let name = RoutineName { schema, name, args: None };
        match (self.routine_named(RoutineKind::Either, &name).await, package) {
            (Ok(one), _) => Ok(ByName::Routine(on_routine(&one))),
            (Err(error), Some((name, who))) if error.code == "42883" => {
                self.tell_of_package(spec.grant, name, who);
                Ok(ByName::Package)
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Scripts give and take rights on packages, which steers nothing here.
    fn tell_of_package(&mut self, grant: bool, name: &str, who: &str) {
        let warning = |code, text| {
            let mut warning = PgError::notice(Severity::Warning, text);
            warning.code = code;
            warning
        };
        let told = match grant {
            true if name == REPOSITORY => {
                warning("01007", format!("no privileges were granted for \"{name}\": {who}"))
            }
            true => {
                let text = format!("package {name} needs no grant: {who}");
                PgError::notice(Severity::Notice, text)
            }
            false => {
                let text = format!("no privileges could be revoked for \"{name}\": {who}");
                warning("01006", text)
            }
        };
        self.notices.push(told);
    }

    async fn granted_relation(
        &mut self,
        schema: Option<&str>,
        name: &str,
        sequence: bool,
    ) -> Result<On> {
        let shown = || match schema {
            Some(schema) => format!("{schema}.{name}"),
            None => name.to_owned(),
        };
        if let Some(def) = self.find_table(schema, name).await? {
            if sequence {
                let text = format!("\"{name}\" is not a sequence");
                return Err(PgError::new("42809", text));
            }
            if def.schema == dict::SYS {
                return Err(denied("table", name));
            }
            let word = super::relation_word(&def);
            let (kind, obj, column) = (AclKind::Relation, def.obj, None);
            let (name, owner, acl) = (def.name.clone(), def.owner, def.acl.clone());
            return Ok(On { kind, word, name, owner, obj, column, acl });
        }
        let Some(def) = self.find_sequence(schema, name).await? else {
            return Err(PgError::undefined_table(shown()));
        };
        let (kind, word, obj, column) = (AclKind::Sequence, "sequence", def.obj, None);
        let (name, owner, acl) = (def.name.clone(), def.owner, def.acl.clone());
        Ok(On { kind, word, name, owner, obj, column, acl })
    }

    async fn granted_in(&mut self, schema: &str, sequences: bool) -> Result<Vec<On>> {
        let txn = self.transaction()?;
        if dict::schemas(&self.ctx, &txn).await?.find(schema).is_none() {
            return Err(crate::ddl::missing_schema(schema));
        }
        let mut found = Vec::new();
        for object in dict::objects(&self.ctx, &txn).await? {
            let fits = match object.kind {
                ObjectKind::Table | ObjectKind::View | ObjectKind::Materialized => !sequences,
                ObjectKind::Sequence => sequences,
                ObjectKind::Index => false,
            };
            if fits && object.schema == schema {
                found.push(self.granted_relation(Some(schema), &object.name, sequences).await?);
            }
        }
        Ok(found)
    }

    /// Grants on one object: on the whole of it, and on its columns.
    async fn grant_on(&mut self, spec: &GrantSpec, on: &On, grantees: &[ObjId]) -> Result<()> {
        let whole: Vec<&Item> = spec.items.iter().filter(|item| item.columns.is_empty()).collect();
        let parts: Vec<&Item> = spec.items.iter().filter(|item| !item.columns.is_empty()).collect();
        if !parts.is_empty() && on.kind != AclKind::Relation {
            let text = "column privileges are only valid for relations";
            return Err(PgError::new("0LP01", text));
        }
        if !whole.is_empty() {
            let wanted = wanted(&whole, on.kind)?;
            self.change_rights(spec, on, wanted, grantees).await?;
            if !spec.grant && on.kind == AclKind::Relation {
                // What is taken back from the whole is taken back from its columns too.
                self.revoke_from_columns(spec, on, wanted, grantees).await?;
            }
        }
        if parts.is_empty() {
            return Ok(());
        }
        let txn = self.transaction()?;
        let def = dict::table_by_obj(&self.ctx, &txn, on.obj).await?;
        let def = def.ok_or_else(|| PgError::undefined_table(&on.name))?;
        let mut columns: Vec<(usize, Privileges)> = Vec::new();
        for item in parts {
            let one = wanted(&[item], AclKind::Column)?;
            for name in &item.columns {
                let at = crate::direct::column_position(&def, name)?;
                match columns.iter_mut().find(|(known, _)| *known == at) {
                    Some((_, all)) => *all = all.with(one),
                    None => columns.push((at, one)),
                }
            }
        }
        for (at, wanted) in columns {
            let column = On {
                kind: AclKind::Column,
                word: on.word,
                name: on.name.clone(),
                owner: on.owner,
                obj: on.obj,
                column: Some(at),
                acl: def.columns[at].acl.clone(),
            };
            // Who may grant on the whole may grant on the columns.
            let of_whole = on.current();
            self.change_rights_by(spec, &column, wanted, grantees, Some(&of_whole)).await?;
        }
        Ok(())
    }

    async fn revoke_from_columns(
        &mut self,
        spec: &GrantSpec,
        on: &On,
        wanted: Privileges,
        grantees: &[ObjId],
    ) -> Result<()> {
        let txn = self.transaction()?;
        let Some(def) = dict::table_by_obj(&self.ctx, &txn, on.obj).await? else {
            return Ok(());
        };
        for (at, column) in def.columns.iter().enumerate() {
            let Some(acl) = &column.acl else { continue };
            let wanted = wanted.and(AclKind::Column.all());
            let touched = acl
                .0
                .iter()
                .any(|item| grantees.contains(&item.grantee) && item.privileges.meets(wanted));
            if !touched {
                continue;
            }
            let part = On {
                kind: AclKind::Column,
                word: on.word,
                name: on.name.clone(),
                owner: on.owner,
                obj: on.obj,
                column: Some(at),
                acl: column.acl.clone(),
            };
            let of_whole = on.current();
            self.change_rights_by(spec, &part, wanted, grantees, Some(&of_whole)).await?;
        }
        Ok(())
    }

    async fn change_rights(
        &mut self,
        spec: &GrantSpec,
        on: &On,
        wanted: Privileges,
        grantees: &[ObjId],
    ) -> Result<()> {
        self.change_rights_by(spec, on, wanted, grantees, None).await
    }

    async fn change_rights_by(
        &mut self,
        spec: &GrantSpec,
        on: &On,
        wanted: Privileges,
        grantees: &[ObjId],
        of_whole: Option<&Acl>,
    ) -> Result<()> {
        let roles = self.roles().await?;
        let (role, acl) = (self.identity.role, on.current());
        let (mut grantor, mut may) = best_grantor(&roles, role, on.owner, &acl, wanted);
        if let Some(whole) = of_whole {
            let (other, more) = best_grantor(&roles, role, on.owner, whole, wanted);
            if more.0.count_ones() > may.0.count_ones() {
                (grantor, may) = (other, more);
            }
        }
        if may.is_empty() {
            // Who has nothing on it at all is told no more.
            let own = held(&roles, role, (on.kind, on.owner), on.acl.as_ref());
            let above = roles.above(role, true);
            let whole = of_whole.map_or(Privileges::NONE, |acl| acl.privileges_of(&above));
            if own.is_empty() && whole.is_empty() {
                return Err(denied(on.word, &on.name));
            }
        }
        self.warn_of_less(spec, on, wanted, may);
        if may.is_empty() {
            return Ok(());
        }
        let (kind, owner) = (on.kind, on.owner);
        let mut failed = None;
        let decided = best_grantor(&roles, role, owner, &acl, wanted);
        let txn = self.transaction()?;
        dict::change_acl(&self.ctx, &txn, on.target(), |old| {
            let mut acl = old.clone().unwrap_or_else(|| Acl::default_of(kind, owner));
            // What allowed it may have been taken away while this waited for its turn.
            if best_grantor(&roles, role, owner, &acl, wanted) != decided {
                let text = "could not serialize access due to concurrent update of privileges";
                failed = Some(PgError::new("40001", text));
                return old;
            }
            for grantee in grantees {
                if let Err(error) = change_one(&mut acl, spec, (*grantee, grantor), may, owner) {
                    failed = Some(error);
                    return old;
                }
            }
            // A column without anybody in its list has none.
            Some(acl).filter(|acl| kind != AclKind::Column || !acl.0.is_empty())
        })
        .await?;
        match failed {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }

    fn warn_of_less(&mut self, spec: &GrantSpec, on: &On, wanted: Privileges, may: Privileges) {
        let all = spec.items.iter().any(|item| item.name.is_empty());
        let name = &on.name;
        let (done, partly) = match spec.grant {
            true => ("no privileges were granted for", "not all privileges were granted for"),
            false => {
                ("no privileges could be revoked for", "not all privileges could be revoked for")
            }
        };
        let code = if spec.grant { "01007" } else { "01006" };
        let text = match (may.is_empty(), may == wanted) {
            (true, _) => format!("{done} \"{name}\""),
            (false, false) if !all => format!("{partly} \"{name}\""),
            _ => return,
        };
        let mut warning = PgError::notice(Severity::Warning, text);
        warning.code = code;
        self.notices.push(warning);
    }
}

/// Changes what one grantee has in a list.
pub(super) fn change_one(
    acl: &mut Acl,
    spec: &GrantSpec,
    (grantee, grantor): (ObjId, ObjId),
    privileges: Privileges,
    owner: ObjId,
) -> Result<()> {
    if spec.grant {
        let options = if spec.option { privileges } else { Privileges::NONE };
        acl.grant(grantee, grantor, privileges, options);
        return Ok(());
    }
    let pair = (grantee, grantor);
    acl.revoke(pair, privileges, spec.option, spec.cascade, owner).map_err(|DependentPrivileges| {
        PgError::new("2BP01", "dependent privileges exist")
            .with_hint("Use CASCADE to revoke them too.")
    })
}
