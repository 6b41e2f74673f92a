//! HOT: bytes in order, added behind and taken in front, always in one piece of memory.

/// Below this much waste at the front nothing is moved.
const WASTE_BYTES: usize = 4 * 1024;

#[derive(Default)]
pub(crate) struct Fifo {
    bytes: Vec<u8>,
    start: usize,
}

impl Fifo {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    #[inline]
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes bytes in front. What is left moves only once it is less than what was taken, so that each byte moves once at most.
    #[inline]
    pub(crate) fn drop_front(&mut self, count: usize) {
        debug_assert!(count <= self.len(), "more is taken than there is");
        self.start += count;
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        } else if self.start >= WASTE_BYTES && self.start >= self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }

    /// Gives memory back that nothing lies in.
    pub(crate) fn shrink(&mut self) {
        if self.is_empty() {
            self.bytes.shrink_to(WASTE_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in_however_much_lies_between() {
        let mut fifo = Fifo::default();
        let (mut written, mut read) = (0_usize, 0_usize);
        for round in 0..2_000 {
            let more: Vec<u8> = (0..round % 97)
                .map(|_| {
                    written += 1;
                    written as u8
                })
                .collect();
            fifo.append(&more);
            let count = fifo.len().min(round % 89);
            for byte in &fifo.as_slice()[..count] {
                read += 1;
                assert_eq!(*byte, read as u8);
            }
            fifo.drop_front(count);
            assert_eq!(fifo.len(), written - read);
        }
        let capacity = fifo.bytes.capacity();
        assert!(capacity <= 4 * (WASTE_BYTES + fifo.len()), "{capacity} bytes for {}", fifo.len());
    }
}
