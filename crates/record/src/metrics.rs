//! Metrics by type: one declaration names a metric for the benchmark that writes it and for the pages that read it.

use std::marker::PhantomData;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{CaseLine, Metric};

/// A declared metric whose value is a `T`.
pub struct Key<T> {
    metric: Metric,
    value: PhantomData<fn() -> T>,
}

impl<T> Key<T> {
    /// The key of this declaration.
    pub const fn new(metric: Metric) -> Self {
        Self { metric, value: PhantomData }
    }

    /// The declaration.
    pub const fn metric(&self) -> Metric {
        self.metric
    }

    /// Key of the metric in the case line.
    pub const fn name(&self) -> &'static str {
        self.metric.name
    }

    /// The value as it stands in the line, for what other programs or older records may have given another form.
    pub fn value<'l>(&self, line: &'l CaseLine) -> Option<&'l Value> {
        line.metrics.get(self.metric.name)
    }
}

impl<'l, T: Deserialize<'l>> Key<T> {
    /// The value in this line. None where it has none, or one of another type.
    pub fn of(&self, line: &'l CaseLine) -> Option<T> {
        T::deserialize(self.value(line)?).ok()
    }
}

impl Key<String> {
    /// The word in this line, not copied.
    pub fn word<'l>(&self, line: &'l CaseLine) -> Option<&'l str> {
        self.value(line)?.as_str()
    }
}

impl<T: Serialize> Key<T> {
    /// Puts the value into a case's metrics. What JSON has no form for, as NaN, is left out.
    pub fn put(&self, metrics: &mut impl Extend<(String, Value)>, value: T) {
        if let Ok(value) = serde_json::to_value(value)
            && !value.is_null()
        {
            metrics.extend([(self.metric.name.to_owned(), value)]);
        }
    }
}

/// Declares metrics once: `KEY: Type = Metric`. Gives a constant [`Key`] for each, and their table in the same order.
#[macro_export]
macro_rules! metrics {
    ($(#[$meta:meta])* $vis:vis $table:ident { $($(#[$doc:meta])* $key:ident: $type:ty = $metric:expr),+ $(,)? }) => {
        $($(#[$doc])* $vis const $key: $crate::Key<$type> = $crate::Key::new($metric);)+

        $(#[$meta])*
        $vis static $table: &[$crate::Metric] = &[$($metric),+];
    };
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Better;

    const fn metric(name: &'static str) -> Metric {
        Metric::new(name, "", Better::Higher, "")
    }

    metrics! {
        /// One of each kind.
        METRICS {
            RATE: f64 = metric("rate"),
            NAME: String = metric("name"),
            ENDS: [f64; 2] = metric("ends"),
        }
    }

    fn line(text: &str) -> CaseLine {
        let line = json!({
            "schema": 1, "id": "a", "benchmark": "x", "parameters": {}, "status": "ok", "ranks": 1, "runtime": "native",
            "backend": "shm", "device": "cpu", "mode": "streaming", "caveats": [], "simulated": false,
        });
        CaseLine { metrics: serde_json::from_str(text).unwrap(), ..serde_json::from_value(line).unwrap() }
    }

    #[test]
    fn what_is_put_is_read() {
        let mut line = line("{}");
        RATE.put(&mut line.metrics, 1.5);
        NAME.put(&mut line.metrics, "ring".to_owned());
        ENDS.put(&mut line.metrics, [1.0, 2.0]);
        assert_eq!(serde_json::to_string(&line.metrics).unwrap(), r#"{"rate":1.5,"name":"ring","ends":[1.0,2.0]}"#);
        assert_eq!((RATE.of(&line), NAME.word(&line), ENDS.of(&line)), (Some(1.5), Some("ring"), Some([1.0, 2.0])));
        assert_eq!(METRICS.iter().map(|metric| metric.name).collect::<Vec<_>>(), ["rate", "name", "ends"]);
    }

    #[test]
    fn what_is_no_value_is_absent() {
        let mut line = line(r#"{"rate": "fast", "ends": [1], "name": 3}"#);
        assert_eq!((RATE.of(&line), NAME.word(&line), ENDS.of(&line)), (None, None, None));
        line.metrics.clear();
        RATE.put(&mut line.metrics, f64::NAN);
        assert!(line.metrics.is_empty());
    }
}
