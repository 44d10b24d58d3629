//! Figures for decisions: what a walk, small files and a delta cost on this machine. Not a test: times are for people.
//!
//!     figures walk DIR                  entries a second and the peak of memory
//!     figures delta OLD NEW             what is sent, and how fast it is found out
//!     figures small DIR COUNT           files of 1-16 KB, a thousand to a directory
//!     figures many DIR COUNT            COUNT names of a list, met and written; ten thousand files stand for them

use std::fs::File;
use std::path::Path;
use std::time::Instant;

use weir_tree::target::{Options, Target};
use weir_tree::{Entry, Filter, Kind, Name, Step, Walk, delta, entry::Time, walk};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let start = Instant::now();
    match args[..] {
        ["walk", dir] => walk(dir),
        ["delta", old, new] => delta(old, new)?,
        ["small", dir, count] => small(dir, count.parse()?)?,
        ["many", dir, count] => many(Path::new(dir), count.parse()?)?,
        _ => return Err("see the head of examples/figures.rs".into()),
    }
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    println!("{:.3} s, {peak}", start.elapsed().as_secs_f64());
    Ok(())
}

fn walk(dir: &str) {
    let wanted = walk::Wanted { xattrs: true, hard_links: true, ..walk::Wanted::default() };
    let (mut found, mut failed) = (0u64, 0u64);
    for step in Walk::new(vec![walk::Root::content_of(dir)], Filter::default(), wanted) {
        match step {
            Step::Found(..) => found += 1,
            Step::Failed(..) => failed += 1,
            Step::Leave(_) => {}
        }
    }
    println!("{found} entries, {failed} failed");
}

fn delta(old: &str, new: &str) -> Result<(), Box<dyn std::error::Error>> {
    let start = Instant::now();
    let signature = delta::Signature::of(&File::open(old)?, &Name::root())?;
    let signed = start.elapsed();
    let recipe = delta::missing(&File::open(new)?, &Name::root(), &signature)?;
    let (wire, answer) = (postcard::to_allocvec(&signature)?.len(), postcard::to_allocvec(&recipe)?.len());
    let sent = recipe.literal() + (wire + answer) as u64;
    println!(
        "signature {wire} bytes in {signed:?}, recipe {answer} bytes in {:?}, literal {}: {:.3} % of {}",
        start.elapsed() - signed,
        recipe.literal(),
        100.0 * sent as f64 / recipe.size() as f64,
        recipe.size()
    );
    Ok(())
}

fn small(dir: &str, count: u32) -> Result<(), Box<dyn std::error::Error>> {
    let target = Target::open(Path::new(dir), Options::default())?;
    let content = vec![7; 16 << 10];
    let mtime = Time::new(1_700_000_000, 123_456_789).ok_or("time")?;
    let start = Instant::now();
    for number in 0..count {
        let name: Name = format!("{}/{}", number / 1000, number).parse()?;
        let size = 1024 + u64::from(number) * 7919 % (15 << 10);
        let kind = Kind::File { size, sparse: false };
        let entry = Entry { name, kind, mode: 0o644, mtime, uid: 0, gid: 0, xattrs: Vec::new() };
        target.small(&entry, &content[..size as usize])?;
    }
    println!("{:.0} files/s", f64::from(count) / start.elapsed().as_secs_f64());
    Ok(())
}

fn many(dir: &Path, count: u64) -> Result<(), Box<dyn std::error::Error>> {
    let (from, to) = (dir.join("from"), dir.join("to"));
    let name = |number: u64| format!("{}/{}", number / 100 % 100, number % 100);
    for number in 0..10_000 {
        let path = from.join(name(number));
        std::fs::create_dir_all(path.parent().ok_or("a folder")?)?;
        File::create(path)?;
    }
    let target = Target::open(&to, Options::default())?;
    let list = (0..count).map(move |number| Ok(name(number).parse::<Name>()?));
    let mut written = 0u64;
    for step in Walk::listed(from, list, weir_tree::Filter::default(), walk::Wanted::default()) {
        match step {
            Step::Found(entry, _) if entry.is_file() => {
                target.small(&entry, &[])?;
                written += 1;
            }
            Step::Found(entry, _) => target.directory(&entry.name)?,
            Step::Leave(entry) => target.finish_directory(&entry)?,
            Step::Failed(_, error) => return Err(error.into()),
        }
    }
    println!("{written} files written");
    Ok(())
}
