//! Texts that differ in their values alone, and find one row by its key: whoever puts values into
//! texts sends ever new ones, and one plan serves them all.
//!
//! What it promises: the first of them keeps its text, so that what somebody has typed once is
//! found as it was typed; the second one brings the plan that all others share. What it must never
//! do: let a text run by a plan that would not be the best for any of its values, or means
//! something else than the text.

use crate::cache::PlanKey;
use crate::parse::{Lifted, keyed};
use crate::plan::{Kind, Plan, Prepared};
use crate::session::Session;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::BuildHasher;

/// Texts remembered.
const TEXTS_MAX: usize = 4_096;

#[derive(Clone, Copy)]
enum Sight {
    Seen,
    /// No plan serves them all.
    Refused,
}

/// What an instance knows of texts without their values.
#[derive(Default)]
pub(crate) struct Sharing(Mutex<HashMap<u64, Sight>>);

impl Sharing {
    /// Whether another text of the kind has come before, and may get a plan for all.
    fn is_due(&self, key: &PlanKey) -> bool {
        let mut known = self.0.lock();
        let hash = known.hasher().hash_one(key);
        match known.get(&hash) {
            Some(Sight::Seen) => true,
            Some(Sight::Refused) => false,
            None => {
                if known.len() >= TEXTS_MAX {
                    known.clear();
                }
                known.insert(hash, Sight::Seen);
                false
            }
        }
    }

    fn refuse(&self, key: &PlanKey) {
        let mut known = self.0.lock();
        let hash = known.hasher().hash_one(key);
        known.insert(hash, Sight::Refused);
    }
}

/// Whether a plan finds one row by its key: no values make another one better.
pub(crate) fn finds_one_row(plan: &Plan) -> bool {
    matches!(&plan.kind, Kind::Direct(direct) if direct.row().is_some())
}

impl Session {
    /// The text without its values, if there is a plan for all of its kind, and it may have those.
    pub(crate) fn shared_text(&self, text: &str) -> Option<Lifted> {
        let lifted = keyed(text)?;
        let key = self.plan_key(lifted.text.as_str().into(), &[]);
        let plan = self.database.cache.get(&key).filter(|plan| finds_one_row(plan))?;
        let suits = lifted.suits(&plan.params).is_some();
        suits.then_some(lifted)
    }

    /// Makes the plan for all texts of a kind, if this one is not the first of them.
    pub(crate) async fn share(&mut self, prepared: &Prepared) {
        if !finds_one_row(&prepared.plan) || !prepared.plan.params.is_empty() {
            return;
        }
        let text = &prepared.statement.text;
        let Some(lifted) = keyed(text) else { return };
        let key = self.plan_key(lifted.text.as_str().into(), &[]);
        // The call has parsed its own text; what is made beside that is no parse.
        if self.database.sharing.is_due(&key)
            && self.plan_lifted(text.clone(), &lifted, &key).await.is_none()
        {
            self.database.sharing.refuse(&key);
        }
    }
}
