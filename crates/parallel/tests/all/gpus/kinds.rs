//! The time of a step by kind of work: all of it, and by a step that trains like any other.

use comm::{Abort, Options};
use engine::{Kind, Kinds};
use parallel::{Mesh, Recipe, Trainer};
use terms::Dtype;

use super::{On, device, gpt2, recipe, source, surrounded};

/// Three steps of each rank, the second by kind where that is asked for: the losses of the others, and what was noted.
fn train(on: On, recipe: &Recipe, by_kind: bool) -> Vec<(Vec<f64>, Option<Kinds>)> {
    let gpus = matches!(on, On::Gpus(_));
    let options = Options { gpus, oversubscribed: true, ..Options::default() };
    std::thread::scope(|scope| {
        let ranks: Vec<_> = comm::threads(recipe.mesh.ranks() as u32, &Abort::default())
            .into_iter()
            .map(|mut bootstrap| {
                let options = &options;
                scope.spawn(move || {
                    let backend = if gpus { "nccl" } else { "shm" };
                    let (mut world, abort) = comm::open(backend, &mut bootstrap, options).unwrap();
                    let device = device(on, recipe, &mut *world);
                    let source = source(&recipe.model);
                    let mut trainer = Trainer::new(recipe, &mut *world, &abort, options, &*device, source).unwrap();
                    let first = trainer.step(&mut *world).unwrap().loss;
                    let kinds = match by_kind {
                        true => trainer.kinds(&mut *world).unwrap(),
                        false => trainer.step(&mut *world).map(|_| None).unwrap(),
                    };
                    (vec![first, trainer.step(&mut *world).unwrap().loss], kinds)
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

#[test]
fn kinds_of_work_add_up_to_the_step() {
    if surrounded("kinds_of_work_add_up_to_the_step").is_none() {
        return;
    }
    let of_one = [Kind::Products, Kind::Attention, Kind::ElementWise, Kind::Loss, Kind::Update, Kind::Other];
    // In bf16 products are joined with what follows them.
    for (data, precision) in [(1, Dtype::F32), (1, Dtype::Bf16), (2, Dtype::F32)] {
        let mesh = Mesh { data, ..Mesh::SERIAL };
        let recipe = Recipe { mesh, micro_batches: vec![2 / data; data], ..recipe(gpt2(), precision) };
        let usual = train(On::Gpus("nccl"), &recipe, false);
        for (rank, (losses, kinds)) in train(On::Gpus("nccl"), &recipe, true).into_iter().enumerate() {
            assert_eq!(losses, usual[rank].0, "a step by kind trains like any other");
            let Kinds { ns, span_ns } = kinds.expect("a GPU has a clock");
            let expected = of_one.iter().chain(&[Kind::Exchanges][..usize::from(data > 1)]);
            let mut expected: Vec<Kind> = expected.copied().collect();
            expected.sort();
            assert_eq!(ns.keys().copied().collect::<Vec<_>>(), expected, "{mesh}, {precision}");
            let sum: u64 = ns.values().sum();
            assert!(span_ns > 0 && sum == span_ns, "{sum} of {span_ns} ns: {ns:?}");
            assert!(ns.values().all(|ns| *ns > 0), "{ns:?}");
        }
    }
}

#[test]
fn the_host_notes_no_kinds() {
    let (losses, kinds) = train(On::Host, &recipe(gpt2(), Dtype::F32), true).remove(0);
    // Nor did it make a step for that.
    let usual = train(On::Host, &recipe(gpt2(), Dtype::F32), false).remove(0).0;
    assert!(kinds.is_none() && losses[0] == usual[0] && losses[1] != usual[1], "{losses:?} {usual:?}");
}
