//! Strangers on the control port while a world starts and runs. What a stranger may send in detail is tested next to the
//! rendezvous; here genuine ranks must get in, and the run must not notice.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use launch::LocalStarter;
use serde_json::json;

use crate::play::{LONG, Test, act, spec};

pub(crate) const TESTS: &[Test] = &[
    ("attacks::a_flood_keeps_nobody_out", a_flood_keeps_nobody_out),
    ("attacks::a_running_world_listens_nowhere", a_running_world_listens_nowhere),
];

/// The ports on which this process listens.
fn listening() -> HashSet<u16> {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let links = descriptors.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let sockets: HashSet<String> =
        links.filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())).collect();
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let ports = table.lines().skip(1).filter_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let listens = columns.get(3) == Some(&"0A") && sockets.contains(*columns.get(9)?);
        let port = columns.get(1)?.rsplit_once(':')?.1;
        listens.then(|| u16::from_str_radix(port, 16).ok()).flatten()
    });
    ports.collect()
}

/// A thousand connections, held, to whatever this process listens on: silent, garbage, or slow.
fn flood(stop: &AtomicBool, made: &AtomicUsize) {
    let mut held = Vec::new();
    let deadline = Instant::now() + LONG;
    while held.len() < 1000 && Instant::now() < deadline && !stop.load(Ordering::Relaxed) {
        for port in listening() {
            for kind in 0..250 {
                let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { break };
                let _ = match kind % 4 {
                    0 => Ok(()),
                    1 => stream.write_all(&[0xff; 4096]),
                    2 => stream.write_all(&[200, 0, 0, 0, b'{']),
                    _ => stream.write_all(b"GET / HTTP/1.1\r\n\r\n"),
                };
                held.push(stream);
                made.fetch_add(1, Ordering::Relaxed);
            }
        }
        std::thread::yield_now();
    }
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn a_flood_keeps_nobody_out() {
    let (stop, made) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let flooder = {
        let (stop, made) = (stop.clone(), made.clone());
        std::thread::spawn(move || flood(&stop, &made))
    };
    // Ranks that come late: the port is open long enough for the whole flood.
    let fields = json!({"env": ["LAUNCH_TEST_DELAY=1500"]});
    let begin = Instant::now();
    let mut world = LocalStarter::new().start_processes(&spec(4, fields)).unwrap();
    let elapsed = begin.elapsed();
    let strangers = made.load(Ordering::Relaxed);
    act(&mut world, "gather", json!({"rounds": 100})).unwrap();
    stop.store(true, Ordering::Relaxed);
    flooder.join().unwrap();
    assert!(strangers >= 1000, "only {strangers} strangers came");
    assert!(elapsed < Duration::from_secs(8), "{elapsed:?}");
}

fn a_running_world_listens_nowhere() {
    // Other tests of this process start worlds at the same time: only a port that stays open would be a running world's.
    let mut world = crate::play::start(2);
    act(&mut world, "echo", json!({})).unwrap();
    let mut open = listening();
    let deadline = Instant::now() + LONG;
    while !open.is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
        open = &open & &listening();
    }
    assert!(open.is_empty(), "{open:?}");
    act(&mut world, "echo", json!({})).unwrap();
    let refused = TcpStream::connect((Ipv4Addr::LOCALHOST, 1)).and_then(|mut stream| stream.read(&mut [0]));
    assert!(refused.is_err());
}
