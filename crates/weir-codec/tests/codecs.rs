//! The conformance suite: what must hold for every row of the table, whatever it is.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use weir_codec::codec::{Codec, CodecError, LONGEST, Setting};

/// Deterministic bytes without any pattern (xorshift; Marsaglia 2003).
fn random(len: usize, mut seed: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        bytes.extend_from_slice(&seed.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Words in an order that no codec knows: shrinks, but not to nothing.
fn text(len: usize) -> Vec<u8> {
    let words = [
        "the ",
        "window ",
        "of ",
        "a ",
        "receiver ",
        "is ",
        "full\n",
        "rate ",
        "loss, ",
        "pipe ",
        "1460 ",
        "0x7f ",
    ];
    let mut bytes = Vec::with_capacity(len + 16);
    for pick in random(len, 7) {
        bytes.extend_from_slice(words[usize::from(pick) % words.len()].as_bytes());
        if bytes.len() >= len {
            break;
        }
    }
    bytes.truncate(len);
    bytes
}

/// Records as programs hold them: counters, small numbers, zeros.
fn binary(len: usize) -> Vec<u8> {
    let noise = random(len / 16 + 1, 11);
    let record = |i: usize| [(i as u64).to_le_bytes(), u64::from(noise[i] & 15).to_be_bytes()].concat();
    let mut bytes: Vec<u8> = (0..len / 16 + 1).flat_map(record).collect();
    bytes.truncate(len);
    bytes
}

fn samples(len: usize) -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("text", text(len)),
        ("binary", binary(len)),
        ("zeros", vec![0; len]),
        ("random", random(len, 3)),
        // A run, noise and the run again: long literals, long matches, far distances.
        ("mixed", [text(len / 4), random(len / 4, 5), vec![9; len / 4], text(len - len / 4 * 3)].concat()),
    ]
}

fn every_setting() -> impl Iterator<Item = Setting> {
    Codec::all().flat_map(Setting::every)
}

fn pack(setting: Setting, input: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    setting.codec().compress(setting.level(), input, &mut packed).expect("every level packs every block");
    packed
}

fn unpack(codec: Codec, packed: &[u8], len: usize) -> Result<Vec<u8>, CodecError> {
    let mut out = Vec::new();
    codec.decompress(packed, len, &mut out).map(|()| out)
}

fn assert_round_trip(setting: Setting, kind: &str, input: &[u8]) {
    let packed = pack(setting, input);
    let unpacked = unpack(setting.codec(), &packed, input.len()).expect("what was packed can be unpacked");
    assert!(unpacked == input, "{setting} on {} bytes of {kind}", input.len());
}

#[test]
fn every_level_gives_back_what_it_took() {
    for setting in every_setting() {
        for (kind, input) in samples(64 << 10) {
            assert_round_trip(setting, kind, &input);
        }
    }
}

#[test]
fn blocks_of_every_size() {
    // Around what the formats count: 10 (QuickLZ's tail), 16, 18, 32 (runs), 216, 238, 256, 273 and the
    // windows' edges.
    let around = [1, 9, 18, 32, 64, 216, 238, 256, 273, 1 << 11, 1 << 13, 1 << 14, 1 << 16]
        .into_iter()
        .flat_map(|edge| edge..edge + 3);
    let sizes: Vec<usize> = (0..300).step_by(7).chain(around).collect();
    for codec in Codec::all() {
        for &size in &sizes {
            for (kind, input) in samples(size) {
                assert_round_trip(codec.into(), kind, &input);
            }
        }
    }
}

#[test]
fn a_whole_block_at_the_default_level() {
    for codec in Codec::all() {
        for (kind, input) in samples(1 << 20) {
            assert_round_trip(codec.into(), kind, &input);
        }
    }
}

#[test]
fn what_can_shrink_shrinks_and_noise_hardly_grows() {
    for codec in Codec::all().filter(|codec| *codec != Codec::NONE) {
        for (kind, input) in samples(1 << 20) {
            let ratio = pack(codec.into(), &input).len() as f64 / input.len() as f64;
            let most = match kind {
                "zeros" => 0.05,
                "random" => 1.04,
                "mixed" => 0.8,
                _ => 0.66,
            };
            assert!(ratio < most, "{codec} on {kind}: {ratio}");
        }
    }
}

#[test]
fn the_same_block_packs_to_the_same_bytes() {
    let (first, other) = (text(100_000), binary(50_000));
    for codec in Codec::all() {
        let before = pack(codec.into(), &first);
        pack(codec.into(), &other);
        assert!(pack(codec.into(), &first) == before, "{codec} remembers another block");
    }
}

#[test]
fn buffers_are_reused() {
    let input = text(1 << 20);
    for codec in Codec::all() {
        let (mut packed, mut unpacked) = (Vec::new(), Vec::new());
        let mut round = || {
            codec.compress(codec.default_level(), &input, &mut packed).unwrap();
            codec.decompress(&packed, input.len(), &mut unpacked).unwrap();
            (packed.as_ptr(), packed.capacity(), unpacked.as_ptr(), unpacked.capacity())
        };
        let first = round();
        assert_eq!(round(), first, "{codec}");
    }
}

#[test]
fn empty_is_empty() {
    for setting in every_setting() {
        assert_eq!(pack(setting, b""), b"");
        assert_eq!(unpack(setting.codec(), b"", 0).unwrap(), b"");
        assert!(unpack(setting.codec(), b"", 1).is_err(), "{setting}");
        assert!(unpack(setting.codec(), b"x", 0).is_err(), "{setting}");
    }
}

#[test]
fn another_length_is_an_error() {
    for setting in every_setting() {
        for (kind, input) in samples(5000) {
            let packed = pack(setting, &input);
            for len in [0, 1, input.len() - 1, input.len() + 1, 2 * input.len(), LONGEST] {
                let refused = unpack(setting.codec(), &packed, len);
                assert_eq!(
                    refused,
                    Err(CodecError::Corrupt { codec: setting.codec(), len }),
                    "{setting} {kind}"
                );
            }
        }
    }
}

#[test]
fn a_cut_block_is_an_error() {
    for codec in Codec::all() {
        for (kind, input) in samples(3000) {
            let packed = pack(codec.into(), &input);
            for cut in 0..packed.len() {
                // Deflate's last four bytes are its checksum, LZO's last three its end: nothing of the block.
                let Err(error) = unpack(codec, &packed[..cut], input.len()) else {
                    panic!("{codec} {kind}: {cut} of {} bytes are enough", packed.len());
                };
                assert_eq!(error, CodecError::Corrupt { codec, len: input.len() });
            }
        }
    }
}

#[test]
fn too_long_is_refused_before_anything_is_allocated() {
    for codec in Codec::all() {
        let mut out = Vec::new();
        let refused = codec.decompress(b"x", LONGEST + 1, &mut out).unwrap_err();
        assert_eq!(refused.to_string(), "block of 16777217 bytes is too long: expected at most 16777216");
        assert_eq!(out.capacity(), 0);
        let long = vec![0; LONGEST + 1];
        assert!(codec.compress(codec.default_level(), &long, &mut out).is_err());
    }
}

#[test]
fn an_error_leaves_no_bytes() {
    for codec in Codec::all() {
        let packed = pack(codec.into(), &text(5000));
        let mut out = vec![1; 5000];
        codec.decompress(&packed[..packed.len() / 2], 5000, &mut out).unwrap_err();
        assert_eq!(out, b"", "{codec}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Pieces of few kinds, so that matches and literals of all lengths meet.
    #[test]
    fn round_trip(pieces in proptest::collection::vec((any::<u8>(), 0_usize..700, 0..3_u8), 0..30)) {
        let input: Vec<u8> = pieces.iter().flat_map(|&(seed, len, kind)| match kind {
            0 => vec![seed; len],
            1 => random(len, u64::from(seed) + 1),
            _ => text(len),
        }).collect();
        for codec in Codec::all() {
            let packed = pack(codec.into(), &input);
            prop_assert!(unpack(codec, &packed, input.len()) == Ok(input.clone()), "{}", codec);
        }
        for name in ["fastlz-2", "quicklz-3"] {
            let setting: Setting = name.parse().unwrap();
            let packed = pack(setting, &input);
            prop_assert!(unpack(setting.codec(), &packed, input.len()) == Ok(input.clone()), "{}", name);
        }
    }

    #[test]
    fn noise_is_an_error_or_the_announced_length(noise in proptest::collection::vec(any::<u8>(), 0..400), len in 0_usize..3000) {
        for codec in Codec::all() {
            if let Ok(out) = unpack(codec, &noise, len) {
                prop_assert_eq!(out.len(), len, "{}", codec);
            }
        }
    }

    #[test]
    fn flipped_bits_are_an_error_or_the_announced_length(
        flips in proptest::collection::vec((any::<proptest::sample::Index>(), 0..8_u8), 1..4),
        kind in 0..5_usize,
    ) {
        let input = samples(2000).swap_remove(kind).1;
        for setting in every_setting() {
            let mut packed = pack(setting, &input);
            for (at, bit) in &flips {
                let at = at.index(packed.len());
                packed[at] ^= 1 << bit;
            }
            if let Ok(out) = unpack(setting.codec(), &packed, input.len()) {
                prop_assert_eq!(out.len(), input.len(), "{}", setting);
            }
        }
    }
}

/// Blocks that other implementations made of this repository's LICENSE-APACHE. How each was made:
/// tests/foreign/README.md.
#[test]
fn blocks_of_other_implementations() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/foreign");
    let licence = fs::read(folder.join("../../../../LICENSE-APACHE")).unwrap();
    let mut missing: BTreeSet<&str> =
        Codec::all().filter(|codec| *codec != Codec::NONE).map(Codec::name).collect();
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let Some(codec) = Codec::by_name(name.split('-').next().unwrap()) else { continue };
        let packed = fs::read(&path).unwrap();
        assert!(unpack(codec, &packed, licence.len()) == Ok(licence.clone()), "{}", path.display());
        missing.remove(codec.name());
    }
    assert!(missing.is_empty(), "no block of {missing:?} in {}", folder.display());
}

/// Runs a program on `input`; `None`, after saying why, where it is not installed. In CI it must be there.
fn filter(program: &str, arguments: &[&str], input: &[u8]) -> Option<Vec<u8>> {
    let child = Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "{program}: {error}");
            println!("skipped: {program}: {error}");
            return None;
        }
    };
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("an exit");
    writer.join().expect("no panic").expect("all of it is read");
    assert!(output.status.success(), "{program} refuses what weir packed");
    Some(output.stdout)
}

#[test]
fn other_programs_unpack_what_weir_packs() {
    let inflate = "import sys,zlib; sys.stdout.buffer.write(zlib.decompress(sys.stdin.buffer.read()))";
    let input = text(300_000);
    for (name, program, arguments) in [
        ("zstd--7", "zstd", &["-dc"][..]),
        ("zstd-3", "zstd", &["-dc"]),
        ("zstd-22", "zstd", &["-dc", "--ultra"]),
        ("zlib-1", "python3", &["-c", inflate]),
        ("zlib-12", "python3", &["-c", inflate]),
    ] {
        let packed = pack(name.parse().unwrap(), &input);
        if let Some(unpacked) = filter(program, arguments, &packed) {
            assert!(unpacked == input, "{name} by {program}");
        }
    }
}
