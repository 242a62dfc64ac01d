//! The plan of a calibration, as a text that `rankmark run` takes, too.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use engine::OperationShape;
use terms::{Dtype, Error, Named};

use super::shapes::{FULL, KernelBounds, QUICK, TINY_SETTINGS, shapes};

/// What is to be calibrated.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Ranks of this machine: as many as run at once.
    pub ranks: u32,
    /// What moves data between ranks.
    pub backend: String,
    /// Types of activations.
    pub precisions: Vec<Dtype>,
    /// Whether it is to be over in a minute.
    pub quick: bool,
    /// The machine's caches.
    pub caches: Caches,
}

/// Bytes of the caches of a machine; 0 where they are not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caches {
    /// Of one core, which no other shares.
    pub own: u64,
    /// The largest, which cores share.
    pub shared: u64,
}

/// Sizes of a curve that are measured first, and how many it has in all.
const FIRST_SIZES: &str = "[256B, 2KiB, 16KiB, 128KiB, 1MiB, 8MiB, 64MiB]";
const SIZES: u32 = 16;
/// Exchanges of training: gradients, parameters and activations of tensor groups, and activations of pipelines.
const EXCHANGES: &[&str] = &["all_reduce", "all_gather", "reduce_scatter", "broadcast"];
/// Copies of a kernel's buffers are together so many times the caches of a core: in a step, other operations have used these since.
const TIMES_CACHE: u64 = 3;
/// Caches where they are not known, and at most: more copies would take long to fill.
const USUAL: Caches = Caches { own: 1 << 20, shared: 16 << 20 };
const MOST: Caches = Caches { own: 4 << 20, shared: 64 << 20 };
/// What a step does once with each parameter: all other parameters were used since.
const ONCE_A_STEP: [&str; 3] = ["adamw", "sgd", "sum_squares"];
/// An operation of so many bytes has weights that other weights have driven out of the shared caches, too.
const MUCH: u64 = 8 << 20;
/// Sampling time of a case. A trial has a 42nd of it.
const QUICK_S: &str = "0.25s";
const FULL_S: &str = "2s";

/// The plan, with the cases of each rank count at once.
///
/// # Errors
/// No ranks.
pub fn plan(wish: &Wish) -> Result<String, Error> {
    if wish.ranks == 0 {
        return Err(Error::new("a calibration needs a rank").hint("`--ranks 2`"));
    }
    let (bounds, seconds) = if wish.quick { (QUICK, QUICK_S) } else { (FULL, FULL_S) };
    let backend = &wish.backend;
    let quick = if wish.quick { "quick: true, " } else { "" };
    let mut text = String::from(
        "# What `rankmark calibrate` measures: operations of steps, exchanges, and what they cost each other.\n",
    );
    let _ = writeln!(text, "experiment: calibration");
    let _ = writeln!(text, "defaults: {{{quick}backend: {backend}, max_seconds: {seconds}, limits: 'false'}}");
    text.push_str("cases:\n");
    kernels(&mut text, wish, bounds)?;
    steps(&mut text);
    if wish.ranks > 1 {
        exchanges(&mut text, wish);
        interference(&mut text, wish);
    }
    Ok(text)
}

/// The numbers of ranks that operations run on at once: one, and all.
fn at_once(ranks: u32) -> String {
    if ranks > 1 { format!("[1, {ranks}]") } else { "1".to_owned() }
}

fn kernels(text: &mut String, wish: &Wish, bounds: KernelBounds) -> Result<(), Error> {
    let mut known: Vec<(&'static str, Dtype, Vec<u64>)> = Vec::new();
    for precision in &wish.precisions {
        for (kernel, shapes) in shapes(*precision, bounds)? {
            // What is of no precision, such as an update without a copy, is the same in all.
            let mut fresh: Vec<OperationShape> = shapes;
            fresh.retain(|shape| !known.contains(&(kernel, shape.dtype, shape.dims.clone())));
            known.extend(fresh.iter().map(|shape| (kernel, shape.dtype, shape.dims.clone())));
            for dtype in Dtype::ALL.iter().copied() {
                let mut alike: BTreeMap<u64, Vec<String>> = BTreeMap::new();
                for shape in fresh.iter().filter(|shape| shape.dtype == dtype) {
                    alike.entry(rotate(shape, wish.caches)).or_default().push(words(&shape.dims));
                }
                for (rotate, dims) in alike {
                    let (dims, ranks) = (dims.join(", "), at_once(wish.ranks));
                    let _ = writeln!(
                        text,
                        "  - {{benchmark: kernel, kernel: {kernel}, dtype: {}, ranks: {ranks}, rotate: {rotate}B, dims: [{dims}]}}",
                        dtype.name()
                    );
                }
            }
        }
    }
    Ok(())
}

/// Bytes of all copies of an operation's buffers. What the operation before left is near; parameters are not, nor is what a step does
/// once with each.
pub(super) fn rotate(shape: &OperationShape, caches: Caches) -> u64 {
    let known = |bytes: u64, usual: u64, most: u64| if bytes == 0 { usual } else { bytes.min(most) };
    let near = TIMES_CACHE * known(caches.own, USUAL.own, MOST.own);
    let far = 2 * known(caches.shared, USUAL.shared, MOST.shared);
    if ONCE_A_STEP.contains(&shape.kernel) || shape.bytes >= MUCH { near.max(far) } else { near }
}

/// `'512x512x512x0x4'`, or `none`.
pub(super) fn words(dims: &[u64]) -> String {
    if dims.is_empty() {
        return "none".to_owned();
    }
    let sizes: Vec<String> = dims.iter().map(u64::to_string).collect();
    format!("'{}'", sizes.join("x"))
}

/// Steps of so small a model that they take what every pass and every step takes.
fn steps(text: &mut String) {
    let settings: Vec<String> = TINY_SETTINGS.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let settings = settings.join(", ");
    let _ = writeln!(
        text,
        "  - {{benchmark: training, model: mlp, {settings}, ranks: 1, batch: 16, micro_batches: [1, 16]}}"
    );
}

fn exchanges(text: &mut String, wish: &Wish) {
    let mut counts: Vec<u32> = (1..).map(|power| 1 << power).take_while(|count| *count < wish.ranks).collect();
    counts.push(wish.ranks);
    // Many curves take long: a quick look has those of two ranks and of all.
    if wish.quick && counts.len() > 2 {
        counts.drain(1..counts.len() - 1);
    }
    let ranks: Vec<String> = counts.iter().map(u32::to_string).collect();
    let _ = writeln!(
        text,
        "  - {{benchmark: collective, op: [{}, send_recv], ranks: [{}], refine: {SIZES}, bytes: {FIRST_SIZES}}}",
        EXCHANGES.join(", "),
        ranks.join(", ")
    );
    if wish.ranks >= 4 && wish.ranks.is_multiple_of(2) {
        // Neighbours, and ranks that are far apart: tensor groups and data groups.
        let half = wish.ranks / 2;
        let _ = writeln!(
            text,
            "  - {{benchmark: collective, op: [{}], ranks: {}, groups: [div 2, mod {half}], refine: {SIZES}, \
             bytes: {FIRST_SIZES}}}",
            EXCHANGES.join(", "),
            wish.ranks
        );
    }
}

fn interference(text: &mut String, wish: &Wish) {
    let ranks = wish.ranks;
    for (activity, beside) in [("product", "collective"), ("collective", "product")] {
        let _ = writeln!(
            text,
            "  - {{benchmark: interference, activity: {activity}, beside: {beside}, ranks: {ranks}, product_size: 256, \
             collective_bytes: 1MiB}}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(ranks: u32) -> Wish {
        Wish {
            ranks,
            backend: "shm".to_owned(),
            precisions: vec![Dtype::F32],
            quick: true,
            caches: Caches { own: 2 << 20, shared: 32 << 20 },
        }
    }

    #[test]
    fn a_machine_of_one_core_has_no_exchange() {
        let one = plan(&wish(1)).unwrap();
        assert!(!one.contains("collective") && !one.contains("interference") && one.contains("ranks: 1,"), "{one}");
        assert!(plan(&wish(0)).is_err());
    }

    #[test]
    fn groups_need_four_ranks() {
        let (two, eight) = (plan(&wish(2)).unwrap(), plan(&wish(8)).unwrap());
        assert!(two.contains("ranks: [1, 2]") && !two.contains("groups"), "{two}");
        assert!(eight.contains("groups: [div 2, mod 4]") && eight.contains("ranks: [2, 8]"), "{eight}");
    }

    #[test]
    fn an_operation_of_two_precisions_is_measured_once() {
        let both = plan(&Wish { precisions: vec![Dtype::F32, Dtype::Bf16], ..wish(1) }).unwrap();
        let lines: Vec<&str> = both.lines().filter(|line| line.contains("kernel: sum_squares")).collect();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(both.contains("kernel: product_nt, dtype: bf16") && both.contains("kernel: product_nt, dtype: f32"));
    }
}
