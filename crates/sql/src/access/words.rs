//! The words of statements about roles and privileges, which are read here in PostgreSQL's grammar
//! whole: options in any order, several kinds of objects, role names that stand for who runs it.
//!
//! What it promises: a statement that begins like one of these and is none is left to the others.
//! What it must never do: look anything up.

use super::statement::{
    Access, GrantSpec, GrantTarget, Item, ObjectClass, RoleName, RoleOption, RoleSetting,
};
use crate::parse::Words;
use crate::pl::RoutineKind;
use crate::{PgError, Result};

/// The statement, if it is one of these.
pub(crate) fn parse(words: &mut Words<'_>) -> Result<Option<Access>> {
    let found = match () {
        () if words.take("grant") => Some(grant(words, true, None)?),
        () if words.take("revoke") => Some(grant(words, false, None)?),
        () if words.take("reassign") => {
            words.expect(&["owned", "by"])?;
            let from = role_names(words)?;
            words.expect(&["to"])?;
            Some(Access::Reassign { from, to: role_name(words)? })
        }
        () if words.take("drop") => drop(words)?,
        () if words.take("create") => create(words)?,
        () if words.take("alter") => alter(words)?,
        () if words.take("set") => set(words)?,
        () if words.take("reset") => reset(words),
        () => None,
    };
    if found.is_none() {
        words.rewind();
    }
    Ok(found)
}

fn role_kind(words: &mut Words<'_>) -> Option<&'static str> {
    [("role", "ROLE"), ("user", "USER"), ("group", "GROUP")]
        .into_iter()
        .find(|(word, _)| words.take(word))
        .map(|(_, kind)| kind)
}

fn role_name(words: &mut Words<'_>) -> Result<RoleName> {
    let _ = words.is("group") && words.take("group");
    for (word, name) in [
        ("current_user", RoleName::Current),
        ("current_role", RoleName::Current),
        ("session_user", RoleName::Session),
        ("public", RoleName::Public),
    ] {
        if words.take(word) {
            return Ok(name);
        }
    }
    Ok(RoleName::Named(words.name()?))
}

fn role_names(words: &mut Words<'_>) -> Result<Vec<RoleName>> {
    let mut names = vec![role_name(words)?];
    while words.comma() {
        names.push(role_name(words)?);
    }
    Ok(names)
}

fn behavior(words: &mut Words<'_>) -> bool {
    let cascade = words.take("cascade");
    let _ = !cascade && words.take("restrict");
    cascade
}

/// `GRANT` and `REVOKE`, those of ALTER DEFAULT PRIVILEGES included.
fn grant(
    words: &mut Words<'_>,
    grant: bool,
    defaults: Option<(Vec<RoleName>, Vec<String>)>,
) -> Result<Access> {
    let mut option = false;
    let mut admin = false;
    if !grant && words.take("grant") {
        words.expect(&["option", "for"])?;
        option = true;
    } else if !grant && words.take("admin") {
        words.expect(&["option", "for"])?;
        admin = true;
    }
    let mut items = Vec::new();
    loop {
        let mut name = words.name()?;
        if name == "all" {
            let _ = words.take("privileges");
            name.clear();
        }
        // The field's system privileges are of several words.
        let to = if grant { "to" } else { "from" };
        while !words.at_name_end() && !words.is(to) && !words.is("on") {
            name = format!("{name} {}", words.name()?);
            if words.is("on") {
                return Err(words.near());
            }
        }
        let mut columns = Vec::new();
        if words.open() {
            loop {
                columns.push(words.name()?);
                if !words.comma() {
                    break;
                }
            }
            if !words.close() {
                return Err(words.near());
            }
        }
        items.push(Item { name, columns });
        if !words.comma() {
            break;
        }
    }
    let to = if grant { "to" } else { "from" };
    if !words.take("on") {
        if defaults.is_some() || option || items.iter().any(|i| !i.columns.is_empty()) {
            return Err(words.near());
        }
        words.expect(&[to])?;
        let members = role_names(words)?;
        if grant && words.take("with") {
            words.expect(&["admin", "option"])?;
            admin = true;
        }
        let granted_by = granted_by(words)?;
        let cascade = !grant && behavior(words);
        let roles = items.into_iter().map(|item| RoleName::Named(item.name)).collect();
        return Ok(Access::Members { grant, roles, members, admin, granted_by, cascade });
    }
    let target = match &defaults {
        Some(_) => default_class(words)?,
        None => target(words)?,
    };
    words.expect(&[to])?;
    let grantees = role_names(words)?;
    if grant && words.take("with") {
        words.expect(&["grant", "option"])?;
        option = true;
    }
    let granted_by = granted_by(words)?;
    let cascade = !grant && behavior(words);
    let spec = GrantSpec { grant, items, target, grantees, option, granted_by, cascade };
    Ok(match defaults {
        None => Access::Grant(spec),
        Some((roles, schemas)) => Access::Defaults { roles, schemas, spec },
    })
}

fn granted_by(words: &mut Words<'_>) -> Result<Option<RoleName>> {
    if !words.take("granted") {
        return Ok(None);
    }
    words.expect(&["by"])?;
    role_name(words).map(Some)
}

fn default_class(words: &mut Words<'_>) -> Result<GrantTarget> {
    use ObjectClass::{Function, Relation, Schema, Sequence, Type};
    let classes = [
        ("tables", Relation),
        ("sequences", Sequence),
        ("functions", Function),
        ("routines", Function),
        ("types", Type),
        ("schemas", Schema),
    ];
    let found = classes.into_iter().find(|(word, _)| words.take(word));
    match found {
        Some((_, class)) => Ok(GrantTarget::of(class)),
        None => Err(words.near()),
    }
}

fn target(words: &mut Words<'_>) -> Result<GrantTarget> {
    use ObjectClass::{Database, Function, Other, Relation, Schema, Sequence, Type};
    if words.take("all") {
        use RoutineKind::{Either, Procedure};
        let classes = [
            ("tables", Relation, Either),
            ("sequences", Sequence, Either),
            ("functions", Function, RoutineKind::Function),
            ("procedures", Function, Procedure),
            ("routines", Function, Either),
        ];
        let found = classes.into_iter().find(|(word, ..)| words.take(word));
        let Some((_, class, kind)) = found else { return Err(words.near()) };
        words.expect(&["in", "schema"])?;
        let in_schemas = plain_names(words)?;
        return Ok(GrantTarget { in_schemas, kind, ..GrantTarget::of(class) });
    }
    let classes = [
        ("table", Relation),
        ("sequence", Sequence),
        ("schema", Schema),
        ("database", Database),
        ("function", Function),
        ("procedure", Function),
        ("routine", Function),
        ("type", Type),
        ("domain", Type),
        ("language", Other("language")),
        ("tablespace", Other("tablespace")),
    ];
    let found = classes.into_iter().find(|(word, _)| words.take(word));
    let class = found.map_or(Relation, |(_, class)| class);
    let mut target = GrantTarget::of(class);
    target.kind = match found {
        Some(("function", _)) => RoutineKind::Function,
        Some(("procedure", _)) => RoutineKind::Procedure,
        _ => RoutineKind::Either,
    };
    loop {
        if class == Function {
            let text = words.routine()?;
            target.routines.push(crate::pl::routine_name(&text)?);
        } else {
            target.names.push(words.qualified()?);
        }
        if !words.comma() {
            break;
        }
    }
    Ok(target)
}

fn plain_names(words: &mut Words<'_>) -> Result<Vec<String>> {
    let mut names = vec![words.name()?];
    while words.comma() {
        names.push(words.name()?);
    }
    Ok(names)
}

fn drop(words: &mut Words<'_>) -> Result<Option<Access>> {
    if words.take("owned") {
        words.expect(&["by"])?;
        let roles = role_names(words)?;
        return Ok(Some(Access::DropOwned { roles, cascade: behavior(words) }));
    }
    let Some(kind) = role_kind(words) else { return Ok(None) };
    let if_exists = words.take("if");
    if if_exists {
        words.expect(&["exists"])?;
    }
    let names = role_names(words)?;
    let users = kind == "USER";
    // The field's: with all that they own.
    let cascade = users && words.take("cascade");
    Ok(Some(Access::DropRoles { names, if_exists, users, cascade }))
}

fn create(words: &mut Words<'_>) -> Result<Option<Access>> {
    let Some(kind) = role_kind(words) else { return Ok(None) };
    let if_not_exists = words.take("if");
    if if_not_exists {
        words.expect(&["not", "exists"])?;
    }
    let name = role_name(words)?;
    let _ = words.take("with");
    let mut options = options(words, true)?;
    if kind != "USER" {
        options.retain(|option| *option != RoleOption::OwnSchema);
    }
    Ok(Some(Access::CreateRole { login: kind == "USER", name, if_not_exists, options }))
}

fn options(words: &mut Words<'_>, new: bool) -> Result<Vec<RoleOption>> {
    use RoleOption::{
        Admin, BypassRls, Connections, CreateDb, CreateRole, InRole, Inherit, Login, Members,
        OwnSchema, Password, Replication, Superuser, ValidUntil,
    };
    type Flag = (&'static str, fn(bool) -> RoleOption);
    let flags: [Flag; 7] = [
        ("superuser", Superuser),
        ("createdb", CreateDb),
        ("createrole", CreateRole),
        ("inherit", Inherit),
        ("login", Login),
        ("replication", Replication),
        ("bypassrls", BypassRls),
    ];
    let mut out = Vec::new();
    while !words.at_end() {
        let flag = flags.iter().find_map(|(name, make)| {
            if words.take(name) {
                return Some(make(true));
            }
            words.take(&format!("no{name}")).then(|| make(false))
        });
        if let Some(flag) = flag {
            out.push(flag);
        } else if words.take("identified") {
            if words.is("externally") || words.is("globally") {
                let how = words.rest().to_uppercase();
                return Err(PgError::unsupported(format!("IDENTIFIED {how}")));
            }
            words.expect(&["by"])?;
            out.push(Password(Some(words.as_written()?)));
            if new {
                out.push(OwnSchema);
            }
        } else if words.follows("default", "tablespace") || words.follows("temporary", "tablespace")
        {
            // Where things lie is the database's own affair.
            words.skip()?;
            words.skip()?;
            words.name()?;
        } else if words.take("quota") {
            while !words.take("on") {
                words.skip()?;
            }
            words.name()?;
        } else if words.take("account") {
            let locked = words.take("lock");
            if !locked {
                words.expect(&["unlock"])?;
            }
            out.push(Login(!locked));
        } else if words.is("profile") || words.follows("password", "expire") {
            let what = words.rest().to_uppercase();
            return Err(PgError::unsupported(format!("{what} of a user")));
        } else if words.take("connection") {
            words.expect(&["limit"])?;
            out.push(Connections(words.number()?));
        } else if words.take("encrypted") || words.is("password") {
            words.expect(&["password"])?;
            out.push(Password(if words.take("null") { None } else { Some(words.text()?) }));
        } else if words.take("valid") {
            words.expect(&["until"])?;
            out.push(ValidUntil(words.text()?));
        } else if new && words.take("in") {
            if !words.take("role") && !words.take("group") {
                return Err(words.near());
            }
            out.push(InRole(role_names(words)?));
        } else if new && (words.take("role") || words.take("user")) {
            out.push(Members(role_names(words)?));
        } else if new && words.take("admin") {
            out.push(Admin(role_names(words)?));
        } else if new && words.take("sysid") {
            words.number()?;
        } else {
            return Err(words.near());
        }
    }
    Ok(out)
}

fn alter(words: &mut Words<'_>) -> Result<Option<Access>> {
    if words.take("default") {
        words.expect(&["privileges"])?;
        let (mut roles, mut schemas) = (Vec::new(), Vec::new());
        loop {
            if words.take("for") {
                if role_kind(words).is_none() {
                    return Err(words.near());
                }
                roles = role_names(words)?;
            } else if words.take("in") {
                words.expect(&["schema"])?;
                schemas = plain_names(words)?;
            } else {
                break;
            }
        }
        let to_grant = words.take("grant");
        if !to_grant && !words.take("revoke") {
            return Err(words.near());
        }
        return grant(words, to_grant, Some((roles, schemas))).map(Some);
    }
    if let Some(kind) = role_kind(words) {
        return alter_role(words, kind).map(Some);
    }
    let classes = [
        ("table", "table"),
        ("materialized", "materialized view"),
        ("view", "view"),
        ("sequence", "sequence"),
        ("schema", "schema"),
        ("database", "database"),
        ("type", "type"),
    ];
    let Some((_, class)) = classes.into_iter().find(|(word, _)| words.take(word)) else {
        return Ok(None);
    };
    if class == "materialized view" && !words.take("view") {
        return Ok(None);
    }
    if class == "database" && is_state(words) {
        return Err(state_of_database(words));
    }
    let if_exists = words.take("if") && words.take("exists");
    let _ = class == "table" && words.take("only");
    let Ok(name) = words.qualified() else { return Ok(None) };
    if class == "database" && is_state(words) {
        return Err(state_of_database(words));
    }
    if !words.take("owner") {
        return Ok(None);
    }
    words.expect(&["to"])?;
    Ok(Some(Access::Owner { class, if_exists, name, to: role_name(words)? }))
}

/// Whether a state comes next that the field brings its database into by a statement.
fn is_state(words: &Words<'_>) -> bool {
    let is = |state: &&str| words.is(state) && !words.follows(state, "owner");
    ["open", "mount", "close", "dismount"].iter().any(is)
}

fn state_of_database(words: &mut Words<'_>) -> PgError {
    let state = words.rest().to_uppercase();
    PgError::unsupported(format!("ALTER DATABASE {state}")).with_hint(
        "An instance opens the database as it starts: \"skein start\" starts instances and \
         \"skein stop\" stops them, outside of SQL.",
    )
}

fn alter_role(words: &mut Words<'_>, kind: &str) -> Result<Access> {
    if words.take("all") {
        return Ok(Access::RoleSetting { role: None, setting: setting(words)? });
    }
    let name = role_name(words)?;
    if kind == "GROUP" && (words.is("add") || words.is("drop")) {
        let grant = words.take("add") || !words.take("drop");
        words.expect(&["user"])?;
        let members = role_names(words)?;
        let roles = vec![name];
        let (admin, granted_by, cascade) = (false, None, false);
        return Ok(Access::Members { grant, roles, members, admin, granted_by, cascade });
    }
    if words.take("rename") {
        words.expect(&["to"])?;
        return Ok(Access::RenameRole { name, to: words.name()? });
    }
    if words.is("set") || words.is("reset") || words.is("in") {
        return Ok(Access::RoleSetting { role: Some(name), setting: setting(words)? });
    }
    let _ = words.take("with");
    Ok(Access::AlterRole { name, options: options(words, false)? })
}

fn setting(words: &mut Words<'_>) -> Result<RoleSetting> {
    if words.take("in") {
        words.expect(&["database"])?;
        words.name()?;
    }
    if words.take("reset") {
        return Ok(match words.take("all") {
            true => RoleSetting::ResetAll,
            false => RoleSetting::Reset(words.dotted()?),
        });
    }
    words.expect(&["set"])?;
    let name = words.dotted()?;
    if words.take("from") {
        words.expect(&["current"])?;
        return Ok(RoleSetting::FromCurrent(name));
    }
    if !words.equals() && !words.take("to") {
        return Err(words.near());
    }
    if words.take("default") {
        return Ok(RoleSetting::Reset(name));
    }
    Ok(RoleSetting::Set(name, words.values()?))
}

fn set(words: &mut Words<'_>) -> Result<Option<Access>> {
    let local = words.take("local");
    let session = !local && words.is("session") && !words.follows("session", "authorization");
    if session {
        words.take("session");
    }
    if words.take("session") {
        if !words.take("authorization") {
            return Ok(None);
        }
        let name = if words.take("default") { None } else { Some(words.name_or_text()?) };
        return Ok(Some(Access::SetSession { name, local }));
    }
    if !words.take("role") {
        return Ok(None);
    }
    // `SET role = x` is the setting, which means the same.
    let _ = words.equals() || words.take("to");
    let name = if words.take("none") { None } else { Some(words.name_or_text()?) };
    Ok(Some(Access::SetRole { name: name.filter(|name| name != "none"), local }))
}

fn reset(words: &mut Words<'_>) -> Option<Access> {
    if words.take("role") {
        return Some(Access::SetRole { name: None, local: false });
    }
    if words.take("session_authorization") || words.take("session") && words.take("authorization") {
        return Some(Access::SetSession { name: None, local: false });
    }
    None
}
