//! The benchmark `hardware`: what this machine's memory can do, whatever uses it.

mod about;
mod fields;
mod loops;
mod memory;
mod team;
mod view;

use measure::Failure;
use record::{About, Case};
use serde_json::{Map, Value};

use crate::{Benchmark, Measured, Prepared, RankContext};
use fields::Fields;

/// See the module's documentation.
pub(crate) struct HardwareBenchmark;

impl Benchmark for HardwareBenchmark {
    fn about(&self) -> &'static About {
        &about::ABOUT
    }

    fn memory(&self, case: &Case) -> u64 {
        Fields::of(case).map_or(0, |fields| memory::held(&fields).saturating_mul(u64::from(fields.ranks)))
    }

    fn prepare(&self, case: &Case, rank: &mut RankContext) -> Result<Box<dyn Prepared>, Failure> {
        let fields = Fields::of(case)?;
        memory::prepare(&fields, rank)
    }

    fn metrics(&self, case: &Case, measured: &Measured<'_>) -> Map<String, Value> {
        let Ok(fields) = Fields::of(case) else { return Map::new() };
        let elements = memory::elements(fields.test, fields.bytes) as f64 * f64::from(fields.ranks);
        let rate = |bytes: u64| serde_json::Number::from_f64(bytes as f64 * elements / measured.times.median / 1e9);
        let rates = [("gbs", fields.test.counted_bytes()), ("moved_gbs", fields.test.moved_bytes())];
        rates.into_iter().filter_map(|(name, bytes)| Some((name.to_owned(), Value::Number(rate(bytes)?)))).collect()
    }

    fn view(&self) -> Option<&'static dyn ::view::View> {
        Some(&view::HardwareView)
    }
}
