//! What a host writes to a program on a GPU and reads from it, on a device of tests/fakes, whose copies run as late as waits permit.

use std::sync::Arc;

use device::cuda::Gpu;
use engine::cuda::{Cublas, Cuda};
use engine::op::{Dense, MatMul, Norm, Op, Rows, Update};
use engine::{Category, Device, Lifetime, Loaded, Memory, Program, View};
use half::bf16;
use terms::Dtype;

use crate::cuda::gpu;
use crate::fakes;

/// Numbers of a view: with seven views, several times what goes through pinned memory at once.
const LEN: usize = 90_000;
const VIEWS: usize = 7;

fn loaded(gpu: &Arc<Gpu>, program: Program) -> Box<dyn Loaded> {
    let library = Cublas::open(&fakes::folder("").unwrap().join("libcublasLt.so.12"), gpu).unwrap();
    let cuda = Cuda::new(gpu, &library, false).unwrap();
    let plan = engine::plan(&program);
    let region = cuda.alloc(plan.private.max(64)).unwrap();
    let place =
        |(buffer, place): (&engine::Buffer, &engine::BufferPlace)| region.slice(place.offset, buffer.bytes()).unwrap();
    let places = program.buffers.iter().zip(&plan.places).map(place).collect();
    let memory = Memory::new(&program.buffers, places);
    cuda.load(&Arc::new(program), memory, 1).unwrap()
}

fn value_at(round: usize, view: usize, at: usize) -> f64 {
    (round * 1_000_000_000 + view * 1_000_000 + at) as f64
}

/// Each write is on its way while the next is made: the memory that it goes through is not overwritten before it was copied.
#[test]
fn writes_that_are_on_their_way_keep_what_they_bring() {
    let Some(gpu) = gpu("writes_that_are_on_their_way_keep_what_they_bring") else { return };
    let mut program = Program::default();
    let views: Vec<View> =
        (0..VIEWS).map(|_| program.buffer(Category::Parameter, Lifetime::Persistent, Dtype::F64, LEN)).collect();
    let mut loaded = loaded(&gpu, program);
    for round in 0..3 {
        for (view, of) in views.iter().enumerate() {
            let fill = |to: &mut [f64]| to.iter_mut().enumerate().for_each(|(at, to)| *to = value_at(round, view, at));
            // SAFETY: no exchange names the view.
            unsafe { loaded.put::<f64>(*of, fill) }.unwrap();
        }
        for (view, of) in views.iter().enumerate() {
            let see = |seen: &[f64]| {
                let wrong = seen.iter().enumerate().find(|(at, seen)| **seen != value_at(round, view, *at));
                assert_eq!(wrong, None, "round {round}, view {view}");
            };
            // SAFETY: as above.
            unsafe { loaded.see::<f64>(*of, see) }.unwrap();
        }
    }
}

/// A sum of rows is made within a product only where it is of what that multiplies.
#[test]
fn sums_of_other_rows_are_not_joined_with_a_product() {
    let Some(gpu) = gpu("sums_of_other_rows_are_not_joined_with_a_product") else { return };
    let (rows, outputs, inputs) = (4, 8, 8);
    for is_joined in [true, false] {
        let mut program = Program::default();
        let mut buffer = |dtype, len| program.buffer(Category::Parameter, Lifetime::Persistent, dtype, len);
        let [dy, other] = [(); 2].map(|()| buffer(Dtype::Bf16, rows * outputs));
        let x = buffer(Dtype::Bf16, rows * inputs);
        let (d_weight, d_bias) = (buffer(Dtype::F32, outputs * inputs), buffer(Dtype::F32, outputs));
        let summed = if is_joined { dy } else { other };
        program.run(Op::Rows(Rows::ColumnSum { x: summed, y: d_bias, rows, accumulate: false }));
        program.run(Op::Dense(Dense::MatMul(MatMul {
            a: dy,
            b: x,
            c: d_weight,
            bias: None,
            m: outputs,
            n: inputs,
            k: rows,
            a_transposed: true,
            b_transposed: false,
            accumulate: false,
            padding: [0; 3],
        })));
        let mut loaded = loaded(&gpu, program);
        for (view, value) in [(dy, 1.0), (other, 2.0), (x, 3.0)] {
            // SAFETY: no exchange names the views.
            unsafe { loaded.put::<bf16>(view, |to| to.fill(bf16::from_f64(value))) }.unwrap();
        }
        // SAFETY: the views are apart, and nothing is under way.
        unsafe { loaded.run(0..2, 1) }.unwrap();
        for (view, wanted) in [(d_weight, 12.0), (d_bias, if is_joined { 4.0 } else { 8.0 })] {
            let see = |seen: &[f32]| assert!(seen.iter().all(|seen| *seen == wanted), "{is_joined}: {seen:?}");
            // SAFETY: as above.
            unsafe { loaded.see::<f32>(view, see) }.unwrap();
        }
        assert_eq!(loaded.about().contains_key("joined_products"), is_joined);
    }
}

/// The library wants what an epilogue writes at multiples of 16 bytes. Where it is not, there are two launches, and the same result.
#[test]
fn products_are_joined_where_the_library_takes_their_places() {
    let Some(gpu) = gpu("products_are_joined_where_the_library_takes_their_places") else { return };
    let (rows, outputs, inputs) = (4, 8, 8);
    for (off, is_joined) in [([0, 0], true), ([1, 0], false), ([0, 1], false)] {
        let mut program = Program::default();
        let mut buffer = |dtype, len, from: usize| {
            program.buffer(Category::Parameter, Lifetime::Persistent, dtype, len + from).part(from, len)
        };
        let dy = buffer(Dtype::Bf16, rows * outputs, off[0]);
        let x = buffer(Dtype::Bf16, rows * inputs, 0);
        let d_weight = buffer(Dtype::F32, outputs * inputs, 0);
        let d_bias = buffer(Dtype::F32, outputs, off[1]);
        program.run(Op::Rows(Rows::ColumnSum { x: dy, y: d_bias, rows, accumulate: false }));
        let (m, n, k) = (outputs, inputs, rows);
        let product = MatMul {
            a: dy,
            b: x,
            c: d_weight,
            bias: None,
            m,
            n,
            k,
            a_transposed: true,
            b_transposed: false,
            accumulate: false,
            padding: [0; 3],
        };
        program.run(Op::Dense(Dense::MatMul(product)));
        let mut loaded = loaded(&gpu, program);
        for (view, value) in [(dy, 1.0), (x, 3.0)] {
            // SAFETY: no exchange names the views.
            unsafe { loaded.put::<bf16>(view, |to| to.fill(bf16::from_f64(value))) }.unwrap();
        }
        // SAFETY: the views are apart, and nothing is under way.
        unsafe { loaded.run(0..2, 1) }.unwrap_or_else(|error| panic!("{off:?}: {error}"));
        for (view, wanted) in [(d_weight, 12.0), (d_bias, 4.0)] {
            let see = |seen: &[f32]| assert!(seen.iter().all(|seen| *seen == wanted), "{off:?}: {seen:?}");
            // SAFETY: as above.
            unsafe { loaded.see::<f32>(view, see) }.unwrap();
        }
        assert_eq!(loaded.about().contains_key("joined_products"), is_joined, "{off:?}");
    }
}

/// Kernels are loaded with a program, and none of another type: the driver takes seconds to compile them, which no step must wait for.
#[test]
fn steps_load_no_kernels() {
    let Some(gpu) = gpu("steps_load_no_kernels") else { return };
    let mut program = Program::default();
    let mut buffer = |dtype, len| program.buffer(Category::Parameter, Lifetime::Persistent, dtype, len);
    let (x, y, gain) = (buffer(Dtype::Bf16, 64), buffer(Dtype::Bf16, 64), buffer(Dtype::Bf16, 16));
    let (statistics, control) = (buffer(Dtype::F32, 8), buffer(Dtype::F64, 4));
    let norm = Norm { x, gain, bias: None, statistics, rows: 4, columns: 16, epsilon: 1e-5 };
    program.run(Op::Rows(Rows::NormForward { norm, y }));
    program.run(Op::Rows(Rows::GeluForward { x: y, y: x, exact: false }));
    program.run(Op::Update(Update::BeginNorm { control }));
    let mut loaded = loaded(&gpu, program);
    let texts = gpu.loading().texts;
    // The norms of bf16, the other kernels of bf16, and those without a type.
    assert_eq!(texts, 3);
    for step in 1..4 {
        // SAFETY: no exchange names the views, and nothing else is under way.
        unsafe { loaded.run(0..3, step) }.unwrap();
    }
    loaded.queue().synchronise();
    assert_eq!(gpu.loading().texts, texts);
}

/// Parameters, gradients, both moments and the copy of so many elements, and the update of them.
fn tensor(program: &mut Program, len: usize, rate: f64, control: View) -> [View; 5] {
    let mut buffer = |dtype| program.buffer(Category::Parameter, Lifetime::Persistent, dtype, len);
    let [parameters, gradients, first, second] = [(); 4].map(|()| buffer(Dtype::F32));
    let copy = buffer(Dtype::Bf16);
    let (beta1, beta2, epsilon, decay, clip) = (0.9, 0.999, 1e-8, 0.01, Some(1.0));
    program.run(Op::Update(Update::AdamW {
        parameters,
        gradients,
        first,
        second,
        copy: Some(copy),
        control,
        rate,
        beta1,
        beta2,
        epsilon,
        decay,
        clip,
    }));
    [parameters, gradients, first, second, copy]
}

/// Three steps of updates: what they leave, bit by bit, and how many were given at once. `apart`: something stands between them.
fn updated(gpu: &Arc<Gpu>, apart: bool, rates: [f64; 4]) -> (Vec<Vec<u8>>, Option<String>) {
    let mut program = Program::default();
    let control = program.buffer(Category::Scalar, Lifetime::Persistent, Dtype::F64, 4);
    let other = program.buffer(Category::Scalar, Lifetime::Persistent, Dtype::F64, 4);
    let mut tensors = Vec::new();
    // Several parts, one, none, and one that ends with a part.
    for (len, rate) in [40_000, 17, 0, 32_768].into_iter().zip(rates) {
        tensors.push(tensor(&mut program, len, rate, control));
        if apart {
            program.run(Op::Update(Update::BeginNorm { control: other }));
        }
    }
    let instructions = program.instructions.len();
    let mut loaded = loaded(gpu, program);
    // SAFETY: no exchange names the views, here and below.
    unsafe { loaded.put::<f64>(control, |to| to.copy_from_slice(&[2.0, 0.0, 9.0, 0.0])) }.unwrap();
    for (seed, [parameters, gradients, ..]) in tensors.iter().enumerate() {
        for (view, shift) in [(parameters, 1), (gradients, 2)] {
            let number = |at: usize| ((at * 7 + seed * 31 + shift) % 1009) as f32 / 1009.0 - 0.4;
            let fill = |to: &mut [f32]| to.iter_mut().enumerate().for_each(|(at, to)| *to = number(at));
            // SAFETY: as above.
            unsafe { loaded.put::<f32>(*view, fill) }.unwrap();
        }
    }
    for step in 1..4 {
        // SAFETY: the views are apart, and nothing is under way.
        unsafe { loaded.run(0..instructions, step) }.unwrap();
    }
    let mut all = Vec::new();
    for view in tensors.into_iter().flatten() {
        // SAFETY: as above.
        unsafe { loaded.read(view, &mut |bytes| all.push(bytes.to_vec())) }.unwrap();
    }
    (all, loaded.about().remove("joined_updates"))
}

/// One launch updates all units, and leaves the bits that one for each leaves. Updates that differ in more than their tensors stay apart.
#[test]
fn updates_in_a_row_are_given_at_once() {
    let Some(gpu) = gpu("updates_in_a_row_are_given_at_once") else { return };
    let (singly, none) = updated(&gpu, true, [0.1; 4]);
    let (at_once, joined) = updated(&gpu, false, [0.1; 4]);
    assert_eq!((none, joined.as_deref()), (None, Some("4 units in 1")));
    let wrong = singly.iter().zip(&at_once).position(|(one, other)| one != other);
    assert_eq!(wrong, None, "tensor and array of the first that differs, five arrays each");
    // It went somewhere.
    assert!(singly[0].iter().any(|byte| *byte != 0) && singly[19] != vec![0; singly[19].len()]);
    let (singly, _) = updated(&gpu, true, [0.1, 0.1, 0.2, 0.2]);
    let (in_two, joined) = updated(&gpu, false, [0.1, 0.1, 0.2, 0.2]);
    assert_eq!((joined.as_deref(), singly == in_two), (Some("4 units in 2"), true));
}
