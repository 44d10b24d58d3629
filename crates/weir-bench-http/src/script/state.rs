//! A Lua state as a script of wrk's interface expects it: the table `wrk`, addresses, threads.

use std::ffi::{c_int, c_void};
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use mlua::{
    Lua, LuaOptions, MetaMethod, StdLib, Table, UserData, UserDataFields, UserDataMethods, UserDataRef,
    Value, WeakLua, ffi,
};
use parking_lot::Mutex;

use super::values;
use crate::error::LoadError;
use crate::settings::ScriptSettings;
use crate::target::{self, Address, Target};
use weir_units::Bytes;

const PRELUDE: &str = include_str!("prelude.lua");

/// What no script comes near.
const LONGEST: Bytes = Bytes(16_000_000);

/// How long `wrk.connect` waits for an address.
const CONNECT: Duration = Duration::from_secs(5);

/// Where distributions keep modules, besides LuaJIT's own folders.
const MODULES: [&str; 4] = [
    "/usr/local/share/lua/5.1/?.lua",
    "/usr/local/share/lua/5.1/?/init.lua",
    "/usr/share/lua/5.1/?.lua",
    "/usr/share/lua/5.1/?/init.lua",
];

/// A state, and the functions that a loop calls in it.
pub(super) struct LuaState {
    pub(super) lua: Lua,
    /// `request`, `response`, `delay`: each calls what the script calls so at that moment.
    pub(super) calls: Table,
}

/// Makes a state and executes the script in it.
pub(super) fn create(settings: &ScriptSettings, target: &Target) -> Result<LuaState, LoadError> {
    create_as(settings, target, cfg!(target_feature = "crt-static"))
}

/// The same; `is_static`: this program loads no C modules.
fn create_as(settings: &ScriptSettings, target: &Target, is_static: bool) -> Result<LuaState, LoadError> {
    let text = weir_units::read_file(&settings.path, LONGEST)
        .map_err(|cause| LoadError::ScriptFile { path: settings.path.clone(), cause })?;
    let lua = with_all_libraries();
    let build = || {
        let headers = lua.create_table()?;
        for (name, value) in &settings.request.fields {
            headers.set(name.as_str(), value.as_str())?;
        }
        let given = lua.create_table()?;
        given.set("scheme", target.scheme())?;
        given.set("host", target.host.as_str())?;
        given.set("port", target.port.map(|port| port.to_string()))?;
        given.set("path", target.path.as_str())?;
        given.set("method", settings.request.method.as_str())?;
        given.set("headers", headers)?;
        given.set("body", settings.request.body.as_ref().map(|body| lua.create_string(body)).transpose()?)?;
        given.set("lookup", lua.create_function(lookup)?)?;
        given.set("connect", lua.create_function(connect)?)?;
        given.set("modules", MODULES.to_vec())?;
        given.set("c_modules", c_modules(std::env::consts::ARCH))?;
        given.set("static", is_static)?;
        let calls = lua.load(PRELUDE).set_name("=wrk").call::<Table>(given)?;
        // `#!` in the first line is the shell's.
        let code = if text.starts_with(b"#") { [b"--".as_slice(), &text].concat() } else { text.clone() };
        lua.load(code).set_name(format!("@{}", settings.path.display())).exec()?;
        Ok(calls)
    };
    match build() {
        Ok(calls) => Ok(LuaState { lua, calls }),
        Err(error) => Err(LoadError::Script(words(&error, &settings.path))),
    }
}

/// Where distributions keep C modules for Lua 5.1: Debian below a folder with the machine's name
/// (dpkg-architecture(1)), Fedora in lib64.
fn c_modules(arch: &str) -> Vec<String> {
    let triple = match arch {
        "x86" => "i386-linux-gnu".to_owned(),
        "arm" => "arm-linux-gnueabihf".to_owned(),
        other => format!("{other}-linux-gnu"),
    };
    let folders = [format!("/usr/local/lib/{triple}"), format!("/usr/lib/{triple}")].into_iter();
    let folders = folders.chain(["/usr/local/lib", "/usr/lib64", "/usr/lib"].map(str::to_owned));
    folders.map(|folder| format!("{folder}/lua/5.1/?.so")).collect()
}

/// All of LuaJIT's libraries, `ffi` and C modules among them: scripts for wrk may count on them.
#[allow(unsafe_code, reason = "the one place where a script gets its libraries")]
fn with_all_libraries() -> Lua {
    // A script cannot catch a panic of ours: what it could do with one is not worth a slower pcall.
    let options = LuaOptions::new().catch_rust_panics(false);
    // SAFETY: with these libraries a script can reach this process's memory. It is a file that the user names
    // on the command line to be run as a program, with the user's own rights, exactly as `luajit FILE` would
    // run it; nothing from the network becomes code.
    let lua = unsafe { Lua::unsafe_new_with(StdLib::ALL, options) };
    answer_with_whole_registers(&lua);
    lua
}

/// Puts [`whole`] between LuaJIT and each C function that it calls.
///
/// A C function returns the count of its results as `int`, of which the psABI leaves the upper half of the
/// register undefined. LuaJIT 2.1 on x86-64 reads all of the register (`BC_FUNCC` of vm_x64.dasc), which
/// compilers of C leave zero as a rule and rustc does not: a destructor that left half an address there ended
/// the process.
#[allow(unsafe_code, reason = "mlua has no safe word for this mode")]
fn answer_with_whole_registers(lua: &Lua) {
    /// `LUAJIT_MODE_WRAPCFUNC | LUAJIT_MODE_ON` of luajit.h.
    const WRAP: c_int = 0x10 | 0x100;
    unsafe extern "C-unwind" {
        fn luaJIT_setmode(state: *mut ffi::lua_State, index: c_int, mode: c_int) -> c_int;
    }
    // SAFETY: the state is live and locked by exec_raw, which has made room for the one value that is pushed
    // and popped; the mode takes a function of exactly `whole`'s shape as light userdata, and functions are
    // never unloaded.
    let set = unsafe {
        lua.exec_raw::<()>((), |state| {
            ffi::lua_pushlightuserdata(state, whole as *const () as *mut c_void);
            luaJIT_setmode(state, -1, WRAP);
            ffi::lua_pop(state, 1);
        })
    };
    debug_assert!(set.is_ok(), "it runs no Lua that could fail");
}

/// Calls `function` and returns what it returned in the whole of the register.
#[allow(unsafe_code, reason = "LuaJIT calls it")]
unsafe extern "C-unwind" fn whole(state: *mut ffi::lua_State, function: ffi::lua_CFunction) -> u64 {
    // SAFETY: LuaJIT hands over one of its own C functions with the state that it would call it with.
    let results = unsafe { function(state) };
    u64::from(results.cast_unsigned())
}

/// `wrk.lookup(host, service)`.
fn lookup(lua: &Lua, (host, service): (String, Value)) -> mlua::Result<Table> {
    let port = match &service {
        Value::Integer(port) => u16::try_from(*port).ok(),
        Value::Number(port) if port.fract() == 0.0 && (0.0..65536.0).contains(port) => Some(*port as u16),
        Value::String(name) => match &*name.to_str()? {
            "http" => Some(80),
            "https" => Some(443),
            digits => digits.parse().ok(),
        },
        _ => None,
    };
    let port = port.ok_or_else(|| said("wrk.lookup wants a host, and a port or http or https"))?;
    let found = target::lookup(&host, port)
        .map_err(|error| said(format!("unable to resolve {host}:{port}: {error}")))?;
    lua.create_sequence_from(found.into_iter().map(Addr))
}

/// `wrk.connect(addr)`.
fn connect(_: &Lua, addr: UserDataRef<Addr>) -> mlua::Result<bool> {
    Ok(addr.0.try_connect(CONNECT).is_ok())
}

fn said(words: impl Display) -> mlua::Error {
    mlua::Error::RuntimeError(words.to_string())
}

/// Lua's message, beginning with file and line, without the traceback.
pub(super) fn words(error: &mlua::Error, path: &Path) -> String {
    let place = path.display().to_string();
    let message = message(error);
    if message.starts_with(&place) {
        return message;
    }
    // What one of our functions says knows no line; the traceback does.
    match error {
        mlua::Error::CallbackError { traceback, .. } => located(&message, traceback, &place),
        mlua::Error::RuntimeError(whole) => located(&message, whole, &place),
        _ => format!("{place}: {message}"),
    }
}

/// The first cause's own words.
fn message(error: &mlua::Error) -> String {
    let whole = match error {
        mlua::Error::CallbackError { cause, .. } => return message(cause),
        mlua::Error::SyntaxError { message, .. } | mlua::Error::RuntimeError(message) => message.clone(),
        other => other.to_string(),
    };
    let end = whole.find("\nstack traceback:").unwrap_or(whole.len());
    whole[..end].trim().to_owned()
}

/// `script.lua:3: MESSAGE`, by the first line of the traceback that lies in the script.
fn located(message: &str, traceback: &str, place: &str) -> String {
    let line = traceback.match_indices(place).find_map(|(at, _)| {
        let rest = traceback[at + place.len()..].strip_prefix(':')?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        (!digits.is_empty()).then_some(digits)
    });
    match line {
        Some(line) => format!("{place}:{line}: {message}"),
        None => format!("{place}: {message}"),
    }
}

/// An address as scripts hold it; its text is `ip:port`.
pub(super) struct Addr(pub(super) Address);

impl UserData for Addr {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::ToString, |_, addr, ()| match &addr.0 {
            // Bare, as getnameinfo and a colon make it.
            Address::Tcp(address) => Ok(format!("{}:{}", address.ip(), address.port())),
            other => Ok(other.to_string()),
        });
    }
}

/// `thread`: another thread's state, as `setup` and `done` see it, and a thread's own as `wrk.thread`.
pub(super) struct ThreadHandle {
    pub(super) lua: WeakLua,
    pub(super) address: Arc<Mutex<Address>>,
    pub(super) stop: Arc<AtomicBool>,
}

impl ThreadHandle {
    fn state(&self) -> mlua::Result<Lua> {
        self.lua.try_upgrade().ok_or_else(|| said("this thread's state is gone"))
    }
}

impl UserData for ThreadHandle {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("addr", |_, thread| Ok(Addr(thread.address.lock().clone())));
        fields.add_field_method_set("addr", |_, thread, addr: UserDataRef<Addr>| {
            *thread.address.lock() = addr.0.clone();
            Ok(())
        });
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("get", |lua, thread, name: mlua::LuaString| {
            let state = thread.state()?;
            let value: Value = state.globals().get(state.create_string(name.as_bytes())?)?;
            values::carry(&value, lua)
        });
        methods.add_method("set", |_, thread, (name, value): (mlua::LuaString, Value)| {
            let state = thread.state()?;
            let carried = values::carry(&value, &state)?;
            let name = state.create_string(name.as_bytes())?;
            state.globals().set(name, carried)
        });
        methods.add_method("stop", |_, thread, ()| {
            thread.stop.store(true, Relaxed);
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Request;

    /// What the script of these lines fails with, in a static program.
    fn fails_statically(lines: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own.lua");
        std::fs::write(&path, lines.replace("HERE", &folder.path().display().to_string())).unwrap();
        std::fs::write(folder.path().join("native.so"), "").unwrap();
        let settings = ScriptSettings { path, args: Vec::new(), request: Request::default() };
        let target = Target::parse("http://127.0.0.1:9/").unwrap();
        create_as(&settings, &target, true).map(drop).unwrap_err().to_string()
    }

    #[test]
    fn a_static_program_says_that_it_loads_no_c_modules() {
        let said = fails_statically("package.cpath = 'HERE/?.so'\nrequire('native')\n");
        for part in ["own.lua:2:", "'native'", "native.so", "static build", "make build"] {
            assert!(said.contains(part), "{said}");
        }
        // What is not there at all is told as always.
        let said = fails_statically("require('no.such')\n");
        assert!(said.contains("module 'no.such' not found") && said.contains("no/such.so"), "{said}");
    }

    #[test]
    fn folders_of_c_modules_carry_the_machines_name() {
        assert!(c_modules("x86_64").contains(&"/usr/lib/x86_64-linux-gnu/lua/5.1/?.so".to_owned()));
        assert!(c_modules("aarch64").contains(&"/usr/lib/aarch64-linux-gnu/lua/5.1/?.so".to_owned()));
    }
}
