//! A value that was read, or why it could not be; and how times are written down.

use serde::{Deserialize, Serialize};

/// A reading, or the reason why it could not be taken. Never a zero in place of an unknown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reading<T> {
    /// The value that was read.
    Value(T),
    /// Not read, and why: `/proc/vmstat: permission denied`.
    Missing(String),
}

impl<T> Default for Reading<T> {
    fn default() -> Self {
        Reading::Missing("not read".to_owned())
    }
}

impl<T> Reading<T> {
    /// The value, if there is one.
    pub fn value(&self) -> Option<&T> {
        match self {
            Reading::Value(value) => Some(value),
            Reading::Missing(_) => None,
        }
    }

    /// There is no value.
    pub fn is_missing(&self) -> bool {
        self.value().is_none()
    }

    /// The reason, if there is no value.
    pub fn missing(&self) -> Option<&str> {
        match self {
            Reading::Value(_) => None,
            Reading::Missing(why) => Some(why),
        }
    }
}

/// Times are plain seconds in JSON, as everywhere in weir.
pub(crate) mod seconds {
    use std::time::Duration;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(span.as_secs_f64())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(deserializer)?).map_err(D::Error::custom)
    }

    pub(crate) mod optional {
        use super::*;

        pub(crate) fn serialize<S: Serializer>(
            span: &Option<Duration>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            match span {
                Some(span) => serializer.serialize_some(&span.as_secs_f64()),
                None => serializer.serialize_none(),
            }
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<Duration>, D::Error> {
            Option::<f64>::deserialize(deserializer)?
                .map(|seconds| Duration::try_from_secs_f64(seconds).map_err(D::Error::custom))
                .transpose()
        }
    }
}
