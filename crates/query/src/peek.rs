//! The values that parameters have in the execution a plan is made for, which is the first.
//!
//! What it promises: they tell how many rows a range is thought to hold, as the field peeks at
//! binds. What it must never do: become part of what a plan yields, which serves all executions.

use kernel::row::Value;
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

/// Longer values are not kept with the plan.
const BYTES_MAX: usize = 128;

thread_local! {
    /// Those of the plan that is being made on this thread.
    static PEEKED: RefCell<Option<Arc<[Value]>>> = const { RefCell::new(None) };
}

/// Takes the values away again.
struct Peeking(Option<Arc<[Value]>>);

impl Peeking {
    fn at(values: &Arc<[Value]>) -> Peeking {
        Peeking(PEEKED.replace(Some(values.clone())))
    }
}

impl Drop for Peeking {
    fn drop(&mut self) {
        PEEKED.replace(self.0.take());
    }
}

fn kept(value: &Value) -> Value {
    let bytes = match value {
        Value::Text(text) => text.len(),
        Value::Array(_) | Value::Json(_) | Value::Jsonb(_) | Value::Bytea(_) => usize::MAX,
        _ => 0,
    };
    if bytes > BYTES_MAX { Value::Null } else { value.clone() }
}

/// Makes a plan while its parameters have these values.
pub(crate) async fn during<T>(values: &[Value], work: impl Future<Output = T>) -> T {
    let values: Arc<[Value]> = values.iter().map(kept).collect();
    let mut work = pin!(work);
    poll_fn(move |cx| {
        let _peeking = Peeking::at(&values);
        work.as_mut().poll(cx)
    })
    .await
}

/// The values of the plan that is being made here; none if nobody has any.
pub(crate) fn values() -> Arc<[Value]> {
    PEEKED.with_borrow(|values| values.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn values_are_seen_while_the_plan_is_made_and_not_after() {
        let long = Value::Text("x".repeat(BYTES_MAX + 1).into());
        let seen = during(&[Value::Int4(7), long], async { values() }).now_or_never().unwrap();
        assert_eq!(*seen, [Value::Int4(7), Value::Null]);
        assert!(values().is_empty());
    }
}
