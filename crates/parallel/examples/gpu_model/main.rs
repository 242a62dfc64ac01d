//! What a step should take on a GPU that is not here, by kind of kernel: `cargo xtask gpu-model`.
//!
//! The operations are those of the program that runs. Each takes the longer of its arithmetic at a rate and of its bytes at a
//! rate; a row says which of the two bounds it, and the lines below say what the rates rest on. It says where to look, and is no
//! measurement.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "an example is a program: it reads its words and prints its table"
)]

mod attention;

use std::collections::BTreeMap;

use engine::cuda::LOGITS_MULTIPLE;
use engine::op::{Dense, Update};
use engine::{Kind, Op, Program};
use parallel::{Mesh, Recipe};
use terms::{Dtype, Named};

/// What a device reaches.
struct Gpu {
    name: &'static str,
    /// TFLOP/s of large products of bf16.
    products: f64,
    /// TB/s of a copy.
    memory: f64,
    /// Products are cut into tiles, and multiprocessors take these in rounds.
    multiprocessors: usize,
    /// Clock of long work. Assumed.
    gigahertz: f64,
    /// Multiplications and additions a clock of a multiprocessor by `mma.sync`, with operands of 16 bits: those of the data sheet on an
    /// A100, and 63% of them on Hopper, whose peak needs other instructions. Assumed; on a B200, as on Hopper.
    products_by_warps: f64,
    basis: &'static str,
}

const GPUS: [Gpu; 4] = [
    Gpu {
        name: "a100",
        products: 250.0,
        memory: 1.7,
        multiprocessors: 108,
        gigahertz: 1.41,
        products_by_warps: 1024.0,
        basis: "data sheet (312 TFLOP/s, 2.04 TB/s) at 80% and 85%, not measured",
    },
    Gpu {
        name: "h100",
        products: 785.0,
        memory: 3.0,
        multiprocessors: 132,
        gigahertz: 1.7,
        products_by_warps: 1288.0,
        basis: "measured on an H100 SXM: products 770 to 800 TFLOP/s, copies 3.0 TB/s",
    },
    Gpu {
        name: "h200",
        products: 785.0,
        memory: 4.2,
        multiprocessors: 132,
        gigahertz: 1.7,
        products_by_warps: 1288.0,
        basis: "measured on an H200: products 770 to 800 TFLOP/s, copies 4.2 TB/s",
    },
    Gpu {
        name: "b200",
        products: 1800.0,
        memory: 6.8,
        multiprocessors: 148,
        gigahertz: 1.7,
        products_by_warps: 1288.0,
        basis: "data sheet (2,250 TFLOP/s, 8 TB/s) at 80% and 85%, not measured",
    },
];

/// Share of a copy's rate that kernels which read and write rows reach.
const ROWS_OF_COPY: f64 = 0.85;
/// TFLOP/s of causal attention over those of products: cuDNN's forward pass with heads of 64, 288 of 785 on an H100.
const ATTENTION_OF_PRODUCTS: f64 = 0.37;
/// Rows and columns of a tile of a product.
const TILE: usize = 128;
/// Share of its rate that a product keeps whose rows no 16-byte load reaches. Assumed.
const UNALIGNED: f64 = 0.6;
/// Share that it keeps in rounds that are not full: libraries cut long sums among multiprocessors that would idle. Assumed.
const LAST_ROUND: f64 = 0.8;
/// Seconds between the kernels of a graph. Assumed.
const BETWEEN_S: f64 = 1.0e-6;

/// The GPU of this name. None of its family's others: they have less memory bandwidth, fewer watts, or a part of the processors.
fn known(name: &str) -> Option<&'static Gpu> {
    const OTHERS: [&str; 4] = ["pcie", "nvl", "40gb", "mig"];
    let name = name.to_lowercase();
    let words: Vec<&str> = name.split(|c: char| !c.is_alphanumeric()).collect();
    if words.iter().any(|word| OTHERS.contains(word)) {
        return None;
    }
    GPUS.iter().find(|gpu| words.contains(&gpu.name))
}

/// What the operations of a kind take.
#[derive(Clone, Copy, Default)]
struct Work {
    launches: usize,
    flops: f64,
    bytes: f64,
    seconds: f64,
    /// Of the seconds, those of operations that arithmetic bounds.
    arithmetic_s: f64,
}

fn main() -> Result<(), String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // A name that is not read would leave its default in force.
    const NAMES: [&str; 8] =
        ["--gpu", "--model", "--batch", "--sequence", "--precision", "--logits-multiple", "--attention", "--format"];
    if let Some(odd) = words.iter().step_by(2).find(|word| !NAMES.contains(&word.as_str())) {
        return Err(format!("there is no option `{odd}`; valid values: {}", NAMES.join(", ")));
    }
    let value = |name: &str, default: &str| -> Result<String, String> {
        match words.iter().position(|word| *word == format!("--{name}")) {
            Some(at) => words.get(at + 1).cloned().ok_or_else(|| format!("--{name} needs a value")),
            None => Ok(default.to_owned()),
        }
    };
    let number = |name: &str, default: &str| -> Result<usize, String> {
        value(name, default)?.parse().map_err(|_| format!("--{name} takes a whole number"))
    };
    let (name, precision) = (value("gpu", "h200")?, value("precision", "bf16")?);
    // "h200", or what the device calls itself: "NVIDIA H200".
    let gpu = known(&name);
    let gpu = gpu.ok_or_else(|| format!("--gpu: nothing is known of {name}; valid values: a100, h100, h200, b200"))?;
    let precision = Dtype::from_name(&precision)
        .filter(|dtype| matches!(dtype, Dtype::Bf16 | Dtype::F16))
        .ok_or("--precision: valid values: bf16, f16")?;
    let (batch, sequence) = (number("batch", "16")?, number("sequence", "1024")?);
    let model = value("model", "gpt2")?;
    let built = model::model(&model, &[("sequence".to_owned(), sequence as f64)]).map_err(|why| why.to_string())?;
    let multiple = number("logits-multiple", &LOGITS_MULTIPLE.to_string())?;
    let recipe = Recipe { logits_multiple: multiple, ..recipe(built, precision, batch) };
    let program = parallel::program(&recipe, 0).map_err(|why| why.error.what)?;
    let attention = value("attention", "cudnn")?;
    let is_own = match attention.as_str() {
        "cudnn" => false,
        "own" => true,
        other => return Err(format!("--attention: there is no {other}; valid values: cudnn, own")),
    };
    let kinds = by_kind(gpu, &program, is_own)?;
    match value("format", "text")?.as_str() {
        "text" => {}
        "json" => {
            print_json(gpu, &kinds);
            return Ok(());
        }
        other => return Err(format!("--format: there is no {other}; valid values: text, json")),
    }
    println!("{model}, batch {batch}, sequence {sequence}, {precision}, one {} (computed, not measured)\n", gpu.name);
    print(gpu, &kinds);
    println!("\nrates: {}", gpu.basis);
    match is_own {
        false => println!("attention by cuDNN, at {ATTENTION_OF_PRODUCTS} of products"),
        true => println!("attention by our kernels: their tiles, at {} GHz and other assumed rates", gpu.gigahertz),
    }
    println!("rows at {ROWS_OF_COPY} of a copy");
    println!("assumed: products with unaligned rows at {UNALIGNED}, {BETWEEN_S:.0e} s between kernels");
    Ok(())
}

fn recipe(model: model::Model, precision: Dtype, micro_batch: usize) -> Recipe {
    Recipe { micro_batch, logits_multiple: LOGITS_MULTIPLE, ..Recipe::plain(model, Mesh::SERIAL, precision) }
}

/// The work of each kind. What a product computes as it writes its result costs no launch and no second reading.
fn by_kind(gpu: &Gpu, program: &Program, attention_is_own: bool) -> Result<BTreeMap<&'static str, Work>, String> {
    let mut found: BTreeMap<&'static str, Work> = BTreeMap::new();
    let mut before: Option<&Op> = None;
    for (_, op) in program.operations(0..program.instructions.len()) {
        let joins = before.is_some_and(|before| engine::is_epilogue(before, op));
        let (flops, bytes) = (engine::flops(op), bytes(program, op, joins));
        let arithmetic = flops / (gpu.products * 1e12 * share_of_products(gpu, op));
        let memory = bytes / (gpu.memory * 1e12 * ROWS_OF_COPY);
        let work = found.entry(Kind::of(op).name()).or_default();
        let own = match op {
            Op::Dense(Dense::AttentionForward(op)) if attention_is_own => Some(attention::forward(gpu, op, bytes)?),
            Op::Dense(Dense::AttentionBackward { forward, .. }) if attention_is_own => {
                Some(attention::backward(gpu, forward, bytes)?)
            }
            _ => None,
        };
        if let Some(own) = own {
            work.launches += own.launches;
            work.flops += flops;
            work.bytes += bytes;
            work.seconds += own.seconds + own.launches as f64 * BETWEEN_S;
            work.arithmetic_s += own.arithmetic_s;
            before = Some(op);
            continue;
        }
        let launches = !joins && !before.is_some_and(|before| is_update(before) && is_update(op));
        work.launches += usize::from(launches);
        work.flops += flops;
        work.bytes += bytes;
        work.seconds += arithmetic.max(memory) + if launches { BETWEEN_S } else { 0.0 };
        work.arithmetic_s += if arithmetic > memory { arithmetic } else { 0.0 };
        before = Some(op);
    }
    Ok(found)
}

/// Updates in a row are one launch.
fn is_update(op: &Op) -> bool {
    matches!(op, Op::Update(Update::AdamW { .. }))
}

/// Bytes that an operation reads and writes.
fn bytes(program: &Program, op: &Op, joins: bool) -> f64 {
    let all = engine::bytes(program, op) as f64;
    if joins { all - engine::largest_view(program, op) as f64 } else { all }
}

/// The share of large products' rate that an operation reaches.
fn share_of_products(gpu: &Gpu, op: &Op) -> f64 {
    let product = match op {
        Op::Dense(Dense::MatMul(product)) => product,
        Op::Dense(_) => return ATTENTION_OF_PRODUCTS,
        _ => return 1.0,
    };
    let [m, n, k] = [product.m, product.n, product.k];
    let tiles = m.div_ceil(TILE) * n.div_ceil(TILE);
    let [padded_m, padded_n, padded_k] = product.padding;
    let of_tiles = ((m - padded_m) * (n - padded_n)) as f64 / (tiles * TILE * TILE) as f64;
    let of_depth = (k - padded_k) as f64 / k as f64;
    let of_rounds = tiles as f64 / (tiles.div_ceil(gpu.multiprocessors) * gpu.multiprocessors) as f64;
    let aligned = [m, n, k].iter().all(|size| size.is_multiple_of(8));
    of_tiles * of_depth * of_rounds.max(LAST_ROUND) * if aligned { 1.0 } else { UNALIGNED }
}

fn print(gpu: &Gpu, kinds: &BTreeMap<&'static str, Work>) {
    println!("{:<14} {:>8} {:>8} {:>8} {:>8}  bound by", "kind", "launches", "TFLOP", "GB", "ms");
    let mut rows: Vec<(&&str, &Work)> = kinds.iter().collect();
    rows.sort_by(|a, b| b.1.seconds.total_cmp(&a.1.seconds));
    let mut all = Work::default();
    for (kind, work) in rows {
        let by = if work.arithmetic_s > 0.5 * work.seconds { "arithmetic" } else { "memory" };
        println!("{kind:<14} {}  {by}", cells(work));
        all.launches += work.launches;
        all.flops += work.flops;
        all.bytes += work.bytes;
        all.seconds += work.seconds;
    }
    println!("{:<14} {}", "a step", cells(&all));
    let rate = all.flops / all.seconds / 1e12;
    println!("\n{rate:.0} TFLOP/s over the step: {:.0}% of what products reach", 100.0 * rate / gpu.products);
}

/// Milliseconds by kind, for another program.
fn print_json(gpu: &Gpu, kinds: &BTreeMap<&'static str, Work>) {
    let ms = |seconds: f64| format!("{:.3}", seconds * 1e3);
    let all: Vec<String> =
        kinds.iter().map(|(kind, work)| format!("\"{}\": {}", kind.replace('-', "_"), ms(work.seconds))).collect();
    let sum = ms(kinds.values().map(|work| work.seconds).sum());
    println!("{{\"basis\": \"{}\", \"ms\": {{{}, \"sum\": {sum}}}}}", gpu.basis, all.join(", "));
}

fn cells(work: &Work) -> String {
    let Work { launches, flops, bytes, seconds, .. } = *work;
    format!("{launches:>8} {:>8.2} {:>8.2} {:>8.2}", flops / 1e12, bytes / 1e9, seconds * 1e3)
}
