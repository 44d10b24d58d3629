//! Writes what fuzz targets begin with, a folder for each below the one that is named: seeds and kept inputs.
//!
//!     cargo run -p weir-checks --example fuzz_seeds fuzz/seeds
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use weir_checks::ALL;
use weir_checks::seeds::seeds;

fn main() -> io::Result<()> {
    let root = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("fuzz/seeds"), PathBuf::from);
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (target, _) in ALL {
        let folder = root.join(target);
        fs::create_dir_all(&folder)?;
        let Ok(kept) = fs::read_dir(corpora.join(target)) else { continue };
        for input in kept {
            let input = input?;
            fs::copy(input.path(), folder.join(input.file_name()))?;
        }
    }
    seeds().iter().try_for_each(|seed| fs::write(root.join(seed.target).join(&seed.name), &seed.bytes))
}
