//! Enum types as values know them: their labels, and what stands for a label in rows and keys.
//!
//! A row keeps the position of a label (8 bytes), so that order and equality need no look-up and a
//! label that is renamed or comes between two others changes no row. A position is never used for
//! another label of the type. Definitions are kept for the life of the process, each content once
//! (some hundred bytes for every change of a type), so that a [`ColType`] can name one by a number
//! and values can be shown wherever they are. The numbers mean nothing outside the process.

use block::ObjId;
use parking_lot::RwLock;
use rustc_hash::FxHashMap;

use super::{ColType, TypeKind};

/// How far apart two labels stand that are added one after the other: about 40 may come between
/// them at the same place.
const POSITION_STEP: i64 = 1 << 40;

/// One value that a type has.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct EnumLabel {
    /// Its own number, as `pg_enum.oid`.
    pub obj: ObjId,
    /// Orders the labels; what rows keep.
    pub position: i64,
    pub text: String,
}

/// A definition of an enum type.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct EnumType {
    pub obj: ObjId,
    pub schema: String,
    pub name: String,
    /// In their order.
    pub labels: Vec<EnumLabel>,
}

/// Where a label goes among the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EnumPlace<'a> {
    Last,
    Before(&'a str),
    After(&'a str),
}

impl EnumType {
    /// The label of this text.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<&EnumLabel> {
        self.labels.iter().find(|label| label.text == text)
    }

    /// The label at a position.
    #[must_use]
    pub fn at(&self, position: i64) -> Option<&EnumLabel> {
        let at = self.labels.binary_search_by_key(&position, |label| label.position).ok()?;
        Some(&self.labels[at])
    }

    /// The position for a new label; `None` if there is no room, or no such neighbour.
    #[must_use]
    pub fn position_for(&self, place: EnumPlace<'_>) -> Option<i64> {
        let at = |text: &str| self.labels.iter().position(|label| label.text == text);
        let next = match place {
            EnumPlace::Last => self.labels.len(),
            EnumPlace::Before(text) => at(text)?,
            EnumPlace::After(text) => at(text)? + 1,
        };
        let before = next.checked_sub(1).map(|at| self.labels[at].position);
        let after = self.labels.get(next).map(|label| label.position);
        match (before, after) {
            (None, None) => Some(POSITION_STEP),
            (Some(low), None) => low.checked_add(POSITION_STEP),
            (None, Some(high)) => high.checked_sub(POSITION_STEP),
            (Some(low), Some(high)) => {
                let middle = low + (high - low) / 2;
                (middle != low).then_some(middle)
            }
        }
    }
}

#[derive(Default)]
struct Known {
    all: Vec<&'static EnumType>,
    numbers: FxHashMap<&'static EnumType, i32>,
    /// The definitions of one object, the latest last.
    of_obj: FxHashMap<ObjId, Vec<i32>>,
}

static KNOWN: RwLock<Option<Known>> = RwLock::new(None);

impl ColType {
    /// The column type of an enum, and the definition as it is kept.
    ///
    /// # Panics
    /// After 2^31 definitions.
    #[must_use]
    pub fn of_enum(def: EnumType) -> (ColType, &'static EnumType) {
        let kind = TypeKind::Enum;
        let mut known = KNOWN.write();
        let known = known.get_or_insert_with(Known::default);
        if let Some((def, modifier)) = known.numbers.get_key_value(&def) {
            return (ColType { kind, modifier: *modifier }, def);
        }
        let number = i32::try_from(known.all.len()).expect("definitions are counted in 31 bits");
        let def: &'static EnumType = Box::leak(Box::new(def));
        known.all.push(def);
        known.numbers.insert(def, number);
        known.of_obj.entry(def.obj).or_default().push(number);
        (ColType { kind, modifier: number }, def)
    }

    /// The definition of an enum's type.
    #[must_use]
    pub fn enum_type(self) -> Option<&'static EnumType> {
        if self.kind != TypeKind::Enum {
            return None;
        }
        let at = usize::try_from(self.modifier).ok()?;
        KNOWN.read().as_ref()?.all.get(at).copied()
    }

    /// The value of this enum type with a label.
    #[must_use]
    pub fn enum_value(self, text: &str) -> Option<EnumValue> {
        let position = self.enum_type()?.find(text)?.position;
        Some(EnumValue { of: self.modifier, position })
    }
}

/// A value of an enum type.
#[derive(Clone, Copy, Debug)]
pub struct EnumValue {
    /// [`ColType::modifier`] of its type.
    pub of: i32,
    pub position: i64,
}

/// By position: values of different types are not compared with each other.
impl PartialEq for EnumValue {
    fn eq(&self, other: &EnumValue) -> bool {
        self.position == other.position
    }
}

impl Eq for EnumValue {}

impl EnumValue {
    /// Its type.
    #[must_use]
    pub const fn ty(self) -> ColType {
        ColType { kind: TypeKind::Enum, modifier: self.of }
    }

    /// Its label. A statement may meet a row with a label younger than its plan: then a later
    /// definition says it. `None` if this instance has not learned of it yet.
    #[must_use]
    pub fn label(self) -> Option<&'static str> {
        let def = self.ty().enum_type()?;
        if let Some(label) = def.at(self.position) {
            return Some(&label.text);
        }
        let known = KNOWN.read();
        let known = known.as_ref()?;
        let others = known.of_obj.get(&def.obj)?.iter().rev();
        let mut others = others.filter_map(|at| known.all.get(usize::try_from(*at).ok()?));
        others.find_map(|other| other.at(self.position)).map(|label| label.text.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn def(labels: &[(&str, i64)]) -> EnumType {
        let label = |(text, position): &(&str, i64)| EnumLabel {
            obj: ObjId(1),
            position: *position,
            text: (*text).to_owned(),
        };
        EnumType {
            obj: ObjId(4_000_000_001),
            schema: "public".to_owned(),
            name: "mood".to_owned(),
            labels: labels.iter().map(label).collect(),
        }
    }

    #[test]
    fn one_content_has_one_number() {
        let first = ColType::of_enum(def(&[("a", 1)])).0;
        assert_eq!(first, ColType::of_enum(def(&[("a", 1)])).0);
        let second = ColType::of_enum(def(&[("a", 1), ("b", 2)])).0;
        assert_ne!(first, second);
        let young = EnumValue { of: first.modifier, position: 2 };
        assert_eq!(young.label(), Some("b"), "a later definition says it");
        assert_eq!(EnumValue { of: first.modifier, position: 3 }.label(), None);
    }

    #[test]
    fn labels_come_between_others_until_there_is_no_room() {
        let mut ty = def(&[]);
        for text in ["a", "z"] {
            let position = ty.position_for(EnumPlace::Last).expect("room");
            ty.labels.push(EnumLabel { obj: ObjId(1), position, text: text.to_owned() });
        }
        let mut count = 0;
        while let Some(position) = ty.position_for(EnumPlace::Before("z")) {
            let at = ty.labels.len() - 1;
            let text = format!("l{count}");
            ty.labels.insert(at, EnumLabel { obj: ObjId(1), position, text });
            count += 1;
        }
        assert_eq!(count, 40);
        assert!(ty.labels.is_sorted_by_key(|label| label.position));
        assert!(ty.position_for(EnumPlace::Before("a")).is_some());
        assert!(ty.position_for(EnumPlace::After("z")).is_some());
        assert_eq!(ty.position_for(EnumPlace::After("none")), None);
    }
}
