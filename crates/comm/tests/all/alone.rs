//! One operation among all ranks in one thread gives what the independent model gives, bit for bit.

use comm::{Alone, extents};
use terms::{Collective, Named};

use crate::cases::Class;
use crate::model::Operation;
use crate::random::Random;

#[test]
fn ranks_in_one_thread_get_what_the_model_gives() {
    let mut random = Random::new(11);
    let mut compared = 0;
    for op in Collective::ALL.iter().copied() {
        for seed in 0..40 {
            let ranks = 2 + seed % 7;
            let model = Operation::random_of(op, &mut random, ranks, Class::Small);
            let Operation { op, dtype, reduce, peer, direction, count, ref counts, .. } = model;
            let asked = comm::Operation { op, count, dtype, reduce, peer, direction, counts: counts.clone() };
            let element = dtype.bytes() as usize;
            let inputs = |rank: u32, begin: u64, to: &mut [u8]| {
                let all = model.input(rank, begin + (to.len() / element) as u64);
                to.copy_from_slice(&all[begin as usize * element..]);
            };
            let alone = Alone::new(&asked, ranks, &inputs);
            for rank in 0..ranks {
                let elements = extents(op, count, rank, ranks, peer, counts.as_deref()).output;
                let mut output = vec![0xa5; elements as usize * element];
                alone.deliver(rank, &mut output);
                assert_eq!(output, model.output(rank, elements), "rank {rank} of {model:?}");
                compared += elements;
            }
        }
    }
    assert!(compared > 10_000, "{compared} elements");
}
