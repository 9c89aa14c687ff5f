//! Rates and ratios of the last minute.
//!
//! What it promises: what is shown is of an interval that is over. What it must never do: show a
//! rate of what is not counted.

use super::events::US_PER_CS;
use super::registry::{Column, Make, columns, views};
use super::{int4, wall};
use crate::catalog::rows::Shape::{Float8, Int4, Int8, Text, Timestamptz};
use crate::catalog::rows::{Rows, int, text};
use kernel::instance::Instance;
use kernel::row::Value;
use observe::{METRIC_GROUPS, METRICS, Metric};
use std::sync::Arc;

const METRIC: &[Column] = columns! {
    metric_id: Int4, "The field's number of the metric.";
    metric_name: Text, "Its name.";
    metric_unit: Text, "What its values are.";
};

views! {
    "v$sysmetric", Make::Local(sysmetric), "What the instance did a second, a transaction or a call \
        in the last interval that is over. A ratio of nothing has no row." {
        begin_time: Timestamptz, "When the interval began.";
        end_time: Timestamptz, "When it ended.";
        intsize_csec: Int8, "Hundredths of a second that it took.";
        group_id: Int4, "2: of a minute; 3: of 15 seconds.";
    } + METRIC {
        value: Float8, "The value, in the unit of the metric.";
    }
    "v$metricname", Make::Local(names), "All that `v$sysmetric` may show." {
        group_id: Int4, "2: of a minute; 3: of 15 seconds.";
        group_name: Text, "The field's name of that.";
    } + METRIC {}
}

/// The columns of [`METRIC`].
fn named(metric: &Metric) -> [Value; 3] {
    [int4(metric.id), text(metric.name), text(metric.unit)]
}

fn sysmetric(instance: &Arc<Instance>, rows: &mut Rows) {
    for interval in instance.observer.metrics.intervals() {
        for metric in METRICS {
            let Some(value) = metric.of(&interval) else { continue };
            let mut row = vec![
                wall(interval.begin_wall_us),
                wall(interval.end_wall_us),
                int(interval.length_us / US_PER_CS),
                int4(interval.group.id),
            ];
            row.extend(named(metric));
            row.push(Value::Float8(value));
            rows.push(row);
        }
    }
}

fn names(_: &Arc<Instance>, rows: &mut Rows) {
    for group in METRIC_GROUPS {
        for metric in METRICS {
            let mut row = vec![int4(group.id), text(group.name)];
            row.extend(named(metric));
            rows.push(row);
        }
    }
}
