//! The copy of a large object into the arena.
//!
//! HOT: once per large put. The memory bus is the limit. A plain store first reads the cache line that it is about to
//! overwrite; a non-temporal one does not, but leaves nothing in the cache. Measured by `--example copy`, GiB/s, from
//! memory that is in no cache into warm pages that are in no cache, and in brackets the same bytes to the same place
//! again and again:
//!
//! | bytes | AMD Zen 4, 2 vCPUs: `memcpy` | non-temporal | both in 2 threads | Intel Xeon, 16 vCPUs: `memcpy` | non-temporal | both in 2 threads |
//! |--:|--:|--:|--:|--:|--:|--:|
//! | 1 MiB | 12 (42) | **18** (26) | 7, 12 | **7** (35) | 7 (18) | 8, 8 |
//! | 4 MiB | 11 (40) | **18** (25) | 12, 17 | **6** (13) | 7 (7) | 9, 9 |
//! | 16 MiB | 12 (24) | **19** (25) | 8, 20 | **7** (12) | 7 (6) | 11, 11 |
//! | 100 MiB | 13 (13) | **19** (19) | 15, 23 | **6** (6) | 6 (6) | 11, 12 |
//!
//! So: non-temporal on AMD from 1 MiB on, where also copy and first read by another together gain 17 % at 1 MiB and
//! 24 % at 32 MiB; `memcpy` elsewhere, for Intel has found the way by itself. A second thread adds a quarter on AMD and
//! would almost double it on Intel, but takes the core of somebody who computes, and costs a wake-up: one thread copies.

/// Copies `src` to `dst`, as `copy_from_slice`, by the way that is fastest for its size.
///
/// # Panics
/// If the lengths differ.
pub fn copy_into(dst: &mut [u8], src: &[u8]) {
    assert_eq!(dst.len(), src.len(), "both sides of a copy have one length");
    #[cfg(target_arch = "x86_64")]
    if dst.len() as u64 >= crate::LARGE_BYTES && streaming_pays() {
        // SAFETY: `streaming_pays` has found AVX.
        unsafe { stream(dst, src) };
        return;
    }
    dst.copy_from_slice(src);
}

/// True on processors where non-temporal stores are measured to be faster.
#[cfg(target_arch = "x86_64")]
fn streaming_pays() -> bool {
    // Asked once: in a virtual machine CPUID leaves the guest.
    static PAYS: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| {
        let vendor = std::arch::x86_64::__cpuid(0);
        let amd = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).as_flattened() == b"AuthenticAMD";
        amd && std::arch::is_x86_feature_detected!("avx")
    });
    *PAYS
}

/// Copies past the caches. The slices have one length, of at least 64.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
fn stream(dst: &mut [u8], src: &[u8]) {
    use std::arch::x86_64::{__m256i, _MM_HINT_NTA, _mm_prefetch, _mm_sfence, _mm256_loadu_si256, _mm256_stream_si256};
    const BLOCK: usize = 128;
    const AHEAD: usize = 1024;

    let head = dst.as_ptr().align_offset(64);
    let (dst_head, dst) = dst.split_at_mut(head);
    let (src_head, src) = src.split_at(head);
    dst_head.copy_from_slice(src_head);

    let (dst_blocks, dst_tail) = dst.as_chunks_mut::<BLOCK>();
    let (src_blocks, src_tail) = src.as_chunks::<BLOCK>();
    for (to, from) in dst_blocks.iter_mut().zip(src_blocks) {
        let ahead = from.as_ptr().wrapping_add(AHEAD);
        let (from, to) = (from.as_ptr().cast::<__m256i>(), to.as_mut_ptr().cast::<__m256i>());
        // SAFETY: both blocks hold four vectors; `to` is 64-byte aligned because the head was cut off; a prefetch may
        // name any address.
        unsafe {
            _mm_prefetch::<_MM_HINT_NTA>(ahead.cast());
            _mm_prefetch::<_MM_HINT_NTA>(ahead.wrapping_add(64).cast());
            let first = _mm256_loadu_si256(from);
            let second = _mm256_loadu_si256(from.add(1));
            let third = _mm256_loadu_si256(from.add(2));
            let fourth = _mm256_loadu_si256(from.add(3));
            _mm256_stream_si256(to, first);
            _mm256_stream_si256(to.add(1), second);
            _mm256_stream_si256(to.add(2), third);
            _mm256_stream_si256(to.add(3), fourth);
        }
    }
    dst_tail.copy_from_slice(src_tail);
    // Non-temporal stores are ordered by nothing else: the object must be there before the message that names it.
    _mm_sfence();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LARGE_BYTES;

    #[test]
    fn copies_are_exact_at_every_alignment_and_length() {
        let source: Vec<u8> = (0..3u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let large = LARGE_BYTES as usize;
        for length in [0, 1, 63, 4097, large - 1, large, large + 1, large + 127, large + 4096 + 77] {
            for (to, from) in [(0, 0), (1, 0), (0, 1), (63, 17), (64, 5), (31, 31)] {
                let mut target = vec![0xAA; to + length + 64];
                copy_into(&mut target[to..to + length], &source[from..from + length]);
                assert!(target[..to].iter().all(|&byte| byte == 0xAA));
                assert!(target[to..to + length] == source[from..from + length], "{length} from {from} to {to}");
                assert!(target[to + length..].iter().all(|&byte| byte == 0xAA));

                #[cfg(target_arch = "x86_64")]
                if length >= large && std::arch::is_x86_feature_detected!("avx") {
                    let mut streamed = vec![0xAA; to + length + 64];
                    // SAFETY: the processor has AVX.
                    unsafe { stream(&mut streamed[to..to + length], &source[from..from + length]) };
                    assert!(streamed == target, "{length} from {from} to {to}, streamed");
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "one length")]
    fn a_copy_between_different_lengths_is_a_bug() {
        copy_into(&mut [0; 3], &[0; 4]);
    }
}
