//! Collections of the field's code while it runs: what they hold, and what it weighs.
//!
//! What it promises: errors are those of the field; every element is charged to the session's work
//! area, and given back when it goes. What it must never do: grow beyond what the work areas allow.

use super::places::{Place, Record};
use super::types::{CollectionKind, Method};
use crate::{PgError, Result};
use kernel::row::{ColType, Value};
use query::memory::{Pga, Reservation};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What is asked for beyond what is needed, and given back only beyond it.
const STEP_BYTES: usize = 256 << 10;
/// What an element takes in a list, and in a tree, beside what it holds.
const LISTED_BYTES: usize = 64;
const KEYED_BYTES: usize = 112;

/// The index of an element.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Key {
    Int(i64),
    Text(Box<str>),
}

impl Key {
    pub(super) fn into_value(self) -> Value {
        match self {
            Key::Int(at) => i32::try_from(at).map_or(Value::Int8(at), Value::Int4),
            Key::Text(text) => Value::Text(text),
        }
    }
}

/// What the collections of a session hold.
#[derive(Debug)]
pub(crate) struct Account {
    reserved: Reservation,
    used_bytes: AtomicUsize,
}

impl Account {
    pub(crate) fn new(pga: &Arc<Pga>) -> Arc<Account> {
        let reserved = Reservation::new(pga, "collections");
        Arc::new(Account { reserved, used_bytes: AtomicUsize::new(0) })
    }

    fn take(&self, bytes: usize) -> Result<()> {
        let used = self.used_bytes.load(Ordering::Relaxed).saturating_add(bytes);
        let reserved = self.reserved.bytes();
        if used > reserved {
            self.reserved.grow((used - reserved).max(STEP_BYTES))?;
        }
        self.used_bytes.store(used, Ordering::Relaxed);
        Ok(())
    }

    fn give_back(&self, bytes: usize) {
        let used = self.used_bytes.load(Ordering::Relaxed).saturating_sub(bytes);
        self.used_bytes.store(used, Ordering::Relaxed);
        let reserved = self.reserved.bytes();
        if reserved > used + 2 * STEP_BYTES || used == 0 {
            self.reserved.shrink(reserved - used);
        }
    }
}

/// The type of a collection with those of its elements.
#[derive(Debug)]
pub(super) struct Form {
    pub(super) kind: CollectionKind,
    pub(super) element: ElementForm,
}

#[derive(Clone, Debug)]
pub(super) enum ElementForm {
    Scalar(Option<ColType>),
    /// What a new one holds.
    Record(Record),
    Collection(Arc<Form>),
}

#[derive(Clone, Debug)]
pub(super) enum Element {
    Value(Value),
    Record(Vec<Value>),
    /// It is charged by itself.
    Collection(Arc<Collection>),
}

fn value_bytes(value: &Value) -> usize {
    match value {
        Value::Text(text) | Value::Json(text) | Value::Jsonb(text) => text.len(),
        Value::Bytea(bytes) | Value::Array(bytes) => bytes.len(),
        _ => 0,
    }
}

impl Element {
    fn bytes(&self) -> usize {
        match self {
            Element::Value(value) => value_bytes(value),
            Element::Record(values) => {
                values.len() * size_of::<Value>() + values.iter().map(value_bytes).sum::<usize>()
            }
            Element::Collection(_) => 0,
        }
    }
}

#[derive(Debug)]
enum Elements {
    /// A nested table or varray that is not initialized.
    Null,
    /// With how many are there: the others have been deleted.
    Listed(Vec<Option<Element>>, usize),
    Keyed(BTreeMap<Key, Element>),
}

/// A record or a collection on its way.
#[derive(Clone, Debug)]
pub(super) enum Item {
    Null,
    Record(Record),
    Collection(Arc<Collection>),
}

impl Item {
    /// What a place holds as a whole; `None`: a single value.
    pub(super) fn of(place: &Place) -> Option<Item> {
        match (&place.collection, &place.record) {
            (Some(collection), _) => Some(Item::Collection(collection.clone())),
            (_, Some(record)) => Some(Item::Record(record.clone())),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(super) struct Collection {
    pub(super) form: Arc<Form>,
    elements: Elements,
    bytes: usize,
    account: Arc<Account>,
}

impl Drop for Collection {
    fn drop(&mut self) {
        self.account.give_back(self.bytes);
    }
}

impl Collection {
    /// As it is declared: empty if it is found by keys, else NULL.
    pub(super) fn new(form: Arc<Form>, account: Arc<Account>) -> Collection {
        let elements = match form.kind.is_associative() {
            true => Elements::Keyed(BTreeMap::new()),
            false => Elements::Null,
        };
        Collection { form, elements, bytes: 0, account }
    }

    /// One that is not NULL.
    pub(super) fn empty(form: Arc<Form>, account: Arc<Account>) -> Collection {
        let mut new = Collection::new(form, account);
        new.init();
        new
    }

    /// Makes an empty list of one that is NULL.
    fn init(&mut self) {
        if matches!(self.elements, Elements::Null) {
            self.elements = Elements::Listed(Vec::new(), 0);
        }
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self.elements, Elements::Null)
    }

    /// The same elements once more.
    pub(super) fn copy(&self) -> Result<Collection> {
        self.account.take(self.bytes)?;
        let elements = match &self.elements {
            Elements::Null => Elements::Null,
            Elements::Listed(all, count) => Elements::Listed(all.clone(), *count),
            Elements::Keyed(all) => Elements::Keyed(all.clone()),
        };
        let (form, account) = (self.form.clone(), self.account.clone());
        Ok(Collection { form, elements, bytes: self.bytes, account })
    }

    /// One that nobody else has.
    pub(super) fn own(shared: &mut Arc<Collection>) -> Result<&mut Collection> {
        if Arc::get_mut(shared).is_none() {
            *shared = Arc::new(shared.copy()?);
        }
        Arc::get_mut(shared).ok_or_else(|| PgError::internal("a collection of two owners"))
    }

    /// What a new element holds.
    fn begun(&self) -> Element {
        match &self.form.element {
            ElementForm::Scalar(_) => Element::Value(Value::Null),
            ElementForm::Record(record) => Element::Record(record.values.clone()),
            ElementForm::Collection(form) => {
                Element::Collection(Arc::new(Collection::new(form.clone(), self.account.clone())))
            }
        }
    }

    // ---- elements ---------------------------------------------------------------------------

    /// Where an index is in a list.
    fn place(&self, key: &Key, len: usize) -> Result<usize> {
        let Key::Int(at) = key else { return Err(PgError::internal("an index that is a text")) };
        let outside = |most: String| {
            let text = format!("index {at} is outside of the collection's limit");
            PgError::new("22532", text)
                .with_detail(format!("Its elements have indexes 1 to {most}."))
        };
        let place = usize::try_from(*at).ok().and_then(|at| at.checked_sub(1));
        let place = place.ok_or_else(|| outside(len.to_string()))?;
        if let CollectionKind::Varray(limit) = self.form.kind
            && place >= limit
        {
            return Err(outside(limit.to_string()));
        }
        if place >= len {
            let text = format!("index {at} is beyond the collection's {len} elements");
            return Err(PgError::new("22533", text).with_hint("EXTEND adds elements."));
        }
        Ok(place)
    }

    pub(super) fn get(&self, key: &Key) -> Result<&Element> {
        let missing = || {
            let shown = match key {
                Key::Int(at) => at.to_string(),
                Key::Text(text) => format!("'{text}'"),
            };
            PgError::new("P0002", format!("the collection has no element {shown}"))
        };
        match &self.elements {
            Elements::Null => Err(is_null()),
            Elements::Keyed(all) => all.get(key).ok_or_else(missing),
            Elements::Listed(all, _) => {
                all[self.place(key, all.len())?].as_ref().ok_or_else(missing)
            }
        }
    }

    /// Changes an element; one that is found by a key comes to be with that.
    pub(super) fn change(
        &mut self,
        key: Key,
        change: impl FnOnce(&mut Element) -> Result<()>,
    ) -> Result<()> {
        // What it is charged for may be more than it becomes, never less.
        let begun = self.begun();
        let place = match &self.elements {
            Elements::Listed(all, _) => self.place(&key, all.len())?,
            _ => 0,
        };
        let (bytes, account) = (&mut self.bytes, &self.account);
        let mut charged = |before: usize, after: usize| -> Result<()> {
            match after.checked_sub(before) {
                Some(more) => account.take(more)?,
                None => account.give_back(before - after),
            }
            *bytes = *bytes + after - before;
            Ok(())
        };
        match &mut self.elements {
            Elements::Null => Err(is_null()),
            Elements::Keyed(all) => {
                let key_bytes = match &key {
                    Key::Int(_) => 0,
                    Key::Text(text) => text.len(),
                };
                match all.entry(key) {
                    Entry::Occupied(mut known) => {
                        let before = known.get().bytes();
                        change(known.get_mut())?;
                        charged(before, known.get().bytes())
                    }
                    Entry::Vacant(free) => {
                        let mut new = begun;
                        change(&mut new)?;
                        charged(0, KEYED_BYTES + key_bytes + new.bytes())?;
                        free.insert(new);
                        Ok(())
                    }
                }
            }
            Elements::Listed(all, count) => match &mut all[place] {
                Some(known) => {
                    let before = known.bytes();
                    change(known)?;
                    charged(before, known.bytes())
                }
                deleted => {
                    let mut new = begun;
                    change(&mut new)?;
                    charged(0, new.bytes())?;
                    *deleted = Some(new);
                    *count += 1;
                    Ok(())
                }
            },
        }
    }

    /// One more at the end, of a collection that is being filled from the first one.
    pub(super) fn push(&mut self, element: Element) -> Result<()> {
        let bytes = element.bytes();
        if let CollectionKind::Varray(limit) = self.form.kind
            && self.len() >= limit
        {
            return Err(beyond_limit(limit));
        }
        self.init();
        match &mut self.elements {
            Elements::Null => Err(is_null()),
            Elements::Keyed(all) => {
                let next = match all.last_key_value() {
                    Some((Key::Int(last), _)) => last + 1,
                    None => 1,
                    Some((Key::Text(_), _)) => {
                        let text = "rows are collected by numbers, not by texts";
                        return Err(PgError::new("42804", text));
                    }
                };
                self.account.take(KEYED_BYTES + bytes)?;
                self.bytes += KEYED_BYTES + bytes;
                all.insert(Key::Int(next), element);
                Ok(())
            }
            Elements::Listed(all, count) => {
                self.account.take(LISTED_BYTES + bytes)?;
                self.bytes += LISTED_BYTES + bytes;
                all.push(Some(element));
                *count += 1;
                Ok(())
            }
        }
    }

    /// Those of another one behind its own.
    pub(super) fn append(&mut self, mut other: Collection) -> Result<()> {
        let elements = std::mem::replace(&mut other.elements, Elements::Null);
        drop(other);
        match elements {
            Elements::Null => Ok(()),
            Elements::Listed(all, _) => all.into_iter().flatten().try_for_each(|e| self.push(e)),
            Elements::Keyed(all) => all.into_values().try_for_each(|e| self.push(e)),
        }
    }

    /// How many there are with those that have been deleted.
    fn len(&self) -> usize {
        match &self.elements {
            Elements::Null => 0,
            Elements::Listed(all, _) => all.len(),
            Elements::Keyed(all) => all.len(),
        }
    }

    /// Its indexes, in their order.
    pub(super) fn keys(&self) -> Vec<Key> {
        match &self.elements {
            Elements::Null => Vec::new(),
            Elements::Keyed(all) => all.keys().cloned().collect(),
            Elements::Listed(all, _) => {
                let there = all.iter().enumerate().filter(|(_, element)| element.is_some());
                there.map(|(at, _)| listed_key(at)).collect()
            }
        }
    }

    // ---- methods ----------------------------------------------------------------------------

    /// What it says of itself; `arg`: an index.
    pub(super) fn ask(&self, method: Method, arg: Option<&Key>) -> Result<Value> {
        if method == Method::Exists {
            let there = match (&self.elements, arg) {
                (Elements::Keyed(all), Some(key)) => all.contains_key(key),
                (Elements::Listed(all, _), Some(Key::Int(at))) => {
                    let place = usize::try_from(*at).ok().and_then(|at| at.checked_sub(1));
                    place.and_then(|place| all.get(place)).is_some_and(Option::is_some)
                }
                _ => false,
            };
            return Ok(Value::Bool(there));
        }
        let number = |n: usize| i32::try_from(n).map_or(Value::Null, Value::Int4);
        if self.is_null() {
            return Err(is_null());
        }
        let found = match method {
            Method::Count => {
                return Ok(number(match &self.elements {
                    Elements::Listed(_, count) => *count,
                    _ => self.len(),
                }));
            }
            Method::Limit => {
                return Ok(match self.form.kind {
                    CollectionKind::Varray(limit) => number(limit),
                    _ => Value::Null,
                });
            }
            Method::First => self.from(Bound::Unbounded),
            Method::Last => self.down_from(Bound::Unbounded),
            Method::Next => arg.and_then(|key| self.from(Bound::Excluded(key))),
            _ => arg.and_then(|key| self.down_from(Bound::Excluded(key))),
        };
        Ok(found.map_or(Value::Null, Key::into_value))
    }

    /// The first index behind a bound.
    fn from(&self, bound: Bound<&Key>) -> Option<Key> {
        match &self.elements {
            Elements::Null => None,
            Elements::Keyed(all) => {
                all.range((bound, Bound::Unbounded)).next().map(|(key, _)| key.clone())
            }
            Elements::Listed(all, _) => {
                let from = match bound {
                    Bound::Excluded(Key::Int(at)) => usize::try_from((*at).max(0)).ok()?,
                    _ => 0,
                };
                let rest = all.get(from..)?;
                rest.iter().position(Option::is_some).map(|at| listed_key(from + at))
            }
        }
    }

    /// The last index before a bound.
    fn down_from(&self, bound: Bound<&Key>) -> Option<Key> {
        match &self.elements {
            Elements::Null => None,
            Elements::Keyed(all) => {
                all.range((Bound::Unbounded, bound)).next_back().map(|(key, _)| key.clone())
            }
            Elements::Listed(all, _) => {
                let to = match bound {
                    Bound::Excluded(Key::Int(at)) => {
                        usize::try_from((at - 1).max(0)).unwrap_or(usize::MAX).min(all.len())
                    }
                    _ => all.len(),
                };
                all[..to].iter().rposition(Option::is_some).map(listed_key)
            }
        }
    }

    /// `count` more, each NULL or like an element that is there.
    pub(super) fn extend(&mut self, count: usize, like: Option<&Key>) -> Result<()> {
        if self.form.kind.is_associative() {
            return Err(not_listed("EXTEND"));
        }
        let like = like.map(|key| self.get(key).cloned()).transpose()?;
        if let CollectionKind::Varray(limit) = self.form.kind
            && self.len().saturating_add(count) > limit
        {
            return Err(beyond_limit(limit));
        }
        if self.is_null() {
            return Err(is_null());
        }
        // Refused before it is made.
        let each =
            LISTED_BYTES + like.as_ref().map_or_else(|| self.begun().bytes(), Element::bytes);
        self.account.take(each.saturating_mul(count))?;
        self.account.give_back(each.saturating_mul(count));
        for _ in 0..count {
            let new = like.clone().unwrap_or_else(|| self.begun());
            self.push(new)?;
        }
        Ok(())
    }

    /// Takes away the last ones.
    pub(super) fn trim(&mut self, count: usize) -> Result<()> {
        match &mut self.elements {
            Elements::Null => Err(is_null()),
            Elements::Keyed(_) => Err(not_listed("TRIM")),
            Elements::Listed(all, _) if count > all.len() => {
                let text = format!("TRIM of {count} elements, of which there are {}", all.len());
                Err(PgError::new("22533", text))
            }
            Elements::Listed(all, left) => {
                let kept = all.len() - count;
                let mut freed = count * LISTED_BYTES;
                for element in all.drain(kept..).flatten() {
                    freed += element.bytes();
                    *left -= 1;
                }
                self.release(freed);
                Ok(())
            }
        }
    }

    /// So much is held no more.
    fn release(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.account.give_back(bytes);
    }

    /// Takes away all elements.
    pub(super) fn clear(&mut self) {
        self.account.give_back(std::mem::take(&mut self.bytes));
        self.elements = match self.form.kind.is_associative() {
            true => Elements::Keyed(BTreeMap::new()),
            false => Elements::Listed(Vec::new(), 0),
        };
    }

    /// Takes away those from one index to another.
    pub(super) fn delete(&mut self, from: &Key, to: &Key) -> Result<()> {
        if matches!(self.form.kind, CollectionKind::Varray(_)) {
            let text = "elements of a varray cannot be deleted one by one";
            return Err(PgError::new("0A000", text).with_hint("TRIM takes away the last ones."));
        }
        let mut freed = 0;
        match &mut self.elements {
            Elements::Null => return Err(is_null()),
            _ if from > to => {}
            Elements::Keyed(all) => {
                let keys: Vec<Key> =
                    all.range(from.clone()..=to.clone()).map(|(key, _)| key.clone()).collect();
                for key in keys {
                    let key_bytes = match &key {
                        Key::Int(_) => 0,
                        Key::Text(text) => text.len(),
                    };
                    if let Some(element) = all.remove(&key) {
                        freed += KEYED_BYTES + key_bytes + element.bytes();
                    }
                }
            }
            Elements::Listed(all, left) => {
                let (Key::Int(from), Key::Int(to)) = (from, to) else { return Ok(()) };
                let last = i64::try_from(all.len()).unwrap_or(i64::MAX);
                for at in (*from).max(1)..=(*to).min(last) {
                    let place = usize::try_from(at - 1).unwrap_or(usize::MAX);
                    if let Some(element) = all.get_mut(place).and_then(Option::take) {
                        freed += element.bytes();
                        *left -= 1;
                    }
                }
            }
        }
        self.release(freed);
        Ok(())
    }
}

fn listed_key(place: usize) -> Key {
    Key::Int(i64::try_from(place + 1).unwrap_or(i64::MAX))
}

fn is_null() -> PgError {
    PgError::new("22531", "the collection is null")
        .with_hint("Give it its constructor's value, as in c := t(), before its elements.")
}

fn not_listed(method: &str) -> PgError {
    let text = format!("{method} of a collection with INDEX BY");
    PgError::new("42809", text).with_hint("Its elements come to be when they are assigned.")
}

fn beyond_limit(limit: usize) -> PgError {
    PgError::new("22532", format!("the collection has a limit of {limit} elements"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::row::TypeKind;

    fn collection(kind: CollectionKind, bytes: usize) -> Collection {
        let element = ElementForm::Scalar(Some(ColType::new(TypeKind::Text)));
        let form = Arc::new(Form { kind, element });
        Collection::empty(form, Account::new(&Pga::new(bytes)))
    }

    fn text(text: &str) -> Element {
        Element::Value(Value::Text(text.into()))
    }

    #[test]
    fn all_that_is_charged_is_given_back() {
        for kind in [CollectionKind::ByInteger, CollectionKind::Nested] {
            let mut all = collection(kind, 64 << 20);
            let account = all.account.clone();
            for _ in 0..100 {
                all.push(text("some text")).expect("room");
            }
            all.change(Key::Int(7), |element| {
                *element = text("another text that is longer");
                Ok(())
            })
            .expect("it is there");
            let copy = all.copy().expect("room");
            assert_eq!(account.used_bytes.load(Ordering::Relaxed), 2 * all.bytes);
            all.delete(&Key::Int(3), &Key::Int(50)).expect("a list");
            if kind == CollectionKind::Nested {
                all.trim(10).expect("so many");
            }
            drop((all, copy));
            assert_eq!(account.used_bytes.load(Ordering::Relaxed), 0, "{kind:?}");
            assert_eq!(account.reserved.bytes(), 0);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut all = collection(CollectionKind::Nested, 1 << 20);
        let refused = (0..10_000_000).find_map(|_| all.extend(1, None).err());
        assert_eq!(refused.map(|error| error.code), Some("53200"));
        assert_eq!(all.extend(usize::MAX / 64, None).map_err(|e| e.code), Err("53200"));
        all.clear();
        all.extend(1, None).expect("there is room again");
    }
}
