//! Cases of shapes: what a native run of the same shape would be.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

use record::{About, Case, CaseLine, Caveat, Pool, SharedMap};
use serde_json::Value;
use terms::{Collective, Dtype, Named as _};

use crate::Shape;

/// Cases of shapes. What the fields of a benchmark mean, its own check says.
pub(crate) struct Cases<'b> {
    benchmarks: &'b [&'static About],
    /// By identity: the hash of the shape, because a log may have 100,000 of them.
    known: HashMap<String, u64>,
    hasher: RandomState,
    pool: Pool,
    /// The world and the settings of the case before, which most cases share.
    last: Option<[SharedMap; 2]>,
    /// Cases by their shapes without the size: a log may have 100,000 sizes of one call.
    by_call: HashMap<Shape, Checked>,
}

/// A case of a call, and the sizes between which the benchmark's check finds no fault with it.
struct Checked {
    case: Case,
    least: u64,
    most: u64,
}

impl<'b> Cases<'b> {
    pub(crate) fn new(benchmarks: &'b [&'static About]) -> Self {
        Self {
            benchmarks,
            known: HashMap::new(),
            hasher: RandomState::new(),
            pool: Pool::default(),
            last: None,
            by_call: HashMap::new(),
        }
    }

    /// The case of a shape.
    ///
    /// # Errors
    /// Why there is none: the benchmark's check, or another line of the file with the same case.
    pub(crate) fn case(&mut self, shape: &Shape) -> Result<Case, String> {
        let about = self.about(shape)?;
        let mut case = self.of_call(shape)?;
        case.identify(about);
        // How this program would do it by default says nothing of how that one did. The identity has it: a file that this
        // program wrote comes back as the cases it was written of.
        let is_how = |name: &str| about.field(name).is_some_and(|field| field.role == terms::Role::Implementation);
        let of_file = |name: &str| shape.fields.iter().any(|(given, _)| *given == name);
        case.parameters.retain(|name, _| !is_how(name) || of_file(name));
        let shape = self.hasher.hash_one(shape);
        match self.known.insert(case.id.clone(), shape) {
            Some(other) if other != shape => Err("another line of the file has the same case".to_owned()),
            _ => Ok(self.shared(case)),
        }
    }

    fn about(&self, shape: &Shape) -> Result<&'static About, String> {
        let about = self.benchmarks.iter().copied().find(|about| about.name == shape.benchmark);
        about.ok_or_else(|| format!("there is no benchmark `{}`", shape.benchmark))
    }

    /// The case of a shape without its identity. A plan is made for the first size of a call and for each power of two above:
    /// between two sizes that the check accepts it accepts all, and nothing but the size differs.
    fn of_call(&mut self, shape: &Shape) -> Result<Case, String> {
        let Some((call, bytes)) = without_size(shape) else { return self.checked(shape) };
        let with = |case: &Case, bytes: u64| {
            let mut case = case.clone();
            case.parameters.insert("bytes", Value::from(bytes));
            case
        };
        let known = self.by_call.get(&call);
        if let Some(known) = known.filter(|known| (known.least..=known.most).contains(&bytes)) {
            return Ok(with(&known.case, bytes));
        }
        let case = self.checked(shape)?;
        let is_the_same = |other: u64| self.checked(&with_size(shape, other)).is_ok_and(|of| of == with(&case, other));
        let most = bytes.checked_next_power_of_two().filter(|most| is_the_same(*most)).unwrap_or(bytes);
        let joined = known.filter(|known| with(&known.case, bytes) == case);
        let (least, most) = joined.map_or((bytes, most), |known| (known.least.min(bytes), known.most.max(most)));
        self.by_call.insert(call, Checked { case: case.clone(), least, most });
        Ok(case)
    }

    /// The case of a shape by a plan of its fields, without its identity.
    fn checked(&self, shape: &Shape) -> Result<Case, String> {
        let about = self.about(shape)?;
        let pairs: Vec<(String, String)> =
            shape.fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone().into_owned())).collect();
        if let Some(ranks) = ranks_of(&pairs).filter(|ranks| *ranks > MOST_RANKS) {
            return Err(format!("{ranks} ranks: a record holds up to {MOST_RANKS}"));
        }
        let plan = record::plan::from_flags(about, &runnable(&pairs), &[]);
        let mut cases = plan.map_err(|errors| first_line(&errors.to_string()))?.cases;
        if cases.len() != 1 {
            return Err(format!("its fields make {} cases", cases.len()));
        }
        let mut case = cases.remove(0);
        // Native ranks compute on the CPU. Where another program had its buffers is recorded, and asks for no device.
        for map in [&mut case.parameters, &mut case.world] {
            if map.contains_key("device") {
                map.insert("device".to_owned(), Value::from(shape.device));
            }
        }
        case.skip = None;
        case.settings.clear();
        if let Some(ranks) = ranks_of(&pairs).filter(|ranks| *ranks > STARTED_RANKS)
            && case.world.contains_key("ranks")
        {
            case.world.insert("ranks".to_owned(), Value::from(ranks));
        }
        // Other programs give ranks uneven blocks where a size cannot be divided: what was measured is the size that they say.
        if let Some((_, bytes)) = pairs.iter().find(|(name, _)| name == "bytes")
            && let (Ok(bytes), Some(known)) = (bytes.parse::<u64>(), case.parameters.get_mut("bytes"))
        {
            *known = Value::from(bytes);
            case.bytes_requested = None;
        }
        if let Some((name, dtype)) = pairs.iter().find(|(name, dtype)| name == "dtype" && stand_in(dtype).is_some()) {
            case.parameters.insert(name.as_str(), Value::from(dtype.as_str()));
        }
        if let Some(name) = &shape.implementation {
            case.parameters.insert("implementation", Value::from(name.as_str()));
        }
        case.caveats.clear();
        case.caveats.push(Caveat::Imported);
        case.id.clear();
        Ok(case)
    }

    /// Keeps the names of the metrics of all lines once in memory.
    pub(crate) fn share_names(&mut self, line: &mut CaseLine) {
        line.metrics.pool_names(&mut self.pool);
    }

    /// The case, with what it has in common with others once in memory.
    fn shared(&mut self, mut case: Case) -> Case {
        case.parameters.pool(&mut self.pool);
        if let Some([world, settings]) = &self.last {
            case.world.share(world);
            case.settings.share(settings);
        }
        self.last = Some([case.world.clone(), case.settings.clone()]);
        case
    }
}

/// The most ranks of a case: more than any job has.
const MOST_RANKS: u64 = 1 << 20;
/// The most that a plan check sees. That more cannot be started here says nothing of what others measured.
const STARTED_RANKS: u64 = 1024;

fn ranks_of(pairs: &[(String, String)]) -> Option<u64> {
    pairs.iter().find(|(name, _)| name == "ranks")?.1.parse().ok()
}

/// The type that the plan check sees instead, of as many bytes: reductions of some types are not run here, and others
/// measure them.
fn stand_in(dtype: &str) -> Option<Dtype> {
    Dtype::from_name(dtype).filter(|dtype| !dtype.reduces()).map(|_| Dtype::U8)
}

/// The fields with a size that can be divided among the ranks, and a type that can be reduced: plans refuse others, or round
/// the size down.
fn runnable(pairs: &[(String, String)]) -> Vec<(String, String)> {
    let value = |name: &str| pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let part = || {
        ranks_of(pairs)?
            .min(STARTED_RANKS)
            .checked_mul(value("dtype").and_then(Dtype::from_name).map_or(1, Dtype::bytes))
    };
    let rounded = |bytes: &str| bytes.parse::<u64>().ok()?.checked_next_multiple_of(part()?.max(1));
    let field = |(name, value): &(String, String)| {
        let changed = match name.as_str() {
            "bytes" => rounded(value).map(|bytes| bytes.to_string()),
            "dtype" => stand_in(value).map(|dtype| dtype.to_string()),
            "ranks" => ranks_of(pairs).map(|ranks| ranks.min(STARTED_RANKS).to_string()),
            _ => None,
        };
        (name.clone(), changed.unwrap_or_else(|| value.clone()))
    };
    pairs.iter().map(field).collect()
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// A shape without its size, and the size. None where cases differ in more than that: the counts of an all_to_all_v follow from
/// its size.
fn without_size(shape: &Shape) -> Option<(Shape, u64)> {
    let value = |name: &str| shape.fields.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_ref());
    if shape.benchmark != "collective" || value("op") == Some(Collective::AllToAllV.name()) {
        return None;
    }
    let bytes = value("bytes")?.parse().ok().filter(|bytes| *bytes > 0)?;
    let fields = shape.fields.iter().filter(|(name, _)| *name != "bytes").cloned().collect();
    Some((Shape { fields, implementation: shape.implementation.clone(), ..*shape }, bytes))
}

/// The shape with another size.
fn with_size(shape: &Shape, bytes: u64) -> Shape {
    let mut shape = shape.clone();
    shape
        .fields
        .iter_mut()
        .filter(|(name, _)| *name == "bytes")
        .for_each(|(_, value)| *value = bytes.to_string().into());
    shape
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_made_for_few_sizes() {
        let abouts = benchmarks::abouts();
        let mut cases = Cases::new(&abouts);
        let fields = vec![("op", "all_reduce".into()), ("ranks", "8".into()), ("bytes", "4096".into())];
        let shape = Shape { benchmark: "collective", fields, device: "cuda", implementation: None };
        for bytes in [4096, 12_288, 1_000_000] {
            cases.case(&with_size(&shape, bytes)).unwrap();
        }
        let known: Vec<(u64, u64)> = cases.by_call.values().map(|known| (known.least, known.most)).collect();
        assert_eq!(known, [(4096, 1 << 20)]);
    }

    #[test]
    fn a_case_of_a_known_call_is_the_one_that_a_plan_makes() {
        let abouts = benchmarks::abouts();
        for op in Collective::ALL {
            let (mut cases, mut plans) = (Cases::new(&abouts), Cases::new(&abouts));
            for (ranks, dtype) in [("8", "f32"), ("3", "u8"), ("12", "f8e4m3"), ("4096", "f64")] {
                for bytes in [1u64, 3, 4, 100, 6, 1 << 20, (1 << 20) - 4, 12_345_678, 1 << 40, u64::MAX >> 1, u64::MAX]
                {
                    let mut fields: Vec<(&'static str, std::borrow::Cow<'static, str>)> =
                        vec![("op", op.name().into()), ("ranks", ranks.into()), ("backend", "nccl".into())];
                    fields.extend([("dtype", dtype.into()), ("bytes", bytes.to_string().into())]);
                    let shape = Shape { benchmark: "collective", fields, device: "cuda", implementation: None };
                    plans.by_call.clear();
                    assert_eq!(cases.case(&shape), plans.case(&shape), "{shape:?}");
                }
            }
        }
    }
}
