//! Values on their way from one Lua state into another.

use mlua::{Lua, Value};

/// Tables nested deeper than this are most likely a table that holds itself.
const DEEPEST: usize = 100;

/// The same value in `lua`. Only nil, booleans, numbers, strings and tables of these can go.
pub(super) fn carry(value: &Value, lua: &Lua) -> mlua::Result<Value> {
    carry_nested(value, lua, 0)
}

fn carry_nested(value: &Value, lua: &Lua, depth: usize) -> mlua::Result<Value> {
    Ok(match value {
        Value::Nil => Value::Nil,
        Value::Boolean(yes) => Value::Boolean(*yes),
        Value::Integer(number) => Value::Integer(*number),
        Value::Number(number) => Value::Number(*number),
        Value::String(text) => Value::String(lua.create_string(text.as_bytes())?),
        Value::Table(_) if depth == DEEPEST => {
            return Err(mlua::Error::RuntimeError(format!("cannot transfer a table nested {DEEPEST} deep")));
        }
        Value::Table(table) => {
            let carried = lua.create_table()?;
            for pair in table.pairs::<Value, Value>() {
                let (key, value) = pair?;
                carried
                    .raw_set(carry_nested(&key, lua, depth + 1)?, carry_nested(&value, lua, depth + 1)?)?;
            }
            Value::Table(carried)
        }
        other => {
            return Err(mlua::Error::RuntimeError(format!(
                "cannot transfer '{}' to thread",
                other.type_name()
            )));
        }
    })
}
