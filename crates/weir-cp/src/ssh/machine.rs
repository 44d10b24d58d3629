//! Which machine a far host is, by its own words, and which one a build of weir is for, by its head.

/// A processor that weir is built for.
struct Machine {
    /// In names of builds (`weir-aarch64`); `uname -m` of Linux says the same.
    name: &'static str,
    /// Other names that `uname -m` has for it.
    also: &'static [&'static str],
    /// `e_machine` of the ELF specification.
    elf: u16,
}

const MACHINES: [Machine; 2] = [
    Machine { name: "x86_64", also: &["amd64"], elf: 62 },
    Machine { name: "aarch64", also: &["arm64"], elf: 183 },
];

/// Bytes of a file's head that [`of_head`] reads.
pub(super) const HEAD: usize = 20;

/// The machine of `uname -sm` (`Linux aarch64`), where weir can be built for it.
pub(super) fn of_words(words: &str) -> Option<&'static str> {
    let name = words.strip_prefix("Linux ")?;
    MACHINES.iter().find(|machine| machine.name == name || machine.also.contains(&name)).map(|it| it.name)
}

/// The machine that a program is for: a little-endian ELF file of 64 bits, executable or shared object.
/// Layout: System V ABI, ELF Header (`e_ident`, `e_type` at 16, `e_machine` at 18).
pub(super) fn of_head(head: &[u8; HEAD]) -> Option<&'static str> {
    let two = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    let is_program = head.starts_with(b"\x7fELF\x02\x01") && matches!(two(16), 2 | 3);
    MACHINES.iter().find(|machine| is_program && machine.elf == two(18)).map(|machine| machine.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_known_by_its_words() {
        for (words, machine) in [
            ("Linux x86_64", Some("x86_64")),
            ("Linux amd64", Some("x86_64")),
            ("Linux aarch64", Some("aarch64")),
            ("Linux arm64", Some("aarch64")),
            ("Linux riscv64", None),
            ("Linux armv7l", None),
            ("Linux i686", None),
            ("Darwin arm64", None),
            ("FreeBSD amd64", None),
            ("Linux ", None),
            ("aarch64", None),
            ("", None),
        ] {
            assert_eq!(of_words(words), machine, "{words}");
        }
    }

    #[test]
    fn a_program_is_known_by_its_head() {
        let head = |ident: &[u8], kind: u16, machine: u16| {
            let mut head = [0; HEAD];
            head[..ident.len()].copy_from_slice(ident);
            head[16..18].copy_from_slice(&kind.to_le_bytes());
            head[18..].copy_from_slice(&machine.to_le_bytes());
            of_head(&head)
        };
        let (wide, narrow, big): (&[u8], &[u8], &[u8]) =
            (b"\x7fELF\x02\x01", b"\x7fELF\x01\x01", b"\x7fELF\x02\x02");
        assert_eq!(head(wide, 2, 62), Some("x86_64"));
        assert_eq!(head(wide, 3, 183), Some("aarch64"));
        // An object file, one of 32 bits, one in the other order of bytes, another processor, a script.
        for (ident, kind, machine) in
            [(wide, 1, 183), (narrow, 2, 183), (big, 2, 183), (wide, 2, 243), (b"#!/bin", 2, 183)]
        {
            assert_eq!(head(ident, kind, machine), None);
        }
    }
}
