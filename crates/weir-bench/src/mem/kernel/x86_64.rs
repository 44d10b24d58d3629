//! x86-64: the loops as instructions.
//!
//! `.irp` is the assembler's repetition: its body once for each offset. Vector registers are named as `xmm`,
//! which for the compiler are the same registers as `ymm` and `zmm`.

use std::arch::asm;

use super::Width;
use crate::mem::random::{FACTOR, INCREMENT, mixed};

/// Accesses of one turn of [`read_strided`].
pub(super) const UNROLLED: usize = 8;

/// The body once for each vector of a chunk of 1024 bytes, `\o` being its offset.
macro_rules! each {
    (64, $body:literal) => {
        concat!(".irp o, 0,64,128,192,256,320,384,448,512,576,640,704,768,832,896,960\n", $body, "\n.endr")
    };
    (32, $body:literal) => {
        concat!(
            ".irp o, 0,32,64,96,128,160,192,224,256,288,320,352,384,416,448,480,512,544,576,608,640,672,704,736,768,",
            "800,832,864,896,928,960,992\n",
            $body,
            "\n.endr"
        )
    };
    (16, $body:literal) => {
        concat!(
            ".irp o, 0,16,32,48,64,80,96,112,128,144,160,176,192,208,224,240,256,272,288,304,320,336,352,368,384,400,",
            "416,432,448,464,480,496,512,528,544,560,576,592,608,624,640,656,672,688,704,720,736,752,768,784,800,816,",
            "832,848,864,880,896,912,928,944,960,976,992,1008\n",
            $body,
            "\n.endr"
        )
    };
}

/// A loop over `bytes` from `{p}` on, `reps` times.
macro_rules! pass {
    ($base:expr, $bytes:expr, $reps:expr, $step:tt, $body:literal, $end:literal) => {
        asm!(
            // What is written are zeros: the chase needs them.
            "pxor xmm0, xmm0",
            "2:",
            "mov {p}, {base}",
            "3:",
            each!($step, $body),
            "add {p}, 1024",
            "cmp {p}, {end}",
            "jb 3b",
            "dec {reps}",
            "jnz 2b",
            $end,
            base = in(reg) $base,
            end = in(reg) $base.wrapping_add($bytes),
            reps = inout(reg) $reps => _,
            p = out(reg) _,
            out("xmm0") _,
            out("xmm1") _,
            options(nostack)
        )
    };
}

/// # Safety
///
/// `bytes`, a multiple of 1024 above 0, lie behind `base`, which is aligned to 64; `reps` is above 0; the
/// processor has loads of `width`.
pub(super) unsafe fn read(width: Width, base: *const u8, bytes: usize, reps: usize) {
    // SAFETY: the caller vouches for the memory, which is only read, and for the instructions; each register
    // is named.
    unsafe {
        match width {
            Width::Avx512 => pass!(base, bytes, reps, 64, "vmovdqa64 zmm1, [{p} + \\o]", "vzeroupper"),
            Width::Avx2 => pass!(base, bytes, reps, 32, "vmovdqa ymm1, [{p} + \\o]", "vzeroupper"),
            _ => pass!(base, bytes, reps, 16, "movdqa xmm1, [{p} + \\o]", ""),
        }
    }
}

/// # Safety
///
/// As for [`read`], and the memory is the caller's to write.
pub(super) unsafe fn write(width: Width, base: *mut u8, bytes: usize, reps: usize) {
    // SAFETY: the caller vouches for the memory and for the instructions; each register is named.
    unsafe {
        match width {
            Width::Avx512 => pass!(base, bytes, reps, 64, "vmovdqa64 [{p} + \\o], zmm0", "vzeroupper"),
            Width::Avx2 => pass!(base, bytes, reps, 32, "vmovdqa [{p} + \\o], ymm0", "vzeroupper"),
            _ => pass!(base, bytes, reps, 16, "movdqa [{p} + \\o], xmm0", ""),
        }
    }
}

/// Always true: every x86-64 has non-temporal stores. The fence at the end waits until they have left the
/// processor's buffers.
///
/// # Safety
///
/// As for [`write`].
pub(super) unsafe fn stream(width: Width, base: *mut u8, bytes: usize, reps: usize) -> bool {
    // SAFETY: the caller vouches for the memory and for the instructions; each register is named.
    unsafe {
        match width {
            Width::Avx512 => pass!(base, bytes, reps, 64, "vmovntdq [{p} + \\o], zmm0", "sfence\nvzeroupper"),
            Width::Avx2 => pass!(base, bytes, reps, 32, "vmovntdq [{p} + \\o], ymm0", "sfence\nvzeroupper"),
            _ => pass!(base, bytes, reps, 16, "movntdq [{p} + \\o], xmm0", "sfence"),
        }
    }
    true
}

/// The same with a second pointer, `{d}` bytes from the first.
macro_rules! pass_to {
    ($from:expr, $distance:expr, $bytes:expr, $reps:expr, $step:tt, $body:literal, $end:literal) => {
        asm!(
            "2:",
            "mov {p}, {from}",
            "lea {q}, [{from} + {d}]",
            "3:",
            each!($step, $body),
            "add {p}, 1024",
            "add {q}, 1024",
            "cmp {p}, {end}",
            "jb 3b",
            "dec {reps}",
            "jnz 2b",
            $end,
            from = in(reg) $from,
            end = in(reg) $from.wrapping_add($bytes),
            d = in(reg) $distance,
            reps = inout(reg) $reps => _,
            p = out(reg) _,
            q = out(reg) _,
            out("xmm0") _,
            options(nostack)
        )
    };
}

/// # Safety
///
/// As for [`read`] of `from` and for [`write`] of `to`; the two do not overlap.
pub(super) unsafe fn copy(width: Width, to: *mut u8, from: *const u8, bytes: usize, reps: usize) {
    let distance = (to as usize).wrapping_sub(from as usize);
    // SAFETY: the caller vouches for the memory and for the instructions; each register is named.
    unsafe {
        match width {
            Width::Avx512 => pass_to!(
                from,
                distance,
                bytes,
                reps,
                64,
                "vmovdqa64 zmm0, [{p} + \\o]\nvmovdqa64 [{q} + \\o], zmm0",
                "vzeroupper"
            ),
            Width::Avx2 => pass_to!(
                from,
                distance,
                bytes,
                reps,
                32,
                "vmovdqa ymm0, [{p} + \\o]\nvmovdqa [{q} + \\o], ymm0",
                "vzeroupper"
            ),
            _ => pass_to!(
                from,
                distance,
                bytes,
                reps,
                16,
                "movdqa xmm0, [{p} + \\o]\nmovdqa [{q} + \\o], xmm0",
                ""
            ),
        }
    }
}

/// Eight loads a turn, from three pointers, since an address is base plus once, twice or four times the
/// stride.
///
/// # Safety
///
/// `words` (a multiple of [`UNROLLED`] above 0) loads of 8 bytes at every `stride` bytes lie behind `base`;
/// `reps` is above 0.
pub(super) unsafe fn read_strided(base: *const u8, stride: usize, words: usize, reps: usize) {
    // SAFETY: the caller vouches for the memory, which is only read; each register is named.
    unsafe {
        asm!(
            "2:",
            "mov {p}, {base}",
            "lea {q}, [{base} + {s} * 2]",
            "add {q}, {s}",
            "lea {r}, [{q} + {s} * 2]",
            "add {r}, {s}",
            "mov {n}, {turns}",
            "3:",
            "mov {x}, [{p}]",
            "mov {x}, [{p} + {s}]",
            "mov {x}, [{p} + {s} * 2]",
            "mov {x}, [{q}]",
            "mov {x}, [{q} + {s}]",
            "mov {x}, [{q} + {s} * 2]",
            "mov {x}, [{r}]",
            "mov {x}, [{r} + {s}]",
            "lea {p}, [{p} + {s} * 8]",
            "lea {q}, [{q} + {s} * 8]",
            "lea {r}, [{r} + {s} * 8]",
            "dec {n}",
            "jnz 3b",
            "dec {reps}",
            "jnz 2b",
            base = in(reg) base,
            s = in(reg) stride,
            turns = in(reg) words / UNROLLED,
            reps = inout(reg) reps => _,
            p = out(reg) _,
            q = out(reg) _,
            r = out(reg) _,
            n = out(reg) _,
            x = out(reg) _,
            options(nostack, readonly)
        );
    }
}

/// One step of the chase: the upper half of generator `$x`, scaled to the offset of a line, and `$load` from
/// there.
macro_rules! step {
    ($x:literal, $load:literal) => {
        concat!(
            "imul ",
            $x,
            ", {a}\n",
            "add ",
            $x,
            ", {c}\n",
            "mov {t}, ",
            $x,
            "\n",
            "shr {t}, 32\n",
            "imul {t}, {lines}\n",
            "shr {t}, 26\n",
            "and {t}, -64\n",
            "add {t}, {base}\n",
            $load
        )
    };
}

/// Four generators take turns: each has four loads' time for its own multiplication.
macro_rules! steps {
    ($base:expr, $lines:expr, $turns:expr, $seed:expr, $load:literal) => {
        asm!(
            "xor {v:e}, {v:e}",
            "2:",
            step!("{x0}", $load),
            step!("{x1}", $load),
            step!("{x2}", $load),
            step!("{x3}", $load),
            "dec {turns}",
            "jnz 2b",
            x0 = inout(reg) start($seed, 0) => _,
            x1 = inout(reg) start($seed, 1) => _,
            x2 = inout(reg) start($seed, 2) => _,
            x3 = inout(reg) start($seed, 3) => _,
            a = in(reg) FACTOR,
            c = in(reg) INCREMENT,
            lines = in(reg) $lines,
            base = in(reg) $base,
            turns = inout(reg) $turns => _,
            t = out(reg) _,
            v = out(reg) _,
            options(nostack, readonly)
        )
    };
}

fn start(seed: u64, stream: u64) -> u64 {
    mixed(seed.wrapping_mul(4).wrapping_add(stream))
}

/// # Safety
///
/// `lines` lines of 64 zero bytes lie behind `base`; `turns` is above 0.
pub(super) unsafe fn chase(base: *const u8, lines: usize, turns: usize, seed: u64) {
    // SAFETY: the caller vouches for the memory, which is only read: an offset is below `lines` x 64; each
    // register is named.
    unsafe { steps!(base, lines, turns, seed, "mov {v}, [{t} + {v}]") }
}

/// The same without its loads.
pub(super) fn make_addresses(turns: usize) {
    // SAFETY: touches no memory; each register is named.
    unsafe { steps!(0_usize, 4096_usize, turns, 1, "add {v}, {t}") }
}

/// `add` of two registers: one cycle on every x86-64. (With a constant some make it for nothing while they
/// rename.)
pub(super) fn add_chain(steps: usize) -> bool {
    // SAFETY: touches no memory; each register is named.
    unsafe {
        asm!(
            "2:",
            ".rept 32",
            "add {x}, {y}",
            ".endr",
            "sub {n}, 32",
            "ja 2b",
            x = inout(reg) 1_u64 => _,
            y = in(reg) 3_u64,
            n = inout(reg) steps.next_multiple_of(32).max(32) => _,
            options(nostack, nomem)
        );
    }
    true
}

/// `imul` of two registers: three cycles on Intel's since 2008 and on every Zen.
pub(super) fn mul_chain(steps: usize) -> bool {
    // SAFETY: touches no memory; each register is named.
    unsafe {
        asm!(
            "2:",
            ".rept 32",
            "imul {x}, {y}",
            ".endr",
            "sub {n}, 32",
            "ja 2b",
            x = inout(reg) 1_u64 => _,
            y = in(reg) 3_u64,
            n = inout(reg) steps.next_multiple_of(32).max(32) => _,
            options(nostack, nomem)
        );
    }
    true
}
