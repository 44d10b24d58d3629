//! Which boot of the system is this? What a kill leaves in the page cache is there until the next boot, and
//! two ends that name the same boot are on one machine.

/// This boot's id, 36 characters (`/proc/sys/kernel/random/boot_id`, random(4)); where it cannot be read one
/// that begins with `unknown-` and that no other call returns, so that nothing is taken for written in the
/// same boot.
pub fn id() -> String {
    match std::fs::read_to_string("/proc/sys/kernel/random/boot_id") {
        Ok(id) => id.trim().to_owned(),
        Err(_) => format!("unknown-{}", fastrand::u64(..)),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_stays_while_the_system_runs() {
        let id = super::id();
        assert_eq!((id.len(), &id), (36, &super::id()));
    }
}
