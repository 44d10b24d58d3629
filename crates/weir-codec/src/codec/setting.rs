//! A codec at one of its levels, as people write it: `lz4`, `zstd-3`, and `zstd--5` for its level -5.

use std::fmt;
use std::str::FromStr;

use super::{Codec, CodecError};

/// A codec and a level that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Setting {
    codec: Codec,
    level: i32,
}

impl Setting {
    /// The codec at this level, if it has it.
    pub fn new(codec: Codec, level: i32) -> Result<Setting, CodecError> {
        if codec.has_level(level) {
            Ok(Setting { codec, level })
        } else {
            Err(CodecError::Level { codec, level })
        }
    }

    /// Every level of a codec; the codec alone where there is nothing to choose.
    pub fn every(codec: Codec) -> impl Iterator<Item = Setting> {
        let only = codec.levels().is_empty().then_some(codec.default_level());
        codec.levels().iter().copied().chain(only).map(move |level| Setting { codec, level })
    }

    /// The codec.
    pub fn codec(self) -> Codec {
        self.codec
    }

    /// The level; 0 where there is nothing to choose.
    pub fn level(self) -> i32 {
        self.level
    }
}

impl From<Codec> for Setting {
    fn from(codec: Codec) -> Setting {
        Setting { codec, level: codec.default_level() }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.codec.levels() {
            [] => f.pad(self.codec.name()),
            _ => f.pad(&format!("{}-{}", self.codec, self.level)),
        }
    }
}

impl FromStr for Setting {
    type Err = CodecError;

    /// A name means the codec's default level; `zstd:3` is `zstd-3`, as `weir cp --codec` writes it.
    fn from_str(text: &str) -> Result<Setting, CodecError> {
        let Some((name, level)) = text.split_once(['-', ':']) else {
            return text.parse::<Codec>().map(Setting::from);
        };
        let codec: Codec = name.parse()?;
        let unknown = || CodecError::UnknownName { name: text.chars().take(40).collect() };
        Setting::new(codec, level.parse().map_err(|_| unknown())?)
    }
}
