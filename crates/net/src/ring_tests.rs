use super::*;

struct Ring {
    head: Box<RingHead>,
    bytes: Vec<u64>,
}

impl Ring {
    fn new() -> Self {
        Self { head: Box::default(), bytes: vec![0; RING_BYTES / 8] }
    }

    fn ends(&mut self) -> (RingWriter, RingReader) {
        let bytes = self.bytes.as_mut_ptr().cast::<u8>();
        // SAFETY: the ring outlives both ends in every test below.
        unsafe { (RingWriter::new(&raw const *self.head, bytes), RingReader::new(&raw const *self.head, bytes)) }
    }
}

fn header(length: usize, request: u64) -> Header {
    Header { length: length as u32, kind: wire::frame::CALL, flags: 0, claim: 0, request }
}

#[test]
fn frames_of_every_length_come_out_as_they_went_in_across_many_wraps() {
    let mut ring = Ring::new();
    let (mut writer, mut reader) = ring.ends();
    let mut body = Vec::new();
    for round in 0..5_000_usize {
        let sent: Vec<u8> = (0..(round * 37) % 3_000).map(|at| (at ^ round) as u8).collect();
        writer.push(header(sent.len(), round as u64), &[&sent[..sent.len() / 2], &sent[sent.len() / 2..]]).unwrap();
        body.clear();
        let got = reader.pop(&mut body).unwrap().unwrap();
        assert_eq!((got.request, &body), (round as u64, &sent));
    }
    assert_eq!(reader.pop(&mut body), Ok(None));
}

#[test]
fn ring_3_a_full_ring_refuses_and_takes_again_once_read() {
    let mut ring = Ring::new();
    let (mut writer, mut reader) = ring.ends();
    let frame = vec![7_u8; 1_000];
    let mut sent = 0_u64;
    while writer.push(header(frame.len(), sent), &[&frame]).is_ok() {
        sent += 1;
    }
    assert_eq!(sent, (RING_BYTES / 1_016) as u64);
    let mut body = Vec::new();
    for request in 0..sent {
        body.clear();
        assert_eq!(reader.pop(&mut body).unwrap().unwrap().request, request);
        assert_eq!(body, frame);
    }
    assert_eq!(writer.push(header(frame.len(), sent), &[&frame]), Ok(()));
}

#[test]
fn ring_1_a_writer_that_dies_before_publishing_leaves_nothing() {
    let mut ring = Ring::new();
    let (mut writer, mut reader) = ring.ends();
    writer.push(header(4, 1), &[b"done"]).unwrap();
    let tail = ring.head.tail.load(Ordering::Relaxed);
    // Half a frame behind the published tail, as a killed writer leaves it.
    let at = tail as usize;
    // SAFETY: inside the ring.
    unsafe { std::ptr::write_bytes(ring.bytes.as_mut_ptr().cast::<u8>().add(at), 0xee, 20) };
    let mut body = Vec::new();
    assert_eq!(reader.pop(&mut body).unwrap().unwrap().request, 1);
    assert_eq!(reader.pop(&mut body), Ok(None));
}

#[test]
fn ring_2_lengths_that_lie_break_the_ring_instead_of_the_reader() {
    for (length, tail) in [(u32::MAX, 64), (100, 64), (70_000, 64), (8, 4), (8, u64::MAX), (8, 1 << 20)] {
        let mut ring = Ring::new();
        let (_writer, mut reader) = ring.ends();
        let bad = Header { length, kind: wire::frame::CALL, flags: 0, claim: 0, request: 0 };
        // SAFETY: inside the ring.
        unsafe { std::ptr::copy_nonoverlapping(bad.to_bytes().as_ptr(), ring.bytes.as_mut_ptr().cast::<u8>(), 16) };
        ring.head.tail.store(tail, Ordering::Release);
        assert!(reader.pop(&mut Vec::new()).is_err(), "length {length}, tail {tail}");
    }
}

#[test]
fn two_threads_hand_over_a_million_bytes_in_order() {
    let mut ring = Ring::new();
    let (mut writer, mut reader) = ring.ends();
    let sender = std::thread::spawn(move || {
        for request in 0..20_000_u64 {
            let body = request.to_le_bytes();
            while writer.push(header(8, request), &[&body]).is_err() {
                std::thread::yield_now();
            }
        }
    });
    let mut body = Vec::new();
    for request in 0..20_000_u64 {
        loop {
            body.clear();
            if let Some(got) = reader.pop(&mut body).unwrap() {
                assert_eq!((got.request, &body[..]), (request, &request.to_le_bytes()[..]));
                break;
            }
            std::thread::yield_now();
        }
    }
    sender.join().unwrap();
}
