//! JSON whose members keep their order, printed as cJSON prints it: scripts that read iperf3's lines find
//! them where they were.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Whole numbers up to this (2^53) are the same as integers and as doubles.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// A value of JSON.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    /// `null`, a flag, a number or a text.
    Leaf(Value),
    /// An array.
    List(Vec<Json>),
    /// An object, in the order in which it was made or read.
    Members(Vec<(String, Json)>),
}

impl Json {
    /// Without members, to be filled by [`Json::with`] and [`Json::put`].
    pub fn object() -> Json {
        Json::Members(Vec::new())
    }

    /// The same with one more member at the end.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Json>) -> Json {
        self.put(name, value);
        self
    }

    /// One more member at the end, or another value of one that is there. What is no object stays as it is.
    pub fn put(&mut self, name: &str, value: impl Into<Json>) {
        let Json::Members(members) = self else { return };
        match members.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = value.into(),
            None => members.push((name.to_owned(), value.into())),
        }
    }

    /// The member of this name.
    pub fn get(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Members(members) => members.iter().find(|(known, _)| known == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// Reads a text, with the bounds of serde_json (a depth of 128).
    pub fn parse(text: &[u8]) -> serde_json::Result<Json> {
        serde_json::from_slice(text)
    }

    /// On one line.
    pub fn line(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, None);
        text
    }

    /// In lines, with tabs.
    pub fn lines(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, Some(0));
        text
    }

    /// In lines below so many levels; on one line without a level.
    fn write(&self, text: &mut String, level: Option<usize>) {
        match self {
            Json::Leaf(Value::Number(number)) => text.push_str(&whole(number)),
            Json::Leaf(value) => text.push_str(&value.to_string()),
            Json::List(items) => {
                text.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        text.push_str(if level.is_some() { ", " } else { "," });
                    }
                    item.write(text, level.map(|level| level + 1));
                }
                text.push(']');
            }
            Json::Members(members) => {
                let tabs = |level: Option<usize>| "\t".repeat(level.unwrap_or_default());
                let inner = level.map(|level| level + 1);
                text.push_str(if level.is_some() { "{\n" } else { "{" });
                for (index, (name, value)) in members.iter().enumerate() {
                    let name = Value::from(name.as_str());
                    text.push_str(&format!(
                        "{}{name}{}",
                        tabs(inner),
                        if level.is_some() { ":\t" } else { ":" }
                    ));
                    value.write(text, inner);
                    let last = index + 1 == members.len();
                    text.push_str(if last { "" } else { "," });
                    text.push_str(if level.is_some() { "\n" } else { "" });
                }
                text.push_str(&tabs(level));
                text.push('}');
            }
        }
    }
}

/// A double that is a whole number is printed as one, as cJSON does: shells compare them.
fn whole(number: &Number) -> String {
    match number.as_f64() {
        Some(value) if number.is_f64() && value.fract() == 0.0 && value.abs() < EXACT => {
            (value as i64).to_string()
        }
        _ => number.to_string(),
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Json {
        match value {
            Value::Array(items) => Json::List(items.into_iter().map(Json::from).collect()),
            Value::Object(members) => {
                Json::Members(members.into_iter().map(|(name, value)| (name, value.into())).collect())
            }
            leaf => Json::Leaf(leaf),
        }
    }
}

impl From<&Json> for Value {
    fn from(json: &Json) -> Value {
        match json {
            Json::Leaf(value) => value.clone(),
            Json::List(items) => Value::Array(items.iter().map(Value::from).collect()),
            Json::Members(members) => {
                let pairs = members.iter().map(|(name, value)| (name.clone(), Value::from(value)));
                Value::Object(pairs.collect::<Map<_, _>>())
            }
        }
    }
}

macro_rules! leaves {
    ($($kind:ty),+) => {$(
        impl From<$kind> for Json {
            fn from(value: $kind) -> Json {
                Json::Leaf(value.into())
            }
        }
    )+};
}

leaves!(bool, u8, u16, u32, u64, i32, i64, f64, &str, String);

impl From<&String> for Json {
    fn from(text: &String) -> Json {
        text.as_str().into()
    }
}

impl From<Vec<Json>> for Json {
    fn from(items: Vec<Json>) -> Json {
        Json::List(items)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Json, D::Error> {
        from.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Leaf(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Json, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = from.next_element()? {
            items.push(item);
        }
        Ok(Json::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Json, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = from.next_entry()? {
            members.push(member);
        }
        Ok(Json::Members(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As cJSON 1.7.15 prints it (iperf3 3.12), a tab after each colon.
    const CAPTURED: &str = "{\n\t\"start\":\t{\n\t\t\"connected\":\t[{\n\t\t\t\t\"socket\":\t5,\n\t\t\t\t\"host\":\t\"a \\\"b\\\"\"\n\t\t\t}, {\n\t\t\t\t\"socket\":\t7\n\t\t\t}],\n\t\t\"rate\":\t1.5,\n\t\t\"omitted\":\tfalse\n\t},\n\t\"intervals\":\t[],\n\t\"end\":\t{\n\t}\n}";

    #[test]
    fn what_cjson_prints_is_read_and_printed_as_it_was() {
        let json = Json::parse(CAPTURED.as_bytes()).unwrap();
        assert_eq!(json.lines(), CAPTURED);
        let line = r#"{"start":{"connected":[{"socket":5,"host":"a \"b\""},{"socket":7}],"rate":1.5,"omitted":false},"intervals":[],"end":{}}"#;
        assert_eq!(json.line(), line);
        assert_eq!(Json::from(Value::from(&json)).get("end"), json.get("end"));
    }

    #[test]
    fn whole_doubles_are_printed_as_integers() {
        let json =
            Json::object().with("a", 0.0).with("b", -0.0).with("c", 1e12).with("d", 0.1).with("e", 1e300);
        assert_eq!(json.line(), r#"{"a":0,"b":0,"c":1000000000000,"d":0.1,"e":1e+300}"#);
        assert_eq!(Json::from(f64::INFINITY).line(), "null");
    }

    #[test]
    fn a_member_that_is_put_again_keeps_its_place() {
        let mut json = Json::object().with("a", 1_u32).with("b", 2_u32);
        json.put("a", "x");
        assert_eq!(json.line(), r#"{"a":"x","b":2}"#);
        let deep = "[".repeat(200);
        assert!(Json::parse(deep.as_bytes()).is_err());
    }
}
