//! Whether hosts can connect to each other at a port that nobody chose beforehand, as libraries of ranks do: the agent's part.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// How long a connection may take. Within a cluster it takes less than a millisecond; a firewall that drops packets never answers.
const LIMIT: Duration = Duration::from_secs(2);

/// Where this host listens for others. The kernel completes their connections, so nobody needs to accept them.
#[derive(Default)]
pub(super) struct Door(Option<TcpListener>);

impl Door {
    /// Listens at the address by which the coordinator is reached, at a port that the system chooses. Gives the place.
    pub(super) fn open(&mut self, coordinator: &TcpStream) -> Option<SocketAddr> {
        let listen = || -> io::Result<(TcpListener, SocketAddr)> {
            let listener = TcpListener::bind((coordinator.local_addr()?.ip(), 0))?;
            let place = listener.local_addr()?;
            Ok((listener, place))
        };
        let (listener, place) = listen().ok()?;
        self.0 = Some(listener);
        Some(place)
    }
}

/// The places that cannot be connected to, each with the reason. All are tried at once.
pub(super) fn unreached(places: &[SocketAddr]) -> Vec<(u32, String)> {
    std::thread::scope(|scope| {
        let tries: Vec<_> = places
            .iter()
            .map(|place| std::thread::Builder::new().stack_size(128 << 10).spawn_scoped(scope, || attempt(*place)))
            .collect();
        let ended = tries.into_iter().map(|started| started.ok().and_then(|thread| thread.join().ok()).flatten());
        (0..).zip(ended).filter_map(|(index, why)| Some((index, why?))).collect()
    })
}

/// Why a place cannot be connected to; None if it can.
fn attempt(place: SocketAddr) -> Option<String> {
    let error = TcpStream::connect_timeout(&place, LIMIT).err()?;
    Some(match error.kind() {
        io::ErrorKind::TimedOut => format!("no answer within {} s", LIMIT.as_secs()),
        _ => error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_door_is_reached_until_it_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let coordinator = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut door = Door::default();
        let open = door.open(&coordinator).unwrap();
        assert!(unreached(&[open]).is_empty());
        drop(door);
        let other = listener.local_addr().unwrap();
        let found = unreached(&[other, open]);
        assert!(matches!(found.as_slice(), [(1, why)] if why.contains("refused")), "{found:?}");
    }
}
