//! Between a node and the process that forks its workers: fixed-size packets, so that a torn one cannot exist.

/// Node to zygote: fork a worker; its control socket comes with the packet.
pub const FORK: u8 = b'F';
/// Node to zygote: kill this pid now.
pub const KILL: u8 = b'K';
/// Zygote to node: it is up and may be asked.
pub const UP: u8 = b'U';
/// Zygote to node: the fork made this pid.
pub const FORKED: u8 = b'P';
/// Zygote to node: the fork failed with this errno.
pub const FORK_FAILED: u8 = b'X';
/// Zygote to node: this pid ended with this wait status.
pub const DIED: u8 = b'D';

/// Bytes of every packet, both ways.
pub const PACKET_BYTES: usize = 16;

/// One packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// One of the kinds above.
    pub kind: u8,
    /// Which worker, by its slot in the segment; zero where none is meant.
    pub slot: u16,
    /// Process id.
    pub pid: i32,
    /// Wait status, or errno.
    pub status: i32,
}

impl Packet {
    /// As it is sent.
    #[must_use]
    pub fn to_bytes(self) -> [u8; PACKET_BYTES] {
        let mut bytes = [0; PACKET_BYTES];
        bytes[0] = self.kind;
        bytes[2..4].copy_from_slice(&self.slot.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.pid.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.status.to_le_bytes());
        bytes
    }

    /// The inverse of `to_bytes`.
    #[must_use]
    pub fn from_bytes(bytes: [u8; PACKET_BYTES]) -> Self {
        Self {
            kind: bytes[0],
            slot: u16::from_le_bytes([bytes[2], bytes[3]]),
            pid: i32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
            status: i32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_survives_the_round_trip() {
        let packet = Packet { kind: DIED, slot: 7, pid: 123_456, status: -9 };
        assert_eq!(Packet::from_bytes(packet.to_bytes()), packet);
    }
}
