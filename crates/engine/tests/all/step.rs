//! What a host writes to a program on a GPU and reads from it, on a device of tests/fakes, whose copies run as late as waits permit.

use std::sync::Arc;

use device::cuda::Gpu;
use engine::cuda::{Cublas, Cuda};
use engine::{Category, Device, Lifetime, Loaded, Memory, Program, View};
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

fn number(round: usize, view: usize, at: usize) -> f64 {
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
            let fill = |to: &mut [f64]| to.iter_mut().enumerate().for_each(|(at, to)| *to = number(round, view, at));
            // SAFETY: no exchange names the view.
            unsafe { loaded.put::<f64>(*of, fill) }.unwrap();
        }
        for (view, of) in views.iter().enumerate() {
            let see = |seen: &[f64]| {
                let wrong = seen.iter().enumerate().find(|(at, seen)| **seen != number(round, view, *at));
                assert_eq!(wrong, None, "round {round}, view {view}");
            };
            // SAFETY: as above.
            unsafe { loaded.see::<f64>(*of, see) }.unwrap();
        }
    }
}
