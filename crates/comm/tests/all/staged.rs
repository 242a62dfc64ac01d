//! Memory of GPUs by backends of the host, against a driver that runs copies as late as it may: what is not waited for is not there.

use device::Slice;
use terms::{Collective, Dtype, Named, Reduce, Space};

use comm::{Call, Communicator, Error, Options, Pace};

use crate::cases::Memory;
use crate::nccl::{Manner, Mirrored, on_gpus_by, one_unless, sum, surrounded};

#[test]
fn every_operation_through_the_host_does_what_the_layout_says() {
    if surrounded("every_operation_through_the_host_does_what_the_layout_says").is_none() {
        return;
    }
    for (ranks, manner) in [(1, Manner::Run), (2, Manner::Enqueue), (3, Manner::Start), (4, Manner::Run)] {
        on_gpus_by("shm", ranks, |inner| {
            let mut comm = Mirrored { inner, manner };
            let mut memory = Memory::new(&mut comm);
            for seed in 0..4 {
                Collective::ALL.iter().for_each(|op| one_unless(|_| false, &mut comm, &mut memory, *op, seed));
            }
            // Ranks 0 and 2, and the others.
            let (color, key) = (comm.shape().rank % 2, 9 - comm.shape().rank);
            let mut part = comm.split(Some(color), key).unwrap().unwrap();
            let mut memory = Memory::new(&mut *part);
            Collective::ALL.iter().for_each(|op| one_unless(|_| false, &mut *part, &mut memory, *op, 5));
        });
    }
}

/// No multiple of a piece, and more pieces than places.
const LONG: usize = (3 << 20) + 4104;

/// What a rank gives: no two pieces are alike.
fn given(rank: u32) -> Vec<u8> {
    (0..LONG).map(|at| (at % 251 + 3 * rank as usize) as u8).collect()
}

/// Calls one after the other on what the device's stream has not filled yet when they are made.
#[test]
fn each_piece_is_there_before_it_is_worked_on_and_before_its_place_is_used_again() {
    if surrounded("each_piece_is_there_before_it_is_worked_on_and_before_its_place_is_used_again").is_none() {
        return;
    }
    let root = 1;
    for op in [Collective::AllReduce, Collective::Reduce, Collective::Broadcast, Collective::SendRecv] {
        for in_place in [false, true] {
            on_gpus_by("shm", 2, |mut comm| {
                let rank = comm.shape().rank;
                let mut buffer = || -> Slice { comm.alloc(LONG, Space::Cuda).unwrap().whole() };
                let (source, input, other) = (buffer(), buffer(), buffer());
                source.write(&given(rank)).unwrap();
                let gets = op != Collective::Reduce || rank == root;
                let gives = op != Collective::Broadcast || rank == root;
                let output =
                    if in_place && op != Collective::SendRecv && gives && gets { input.clone() } else { other };
                let part = |slice: &Slice, is: bool| slice.slice(0, if is { LONG } else { 0 }).unwrap();
                for reduce in [Reduce::Sum, Reduce::Max] {
                    output.set(0xa5).unwrap();
                    input.copy_from(&source, None).unwrap();
                    let (input, output) = (part(&input, gives), part(&output, gets));
                    comm.run(&Call { op, input, output: output.clone(), reduce, peer: root, ..sum(&source) }).unwrap();
                    let mut got = vec![0; output.len()];
                    output.read(&mut got).unwrap();
                    let of = [given(0), given(1)];
                    let both = of[0].iter().zip(&of[1]);
                    let expected: Vec<u8> = match (op, reduce) {
                        _ if !gets => Vec::new(),
                        (Collective::Broadcast, _) => given(root),
                        (Collective::SendRecv, _) => given(1 - rank),
                        (_, Reduce::Sum) => both.map(|(a, b)| a.wrapping_add(*b)).collect(),
                        _ => both.map(|(a, b)| *a.max(b)).collect(),
                    };
                    let wrong = got.iter().zip(&expected).position(|(got, expected)| got != expected);
                    assert_eq!((wrong, got.len()), (None, expected.len()), "{op} {reduce} on rank {rank}");
                }
            });
        }
    }
}

/// What ranks agree on between calls, and what lies on both sides.
#[test]
fn words_of_the_host_go_straight_and_mixed_buffers_are_refused() {
    if surrounded("words_of_the_host_go_straight_and_mixed_buffers_are_refused").is_none() {
        return;
    }
    on_gpus_by("shm", 2, |mut comm| {
        let word = comm.alloc(16, Space::Host).unwrap().whole();
        let there = comm.alloc(16, Space::Cuda).unwrap().whole();
        // SAFETY: sixteen bytes that this rank alone uses between calls.
        unsafe { word.ptr().write_bytes(1, 16) };
        comm.run(&sum(&word)).unwrap();
        comm.control().expect("the host's").run(&sum(&word)).unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { word.ptr().read() }, 4);
        assert_ne!(comm.path(&sum(&word)), "staged through the host");
        assert_eq!(comm.path(&sum(&there)), "staged through the host");
        let mixed = Call { output: word, dtype: Dtype::U8, ..sum(&there) };
        assert!(comm.run(&mixed).unwrap_err().to_string().contains("one buffer is the host's and one a GPU's"));
    });
}

#[test]
fn what_makes_no_sense_on_gpus_is_refused_in_words() {
    let pace = Some(Pace { bandwidth: terms::Bandwidth(1e9), latency: terms::Seconds(0.0) });
    let on_gpus = Options { gpus: true, ..Options::default() };
    for (backend, options, words) in [
        ("reference", on_gpus.clone(), "move GPU memory"),
        ("shm", Options { progress_thread: true, ..on_gpus.clone() }, "move GPU memory with a progress thread"),
        ("shm", Options { pace, ..on_gpus.clone() }, "slow down links for GPU memory"),
    ] {
        let mut bootstrap = comm::threads(1, &comm::Abort::default()).remove(0);
        match comm::open(backend, &mut bootstrap, &options).map(drop) {
            Err(Error::Unsupported { what, .. }) => assert_eq!(what, words),
            other => panic!("{backend}: {other:?}"),
        }
    }
}
