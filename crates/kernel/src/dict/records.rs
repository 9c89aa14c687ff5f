//! Between rows of the dictionary's tables and definitions.
//!
//! Reads one object's rows at one snapshot and puts its definition together; makes the values of
//! the rows that describe an object. Knows nothing of caches and locks.

use std::sync::Arc;

use block::{Dba, ObjId, Rowid, Scn};
use observe::Ctx;

use super::acl::Acl;
use super::condition::Condition;
use super::def::{
    CheckDef, CheckOption, ColumnDef, Derived, ForeignKeyDef, Generated, KeyAction, Materialized,
    ObjectDef, ObjectKind, ReferenceDef, SchemaDef, SequenceDef, TableDef, TypeDef, Use, UserDef,
    ViewDef,
};
use super::expression::{Evaluator, KEY_EXPR, exprs_of};
use super::fixed::Fixed;
use super::index::{Included, IndexDef, IndexKind};
use super::state::Dict;
use super::store::{self, Record, int4, int8, obj, text_or_null};
use super::times::Times;
use crate::error::{Error, Result};
use crate::row::KeyOrder;
use crate::row::{ColType, Datum, EnumLabel, EnumType, RowTypes, TypeKind, Value, is_stored_value};
use crate::txn::Snapshot;

/// Positions of columns that are read or changed by themselves.
pub(super) mod at {
    pub const OBJ_OWNER: usize = 1;
    pub const OBJ_SCHEMA: usize = 2;
    pub const OBJ_NAME: usize = 3;
    pub const OBJ_VERSION: usize = 6;
    pub const OBJ_FORM: usize = 8;
    pub const OBJ_ACL: usize = 7;
    pub const OBJ_TIMES: usize = 9;
    pub const TAB_HEADER: usize = 1;
    pub const TAB_BIRTH: usize = 2;
    pub const TAB_COMMENT: usize = 3;
    pub const COL_TYPE: usize = 3;
    pub const COL_MODIFIER: usize = 4;
    pub const COL_NOT_NULL: usize = 5;
    pub const COL_COMMENT: usize = 8;
    pub const COL_ACL: usize = 10;
    pub const SCHEMA_NAME: usize = 1;
    pub const SCHEMA_OWNER: usize = 2;
    pub const SCHEMA_ACL: usize = 3;
    pub const IND_COLUMNS: usize = 2;
    pub const IND_CONSTRAINT: usize = 5;
    pub const IND_HEADER: usize = 6;
    pub const IND_ROOT: usize = 7;
    pub const IND_BIRTH: usize = 8;
    pub const IND_PREDICATE: usize = 9;
    pub const IND_EXPRS: usize = 10;
    pub const REF_COLUMNS: usize = 3;
    pub const REF_VALIDATED: usize = 11;
    pub const SEQ_TABLE: usize = 8;
    pub const SEQ_HIGHWATER: usize = 9;
    pub const SEQ_USED: usize = 10;
    pub const SEQ_TYPE: usize = 11;
    pub const SEQ_GENERATION: usize = 12;
    pub const TYPE_SCHEMA: usize = 1;
    pub const TYPE_NAME: usize = 2;
    pub const TYPE_OWNER: usize = 3;
    pub const TYPE_ACL: usize = 4;
    pub const TYPE_COMMENT: usize = 5;
    pub const TYPE_TIMES: usize = 6;
    pub const ENUM_LABEL: usize = 3;
    pub const USER_VERIFIER: usize = 2;
    pub const USER_MADE: usize = 13;
}

/// A list of access rights; NULL: what the kind gives by default.
pub(super) fn acl_of(row: &Record, i: usize) -> Result<Option<Acl>> {
    let parse = |text| Acl::parse(text).ok_or_else(|| row.unknown("list of access rights"));
    row.text_or_null(i)?.map(parse).transpose()
}

/// The same as a value to store.
pub(super) fn acl_value(acl: Option<&Acl>) -> Value {
    acl.map_or(Value::Null, |acl| Value::Text(acl.to_string().into()))
}

pub(super) fn object_of(row: &Record) -> Result<ObjectDef> {
    Ok(ObjectDef {
        obj: row.obj(0)?,
        owner: row.obj(1)?,
        schema: row.text(2)?.to_owned(),
        name: row.text(3)?.to_owned(),
        kind: ObjectKind::from_code(row.text(4)?).ok_or_else(|| row.unknown("object kind"))?,
        created: row.scn(5)?,
        version: row.number(at::OBJ_VERSION)?,
        form: row.number(at::OBJ_FORM)?,
        acl: acl_of(row, at::OBJ_ACL)?,
        times: Times::read(row, at::OBJ_TIMES)?,
    })
}

/// Of a new object, which has no rights of its own yet.
pub(super) fn object_values(def: &ObjectDef) -> Result<[Datum<'_>; 12]> {
    let [made, altered, shaped] = def.times.values();
    Ok([
        obj(def.obj),
        obj(def.owner),
        Datum::Text(&def.schema),
        Datum::Text(&def.name),
        Datum::Text(def.kind.code()),
        int8(def.created.0)?,
        int8(def.version)?,
        Datum::Null,
        int8(def.form)?,
        made,
        altered,
        shaped,
    ])
}

pub(super) async fn object_by_name(
    ctx: &Ctx,
    dict: &Dict,
    snap: &Snapshot,
    schema: &str,
    name: &str,
) -> Result<Option<ObjectDef>> {
    let key = [Datum::Text(schema), Datum::Text(name)];
    let row = store::one(ctx, snap, dict.fixed(Fixed::Obj), 1, &key).await?;
    row.as_ref().map(object_of).transpose()
}

pub(super) async fn object_by_obj(
    ctx: &Ctx,
    dict: &Dict,
    snap: &Snapshot,
    number: ObjId,
) -> Result<Option<ObjectDef>> {
    let row = store::one(ctx, snap, dict.fixed(Fixed::Obj), 0, &[obj(number)]).await?;
    row.as_ref().map(object_of).transpose()
}

/// Of a table that has no comment yet.
pub(super) fn table_values(number: ObjId, header: Dba, birth: Scn) -> Result<[Datum<'static>; 4]> {
    Ok([obj(number), int8(header.to_u64())?, int8(birth.0)?, Datum::Null])
}

pub(super) fn column_of(row: &Record) -> Result<ColumnDef> {
    let code = u8::try_from(row.int(at::COL_TYPE)?).map_err(|_| row.unknown("type"))?;
    let kind = TypeKind::from_code(code).ok_or_else(|| row.unknown("type"))?;
    let missing = row.bytes_or_null(7)?.map(Box::<[u8]>::from);
    if missing.as_ref().is_some_and(|value| !is_stored_value(kind, value)) {
        return Err(row.unknown("value of a column"));
    }
    Ok(ColumnDef {
        name: row.text(2)?.to_owned(),
        ty: ColType { kind, modifier: row.int4(at::COL_MODIFIER)? },
        not_null: row.bool(at::COL_NOT_NULL)?,
        default: row.text_or_null(6)?.map(str::to_owned),
        missing,
        comment: row.text_or_null(at::COL_COMMENT)?.map(str::to_owned),
        generated: match row.text_or_null(9)? {
            None => None,
            Some(code) => {
                let kind = Generated::from_code(code);
                Some(kind.ok_or_else(|| row.unknown("kind of generated column"))?)
            }
        },
        acl: acl_of(row, at::COL_ACL)?,
    })
}

pub(super) fn column_values<'a>(
    number: ObjId,
    position: usize,
    def: &'a ColumnDef,
    acl: Option<&'a str>,
) -> Result<[Datum<'a>; 11]> {
    Ok([
        obj(number),
        int4(position)?,
        Datum::Text(&def.name),
        Datum::Int4(i32::from(def.ty.kind.code())),
        Datum::Int4(stored_modifier(def.ty)),
        Datum::Bool(def.not_null),
        text_or_null(def.default.as_deref()),
        def.missing.as_deref().map_or(Datum::Null, Datum::Bytea),
        text_or_null(def.comment.as_deref()),
        text_or_null(def.generated.map(Generated::code)),
        text_or_null(acl),
    ])
}

/// An enum is stored as the number of its type: what names its definition counts in this process.
pub(super) fn stored_modifier(ty: ColType) -> i32 {
    ty.enum_type().map_or(ty.modifier, |def| def.obj.0.cast_signed())
}

/// Of one column as stored, the type with the definition that counts now.
async fn with_enum(
    ctx: &Ctx,
    dict: &Dict,
    snap: &Snapshot,
    mut column: ColumnDef,
) -> Result<ColumnDef> {
    if column.ty.kind == TypeKind::Enum {
        let number = ObjId(column.ty.modifier.cast_unsigned());
        let row = store::one(ctx, snap, dict.fixed(Fixed::Type), 0, &[obj(number)]).await?;
        let missing = || Error::Invariant(format!("column {} has no type", column.name));
        column.ty = read_type(ctx, dict, snap, &row.ok_or_else(missing)?).await?.ty;
    }
    Ok(column)
}

/// The type that a row of `type$` describes.
pub(super) async fn read_type(
    ctx: &Ctx,
    dict: &Dict,
    snap: &Snapshot,
    row: &Record,
) -> Result<TypeDef> {
    let number = row.obj(0)?;
    let rows = store::by_key(ctx, snap, dict.fixed(Fixed::Enum), 0, &[obj(number)]).await?;
    let label = |row: &Record| -> Result<EnumLabel> {
        let text = row.text(at::ENUM_LABEL)?.to_owned();
        Ok(EnumLabel { obj: row.obj(2)?, position: row.int(1)?, text })
    };
    let def = EnumType {
        obj: number,
        schema: row.text(at::TYPE_SCHEMA)?.to_owned(),
        name: row.text(at::TYPE_NAME)?.to_owned(),
        labels: rows.iter().map(label).collect::<Result<_>>()?,
    };
    let mut ty = TypeDef::new(def, row.obj(at::TYPE_OWNER)?, acl_of(row, at::TYPE_ACL)?);
    ty.comment = row.text_or_null(at::TYPE_COMMENT)?.map(str::to_owned);
    ty.times = Times::read(row, at::TYPE_TIMES)?;
    Ok(ty)
}

fn positions(row: &Record, i: usize) -> Result<Vec<u16>> {
    row.text(i)?
        .split(',')
        .map(|position| position.parse().map_err(|_| row.unknown("list of columns")))
        .collect()
}

/// What `ind$` says of an index's columns.
struct Key {
    kind: IndexKind,
    columns: Vec<u16>,
    orders: Vec<KeyOrder>,
    included: Included,
}

/// The positions of a key's columns, each with the order that was asked for.
fn key_columns(row: &Record) -> Result<Key> {
    let (mut columns, mut orders) = (Vec::new(), Vec::new());
    let text = row.text(at::IND_COLUMNS)?;
    let (kind, text) = match (text.strip_prefix(BITMAP), text.strip_prefix(REVERSE)) {
        (Some(text), _) => (IndexKind::Bitmap, text),
        (_, Some(text)) => (IndexKind::Reverse, text),
        (None, None) => (IndexKind::Tree, text),
    };
    let (keys, more) = text.split_at(text.find([STORED, BESIDE]).unwrap_or(text.len()));
    let mut included = Included { columns: Vec::new(), stored: more.starts_with(STORED) };
    for one in more.split([STORED, BESIDE, ',']).filter(|one| !one.is_empty()) {
        included.columns.push(one.parse().map_err(|_| row.unknown("list of columns"))?);
    }
    for one in keys.split(',') {
        let end = one.find(|c: char| !c.is_ascii_digit()).unwrap_or(one.len());
        let (position, order) = one.split_at(end);
        let order = KeyOrder::of_code(order);
        let (Ok(position), Some(order)) = (position.parse(), order) else {
            return Err(row.unknown("list of columns"));
        };
        columns.push(position);
        orders.push(order);
    }
    if orders.iter().all(|order| *order == KeyOrder::default()) {
        orders.clear();
    }
    if included.stored {
        columns.extend(&included.columns);
    }
    Ok(Key { kind, columns, orders, included })
}

/// Before the columns of a bitmap index.
const BITMAP: char = '*';
/// Before those of one whose keys are turned round.
const REVERSE: char = '~';

/// Before included columns that entries hold.
const STORED: char = '+';
/// Before those that they do not.
const BESIDE: char = ';';

/// `name` is kept in `obj$`; `evaluator` computes its expressions.
pub(super) fn index_of(row: &Record, name: String, evaluator: &Evaluator) -> Result<IndexDef> {
    let Key { kind, columns, orders, included } = key_columns(row)?;
    let predicate = match row.bytes_or_null(at::IND_PREDICATE)? {
        None => None,
        Some(bytes) => {
            let known = Condition::decode(bytes);
            Some(known.ok_or_else(|| row.unknown("predicate of an index"))?)
        }
    };
    let exprs = match row.bytes_or_null(at::IND_EXPRS)? {
        None => Vec::new(),
        Some(bytes) => exprs_of(bytes).ok_or_else(|| row.unknown("expressions of an index"))?,
    };
    let known = |column: &u16| match column.checked_sub(KEY_EXPR) {
        Some(at) => usize::from(at) < exprs.len(),
        None => true,
    };
    if !columns.iter().all(known) {
        return Err(row.unknown("expression of an index"));
    }
    let evaluator = if exprs.is_empty() { Evaluator::default() } else { evaluator.clone() };
    if kind == IndexKind::Bitmap && row.bool(3)? {
        return Err(row.unknown("kind of a unique index"));
    }
    Ok(IndexDef {
        kind,
        obj: row.obj(0)?,
        name,
        table: row.obj(1)?,
        columns,
        included,
        orders,
        unique: row.bool(3)?,
        primary: row.bool(4)?,
        constraint: row.text_or_null(5)?.map(str::to_owned),
        header: row.dba(at::IND_HEADER)?,
        root: row.dba(at::IND_ROOT)?,
        birth: row.scn(at::IND_BIRTH)?,
        predicate,
        exprs,
        evaluator,
        derived: Derived::default(),
    })
}

/// The positions of an index's columns as `ind$` keeps them: of the key, and those included.
pub(super) fn key_list(
    kind: IndexKind,
    columns: &[u16],
    orders: &[KeyOrder],
    included: &Included,
) -> String {
    let orders = orders.iter().map(|order| order.code()).chain(std::iter::repeat(""));
    let one = |(position, order): (&u16, &str)| format!("{position}{order}");
    let all: Vec<String> = columns.iter().zip(orders).map(one).collect();
    let mut keys = all.join(",");
    match kind {
        IndexKind::Tree => {}
        IndexKind::Reverse => keys.insert(0, REVERSE),
        IndexKind::Bitmap => keys.insert(0, BITMAP),
    }
    if included.columns.is_empty() {
        return keys;
    }
    let mark = if included.stored { STORED } else { BESIDE };
    format!("{keys}{mark}{}", column_list(&included.columns))
}

/// The positions of columns.
pub(super) fn column_list(columns: &[u16]) -> String {
    let positions: Vec<String> = columns.iter().map(u16::to_string).collect();
    positions.join(",")
}

/// The predicate of an index as `ind$` keeps it.
pub(super) fn predicate_bytes(condition: &Condition) -> Vec<u8> {
    let mut bytes = Vec::new();
    condition.encode(&mut bytes);
    bytes
}

/// `columns`, `predicate` and `exprs` as they are kept.
pub(super) fn index_values<'a>(
    def: &'a IndexDef,
    columns: &'a str,
    predicate: Option<&'a [u8]>,
    exprs: Option<&'a [u8]>,
) -> Result<[Datum<'a>; 11]> {
    Ok([
        obj(def.obj),
        obj(def.table),
        Datum::Text(columns),
        Datum::Bool(def.unique),
        Datum::Bool(def.primary),
        text_or_null(def.constraint.as_deref()),
        int8(def.header.to_u64())?,
        int8(def.root.to_u64())?,
        int8(def.birth.0)?,
        predicate.map_or(Datum::Null, Datum::Bytea),
        exprs.map_or(Datum::Null, Datum::Bytea),
    ])
}

/// Kinds of constraints in `con$`.
const CHECK: &str = "c";
/// A CHECK constraint that rows from before it need not meet.
const CHECK_NOT_VALID: &str = "n";

pub(super) fn check_of(row: &Record) -> Result<CheckDef> {
    let valid = match row.text(3)? {
        CHECK => true,
        CHECK_NOT_VALID => false,
        _ => return Err(row.unknown("kind of constraint")),
    };
    let (name, expr) = (row.text(1)?.to_owned(), row.text(4)?.to_owned());
    Ok(CheckDef { obj: row.obj(2)?, name, expr, valid })
}

pub(super) fn check_values(table: ObjId, def: &CheckDef) -> [Datum<'_>; 5] {
    let kind = Datum::Text(if def.valid { CHECK } else { CHECK_NOT_VALID });
    [obj(table), Datum::Text(&def.name), obj(def.obj), kind, Datum::Text(&def.expr)]
}

async fn read_view(
    ctx: &Ctx,
    dict: &Dict,
    snap: &Snapshot,
    object: &ObjectDef,
) -> Result<Option<ViewDef>> {
    if object.kind != ObjectKind::View {
        return Ok(None);
    }
    let key = [obj(object.obj)];
    let Some(row) = store::one(ctx, snap, dict.fixed(Fixed::View), 0, &key).await? else {
        return Ok(None);
    };
    let uses = read_uses(ctx, dict, snap, object.obj).await?;
    let check = match row.text_or_null(2)? {
        None => None,
        Some(code) => {
            let known = CheckOption::from_code(code);
            Some(known.ok_or_else(|| row.unknown("check option"))?)
        }
    };
    Ok(Some(ViewDef { text: row.text(1)?.to_owned(), uses, check }))
}

/// In the place of a check option: a materialized view whose rows have been computed.
pub(super) const POPULATED: &str = "m";
/// One whose rows have not.
pub(super) const NOT_POPULATED: &str = "u";

async fn read_materialized(
    ctx: &Ctx,
    dict: &Dict,
    snap: &Snapshot,
    object: &ObjectDef,
) -> Result<Option<Materialized>> {
    if object.kind != ObjectKind::Materialized {
        return Ok(None);
    }
    let row = store::one(ctx, snap, dict.fixed(Fixed::View), 0, &[obj(object.obj)]).await?;
    let what = || Error::Invariant(format!("materialized view {} has no text", object.name));
    let row = row.ok_or_else(what)?;
    let uses = read_uses(ctx, dict, snap, object.obj).await?;
    let populated = match row.text(2)? {
        POPULATED => true,
        NOT_POPULATED => false,
        _ => return Err(row.unknown("state of a materialized view")),
    };
    let view = ViewDef { text: row.text(1)?.to_owned(), uses, check: None };
    Ok(Some(Materialized { view, populated }))
}

async fn read_uses(ctx: &Ctx, dict: &Dict, snap: &Snapshot, number: ObjId) -> Result<Vec<Use>> {
    let uses = store::by_key(ctx, snap, dict.fixed(Fixed::Dep), 0, &[obj(number)]).await?;
    uses.iter().map(use_of).collect()
}

fn use_of(row: &Record) -> Result<Use> {
    Ok(Use { obj: row.obj(1)?, column: row.text(2)?.to_owned() })
}

/// Of what uses `used`: who, and which column.
pub(super) fn user_of_use(row: &Record) -> Result<(ObjId, String)> {
    Ok((row.obj(0)?, row.text(2)?.to_owned()))
}

pub(super) fn use_values(view: ObjId, used: &Use) -> [Datum<'_>; 3] {
    [obj(view), obj(used.obj), Datum::Text(&used.column)]
}

pub(super) fn schema_of(row: &Record) -> Result<SchemaDef> {
    let (name, owner) = (row.text(1)?.to_owned(), row.obj(at::SCHEMA_OWNER)?);
    Ok(SchemaDef { obj: row.obj(0)?, name, owner, acl: acl_of(row, at::SCHEMA_ACL)? })
}

/// `acl`: its rights as text.
pub(super) fn schema_values<'a>(def: &'a SchemaDef, acl: Option<&'a str>) -> [Datum<'a>; 4] {
    [obj(def.obj), Datum::Text(&def.name), obj(def.owner), text_or_null(acl)]
}

pub(super) fn foreign_of(row: &Record) -> Result<ForeignKeyDef> {
    let mut actions = row.text(7)?.chars().map(KeyAction::from_code);
    let mut action = || actions.next().flatten().ok_or_else(|| row.unknown("action"));
    let (on_delete, on_update) = (action()?, action()?);
    Ok(ForeignKeyDef {
        table: row.obj(0)?,
        name: row.text(1)?.to_owned(),
        obj: row.obj(2)?,
        columns: positions(row, at::REF_COLUMNS)?,
        parent: row.obj(4)?,
        index: row.obj(5)?,
        parts: positions(row, 6)?,
        on_delete,
        on_update,
        full: row.bool(8)?,
        deferrable: row.bool(9)?,
        deferred: row.bool(10)?,
        validated: row.bool(at::REF_VALIDATED)?,
    })
}

fn reference_of(row: &Record) -> Result<ReferenceDef> {
    Ok(ReferenceDef { key: row.obj(2)?, table: row.obj(0)?, index: row.obj(5)? })
}

/// The row of a foreign key in `ref$`.
pub(super) fn foreign_values(def: &ForeignKeyDef) -> [Value; 12] {
    let number = |obj: ObjId| Value::Int8(i64::from(obj.0));
    let list = |positions: &[u16]| Value::Text(column_list(positions).into());
    let actions = [def.on_delete.code(), def.on_update.code()];
    [
        number(def.table),
        Value::Text(def.name.as_str().into()),
        number(def.obj),
        list(&def.columns),
        number(def.parent),
        number(def.index),
        list(&def.parts),
        Value::Text(actions.iter().collect::<String>().into()),
        Value::Bool(def.full),
        Value::Bool(def.deferrable),
        Value::Bool(def.deferred),
        Value::Bool(def.validated),
    ]
}

/// The definition of a table or a view; `None` if the object is none or is not there at this
/// snapshot.
pub(super) async fn read_table(
    ctx: &Ctx,
    dict: &Dict,
    snap: &Snapshot,
    object: &ObjectDef,
) -> Result<Option<TableDef>> {
    let key = [obj(object.obj)];
    let Some(tab) = store::one(ctx, snap, dict.fixed(Fixed::Tab), 0, &key).await? else {
        return Ok(None);
    };
    let mut columns = Vec::new();
    for row in &store::by_key(ctx, snap, dict.fixed(Fixed::Col), 0, &key).await? {
        columns.push(with_enum(ctx, dict, snap, column_of(row)?).await?);
    }
    let mut indexes = Vec::new();
    for row in store::by_key(ctx, snap, dict.fixed(Fixed::Ind), 1, &key).await? {
        let number = row.obj(0)?;
        let name = object_by_obj(ctx, dict, snap, number).await?;
        let name = name.ok_or_else(|| row.unknown("index"))?.name;
        indexes.push(Arc::new(index_of(&row, name, &dict.evaluator())?));
    }
    let checks = store::by_key(ctx, snap, dict.fixed(Fixed::Con), 0, &key).await?;
    let checks = checks.iter().map(check_of).collect::<Result<Vec<_>>>()?;
    let view = read_view(ctx, dict, snap, object).await?;
    let materialized = read_materialized(ctx, dict, snap, object).await?;
    let foreign = store::by_key(ctx, snap, dict.fixed(Fixed::Ref), 0, &key).await?;
    let foreign = foreign.iter().map(|row| foreign_of(row).map(Arc::new));
    let foreign = foreign.collect::<Result<Vec<_>>>()?;
    let referenced = store::by_key(ctx, snap, dict.fixed(Fixed::Ref), 1, &key).await?;
    let referenced = referenced.iter().map(reference_of).collect::<Result<Vec<_>>>()?;
    let (computed, indexes): (Vec<Arc<IndexDef>>, Vec<_>) =
        indexes.into_iter().partition(|index: &Arc<IndexDef>| !index.exprs.is_empty());
    let (partial, indexes): (Vec<Arc<IndexDef>>, Vec<_>) =
        indexes.into_iter().partition(|index: &Arc<IndexDef>| index.predicate.is_some());
    let birth = tab.scn(at::TAB_BIRTH)?;
    // Whoever learns of the table may read it: no statement to come here gets an older snapshot,
    // also while a commit from before is still under way.
    let newest =
        indexes.iter().chain(&partial).chain(&computed).map(|i| i.birth).fold(birth, Scn::max);
    snap.core().clock.raise(newest);
    snap.core().snapshots.raise_floor(newest);
    Ok(Some(TableDef {
        obj: object.obj,
        schema: object.schema.clone(),
        name: object.name.clone(),
        owner: object.owner,
        acl: object.acl.clone(),
        types: RowTypes::new(
            columns.iter().map(|column| column.ty).collect(),
            columns.iter().map(|column| column.missing.clone()).collect(),
        ),
        columns,
        header: tab.dba(at::TAB_HEADER)?,
        birth,
        indexes,
        partial,
        computed,
        checks,
        foreign,
        referenced,
        comment: tab.text_or_null(at::TAB_COMMENT)?.map(str::to_owned),
        view,
        materialized,
        derived: Derived::default(),
        statistics: Derived::default(),
        changes: dict.changes_of(object.obj),
        version: object.version,
        form: object.form,
    }))
}

/// The type that a sequence gives values of.
fn sequence_kind(row: &Record) -> Result<TypeKind> {
    let code = u8::try_from(row.int(at::SEQ_TYPE)?).ok();
    let kind = code.and_then(TypeKind::from_code);
    let known = [TypeKind::Int2, TypeKind::Int4, TypeKind::Int8];
    kind.filter(|kind| known.contains(kind)).ok_or_else(|| row.unknown("type of a sequence"))
}

pub(super) fn sequence_of(row: &Record, object: &ObjectDef) -> Result<SequenceDef> {
    Ok(SequenceDef {
        obj: object.obj,
        schema: object.schema.clone(),
        name: object.name.clone(),
        owner: object.owner,
        acl: object.acl.clone(),
        kind: sequence_kind(row)?,
        start: row.int(1)?,
        increment: row.int(2)?,
        min: row.int(3)?,
        max: row.int(4)?,
        cache: row.int(5)?,
        cycle: row.bool(6)?,
        order: row.bool(7)?,
        table: row.obj_or_null(at::SEQ_TABLE)?,
        generation: sequence_generation(row)?,
        version: object.version,
    })
}

/// How often the rules of a sequence were changed.
pub(super) fn sequence_generation(row: &Record) -> Result<i64> {
    Ok(row.int_or_null(at::SEQ_GENERATION)?.unwrap_or(0))
}

pub(super) async fn read_sequence(
    ctx: &Ctx,
    dict: &Dict,
    snap: &Snapshot,
    object: &ObjectDef,
) -> Result<Option<SequenceDef>> {
    let row = store::one(ctx, snap, dict.fixed(Fixed::Seq), 0, &[obj(object.obj)]).await?;
    row.map(|row| sequence_of(&row, object)).transpose()
}

/// A new sequence's row: nothing handed out yet, so the high-water mark is the first value, unused.
pub(super) fn sequence_values(def: &SequenceDef) -> [Datum<'static>; 13] {
    [
        obj(def.obj),
        Datum::Int8(def.start),
        Datum::Int8(def.increment),
        Datum::Int8(def.min),
        Datum::Int8(def.max),
        Datum::Int8(def.cache),
        Datum::Bool(def.cycle),
        Datum::Bool(def.order),
        def.table.map_or(Datum::Null, obj),
        Datum::Int8(def.start),
        Datum::Bool(false),
        Datum::Int4(i32::from(def.kind.code())),
        Datum::Int8(def.generation),
    ]
}

pub(super) fn user_of(row: &Record) -> Result<UserDef> {
    let connections = row.int4(10)?;
    let valid_until = if row.is_null(11) { None } else { Some(row.int(11)?) };
    Ok(UserDef {
        obj: row.obj(0)?,
        name: row.text(1)?.to_owned(),
        verifier: row.text_or_null(at::USER_VERIFIER)?.map(str::to_owned),
        superuser: row.bool(3)?,
        inherit: row.bool(4)?,
        create_role: row.bool(5)?,
        create_db: row.bool(6)?,
        login: row.bool(7)?,
        replication: row.bool(8)?,
        bypass_rls: row.bool(9)?,
        connections,
        valid_until,
        config: row.text_or_null(12)?.map(read_config).unwrap_or_default(),
        made_us: row.int_or_null(at::USER_MADE)?,
    })
}

/// One setting a line; a backslash keeps line ends and backslashes.
fn read_config(text: &str) -> Vec<(String, String)> {
    let lines = text.split('\n').filter_map(|line| line.split_once('='));
    let plain = |value: &str| {
        let mut out = String::new();
        let mut chars = value.chars();
        while let Some(c) = chars.next() {
            match (c, chars.clone().next()) {
                ('\\', Some('n')) => out.push('\n'),
                ('\\', Some('\\')) => out.push('\\'),
                (c, _) => {
                    out.push(c);
                    continue;
                }
            }
            chars.next();
        }
        out
    };
    lines.map(|(name, value)| (name.to_owned(), plain(value))).collect()
}

fn config_text(config: &[(String, String)]) -> Option<String> {
    let kept = |value: &str| value.replace('\\', "\\\\").replace('\n', "\\n");
    let lines: Vec<String> =
        config.iter().map(|(name, value)| format!("{name}={}", kept(value))).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// All columns of a role's row but its number, by position.
pub(super) fn user_values(def: &UserDef) -> Vec<(usize, Value)> {
    let text = |text: Option<&str>| text.map_or(Value::Null, |text| Value::Text(text.into()));
    let config = config_text(&def.config);
    let values = [
        Value::Int8(i64::from(def.obj.0)),
        text(Some(&def.name)),
        text(def.verifier.as_deref()),
        Value::Bool(def.superuser),
        Value::Bool(def.inherit),
        Value::Bool(def.create_role),
        Value::Bool(def.create_db),
        Value::Bool(def.login),
        Value::Bool(def.replication),
        Value::Bool(def.bypass_rls),
        Value::Int4(def.connections),
        def.valid_until.map_or(Value::Null, Value::Int8),
        text(config.as_deref()),
        def.made_us.map_or(Value::Null, Value::Int8),
    ];
    values.into_iter().enumerate().collect()
}

pub(super) async fn read_user(
    ctx: &Ctx,
    dict: &Dict,
    snap: &Snapshot,
    name: &str,
) -> Result<Option<UserDef>> {
    let row = store::one(ctx, snap, dict.fixed(Fixed::User), 0, &[Datum::Text(name)]).await?;
    row.as_ref().map(user_of).transpose()
}

/// A segment that belongs to nobody, or to a transaction that has not committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Orphan {
    pub header: Dba,
    pub birth: Scn,
    pub obj: ObjId,
    /// The instance that frees it.
    pub instance: u8,
}

pub(super) fn orphan_of(row: &Record) -> Result<(Rowid, Orphan)> {
    let instance = u8::try_from(row.int(3)?).map_err(|_| row.unknown("instance"))?;
    let (header, birth, obj) = (row.dba(0)?, row.scn(1)?, row.obj(2)?);
    Ok((row.rowid, Orphan { header, birth, obj, instance }))
}

pub(super) fn orphan_values(orphan: &Orphan) -> Result<[Datum<'static>; 4]> {
    Ok([
        int8(orphan.header.to_u64())?,
        int8(orphan.birth.0)?,
        obj(orphan.obj),
        Datum::Int4(i32::from(orphan.instance)),
    ])
}
