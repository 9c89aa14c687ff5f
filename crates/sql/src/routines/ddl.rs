//! CREATE, ALTER, DROP, COMMENT ON FUNCTION and PROCEDURE.
//!
//! What it promises: PostgreSQL's errors; a body is read before it is kept, and a routine does not
//! go while a view calls it. What it must never do: change what calls of a routine mean without a
//! word.

use super::choose::given;
use super::names::{Named, types_of, word};
use crate::pl::{
    ArgumentSpec, ReturnsSpec, RoutineAction, RoutineCommand, RoutineFlags, RoutineKind,
    RoutineName, RoutineSpec, check_body,
};
use crate::planning::Counted;
use crate::session::Session;
use crate::{PgError, Result, Severity};
use block::ObjId;
use kernel::dict::{
    self, AclKind, ArgumentDef, ArgumentMode, Derived, NewRoutine, RoutineBody, RoutineChange,
    RoutineDef, RoutinePlace, RoutineResult, Volatility,
};
use kernel::row::{ColType, TypeKind};
use std::sync::Arc;

/// Languages that there are here.
const LANGUAGES: [&str; 3] = ["plpgsql", "sql", "plsql"];

fn wrong(text: impl Into<String>) -> PgError {
    PgError::new("42P13", text)
}

fn exists(error: kernel::Error, name: &str) -> PgError {
    match error {
        kernel::Error::DuplicateObject(_) => {
            let text = format!("function \"{name}\" already exists with same argument types");
            PgError::new("42723", text)
        }
        other => other.into(),
    }
}

/// Whether its body is in the field's language, whose routines have their names to themselves.
fn is_field(def: &RoutineDef) -> bool {
    def.body.language == "plsql"
}

/// 42723: the name of a new routine is that of `old`.
fn name_taken(old: &RoutineDef, new: &RoutineDef) -> PgError {
    let name = &new.name;
    if old.signature == new.signature && old.body.procedure == new.body.procedure {
        let text = format!("function \"{name}\" already exists with same argument types");
        return PgError::new("42723", text);
    }
    let what = word(old);
    PgError::new("42723", format!("name \"{name}\" is already used by an existing {what}"))
        .with_hint(format!("Use CREATE OR REPLACE, or DROP {} first.", what.to_uppercase()))
}

/// Where a routine goes.
pub(crate) fn place<'a>(def: &RoutineDef, to: &'a str) -> RoutinePlace<'a> {
    RoutinePlace { to, alone: is_field(def) }
}

/// 42723: where a routine is to go, another one has its name.
fn place_taken(def: &RoutineDef, schema: &str, name: &str) -> PgError {
    let what = match is_field(def) {
        true => format!("a routine \"{name}\""),
        false => format!("function {name}({})", def.signature),
    };
    PgError::new("42723", format!("{what} already exists in schema \"{schema}\""))
}

/// Whether calls of the one may mean something else with the other.
fn is_called_otherwise(old: &RoutineDef, new: &RoutineDef) -> bool {
    old.signature != new.signature
        || old.body.result != new.body.result
        || old.body.set != new.body.set
        || super::columns_of(old) != super::columns_of(new)
}

/// Options as they are kept: `name=value`, one in each line.
fn options_text(old: &str, new: &[(String, String)]) -> String {
    let mut all: Vec<(&str, &str)> = old.lines().filter_map(|line| line.split_once('=')).collect();
    for (name, value) in new {
        all.retain(|(known, _)| known != name);
        all.push((name, value));
    }
    let lines: Vec<String> = all.iter().map(|(name, value)| format!("{name}={value}")).collect();
    lines.join("\n")
}

impl Session {
    pub(crate) async fn create_routine(&mut self, spec: &RoutineSpec) -> Result<String> {
        self.check_writable("DDL")?;
        let (schema, name) = self.own_schema(spec.schema.clone(), spec.name.clone()).await?;
        if crate::ddl::is_temporary(&schema) {
            return Err(PgError::unsupported("a function in a temporary schema"));
        }
        let tag = if spec.procedure { "CREATE PROCEDURE" } else { "CREATE FUNCTION" };
        let mut body = env::boxed!(self.routine_body(spec)).await?;
        for arg in &mut body.args {
            if let Some(default) = &mut arg.default {
                *default = self.qualified_expr(default).await?;
            }
        }
        let def = RoutineDef {
            obj: ObjId(0),
            schema: schema.clone(),
            name: name.clone(),
            signature: String::new(),
            owner: self.owner(),
            acl: None,
            comment: None,
            times: dict::Times::default(),
            body,
            derived: Derived::default(),
        };
        let def = RoutineDef { signature: types_of(&def), ..def };
        check_body(&def)?;
        env::boxed!(self.check_defaults(&def)).await?;
        let in_way = self.routines_in_way(&def).await?;
        if let Some((old, others)) = in_way.split_first() {
            if !spec.replace {
                return Err(name_taken(old, &def));
            }
            env::boxed!(self.replace_routines(old, others, &def)).await?;
            return Ok(tag.to_owned());
        }
        let alone = is_field(&def);
        let txn = self.transaction()?;
        let new = NewRoutine {
            schema: schema.clone(),
            name: name.clone(),
            signature: def.signature,
            owner: def.owner,
            body: def.body,
            alone,
        };
        let made = dict::create_routine(&self.ctx, &txn, new).await;
        let obj = made.map_err(|error| exists(error, &name))?;
        self.give_default_rights(AclKind::Function, &schema, obj).await?;
        Ok(tag.to_owned())
    }

    /// The routines that a new one cannot stand beside: the one with its arguments first, and if it
    /// is in the field's language all others of its name that are.
    async fn routines_in_way(&mut self, new: &RoutineDef) -> Result<Vec<Arc<RoutineDef>>> {
        let routines = self.routines().await?;
        let in_way =
            |one: &RoutineDef| one.signature == new.signature || is_field(new) && is_field(one);
        let named = routines.named(&new.schema, &new.name);
        let mut found: Vec<Arc<RoutineDef>> = named.filter(|one| in_way(one)).cloned().collect();
        found.sort_by_key(|one| one.signature != new.signature);
        Ok(found)
    }

    /// CREATE OR REPLACE: the first of the old ones becomes the new one, with the rights and the
    /// owner that it has, and the others go.
    async fn replace_routines(
        &mut self,
        old: &Arc<RoutineDef>,
        others: &[Arc<RoutineDef>],
        new: &RoutineDef,
    ) -> Result<()> {
        let name = &new.name;
        for one in std::iter::once(old).chain(others) {
            self.check_owner(word(one), name, one.owner).await?;
            if is_field(new) && is_field(one) && one.body.procedure != new.body.procedure {
                return Err(name_taken(one, new));
            }
        }
        if !(is_field(new) && is_field(old)) {
            self.check_replaceable(old, new)?;
        } else if is_called_otherwise(old, new)
            && let Some(view) = self.caller_of(old).await?
        {
            let what = word(old);
            let text = format!(
                "cannot change the arguments or the result of {what} {name} because view \
                 \"{view}\" calls it"
            );
            return Err(PgError::new("2BP01", text).with_hint("Drop the view first."));
        }
        for one in others {
            env::boxed!(self.drop_routine(one, false)).await?;
        }
        let txn = self.transaction()?;
        let change = RoutineChange::Replace(&new.body, &new.signature);
        let done = dict::alter_routine(&self.ctx, &txn, old, change).await;
        done.map_err(|error| exists(error, name))
    }

    async fn routine_body(&mut self, spec: &RoutineSpec) -> Result<RoutineBody> {
        let language = spec.language.clone().ok_or_else(|| wrong("no language specified"))?;
        if !LANGUAGES.contains(&language.as_str()) {
            let text = format!("language \"{language}\" does not exist");
            return Err(PgError::new("42704", text)
                .with_hint("Languages are plpgsql, sql, and plsql for the field's."));
        }
        let text = spec.text.clone().ok_or_else(|| wrong("no function body specified"))?;
        let args = self.routine_args(&spec.args).await?;
        let result = self.routine_result(spec, &args).await?;
        let set = match &spec.returns {
            ReturnsSpec::Table => true,
            ReturnsSpec::Type { set, .. } => *set,
            ReturnsSpec::Nothing => false,
        };
        let flags = &spec.flags;
        if spec.procedure && (flags.volatility.is_some() || flags.strict.is_some()) {
            return Err(wrong("invalid attribute in procedure definition"));
        }
        Ok(RoutineBody {
            procedure: spec.procedure,
            args,
            result,
            set,
            // The field's routines run with the rights of their owner unless they say otherwise.
            definer: flags.definer.unwrap_or(language == "plsql"),
            language,
            strict: flags.strict.unwrap_or(false),
            volatility: flags.volatility.unwrap_or(Volatility::Volatile),
            options: options_text("", &flags.options),
            text,
        })
    }

    async fn routine_args(&mut self, specs: &[ArgumentSpec]) -> Result<Vec<ArgumentDef>> {
        let mut args: Vec<ArgumentDef> = Vec::with_capacity(specs.len());
        let mut defaulted = false;
        for (i, spec) in specs.iter().enumerate() {
            let ty = match self.type_in_definition(&spec.ty).await? {
                Named::Type(ty) => ty,
                Named::Row(_) | Named::Record => {
                    return Err(PgError::unsupported("a row as an argument of a function"));
                }
                Named::Void => return Err(wrong("SQL function cannot accept type void")),
            };
            let same = |one: &&ArgumentDef| {
                let table = |mode| mode == ArgumentMode::Table;
                one.name == spec.name
                    && (one.mode.is_given() == spec.mode.is_given()
                        || table(one.mode)
                        || table(spec.mode)
                        || one.mode == ArgumentMode::InOut)
            };
            if !spec.name.is_empty() && args.iter().any(|one| same(&one)) {
                let text = format!("parameter name \"{}\" used more than once", spec.name);
                return Err(wrong(text));
            }
            if spec.mode.is_given() {
                if defaulted && spec.default.is_none() && spec.mode != ArgumentMode::Variadic {
                    let text =
                        "input parameters after one with a default value must also have defaults";
                    return Err(wrong(text));
                }
                defaulted |= spec.default.is_some();
            }
            if spec.mode == ArgumentMode::Variadic {
                if ty.element().is_none() {
                    return Err(wrong("VARIADIC parameter must be an array"));
                }
                if specs[i + 1..].iter().any(|later| later.mode.is_given()) {
                    return Err(wrong("VARIADIC parameter must be the last input parameter"));
                }
            }
            args.push(ArgumentDef {
                name: spec.name.clone(),
                mode: spec.mode,
                ty,
                default: spec.default.clone(),
            });
        }
        Ok(args)
    }

    async fn routine_result(
        &mut self,
        spec: &RoutineSpec,
        args: &[ArgumentDef],
    ) -> Result<RoutineResult> {
        let results: Vec<ColType> =
            args.iter().filter(|arg| arg.mode.is_result()).map(|arg| arg.ty).collect();
        let of_args = match (&results[..], spec.procedure) {
            ([], _) => None,
            ([one], false) => Some(RoutineResult::Type(*one)),
            _ => Some(RoutineResult::Record),
        };
        let ReturnsSpec::Type { ty, .. } = &spec.returns else {
            return match of_args {
                Some(result) => Ok(result),
                None if spec.procedure => Ok(RoutineResult::Void),
                None => Err(wrong("function result type must be specified")),
            };
        };
        let named = match self.type_in_definition(ty).await? {
            Named::Type(ty) => RoutineResult::Type(ty),
            Named::Row(obj) => RoutineResult::Row(obj),
            Named::Record => RoutineResult::Record,
            Named::Void => RoutineResult::Void,
        };
        match of_args {
            // The field's functions give a value beside their OUT arguments.
            Some(_) if spec.language.as_deref() == Some("plsql") => {
                Err(PgError::unsupported("a function with OUT arguments and RETURN"))
            }
            Some(result) if result != named => {
                let shown = match result {
                    RoutineResult::Type(ty) => ty.to_string(),
                    _ => "record".to_owned(),
                };
                Err(wrong(format!(
                    "function result type must be {shown} because of OUT parameters"
                )))
            }
            None if named == RoutineResult::Record => {
                Err(PgError::unsupported("a function that returns record without OUT arguments")
                    .with_hint("Use RETURNS TABLE (…) or OUT arguments."))
            }
            _ => Ok(named),
        }
    }

    /// An expression with the names of routines written out, so that they mean the same for ever.
    async fn qualified_expr(&mut self, text: &str) -> Result<String> {
        let statement = crate::parse::parse_single(&format!("select {text}"))?;
        let crate::parse::Parsed::Sql(mut ast) = statement.parsed else {
            return Err(PgError::syntax(format!("syntax error in default \"{text}\"")));
        };
        if self.qualify_routines(&mut ast).await?.is_empty() {
            return Ok(text.to_owned());
        }
        let written = ast.to_string();
        Ok(written.get("SELECT ".len()..).unwrap_or(&written).to_owned())
    }

    /// Defaults are expressions that can be had without a row.
    async fn check_defaults(&mut self, def: &RoutineDef) -> Result<()> {
        for arg in given(def) {
            let Some(default) = &arg.default else { continue };
            let query = format!("select {default}");
            let statement = crate::parse::parse_single(&query)?;
            self.prepare_within(statement, &[], Counted::UnlessValues).await?;
        }
        Ok(())
    }

    fn check_replaceable(&self, old: &RoutineDef, new: &RoutineDef) -> Result<()> {
        let shown = format!("{}({})", old.name, old.signature);
        if old.body.procedure != new.body.procedure {
            let detail = format!("\"{}\" is a {}.", old.name, word(old));
            return Err(PgError::new("42809", "cannot change routine kind").with_detail(detail));
        }
        let hint = format!("Use DROP {} {shown} first.", word(old).to_uppercase());
        if old.body.result != new.body.result || old.body.set != new.body.set {
            let text = "cannot change return type of existing function";
            return Err(wrong(text).with_hint(hint));
        }
        let shape = |def: &RoutineDef| -> Vec<(String, ColType)> { super::columns_of(def) };
        if old.body.result == RoutineResult::Record && shape(old) != shape(new) {
            let text = "cannot change return type of existing function";
            return Err(wrong(text)
                .with_detail("Row type defined by OUT parameters is different.")
                .with_hint(hint));
        }
        // In the field's language the new definition is all there is.
        if is_field(new) {
            return Ok(());
        }
        for (old, new) in given(old).zip(given(new)) {
            if !old.name.is_empty() && old.name != new.name {
                let text = format!("cannot change name of input parameter \"{}\"", old.name);
                return Err(wrong(text).with_hint(hint));
            }
            if old.default.is_some() && new.default.is_none() {
                let text = "cannot remove parameter defaults from existing function";
                return Err(wrong(text).with_hint(hint));
            }
        }
        Ok(())
    }

    /// The routine that a statement names.
    pub(crate) async fn routine_of(
        &mut self,
        kind: RoutineKind,
        name: &RoutineName,
    ) -> Result<Option<Arc<RoutineDef>>> {
        let found = self.routines_named(name.schema.as_deref(), &name.name).await?;
        let is_wanted = |def: &RoutineDef| match kind {
            RoutineKind::Function => !def.body.procedure,
            RoutineKind::Procedure => def.body.procedure,
            RoutineKind::Either => true,
        };
        let Some(args) = &name.args else {
            let wanted: Vec<_> = found.iter().filter(|def| is_wanted(def)).collect();
            return match wanted[..] {
                [one] => Ok(Some(one.clone())),
                [] if !found.is_empty() => {
                    let text = format!("{} is not a {}", name.name, kind.word().to_lowercase());
                    Err(PgError::new("42809", text))
                }
                [] => Ok(None),
                _ => {
                    let what = kind.word().to_lowercase();
                    let text = format!("{what} name \"{}\" is not unique", name.name);
                    Err(PgError::new("42725", text).with_hint(format!(
                        "Specify the argument list to select the {what} unambiguously."
                    )))
                }
            };
        };
        let mut types = Vec::with_capacity(args.len());
        for arg in args {
            match self.type_in_definition(arg).await? {
                Named::Type(ty) => types.push(ty.to_string()),
                _ => return Ok(None),
            }
        }
        let signature = types.join(",");
        let Some(def) = found.iter().find(|def| def.signature == signature) else {
            return Ok(None);
        };
        if !is_wanted(def) {
            let what = kind.word().to_lowercase();
            let text = format!("{}({signature}) is not a {what}", name.name);
            return Err(PgError::new("42809", text));
        }
        Ok(Some(def.clone()))
    }

    /// The same, or 42883.
    pub(crate) async fn routine_named(
        &mut self,
        kind: RoutineKind,
        name: &RoutineName,
    ) -> Result<Arc<RoutineDef>> {
        match self.routine_of(kind, name).await? {
            Some(def) => Ok(def),
            None => Err(self.missing_routine(kind, name).await),
        }
    }

    /// 42883.
    async fn missing_routine(&mut self, kind: RoutineKind, name: &RoutineName) -> PgError {
        let what = kind.word().to_lowercase();
        let own = match &name.schema {
            Some(schema) => format!("{schema}.{}", name.name),
            None => name.name.clone(),
        };
        let Some(args) = &name.args else {
            return PgError::new("42883", format!("could not find a {what} named \"{own}\""));
        };
        let mut types = Vec::with_capacity(args.len());
        for arg in args {
            types.push(match self.type_in_definition(arg).await {
                Ok(Named::Type(ty)) => ty.to_string(),
                Ok(_) => arg.clone(),
                Err(error) => return error,
            });
        }
        let types = types.join(",");
        PgError::new("42883", format!("{what} {own}({types}) does not exist"))
    }

    pub(crate) async fn routine_command(&mut self, command: &RoutineCommand) -> Result<String> {
        self.check_writable("DDL")?;
        let RoutineCommand { kind, names, action } = command;
        if let RoutineAction::Drop { if_exists, cascade } = action {
            for name in names {
                match self.routine_of(*kind, name).await? {
                    Some(def) => env::boxed!(self.drop_routine(&def, *cascade)).await?,
                    None => {
                        let missing = self.missing_routine(*kind, name).await;
                        if !if_exists {
                            return Err(missing);
                        }
                        self.notice(Severity::Notice, format!("{}, skipping", missing.message));
                    }
                }
            }
            return Ok(format!("DROP {}", kind.word()));
        }
        for name in names {
            let def = self.routine_named(*kind, name).await?;
            self.check_owner(word(&def), &def.name, def.owner).await?;
            self.alter_routine(&def, action).await?;
        }
        Ok(match action {
            RoutineAction::Comment(_) => "COMMENT".to_owned(),
            _ => format!("ALTER {}", kind.word()),
        })
    }

    async fn alter_routine(&mut self, def: &RoutineDef, action: &RoutineAction) -> Result<()> {
        let txn = self.transaction()?;
        let change = match action {
            RoutineAction::Drop { .. } => return Ok(()),
            // No place in the body is one in this statement.
            RoutineAction::Compile => {
                return check_body(def).map_err(|error| PgError { position: None, ..error });
            }
            RoutineAction::Comment(text) => RoutineChange::Comment(text.as_deref()),
            RoutineAction::Rename(name) => {
                self.check_create_in(&def.schema).await?;
                self.check_uncalled(def).await?;
                RoutineChange::Rename(place(def, name))
            }
            RoutineAction::Schema(schema) => {
                if dict::schemas(&self.ctx, &txn).await?.find(schema).is_none() {
                    return Err(crate::ddl::missing_schema(schema));
                }
                self.check_create_in(schema).await?;
                if *schema == def.schema {
                    return Ok(());
                }
                self.check_uncalled(def).await?;
                RoutineChange::Schema(place(def, schema))
            }
            RoutineAction::Owner(role) => {
                let roles = self.roles().await?;
                let to = roles.find(role).ok_or_else(|| crate::access::no_role(role))?.obj;
                if to == def.owner {
                    return Ok(());
                }
                if !self.is_superuser().await? {
                    self.check_new_owner(to).await?;
                    self.check_owner_makes(to, &def.schema).await?;
                }
                RoutineChange::Owner(to)
            }
            RoutineAction::Flags(flags) => return self.set_flags(def, flags).await,
        };
        let (schema, name) = match action {
            RoutineAction::Rename(name) => (&def.schema, name),
            RoutineAction::Schema(schema) => (schema, &def.name),
            _ => (&def.schema, &def.name),
        };
        let done = dict::alter_routine(&self.ctx, &txn, def, change).await;
        done.map_err(|error| match error {
            kernel::Error::DuplicateObject(_) => place_taken(def, schema, name),
            other => other.into(),
        })
    }

    async fn set_flags(&mut self, def: &RoutineDef, flags: &RoutineFlags) -> Result<()> {
        let txn = self.transaction()?;
        let options = options_text(&def.body.options, &flags.options);
        let changes = [
            flags.volatility.map(RoutineChange::Volatility),
            flags.strict.map(RoutineChange::Strict),
            flags.definer.map(RoutineChange::Definer),
            (!flags.options.is_empty()).then_some(RoutineChange::Options(&options)),
        ];
        for change in changes.into_iter().flatten() {
            dict::alter_routine(&self.ctx, &txn, def, change).await?;
        }
        Ok(())
    }

    /// The name of a view that calls a routine; no other begins to before the transaction's end.
    async fn caller_of(&mut self, def: &RoutineDef) -> Result<Option<String>> {
        let txn = self.transaction()?;
        dict::lock_routine(&self.ctx, &txn, def).await?;
        let views = dict::dependents(&self.ctx, &txn, def.obj).await?;
        let Some((view, _)) = views.first() else { return Ok(None) };
        let view = dict::table_by_obj(&self.ctx, &txn, *view).await?;
        Ok(Some(view.map_or_else(String::new, |view| view.name.clone())))
    }

    /// Refuses to give another name to a routine that a view calls: such texts are not rewritten.
    pub(crate) async fn check_uncalled(&mut self, def: &RoutineDef) -> Result<()> {
        let Some(name) = self.caller_of(def).await? else { return Ok(()) };
        let what = format!("another name or schema for a function that view \"{name}\" calls");
        Err(PgError::unsupported(what))
    }

    pub(crate) async fn drop_routine(&mut self, def: &RoutineDef, cascade: bool) -> Result<()> {
        self.check_droppable(word(def), &def.name, &def.schema, def.owner).await?;
        let txn = self.transaction()?;
        let def = dict::lock_routine(&self.ctx, &txn, def).await?;
        let shown = format!("{} {}", word(&def), self.shown_routine(&def).await?);
        env::boxed!(self.drop_callers(&shown, def.obj, cascade)).await?;
        dict::drop_routine(&self.ctx, &txn, &def).await?;
        Ok(())
    }

    /// Drops the routines that name a type, which goes.
    pub(crate) async fn drop_routines_of(&mut self, routines: &[Arc<RoutineDef>]) -> Result<()> {
        for def in routines {
            env::boxed!(self.drop_routine(def, true)).await?;
        }
        Ok(())
    }
}

/// The type of a column that a routine gives nothing in.
pub(crate) const NOTHING: ColType = ColType::new(TypeKind::Text);
