//! torchrun's own store (TCPStore of PyTorch's c10d, 2.1 or later), by which processes on hosts without a shared folder learn
//! where their coordinator listens. torchrun's agent serves it for as long as its workers run.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// How long a connection and each answer may take.
const LIMIT: Duration = Duration::from_secs(2);
/// What a client says first.
const MAGIC: u32 = 0x3C85_F7CE;
/// Longest value that is taken.
const LONGEST: u64 = 64 << 10;

/// Kinds of requests, in PyTorch's order.
const VALIDATE: u8 = 0;
const SET: u8 = 1;
const GET: u8 = 3;
const CHECK: u8 = 5;
const DELETE_KEY: u8 = 8;
/// The answer to `CHECK` if all keys are there.
const READY: u8 = 0;

/// A connection to the store.
pub(super) struct Store(TcpStream);

impl Store {
    /// Connects to the store at `HOST:PORT`.
    ///
    /// # Errors
    /// Why it cannot be reached.
    pub(super) fn open(place: &str) -> Result<Self, String> {
        let failed = |error: io::Error| format!("torchrun's store at {place} cannot be reached: {error}");
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in place.to_socket_addrs().map_err(failed)? {
            match TcpStream::connect_timeout(&address, LIMIT) {
                Ok(stream) => {
                    stream.set_write_timeout(Some(LIMIT)).map_err(failed)?;
                    let mut store = Self(stream);
                    let hello = [&[VALIDATE][..], &MAGIC.to_ne_bytes()].concat();
                    store.0.write_all(&hello).map_err(failed)?;
                    return Ok(store);
                }
                Err(error) => last = error,
            }
        }
        Err(failed(last))
    }

    /// Sets a key.
    ///
    /// # Errors
    /// When the store is gone.
    pub(super) fn set(&mut self, key: &str, value: &[u8]) -> io::Result<()> {
        self.0.write_all(&[&[SET][..], &text(key), &counted(value)].concat())
    }

    /// The value of a key; None if it is not set (yet).
    ///
    /// # Errors
    /// When the store is gone, or its answer is not one.
    pub(super) fn get(&mut self, key: &str) -> io::Result<Option<Vec<u8>>> {
        self.0.write_all(&[&[CHECK][..], &1_u64.to_ne_bytes(), &text(key)].concat())?;
        let mut answer = [0];
        self.read(&mut answer, Instant::now() + LIMIT)?;
        if answer != [READY] {
            return Ok(None);
        }
        self.0.write_all(&[&[GET][..], &text(key)].concat())?;
        let until = Instant::now() + LIMIT;
        let mut length = [0; 8];
        self.read(&mut length, until)?;
        let length = u64::from_ne_bytes(length);
        if length > LONGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a value of {length} bytes")));
        }
        let mut value = vec![0; length as usize];
        self.read(&mut value, until)?;
        Ok(Some(value))
    }

    /// Removes a key, and waits until that is done.
    ///
    /// # Errors
    /// When the store is gone.
    pub(super) fn delete(&mut self, key: &str) -> io::Result<()> {
        self.0.write_all(&[&[DELETE_KEY][..], &text(key)].concat())?;
        self.read(&mut [0; 8], Instant::now() + LIMIT)
    }

    /// Fills the buffer until then, however often a byte comes.
    fn read(&mut self, mut buffer: &mut [u8], until: Instant) -> io::Result<()> {
        while !buffer.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.0.set_read_timeout(Some(left))?;
            match self.0.read(buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => buffer = &mut buffer[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A key as the store's clients send it: behind a slash.
fn text(key: &str) -> Vec<u8> {
    counted(format!("/{key}").as_bytes())
}

fn counted(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u64).to_ne_bytes()[..], bytes].concat()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::net::TcpListener;

    use super::*;

    fn read_u64(stream: &mut TcpStream) -> u64 {
        let mut bytes = [0; 8];
        stream.read_exact(&mut bytes).unwrap();
        u64::from_ne_bytes(bytes)
    }

    fn bytes(stream: &mut TcpStream) -> Vec<u8> {
        let mut bytes = vec![0; read_u64(stream) as usize];
        stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// The store's end of one connection, as PyTorch's source has it.
    fn serve(mut stream: TcpStream, keys: &mut HashMap<Vec<u8>, Vec<u8>>) {
        let mut kind = [0];
        while stream.read_exact(&mut kind).is_ok() {
            match kind[0] {
                VALIDATE => {
                    let mut magic = [0; 4];
                    stream.read_exact(&mut magic).unwrap();
                    assert_eq!(u32::from_ne_bytes(magic), MAGIC);
                }
                SET => {
                    let (key, value) = (bytes(&mut stream), bytes(&mut stream));
                    keys.insert(key, value);
                }
                CHECK => {
                    assert_eq!(read_u64(&mut stream), 1);
                    let is_there = keys.contains_key(&bytes(&mut stream));
                    stream.write_all(&[u8::from(!is_there)]).unwrap();
                }
                GET => {
                    let value = counted(&keys[&bytes(&mut stream)]);
                    stream.write_all(&value).unwrap();
                }
                DELETE_KEY => {
                    let count = i64::from(keys.remove(&bytes(&mut stream)).is_some());
                    stream.write_all(&count.to_ne_bytes()).unwrap();
                }
                other => panic!("a request of kind {other}"),
            }
        }
    }

    #[test]
    fn a_key_is_there_from_when_it_is_set_until_it_is_removed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            let mut keys = HashMap::new();
            for _ in 0..2 {
                serve(listener.accept().unwrap().0, &mut keys);
            }
            keys
        });
        let mut store = Store::open(&place).unwrap();
        assert_eq!(store.get("a").unwrap(), None);
        store.set("a", b"one").unwrap();
        store.set("b", b"two").unwrap();
        drop(store);
        let mut other = Store::open(&place).unwrap();
        assert_eq!(other.get("a").unwrap().as_deref(), Some(&b"one"[..]));
        other.delete("a").unwrap();
        assert_eq!(other.get("a").unwrap(), None);
        drop(other);
        let left: Vec<Vec<u8>> = server.join().unwrap().into_keys().collect();
        assert_eq!(left, [b"/b"]);
        assert!(Store::open(&place).err().unwrap().contains("cannot be reached"), "nobody listens any more");
    }

    #[test]
    fn a_byte_now_and_then_is_no_answer_in_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut store = Store(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            while stream.write_all(b" ").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let begun = Instant::now();
        let problem = store.read(&mut [0; 256], begun + Duration::from_millis(200)).unwrap_err();
        let is_late = matches!(problem.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock);
        assert!(is_late && begun.elapsed() < Duration::from_secs(2), "{problem}");
    }
}
