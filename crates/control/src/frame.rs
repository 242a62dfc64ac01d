//! Length-prefixed frames: four bytes of length, little endian, then that many bytes.

/// The longest frame between a coordinator and its ranks: far more than 10,000 samples take.
pub const MAX_FRAME: usize = 64 << 20;

/// The longest frame of a peer that has not proved yet that it belongs here.
pub const MAX_HANDSHAKE: usize = 4 << 10;

const PREFIX: usize = 4;

/// A frame longer than its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {length} bytes, where at most {limit} are allowed")]
pub struct FrameTooLong {
    /// Length of the frame, in bytes.
    pub length: usize,
    /// The limit.
    pub limit: usize,
}

/// One frame around these bytes.
///
/// # Errors
/// When they are more than [`MAX_FRAME`].
pub fn encode(bytes: &[u8]) -> Result<Vec<u8>, FrameTooLong> {
    if bytes.len() > MAX_FRAME {
        return Err(FrameTooLong { length: bytes.len(), limit: MAX_FRAME });
    }
    let mut frame = Vec::with_capacity(PREFIX + bytes.len());
    frame.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    frame.extend_from_slice(bytes);
    Ok(frame)
}

/// Cuts a stream of bytes into frames. Holds no more than has arrived: a length that is only announced allocates
/// nothing.
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// Bytes at the front of the buffer that belong to frames already given out.
    taken: usize,
    limit: usize,
}

impl Decoder {
    /// For frames of at most `limit` bytes.
    pub const fn new(limit: usize) -> Self {
        Self { buffer: Vec::new(), taken: 0, limit }
    }

    /// From now on frames may be this long; what has arrived stays.
    pub const fn allow(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// More bytes of the stream.
    pub fn extend(&mut self, bytes: &[u8]) {
        if self.taken == self.buffer.len() {
            self.buffer.clear();
            self.taken = 0;
        } else if self.taken > self.buffer.len() / 2 {
            self.buffer.drain(..self.taken);
            self.taken = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame's bytes; None until more arrive.
    ///
    /// # Errors
    /// When the frame is announced longer than the limit. Nothing after that can be read.
    pub fn next_frame(&mut self) -> Result<Option<Vec<u8>>, FrameTooLong> {
        let rest = &self.buffer[self.taken..];
        let Some((prefix, rest)) = rest.split_first_chunk::<PREFIX>() else { return Ok(None) };
        let length = u32::from_le_bytes(*prefix) as usize;
        if length > self.limit {
            return Err(FrameTooLong { length, limit: self.limit });
        }
        let Some(bytes) = rest.get(..length) else { return Ok(None) };
        let bytes = bytes.to_vec();
        self.taken += PREFIX + length;
        Ok(Some(bytes))
    }

    /// Bytes held, for those who bound memory.
    pub fn held(&self) -> usize {
        self.buffer.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn long_frames_are_refused_before_they_arrive() {
        let mut decoder = Decoder::new(16);
        decoder.extend(&17_u32.to_le_bytes());
        assert_eq!(decoder.next_frame(), Err(FrameTooLong { length: 17, limit: 16 }));
        let mut decoder = Decoder::new(MAX_FRAME);
        decoder.extend(&(MAX_FRAME as u32).to_le_bytes());
        assert_eq!(decoder.next_frame(), Ok(None));
        assert!(decoder.buffer.capacity() < 1024, "announced is not allocated");
        assert!(encode(&vec![0; MAX_FRAME + 1]).is_err());
    }

    proptest! {
        #[test]
        fn frames_survive_any_cutting(frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..20),
                                      cut in 1_usize..40) {
            let stream: Vec<u8> = frames.iter().flat_map(|frame| encode(frame).unwrap()).collect();
            let (mut decoder, mut seen) = (Decoder::new(64), Vec::new());
            for piece in stream.chunks(cut) {
                decoder.extend(piece);
                while let Some(frame) = decoder.next_frame().unwrap() {
                    seen.push(frame);
                }
            }
            prop_assert_eq!(seen, frames);
        }

        #[test]
        fn any_bytes_are_answered_and_never_hoarded(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..20)) {
            let mut decoder = Decoder::new(MAX_HANDSHAKE);
            for piece in pieces {
                decoder.extend(&piece);
                loop {
                    match decoder.next_frame() {
                        Ok(Some(frame)) => prop_assert!(frame.len() <= MAX_HANDSHAKE),
                        Ok(None) => break,
                        Err(_) => return Ok(()),
                    }
                }
                prop_assert!(decoder.held() <= 2 * (PREFIX + MAX_HANDSHAKE) + 300);
            }
        }
    }
}
