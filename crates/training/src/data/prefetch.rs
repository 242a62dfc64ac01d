//! Reads samples ahead: a thread fills buffers while the rank computes, in the order in which it will ask.
//!
//! Buffers go round: the rank sends an empty one with the index to fill, the thread sends it back. Nothing is allocated
//! after the start, because both channels are bounded and buffers keep their size.

use engine::cores::run_on;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use model::Input;
use parallel::{Recipe, Source};

use super::Samples;

/// Bytes that are read ahead, at most: a large batch of images is not held twice.
const MOST_AHEAD: usize = 16 << 20;

/// Bytes of a sample in a buffer: tokens and targets, or numbers.
fn sample_bytes(input: Input) -> usize {
    match input {
        Input::Tokens { sequence, .. } => 2 * 4 * sequence,
        Input::Image { .. } | Input::Vector { .. } => 4 * input.rows() * input.columns(),
    }
}

/// Which samples of each step a replica trains on: `count` from `first`, of `step` in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SamplePlaces {
    pub(super) first: u64,
    pub(super) count: u64,
    pub(super) step: u64,
    /// Buffers that are filled ahead: two micro-batches, one to compute with and one to come, as far as [`MOST_AHEAD`]
    /// reaches; two at least.
    pub(super) ahead: usize,
}

impl SamplePlaces {
    pub(super) fn from_recipe(recipe: &Recipe, replica: usize) -> Self {
        let samples = |parts: &[usize]| (recipe.micro_batch * parts.iter().sum::<usize>()) as u64;
        Self {
            first: samples(&recipe.micro_batches[..replica]),
            count: samples(&recipe.micro_batches[replica..=replica]),
            step: samples(&recipe.micro_batches),
            ahead: (2 * recipe.micro_batch).min(MOST_AHEAD / sample_bytes(recipe.model.input).max(1)).max(2),
        }
    }

    /// Bytes of all buffers.
    pub(super) fn bytes(&self, input: Input) -> usize {
        self.ahead * sample_bytes(input)
    }

    /// The index that is asked for as number `turn`.
    fn index(&self, turn: u64) -> u64 {
        turn / self.count * self.step + self.first + turn % self.count
    }

    /// When an index is asked for; None where it is another replica's.
    fn turn(&self, index: u64) -> Option<u64> {
        let place = (index % self.step).checked_sub(self.first).filter(|place| *place < self.count)?;
        Some(index / self.step * self.count + place)
    }
}

/// A sample, or room for one.
struct Buffer {
    index: u64,
    tokens: Vec<i32>,
    targets: Vec<i32>,
    numbers: Vec<f32>,
    class: i32,
    filled: Result<(), String>,
}

impl Buffer {
    fn new(input: Input) -> Self {
        let (tokens, numbers) = match input {
            Input::Tokens { sequence, .. } => (sequence, 0),
            Input::Image { .. } | Input::Vector { .. } => (0, input.rows() * input.columns()),
        };
        Self {
            index: 0,
            tokens: vec![0; tokens],
            targets: vec![0; tokens],
            numbers: vec![0.0; numbers],
            class: 0,
            filled: Ok(()),
        }
    }

    fn fill(&mut self, samples: &dyn Samples) {
        self.filled = match self.numbers.is_empty() {
            true => samples.tokens(self.index, &mut self.tokens, &mut self.targets),
            false => samples.numbers(self.index, &mut self.numbers, &mut self.class),
        };
    }
}

/// See the module's documentation.
pub(super) struct Prefetched {
    samples: Arc<dyn Samples>,
    places: SamplePlaces,
    /// None once the thread is to end.
    empty: Option<SyncSender<Buffer>>,
    full: Receiver<Buffer>,
    /// Indices asked for and not yet taken.
    asked: VecDeque<u64>,
    /// The next turn to ask for.
    turn: u64,
    /// Asked in another order than foreseen, and read on the spot.
    pub(super) missed: u64,
    thread: Option<JoinHandle<()>>,
}

impl Prefetched {
    /// Starts the thread, on any of these cores, and has the first samples read.
    pub(super) fn start(
        samples: Arc<dyn Samples>,
        input: Input,
        places: SamplePlaces,
        cores: &[u32],
    ) -> std::io::Result<Self> {
        let (empty, inbox) = sync_channel::<Buffer>(places.ahead);
        let (outbox, full) = sync_channel::<Buffer>(places.ahead);
        let (reader, cores) = (samples.clone(), cores.to_vec());
        let thread = std::thread::Builder::new().name("data".to_owned()).spawn(move || {
            // The rank's own core is busy: elsewhere, if there is room elsewhere.
            run_on(&cores);
            while let Ok(mut buffer) = inbox.recv() {
                buffer.fill(&*reader);
                if outbox.send(buffer).is_err() {
                    return;
                }
            }
        })?;
        let asked = VecDeque::with_capacity(places.ahead);
        let (empty, thread) = (Some(empty), Some(thread));
        let mut source = Self { samples, places, empty, full, asked, turn: 0, missed: 0, thread };
        (0..places.ahead).for_each(|_| source.ask(Buffer::new(input)));
        Ok(source)
    }

    /// Sends a buffer to be filled with the next sample.
    fn ask(&mut self, mut buffer: Buffer) {
        buffer.index = self.places.index(self.turn);
        self.asked.push_back(buffer.index);
        self.turn += 1;
        // The thread takes until `empty` is closed; should it be gone, `take` says so.
        let _ = self.empty.as_ref().map(|empty| empty.send(buffer));
    }

    fn receive(&mut self) -> Result<Buffer, String> {
        self.asked.pop_front();
        self.full.recv().map_err(|_| "the thread that reads data has ended".to_owned())
    }

    /// The filled buffer of a sample. Where another one comes next, the order starts again from this sample.
    fn take(&mut self, index: u64) -> Result<Buffer, String> {
        if self.asked.front() != Some(&index) {
            self.missed += 1;
            self.turn = self.places.turn(index).unwrap_or(self.turn);
            for _ in 0..self.asked.len() {
                let buffer = self.receive()?;
                self.ask(buffer);
            }
        }
        let mut buffer = self.receive()?;
        if buffer.index != index {
            buffer.index = index;
            buffer.fill(&*self.samples);
        }
        Ok(buffer)
    }
}

impl Source for Prefetched {
    fn tokens(&mut self, index: u64, tokens: &mut [i32], targets: &mut [i32]) -> Result<(), String> {
        let mut buffer = self.take(index)?;
        let filled = std::mem::replace(&mut buffer.filled, Ok(()));
        tokens.copy_from_slice(&buffer.tokens);
        targets.copy_from_slice(&buffer.targets);
        self.ask(buffer);
        filled
    }

    fn numbers(&mut self, index: u64, numbers: &mut [f32], class: &mut i32) -> Result<(), String> {
        let mut buffer = self.take(index)?;
        let filled = std::mem::replace(&mut buffer.filled, Ok(()));
        numbers.copy_from_slice(&buffer.numbers);
        *class = buffer.class;
        self.ask(buffer);
        filled
    }
}

impl Drop for Prefetched {
    fn drop(&mut self) {
        self.empty = None;
        // Buffers that nobody takes must not hold the thread: there is room for all of them.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sample i holds i at each place.
    struct Counted;

    impl Samples for Counted {
        fn tokens(&self, index: u64, tokens: &mut [i32], targets: &mut [i32]) -> Result<(), String> {
            tokens.fill(index as i32);
            targets.fill(-(index as i32));
            if index == 9_999 { Err("no sample 9999".to_owned()) } else { Ok(()) }
        }
        fn numbers(&self, _: u64, _: &mut [f32], _: &mut i32) -> Result<(), String> {
            Err("no numbers".to_owned())
        }
    }

    fn source(places: SamplePlaces) -> Prefetched {
        let input = Input::Tokens { vocabulary: 10, sequence: 3, next: true };
        Prefetched::start(Arc::new(Counted), input, places, &[]).unwrap()
    }

    fn sample(source: &mut Prefetched, index: u64) -> Result<i32, String> {
        let (mut tokens, mut targets) = ([0; 3], [0; 3]);
        source.tokens(index, &mut tokens, &mut targets)?;
        assert_eq!((tokens, targets), ([index as i32; 3], [-(index as i32); 3]));
        Ok(tokens[0])
    }

    #[test]
    fn a_replica_reads_its_own_samples_ahead() {
        let places = SamplePlaces { first: 2, count: 3, step: 8, ahead: 4 };
        assert_eq!((0..7).map(|turn| places.index(turn)).collect::<Vec<_>>(), [2, 3, 4, 10, 11, 12, 18]);
        assert_eq!(
            [2, 4, 5, 1, 12, 18].map(|index| places.turn(index)),
            [Some(0), Some(2), None, None, Some(5), Some(6)]
        );
        let mut source = source(places);
        for turn in 0..50 {
            sample(&mut source, places.index(turn)).unwrap();
        }
        assert_eq!(source.missed, 0, "all of it was foreseen");
        // Back to the first sample, as a reset does: foreseen again from there.
        for turn in 0..9 {
            sample(&mut source, places.index(turn)).unwrap();
        }
        assert_eq!(source.missed, 1);
        // Somebody else's sample is read all the same.
        sample(&mut source, 5).unwrap();
        sample(&mut source, 2).unwrap();
    }

    #[test]
    fn a_sample_that_cannot_be_read_says_so_and_the_next_one_is_read() {
        let mut source = source(SamplePlaces { first: 0, count: 1, step: 1, ahead: 2 });
        assert_eq!(sample(&mut source, 9_999), Err("no sample 9999".to_owned()));
        assert_eq!(sample(&mut source, 10_000), Ok(10_000));
    }
}
