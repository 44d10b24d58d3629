//! The memory that is measured on: mapped for it alone, touched before anything is timed.
#![allow(unsafe_code, reason = "mmap and madvise")]

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

use rustix::mm::{self, Advice, MapFlags, ProtFlags};

/// What a cache keeps together: 64 bytes on x86-64 and most others. Where it is 128, two neighbours share
/// one.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub struct Line([u64; 8]);

impl Line {
    /// What it holds.
    pub fn words(&self) -> [u64; 8] {
        self.0
    }
}

/// Of the huge pages that transparent huge pages make on x86-64 and, with 4 KiB pages, on arm64.
const HUGE: usize = 2 << 20;

/// Which pages are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    /// As large as the kernel gives them.
    Huge,
    /// The usual 4 KiB.
    Small,
}

/// Zeros, page by page in memory.
#[derive(Debug)]
pub struct Arena {
    mapped: NonNull<core::ffi::c_void>,
    mapped_bytes: usize,
    lines: NonNull<Line>,
    bytes: usize,
}

// SAFETY: an arena is plain memory that is unmapped when it is dropped, by whichever thread.
unsafe impl Send for Arena {}
// SAFETY: shared it can only be read.
unsafe impl Sync for Arena {}

impl Arena {
    /// Maps `bytes`, in whole pages, and touches each of them.
    pub fn new(bytes: usize, pages: Pages) -> io::Result<Arena> {
        let bytes = bytes.next_multiple_of(4096);
        // Room to begin at a huge page's border.
        let mapped_bytes = bytes.checked_add(HUGE).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let mapped = unsafe {
            mm::mmap_anonymous(
                ptr::null_mut(),
                mapped_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?
        };
        let advice = match pages {
            Pages::Huge => Advice::LinuxHugepage,
            Pages::Small => Advice::LinuxNoHugepage,
        };
        // SAFETY: advice about pages changes no bytes. Kernels without huge pages refuse it, and then pages
        // are small.
        let _ = unsafe { mm::madvise(mapped, mapped_bytes, advice) };
        let start = mapped.cast::<u8>().wrapping_add(mapped.cast::<u8>().align_offset(HUGE));
        let (Some(mapped), Some(lines)) = (NonNull::new(mapped), NonNull::new(start.cast::<Line>())) else {
            return Err(io::ErrorKind::OutOfMemory.into());
        };
        let mut arena = Arena { mapped, mapped_bytes, lines, bytes };
        super::kernel::write(&mut arena, 1);
        Ok(arena)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the lines are plain bytes, `bytes` of them.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.bytes) }
    }

    /// Its bytes, to be written.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `bytes`; any bytes are a valid line.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_ptr().cast(), self.bytes) }
    }

    /// Makes it bytes that nothing can shrink. No chase goes through it after that.
    pub(crate) fn scramble(&mut self) {
        let mut seed = 0;
        for line in self.iter_mut() {
            line.0.iter_mut().for_each(|word| {
                seed += 1;
                *word = super::random::mixed(seed);
            });
        }
    }

    /// Sets each word.
    pub fn fill(&mut self, word: u64) {
        self.iter_mut().for_each(|line| line.0 = [word; 8]);
    }

    /// Bytes of it that lie in huge pages; `None` where the kernel does not say.
    pub(crate) fn huge_bytes(&self) -> Option<u64> {
        let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        huge_bytes(&maps, self.lines.as_ptr() as usize)
    }
}

impl Deref for Arena {
    type Target = [Line];

    fn deref(&self) -> &[Line] {
        // SAFETY: `bytes` from `lines` on are mapped, aligned and initialised (the kernel gives zeros) while
        // `self` lives.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr(), self.bytes / size_of::<Line>()) }
    }
}

impl DerefMut for Arena {
    fn deref_mut(&mut self) -> &mut [Line] {
        // SAFETY: as for `deref`; nobody else has it.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_ptr(), self.bytes / size_of::<Line>()) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and no borrow of it is left.
        let _ = unsafe { mm::munmap(self.mapped.as_ptr(), self.mapped_bytes) };
    }
}

/// `AnonHugePages` of the mapping that holds `address`, in the words of /proc/PID/smaps.
fn huge_bytes(maps: &str, address: usize) -> Option<u64> {
    let mut inside = false;
    for line in maps.lines() {
        let first = line.split(' ').next().unwrap_or_default();
        if let Some((from, to)) = first.split_once('-')
            && let (Ok(from), Ok(to)) = (usize::from_str_radix(from, 16), usize::from_str_radix(to, 16))
        {
            inside = (from..to).contains(&address);
        } else if inside && let Some(rest) = line.strip_prefix("AnonHugePages:") {
            return rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arena_is_zeros_at_a_huge_pages_border() {
        let arena = Arena::new(5000, Pages::Huge).unwrap();
        assert_eq!((arena.len(), arena.as_ptr() as usize % HUGE), (128, 0));
        assert!(arena.iter().all(|line| line.words() == [0; 8]));
        assert!(arena.huge_bytes().is_none_or(|bytes| bytes <= 4 << 20));
    }

    #[test]
    fn more_than_there_is_is_an_error() {
        assert!(Arena::new(usize::MAX / 2, Pages::Small).is_err());
    }

    #[test]
    fn huge_pages_are_those_of_the_mapping() {
        let maps = "7f00-8f00 rw-p 0 00:00 0 \nSize: 4 kB\nAnonHugePages:      2048 kB\n\
                    8f00-9f00 rw-p 0 00:00 0 \nAnonHugePages:         0 kB\n";
        assert_eq!(huge_bytes(maps, 0x7f80), Some(2 << 20));
        assert_eq!(huge_bytes(maps, 0x8f00), Some(0));
        assert_eq!(huge_bytes(maps, 0x1000), None);
        assert_eq!(huge_bytes("7f00-8f00 rw-p\nAnonHugePages: lots kB\n", 0x7f80), None);
    }
}
