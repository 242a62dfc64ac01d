//! A step allocates nothing: counted by the allocator itself, with the call stacks of what it sees. What the `gemm` crates
//! take to pack their operands is apart.

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::sync::Mutex;

use comm::{Abort, Options};
use parallel::{Mesh, Optimizer, Recipe, Source, Trainer};
use terms::Dtype;

struct Watching;

#[global_allocator]
static ALLOCATOR: Watching = Watching;

thread_local! {
    /// Whether this thread's allocations are noted. Off while one is being noted.
    static NOTED: Cell<bool> = const { Cell::new(false) };
}

static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn note() {
    if NOTED.get() {
        NOTED.set(false);
        let stack = Backtrace::force_capture().to_string();
        // Without debug information the frames of the crate that does it are not there: those around them are.
        if !stack.contains("gemm_common") && !stack.contains("gemm_basic") {
            SEEN.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(stack);
        }
        NOTED.set(true);
    }
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: the caller's.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

struct Zeros;

impl Source for Zeros {
    fn tokens(&mut self, _: u64, tokens: &mut [i32], targets: &mut [i32]) -> Result<(), String> {
        tokens.fill(0);
        targets.fill(1);
        Ok(())
    }

    fn numbers(&mut self, index: u64, numbers: &mut [f32], class: &mut i32) -> Result<(), String> {
        for (place, number) in numbers.iter_mut().enumerate() {
            *number = ((place as u64 + index) % 7) as f32;
        }
        *class = 0;
        Ok(())
    }
}

pub(crate) fn recipe(model: model::Model, precision: Dtype, mesh: Mesh) -> Recipe {
    Recipe {
        micro_batch: 2,
        micro_batches: vec![2; mesh.data],
        sharded: if mesh.data > 1 { 1 } else { 0 },
        bucket_bytes: 4096,
        optimizer: Optimizer::AdamW { rate: 1e-3, beta1: 0.9, beta2: 0.95, epsilon: 1e-8, decay: 0.1 },
        clip: Some(1.0),
        ..Recipe::plain(model, mesh, precision)
    }
}

fn gpt2() -> model::Model {
    let small = [("layers", 2.0), ("width", 32.0), ("heads", 2.0), ("vocabulary", 50.0), ("sequence", 8.0)];
    model::model("gpt2", &small.map(|(name, value)| (name.to_owned(), value))).expect("a model")
}

fn resnet() -> model::Model {
    let small = [("image", 33.0), ("classes", 5.0), ("width", 8.0)];
    model::model("resnet18", &small.map(|(name, value)| (name.to_owned(), value))).expect("a model")
}

/// Steps until everything is warm, then one that is watched, on every rank.
fn watch(recipe: &Recipe) {
    let abort = Abort::default();
    let ranks = recipe.mesh.ranks() as u32;
    std::thread::scope(|scope| {
        for mut bootstrap in comm::threads(ranks, &abort) {
            scope.spawn(move || {
                let options = Options { oversubscribed: true, ..Options::default() };
                let (mut world, abort) = comm::open("shm", &mut bootstrap, &options).expect("shm opens");
                let device = engine::Host::new(1, &[], recipe.matmul).expect("a thread");
                let mut trainer =
                    Trainer::new(recipe, &mut *world, &abort, &options, &device, Box::new(Zeros)).expect("it fits");
                for _ in 0..3 {
                    trainer.step(&mut *world).expect("a step");
                }
                NOTED.set(true);
                let watched = trainer.step(&mut *world);
                NOTED.set(false);
                watched.expect("a step");
            });
        }
    });
}

#[test]
fn a_step_allocates_nothing() {
    // The allocator is watched at all.
    NOTED.set(true);
    drop(std::hint::black_box(Box::new(1u8)));
    NOTED.set(false);
    assert_eq!(SEEN.lock().expect("nobody panicked").drain(..).count(), 1);

    let meshes = [Mesh::SERIAL, Mesh { data: 2, ..Mesh::SERIAL }, Mesh { pipeline: 2, ..Mesh::SERIAL }];
    for mesh in meshes {
        for precision in [Dtype::F32, Dtype::Bf16, Dtype::F16] {
            watch(&recipe(gpt2(), precision, mesh));
        }
        watch(&recipe(resnet(), Dtype::F32, mesh));
    }
    watch(&recipe(gpt2(), Dtype::F32, Mesh { tensor: 2, ..Mesh::SERIAL }));
    let seen = SEEN.lock().expect("nobody panicked");
    assert!(seen.is_empty(), "{} allocations, the first:\n{}", seen.len(), seen[0]);
}
