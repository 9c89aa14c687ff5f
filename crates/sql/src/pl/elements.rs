//! Elements of collections, and records and collections as wholes, where code reads and writes
//! them.
//!
//! What it promises: indexes are worked out once for each use; a whole that is given to another one
//! is its own from then on. What it must never do: copy a collection that is only read.

use super::collections::{Account, Collection, Element, ElementForm, Form, Item, Key};
use super::declare::ranged;
use super::names::ALL_FIELDS;
use super::places::{Place, Record, field_at, not_assigned, null_not_allowed};
use super::run::Machine;
use super::tree::{Access, Made, Sql, TypeName, Use, Whole};
use super::types::{CollectionKind, Method};
use crate::{PgError, Result};
use futures::future::LocalBoxFuture;
use kernel::row::{ColType, TypeKind, Value};
use std::sync::Arc;

/// A value, with its type if it has one of its own.
pub(super) type Typed = (Value, Option<ColType>);

impl Machine<'_> {
    pub(super) fn account(&mut self) -> Arc<Account> {
        let pga = self.session.database.planner.pga();
        self.session.collected.get_or_insert_with(|| Account::new(pga)).clone()
    }

    // ---- types ------------------------------------------------------------------------------

    /// The type of a collection with those of its elements.
    fn form_of<'a>(
        &'a mut self,
        spec: &'a super::types::CollectionSpec,
    ) -> LocalBoxFuture<'a, Result<Arc<Form>>> {
        env::boxed!(async move {
            let element = match &spec.element {
                TypeName::Collection(inner) => ElementForm::Collection(self.form_of(inner).await?),
                ty => match self.resolve(ty).await? {
                    (_, Some(record)) => ElementForm::Record(record),
                    (ty, None) => ElementForm::Scalar(ty),
                },
            };
            Ok(Arc::new(Form { kind: spec.kind, element }))
        })
    }

    /// Makes a place what a declaration says, NULL or empty.
    pub(super) async fn prepare_place(
        &mut self,
        slot: usize,
        name: &str,
        ty: &TypeName,
    ) -> Result<()> {
        let collection = match ty {
            TypeName::Collection(spec) => {
                let form = self.form_of(spec).await?;
                let account = self.account();
                Some(Arc::new(Collection::new(form, account)))
            }
            _ => None,
        };
        let range = match ty {
            TypeName::Like(other, false) => self.places[*other].ranged,
            ty => ranged(ty),
        };
        let (ty, record) = match &collection {
            Some(_) => (None, None),
            None => self.resolve(ty).await?,
        };
        let place = &mut self.places[slot];
        place.name.clear();
        place.name.push_str(name);
        (place.ty, place.record, place.collection) = (ty, record, collection);
        (place.value, place.constant, place.not_null) = (Value::Null, false, false);
        place.ranged = range;
        Ok(())
    }

    // ---- indexes ----------------------------------------------------------------------------

    fn key_from(&self, kind: CollectionKind, value: Value) -> Result<Key> {
        if value.is_null() {
            return Err(PgError::new("22004", "the index of an element cannot be null"));
        }
        if let CollectionKind::ByText(most) = kind {
            let text = match value {
                Value::Text(text) => text,
                value => match self.converted(&value, ColType::new(TypeKind::Text))? {
                    Value::Text(text) => text,
                    _ => return Err(PgError::internal("a text")),
                },
            };
            if text.len() > most && text.chars().count() > most {
                let text = format!("an index of this collection has at most {most} characters");
                return Err(PgError::new("22001", text));
            }
            return Ok(Key::Text(text));
        }
        let at = match value {
            Value::Int4(at) => i64::from(at),
            Value::Int8(at) => at,
            value => match self.converted(&value, ColType::new(TypeKind::Int8))? {
                Value::Int8(at) => at,
                _ => return Err(PgError::internal("a number")),
            },
        };
        match i32::try_from(at) {
            Ok(_) => Ok(Key::Int(at)),
            Err(_) => Err(PgError::new("22003", format!("index {at} is out of range"))),
        }
    }

    /// The indexes on the way to an element.
    async fn keys(&mut self, slot: usize, indexes: &[Sql]) -> Result<Vec<Key>> {
        let mut keys = Vec::with_capacity(indexes.len());
        let mut form = self.collection_at(slot)?.form.clone();
        for index in indexes {
            let (value, _) = self.eval(index).await?;
            keys.push(self.key_from(form.kind, value)?);
            if let ElementForm::Collection(inner) = &form.element {
                let inner = inner.clone();
                form = inner;
            }
        }
        Ok(keys)
    }

    fn collection_at(&self, slot: usize) -> Result<&Arc<Collection>> {
        let collection = self.places[slot].collection.as_ref();
        collection.ok_or_else(|| PgError::internal("a collection that is not declared"))
    }

    /// A collection, or one inside of it.
    fn inner(&self, slot: usize, keys: &[Key]) -> Result<&Arc<Collection>> {
        let mut at = self.collection_at(slot)?;
        for key in keys {
            at = match at.get(key)? {
                Element::Collection(inner) => inner,
                _ => return Err(PgError::internal("an element that is no collection")),
            };
        }
        Ok(at)
    }

    /// Changes a collection, or one inside of it.
    fn change_inner(
        collection: &mut Arc<Collection>,
        keys: &[Key],
        change: &mut dyn FnMut(&mut Collection) -> Result<()>,
    ) -> Result<()> {
        let own = Collection::own(collection)?;
        match keys.split_first() {
            None => change(own),
            Some((first, rest)) => own.change(first.clone(), |element| match element {
                Element::Collection(inner) => Machine::change_inner(inner, rest, change),
                _ => Err(PgError::internal("an element that is no collection")),
            }),
        }
    }

    fn change_at(
        &mut self,
        slot: usize,
        keys: &[Key],
        mut change: impl FnMut(&mut Collection) -> Result<()>,
    ) -> Result<()> {
        let place = &mut self.places[slot];
        if place.constant {
            return Err(is_constant(place));
        }
        let collection = place.collection.as_mut();
        let collection =
            collection.ok_or_else(|| PgError::internal("a collection that is not declared"))?;
        Machine::change_inner(collection, keys, &mut change)
    }

    /// A use whose indexes are known.
    pub(super) async fn settled(&mut self, used: &Use) -> Result<Use> {
        match used.access.as_deref() {
            Some(Access::Element { indexes, field }) => {
                let keys = self.keys(used.slot, indexes).await?;
                Ok(Use::with(used.slot, Access::At { keys, field: field.clone() }))
            }
            _ => Ok(used.clone()),
        }
    }

    /// What takes the values of a row, with indexes that are known.
    pub(super) async fn settled_all(&mut self, targets: &[Use]) -> Result<Vec<Use>> {
        let mut out = Vec::with_capacity(targets.len());
        for target in targets {
            out.push(self.settled(target).await?);
        }
        Ok(out)
    }

    // ---- reading ----------------------------------------------------------------------------

    /// The element, or a field of it, that a use names whose indexes are known.
    fn element(&self, slot: usize, keys: &[Key], field: Option<&str>) -> Result<Typed> {
        let Some((last, before)) = keys.split_last() else {
            return Err(PgError::internal("an element without an index"));
        };
        let collection = self.inner(slot, before)?;
        let element = collection.get(last)?;
        match (element, &collection.form.element, field) {
            (Element::Value(value), ElementForm::Scalar(ty), None) => Ok((value.clone(), *ty)),
            (Element::Record(values), ElementForm::Record(form), Some(field)) => {
                let at = field_of(form, field)?;
                Ok((values[at].clone(), Some(form.types[at])))
            }
            (Element::Record(values), ElementForm::Record(_), None) => {
                let text = self.row_text_of(values);
                Ok((text, Some(ColType::new(TypeKind::Text))))
            }
            _ => Err(PgError::new("42804", "a collection cannot stand for a single value")),
        }
    }

    /// What a use that must be worked out is, as far as that is known without waiting.
    pub(super) fn quick(&self, used: &Use, access: &Access) -> Option<Result<Typed>> {
        let index = |sql: &Sql| -> Option<Value> {
            match &sql.uses[..] {
                [Use { slot, field: None, access: None }] if sql.text == "$1" => {
                    let place = &self.places[*slot];
                    place.is_single().then(|| place.value.clone())
                }
                _ => None,
            }
        };
        match access {
            Access::At { keys, field } => Some(self.element(used.slot, keys, field.as_deref())),
            Access::Element { indexes, field } => {
                let [only] = &indexes[..] else { return None };
                let value = index(only)?;
                let kind = self.collection_at(used.slot).ok()?.form.kind;
                let key = self.key_from(kind, value);
                Some(key.and_then(|key| self.element(used.slot, &[key], field.as_deref())))
            }
            Access::Ask { indexes, method, args } if indexes.is_empty() => {
                let collection = self.collection_at(used.slot).ok()?;
                let key = match &args[..] {
                    [] => None,
                    [only] => match index(only)? {
                        Value::Null => None,
                        value => match self.key_from(collection.form.kind, value) {
                            Ok(key) => Some(key),
                            Err(error) => return Some(Err(error)),
                        },
                    },
                    _ => return None,
                };
                Some(answer(collection, *method, key.as_ref()))
            }
            Access::OfCursor(fact) => Some(Ok(self.cursor_fact(used.slot, *fact))),
            _ => None,
        }
    }

    /// What a use that must be worked out is.
    pub(super) fn worked_out<'a>(
        &'a mut self,
        used: &'a Use,
        access: &'a Access,
    ) -> LocalBoxFuture<'a, Result<Typed>> {
        env::boxed!(async move {
            let number = |n: i64| (Value::Int8(n), Some(ColType::new(TypeKind::Int8)));
            match access {
                Access::Element { indexes, field } => {
                    let keys = self.keys(used.slot, indexes).await?;
                    self.element(used.slot, &keys, field.as_deref())
                }
                Access::At { keys, field } => self.element(used.slot, keys, field.as_deref()),
                Access::Ask { indexes, method, args } => {
                    let keys = self.keys(used.slot, indexes).await?;
                    let kind = self.inner(used.slot, &keys)?.form.kind;
                    let key = match args.first() {
                        None => None,
                        Some(arg) => match self.eval(arg).await?.0 {
                            Value::Null => None,
                            value => Some(self.key_from(kind, value)?),
                        },
                    };
                    answer(self.inner(used.slot, &keys)?, *method, key.as_ref())
                }
                Access::Whole { indexes } => {
                    let keys = self.keys(used.slot, indexes).await?;
                    let null = self.inner(used.slot, &keys)?.is_null();
                    let value = if null { Value::Null } else { Value::Bool(true) };
                    Ok((value, Some(ColType::new(TypeKind::Bool))))
                }
                Access::Call(call) => match self.call_local(call).await? {
                    Some(place) if place.is_single() => Ok((place.value, place.ty)),
                    _ => Err(PgError::new("42804", "a call that gives no single value")),
                },
                Access::Lazy(lazy) => self.run_lazy(lazy).await,
                Access::BulkRows(at) => {
                    let (at, _) = self.eval(at).await?;
                    let Key::Int(at) = self.key_from(CollectionKind::ByInteger, at)? else {
                        return Err(PgError::internal("a number"));
                    };
                    let rows = self.bulk_rows.get(&at).copied();
                    let missing =
                        || PgError::new("P0002", format!("FORALL did not run for index {at}"));
                    Ok(number(rows.ok_or_else(missing)?))
                }
                Access::BulkErrors => {
                    Ok(number(i64::try_from(self.bulk_errors.len()).unwrap_or(i64::MAX)))
                }
                Access::BulkError { at, code } => {
                    let (at, _) = self.eval(at).await?;
                    let Key::Int(at) = self.key_from(CollectionKind::ByInteger, at)? else {
                        return Err(PgError::internal("a number"));
                    };
                    let place = usize::try_from(at).ok().and_then(|at| at.checked_sub(1));
                    let found = place.and_then(|place| self.bulk_errors.get(place));
                    let missing = || {
                        let text = format!("FORALL has saved no exception {at}");
                        PgError::new("P0002", text)
                    };
                    let (turn, number_of_error) = found.ok_or_else(missing)?;
                    let code_of = i64::from(number_of_error.abs());
                    Ok(number(if *code { code_of } else { *turn }))
                }
                Access::Message(sql) => {
                    let (value, _) = self.eval(sql).await?;
                    let number = match self.converted(&value, ColType::new(TypeKind::Int4))? {
                        Value::Int4(number) => number,
                        _ => return Ok((Value::Null, Some(ColType::new(TypeKind::Text)))),
                    };
                    let text = super::conditions::message_of(number);
                    Ok((Value::Text(text.into()), Some(ColType::new(TypeKind::Text))))
                }
                Access::Measure(what) => Ok(self.measure(*what)),
                Access::Chance(chance, args) => self.by_chance(*chance, args).await,
                Access::OfCursor(fact) => Ok(self.cursor_fact(used.slot, *fact)),
            }
        })
    }

    /// A single value and its type, of a use whose indexes are known.
    pub(super) fn value_with_type(&self, used: &Use) -> Result<(Value, ColType)> {
        let (value, ty) = match (used.access.as_deref(), &used.field) {
            (Some(access), _) => {
                let quick = self.quick(used, access);
                quick.ok_or_else(|| PgError::internal("an element without an index"))??
            }
            (None, Some(field)) => {
                let place = &self.places[used.slot];
                let at = field_at(place, field)?;
                let record = place.record.as_ref();
                let record = record.ok_or_else(|| PgError::internal("a field of no record"))?;
                (record.values[at].clone(), Some(record.types[at]))
            }
            (None, None) => {
                let place = &self.places[used.slot];
                (place.value.clone(), place.ty)
            }
        };
        Ok((value, ty.unwrap_or(ColType::new(TypeKind::Text))))
    }

    /// The fields of a record that stands for all of them.
    pub(super) async fn all_fields(&mut self, used: &Use) -> Result<Record> {
        let settled = self.settled(used).await?;
        let whole = match settled.access.as_deref() {
            Some(Access::At { keys, .. }) => {
                Use::with(used.slot, Access::At { keys: keys.clone(), field: None })
            }
            _ => Use::of(used.slot),
        };
        match self.item_of(&whole)? {
            Some(Item::Record(record)) if !record.names.is_empty() => Ok(record),
            _ => Err(not_assigned(&self.places[used.slot])),
        }
    }

    // ---- wholes -----------------------------------------------------------------------------

    /// What a use names as a whole whose indexes are known; `None`: a single value.
    pub(super) fn item_of(&self, used: &Use) -> Result<Option<Item>> {
        let Some(access) = used.access.as_deref() else {
            return Ok(match used.field {
                Some(_) => None,
                None => Item::of(&self.places[used.slot]),
            });
        };
        let Access::At { keys, field: None } = access else { return Ok(None) };
        let Some((last, before)) = keys.split_last() else { return Ok(None) };
        let collection = self.inner(used.slot, before)?;
        Ok(match (collection.get(last)?, &collection.form.element) {
            (Element::Record(values), ElementForm::Record(form)) => {
                Some(Item::Record(Record { values: values.clone(), ..form.clone() }))
            }
            (Element::Collection(inner), _) => Some(Item::Collection(inner.clone())),
            _ => None,
        })
    }

    pub(super) fn item<'a>(&'a mut self, whole: &'a Whole) -> LocalBoxFuture<'a, Result<Item>> {
        env::boxed!(async move {
            match whole {
                Whole::Null => Ok(Item::Null),
                Whole::Variable(used) => {
                    let used = self.settled(used).await?;
                    let item = self.item_of(&used)?;
                    item.ok_or_else(|| PgError::new("42804", "a record or collection is wanted"))
                }
                Whole::Call(call) => {
                    let place = self.call_local(call).await?;
                    let item = place.as_ref().and_then(Item::of);
                    item.ok_or_else(|| PgError::new("42804", "a record or collection is wanted"))
                }
                Whole::Make { spec, elements } => {
                    let form = self.form_of(spec).await?;
                    let account = self.account();
                    let mut made = Collection::empty(form.clone(), account);
                    for (key, element) in elements {
                        let element = match element {
                            Made::Value(sql) => {
                                let (value, from) = self.eval(sql).await?;
                                Element::Value(self.as_element(&form, value, from)?)
                            }
                            Made::Whole(whole) => {
                                let item = self.item(whole).await?;
                                self.element_from(&form, item)?
                            }
                        };
                        match key {
                            None => made.push(element)?,
                            Some(key) => {
                                let (key, _) = self.eval(key).await?;
                                let key = self.key_from(form.kind, key)?;
                                made.change(key, |place| {
                                    *place = element;
                                    Ok(())
                                })?;
                            }
                        }
                    }
                    Ok(Item::Collection(Arc::new(made)))
                }
            }
        })
    }

    /// A value as the elements of a collection are.
    fn as_element(&self, form: &Form, value: Value, from: ColType) -> Result<Value> {
        match form.element {
            ElementForm::Scalar(Some(to)) if to == from && to.modifier == -1 => Ok(value),
            ElementForm::Scalar(Some(to)) => self.converted(&value, to),
            ElementForm::Scalar(None) if value.is_null() => Ok(value),
            ElementForm::Scalar(None) => self.converted(&value, ColType::new(TypeKind::Text)),
            _ => {
                let text = "an element that is a record or a collection takes no single value";
                Err(PgError::new("42804", text))
            }
        }
    }

    /// A row as an element: a record, or the value of its only column.
    pub(super) fn row_element(
        &self,
        form: &Form,
        row: Vec<Value>,
        types: &[ColType],
    ) -> Result<Element> {
        match &form.element {
            ElementForm::Record(record) => {
                if row.len() != record.types.len() {
                    let text = format!(
                        "a row of {} columns goes into a record of {} fields",
                        row.len(),
                        record.types.len()
                    );
                    return Err(PgError::new("42804", text));
                }
                self.record_values(record, row).map(Element::Record)
            }
            _ => {
                let ([from], Ok([value])) = (types, <[Value; 1]>::try_from(row)) else {
                    let text = "a row of several columns goes into one collection of values";
                    return Err(PgError::new("42804", text));
                };
                self.as_element(form, value, *from).map(Element::Value)
            }
        }
    }

    /// One value of a row as an element.
    pub(super) fn value_element(
        &self,
        form: &Form,
        value: Value,
        from: ColType,
    ) -> Result<Element> {
        self.as_element(form, value, from).map(Element::Value)
    }

    fn record_values(&self, form: &Record, row: Vec<Value>) -> Result<Vec<Value>> {
        let types = form.types.iter();
        row.into_iter().zip(types).map(|(value, ty)| self.converted(&value, *ty)).collect()
    }

    fn element_from(&self, form: &Form, item: Item) -> Result<Element> {
        match (item, &form.element) {
            (Item::Null, ElementForm::Record(form)) => {
                Ok(Element::Record(vec![Value::Null; form.types.len()]))
            }
            (Item::Null, ElementForm::Collection(inner)) => {
                let account = self.session.collected.clone();
                let account = account.ok_or_else(|| PgError::internal("no work area"))?;
                Ok(Element::Collection(Arc::new(Collection::new(inner.clone(), account))))
            }
            (Item::Record(record), ElementForm::Record(form)) => {
                if record.values.len() != form.types.len() {
                    let text = "a record is assigned one of as many fields";
                    return Err(PgError::new("42804", text));
                }
                match same_types(&record, form) {
                    true => Ok(Element::Record(record.values)),
                    false => self.record_values(form, record.values).map(Element::Record),
                }
            }
            (Item::Collection(inner), ElementForm::Collection(_)) => Ok(Element::Collection(inner)),
            _ => Err(PgError::new("42804", "an element of another kind is wanted")),
        }
    }

    /// Gives a record, a collection or such an element what another one holds.
    pub(super) async fn store_whole(&mut self, target: &Use, item: Item) -> Result<()> {
        if let Some(Access::At { keys, .. }) = target.access.as_deref() {
            let Some((last, before)) = keys.split_last() else {
                return Err(PgError::internal("an element without an index"));
            };
            let form = self.form_at(target.slot, before.len())?;
            let element = self.element_from(&form, item)?;
            return self.put_element(target.slot, before, last, element);
        }
        let place = &mut self.places[target.slot];
        if place.constant {
            return Err(is_constant(place));
        }
        match item {
            Item::Collection(collection) => {
                if place.not_null && collection.is_null() {
                    return Err(null_not_allowed(&place.name));
                }
                place.collection = Some(collection);
                Ok(())
            }
            Item::Record(Record { names, types, values, .. }) => {
                let (names, types) = (names.clone(), types.clone());
                self.take_row(std::slice::from_ref(target), values, &names, &types)
            }
            Item::Null => {
                let account = self.account();
                let place = &mut self.places[target.slot];
                if let Some(old) = &place.collection {
                    let form = old.form.clone();
                    if form.kind.is_associative() {
                        let text = "a collection with INDEX BY cannot be null";
                        return Err(PgError::new("42804", text)
                            .with_hint("DELETE takes away all its elements."));
                    }
                    place.collection = Some(Arc::new(Collection::new(form, account)));
                } else if let Some(record) = &mut place.record {
                    record.values.fill(Value::Null);
                }
                Ok(())
            }
        }
    }

    /// The type of a collection so many levels inside.
    fn form_at(&self, slot: usize, depth: usize) -> Result<Arc<Form>> {
        let mut form = self.collection_at(slot)?.form.clone();
        for _ in 0..depth {
            let ElementForm::Collection(inner) = &form.element else {
                return Err(PgError::internal("an element that is no collection"));
            };
            let inner = inner.clone();
            form = inner;
        }
        Ok(form)
    }

    fn put_element(
        &mut self,
        slot: usize,
        before: &[Key],
        last: &Key,
        element: Element,
    ) -> Result<()> {
        let mut element = Some(element);
        self.change_at(slot, before, |collection| {
            let new = element.take();
            collection.change(last.clone(), |place| {
                if let Some(new) = new {
                    *place = new;
                }
                Ok(())
            })
        })
    }

    /// Gives an element, or a field of one, a value.
    pub(super) fn store_element(
        &mut self,
        slot: usize,
        keys: &[Key],
        field: Option<&str>,
        value: Value,
        from: ColType,
    ) -> Result<()> {
        let Some((last, before)) = keys.split_last() else {
            return Err(PgError::internal("an element without an index"));
        };
        let form = self.form_at(slot, before.len())?;
        let Some(field) = field else {
            let element = Element::Value(self.as_element(&form, value, from)?);
            return self.put_element(slot, before, last, element);
        };
        let ElementForm::Record(record) = &form.element else {
            return Err(PgError::new("42804", "an element that is no record has no fields"));
        };
        let at = field_of(record, field)?;
        let mut value = Some(self.converted(&value, record.types[at])?);
        self.change_at(slot, before, |collection| {
            let new = value.take();
            collection.change(last.clone(), |element| {
                if let (Element::Record(values), Some(new)) = (element, new) {
                    values[at] = new;
                }
                Ok(())
            })
        })
    }

    /// Whether the elements so many levels inside are records.
    pub(super) fn element_is_record(&self, slot: usize, depth: usize) -> Result<bool> {
        let form = self.form_at(slot, depth.saturating_sub(1))?;
        Ok(matches!(form.element, ElementForm::Record(_)))
    }

    /// Gives an element that is a record a row.
    pub(super) fn store_row(&mut self, slot: usize, keys: &[Key], row: Vec<Value>) -> Result<()> {
        let Some((last, before)) = keys.split_last() else { return Ok(()) };
        let form = self.form_at(slot, before.len())?;
        let ElementForm::Record(record) = &form.element else { return Ok(()) };
        let mut values = self.record_values(record, row)?;
        values.resize(record.types.len(), Value::Null);
        self.put_element(slot, before, last, Element::Record(values))
    }

    /// More elements for a collection that rows go into.
    pub(super) fn append(&mut self, target: &Use, made: Collection) -> Result<()> {
        let keys: &[Key] = match target.access.as_deref() {
            Some(Access::At { keys, .. }) => keys,
            _ => &[],
        };
        let mut made = Some(made);
        self.change_at(target.slot, keys, |all| match made.take() {
            Some(made) => all.append(made),
            None => Ok(()),
        })
    }

    /// EXTEND, TRIM and DELETE.
    pub(super) async fn alter(&mut self, target: &Use, method: Method, args: &[Sql]) -> Result<()> {
        let target = self.settled(target).await?;
        let keys: &[Key] = match target.access.as_deref() {
            Some(Access::At { keys, .. }) => keys,
            _ => &[],
        };
        let kind = self.form_at(target.slot, keys.len())?.kind;
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            values.push(self.eval(arg).await?.0);
        }
        if values.iter().any(Value::is_null) {
            // What is not known is not deleted.
            return match method {
                Method::Delete => Ok(()),
                _ => Err(PgError::new("22004", "a number of elements cannot be null")),
            };
        }
        let count = |value: Option<&Value>| -> Result<usize> {
            let Some(value) = value else { return Ok(1) };
            let Value::Int8(count) = self.converted(value, ColType::new(TypeKind::Int8))? else {
                return Err(PgError::internal("a number"));
            };
            let negative = || PgError::new("22003", "a number of elements cannot be negative");
            usize::try_from(count).map_err(|_| negative())
        };
        match method {
            Method::Extend => {
                let more = count(values.first())?;
                let like = match values.get(1) {
                    Some(value) => Some(self.key_from(kind, value.clone())?),
                    None => None,
                };
                self.change_at(target.slot, keys, |all| all.extend(more, like.as_ref()))
            }
            Method::Trim => {
                let less = count(values.first())?;
                self.change_at(target.slot, keys, |all| all.trim(less))
            }
            _ => {
                let mut bounds = Vec::with_capacity(2);
                for value in values {
                    bounds.push(self.key_from(kind, value)?);
                }
                self.change_at(target.slot, keys, |all| match &bounds[..] {
                    [] => {
                        // Of one that is NULL it is an error.
                        all.ask(Method::Count, None)?;
                        all.clear();
                        Ok(())
                    }
                    [one] => all.delete(one, one),
                    [from, to, ..] => all.delete(from, to),
                })
            }
        }
    }
}

/// What a collection says of itself.
fn answer(collection: &Collection, method: Method, key: Option<&Key>) -> Result<Typed> {
    let value = collection.ask(method, key)?;
    let kind = match (method, collection.form.kind) {
        (Method::Exists, _) => TypeKind::Bool,
        (Method::Count | Method::Limit, _) => TypeKind::Int4,
        (_, CollectionKind::ByText(_)) => TypeKind::Text,
        _ => TypeKind::Int4,
    };
    Ok((value, Some(ColType::new(kind))))
}

fn field_of(record: &Record, field: &str) -> Result<usize> {
    debug_assert_ne!(field, ALL_FIELDS);
    let at = record.names.iter().position(|name| name == field);
    at.ok_or_else(|| PgError::new("42703", format!("an element has no field \"{field}\"")))
}

fn same_types(a: &Record, b: &Record) -> bool {
    a.types == b.types && a.types.iter().all(|ty| ty.modifier == -1)
}

pub(super) fn is_constant(place: &Place) -> PgError {
    let text = format!("variable \"{}\" is declared CONSTANT", place.name);
    PgError::new("22005", text)
}
