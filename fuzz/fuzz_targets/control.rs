//! Any bytes from the control port: no panic, no more memory than arrived, and what is read can be written and reads
//! back the same. The first byte says how the stream is cut into pieces.

#![no_main]

use control::{Answer, Challenge, Decoder, FromRank, Hello, MAX_HANDSHAKE, Nonce, Role, Secret, ToRank, read, write};
use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;

fuzz_target!(|bytes: &[u8]| {
    let Some((cut, stream)) = bytes.split_first() else { return };
    let mut decoder = Decoder::new(MAX_HANDSHAKE);
    let mut session = Secret::from_bytes([1; 32]).session(Role::Coordinator, b"hello", &Nonce([2; 32]));
    for piece in stream.chunks(usize::from(*cut) + 1) {
        decoder.extend(piece);
        assert!(decoder.held() <= stream.len());
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => {
                    message(&frame);
                    assert!(session.opener.open(frame).is_err(), "nobody guesses a seal");
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
    message(stream);
});

fn message(bytes: &[u8]) {
    reads_back::<ToRank>(bytes);
    reads_back::<FromRank>(bytes);
    reads_back::<Hello>(bytes);
    // Proofs have no equality on purpose.
    let _ = read::<Challenge>(bytes);
    let _ = read::<Answer>(bytes);
}

fn reads_back<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    if let Ok(message) = read::<T>(bytes) {
        let again = write(&message).expect("what was read can be written");
        assert_eq!(read::<T>(&again).expect("it reads back"), message);
    }
}
