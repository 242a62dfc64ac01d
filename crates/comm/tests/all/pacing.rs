//! A paced link: exact on a fake clock; on a real one never early, and asleep meanwhile. (How late it is on a real one is
//! the machine's affair: a test that asserts it fails on a busy one.)

use std::time::{Duration, Instant};

use comm::{Bootstrap, Call, Options, Pace, Paced, RankPlacement, Threaded, Wait};
use device::Queue;
use terms::{Bandwidth, Collective, Seconds};

use crate::simulated::{all_reduce, over};
use crate::worlds;

const LIMIT: Duration = Duration::from_secs(20);

fn paced(bandwidth: f64, latency: f64) -> Options {
    let pace = Pace { bandwidth: Bandwidth(bandwidth), latency: Seconds(latency) };
    // `sim` underneath is given a link that costs almost nothing in comparison.
    let link = Pace { bandwidth: Bandwidth(1e12), latency: Seconds(1e-6) };
    Options { pace: Some(pace), own: over(link), ..Options::default() }
}

#[test]
fn on_a_fake_clock_the_rule_is_exact() {
    worlds::run("sim", 2, &paced(1e9, 50e-6), LIMIT, |member| {
        let (rank, comm) = (member.rank(), &mut *member.comm);
        let clock = comm.clock();
        clock.advance(u64::from(rank) * 30_000);
        comm.run(&all_reduce(10_000)).unwrap();
        // From the last entry: the latency, and 10,000 bytes at a byte a nanosecond (bus factor 1 for two ranks).
        assert_eq!(clock.now_ns(), 30_000 + 50_000 + 10_000);
        // Later than the link is free: from the entry again.
        clock.advance(5_000);
        comm.run(&all_reduce(10_000)).unwrap();
        assert_eq!(clock.now_ns(), 95_000 + 60_000);
        // A group pays the latency once.
        let barrier = Call { op: Collective::Barrier, ..all_reduce(0) };
        comm.start(&[all_reduce(10_000), barrier, all_reduce(20_000)], &Queue::host()).unwrap();
        assert_eq!(clock.now_ns(), 155_000 + 80_000);
        // There and back.
        let buffer = all_reduce(2_000);
        let (input, output) = (buffer.input.slice(0, 1_000).unwrap(), buffer.input.slice(1_000, 1_000).unwrap());
        comm.run(&Call { op: Collective::PingPong, peer: 1, input, output, ..buffer }).unwrap();
        assert_eq!(clock.now_ns(), 235_000 + 2 * 51_000);
    });
}

/// Rank 0, with rank 1 on another host.
struct Apart;

impl Bootstrap for Apart {
    fn place(&self) -> RankPlacement {
        RankPlacement { rank: 0, size: 2, host: "a".to_owned(), index: 0, here: 1 }
    }

    fn all_gather(&mut self, bytes: &[u8]) -> comm::Result<Vec<Vec<u8>>> {
        Ok(vec![bytes.to_vec(); 2])
    }
}

/// Deadlines are instants of one clock, and hosts did not start at the same time.
#[test]
fn ranks_of_several_hosts_have_no_paced_link() {
    let refused = comm::open("sim", &mut Apart, &paced(1e9, 50e-6)).map(drop).unwrap_err().to_string();
    assert!(refused.starts_with("backend `sim` cannot slow down links between hosts"), "{refused}");
}

#[test]
fn groups_of_a_rank_share_its_link() {
    worlds::run("sim", 2, &paced(1e9, 50e-6), LIMIT, |member| {
        let clock = member.comm.clock();
        let mut child = member.comm.split(Some(0), 0).unwrap().expect("a group");
        let begin = clock.now_ns();
        member.comm.run(&all_reduce(10_000)).unwrap();
        child.run(&all_reduce(10_000)).unwrap();
        assert_eq!(clock.now_ns() - begin, 2 * 60_000);
    });
}

#[test]
fn on_a_real_clock_no_rank_ends_early_and_the_core_is_free() {
    let late = Duration::from_millis(15);
    for progress_thread in [false, true] {
        let options = Options { progress_thread, oversubscribed: true, ..paced(1e9, 20e-3) };
        worlds::run("reference", 2, &options, LIMIT, |member| {
            let call = all_reduce(10_000_000);
            member.meet();
            let comm = &mut *member.comm;
            let (begin, burnt) = (Instant::now(), thread_cpu());
            if comm.shape().rank == 1 {
                std::thread::sleep(late);
            }
            comm.run(&call).unwrap();
            // Ranks that came early know when the last one came: 20 ms and 10 ms behind it.
            let least = late + Duration::from_millis(30);
            let took = begin.elapsed();
            assert!(took >= least, "{took:?}");
            if progress_thread {
                assert!(thread_cpu() - burnt < Duration::from_millis(5), "{:?}", thread_cpu() - burnt);
            }
            let (begin, burnt) = (Instant::now(), thread_cpu());
            comm.run(&Call { op: Collective::Barrier, ..all_reduce(0) }).unwrap();
            assert!(begin.elapsed() >= Duration::from_millis(20));
            assert!(thread_cpu() - burnt < Duration::from_millis(10), "{:?}", thread_cpu() - burnt);
        });
    }
}

#[test]
fn operations_in_flight_queue_on_the_link_and_the_caller_goes_on() {
    let latency = Duration::from_millis(50);
    let options = Options { progress_thread: true, oversubscribed: true, ..paced(1e9, latency.as_secs_f64()) };
    worlds::run("reference", 2, &options, LIMIT, |member| {
        let comm = &mut *member.comm;
        let barrier = [Call { op: Collective::Barrier, ..all_reduce(0) }];
        comm.run(&barrier[0]).unwrap();
        let begin = Instant::now();
        let mut tickets: Vec<_> = (0..4).map(|_| comm.start(&barrier, &Queue::host()).unwrap()).collect();
        // Had starting waited, it would have taken all four.
        assert!(begin.elapsed() < 4 * latency, "starting waited: {:?}", begin.elapsed());
        for (index, ticket) in tickets.iter_mut().enumerate() {
            let least = latency * (index as u32 + 1);
            let early = comm.finish(ticket, Wait::Poll).unwrap();
            assert!(!early || begin.elapsed() >= least, "{index}: {:?}", begin.elapsed());
            comm.finish(ticket, Wait::Host).unwrap();
            assert!(begin.elapsed() >= least, "{index}: {:?}", begin.elapsed());
        }
    });
}

/// Around a progress thread, which stands for a backend that is asynchronous by itself.
fn paced_around_a_thread(member: &mut worlds::Member, options: &Options) {
    let pace = options.pace.expect("a pace");
    member.replace(|comm, abort| {
        let unpaced = Options { pace: None, ..options.clone() };
        let threaded = Threaded::new(comm, abort.clone(), &unpaced).expect("a thread");
        Box::new(Paced::new(Box::new(threaded), pace, abort.clone(), options))
    });
}

#[test]
fn groups_in_flight_queue_on_the_link_of_an_asynchronous_backend() {
    let options = paced(1e9, 50e-6);
    let unpaced = Options { pace: None, ..options.clone() };
    worlds::run("sim", 2, &unpaced, LIMIT, |member| {
        paced_around_a_thread(member, &options);
        let calls: Vec<[Call; 1]> = (0..3).map(|_| [all_reduce(10_000)]).collect();
        let start = |call: &[Call; 1]| member.comm.start(call, &Queue::host()).unwrap();
        let mut tickets: Vec<_> = calls.iter().map(start).collect();
        for ticket in &mut tickets {
            assert!(!ticket.done);
            member.comm.finish(ticket, Wait::Host).unwrap();
        }
        // Only the end is certain: on its way there the clock is moved by the thread, too.
        assert_eq!(member.comm.clock().now_ns(), 3 * 60_000);
    });
}

#[test]
fn a_queue_goes_on_when_the_link_has_delivered() {
    let latency = Duration::from_millis(50);
    let options = paced(1e9, latency.as_secs_f64());
    let unpaced = Options { pace: None, ..options.clone() };
    worlds::run("reference", 2, &unpaced, LIMIT, |member| {
        paced_around_a_thread(member, &options);
        let barrier = [Call { op: Collective::Barrier, ..all_reduce(0) }];
        let queue = Queue::simulated();
        let begin = Instant::now();
        let mut first = member.comm.start(&barrier, &queue).unwrap();
        let mut second = member.comm.start(&barrier, &queue).unwrap();
        assert!(member.comm.finish(&mut first, Wait::On(&queue)).unwrap());
        assert!(member.comm.finish(&mut second, Wait::On(&queue)).unwrap());
        assert!(begin.elapsed() < 2 * latency, "the caller waited: {:?}", begin.elapsed());
        queue.synchronise();
        assert!(begin.elapsed() >= 2 * latency, "{:?}", begin.elapsed());
    });
}

/// What this thread has cost so far.
fn thread_cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid out-pointer.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
