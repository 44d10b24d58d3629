//! What is a thread doing, going by its state, its system call and the kernel function in which it sleeps?
//!
//! The names of kernel functions are no interface: they change between versions, and inlining moves a sleep
//! into a caller of another name. So they are compared by their start, the system call decides where one name
//! serves several purposes (`wait_woken` is receiving and sending on Linux 6.18), and what is not known is
//! "elsewhere", never a guess. Seen on 6.18: `wait_woken`, `do_epoll_wait`, `poll_schedule_timeout`,
//! `hrtimer_nanosleep`, `anon_pipe_read`, `anon_pipe_write`, `futex_do_wait`, `unix_stream_read_generic`,
//! `sock_alloc_send_pskb`, `folio_wait_bit_common`, `__iomap_dio_rw`, `__folio_lock`, `__sync_dirty_buffer`,
//! `submit_bio_wait`, `fsync_buffers_list`, `balance_dirty_pages`.

use weir_model::evidence::Found;

/// What a look found a thread doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// On a processor or ready to run.
    Running,
    /// Asleep until data come from a socket.
    Receiving,
    /// Asleep until a socket's send buffer has room.
    Sending,
    /// Asleep until one of several descriptors is ready.
    Polling,
    /// Asleep until the kernel has done what it was handed (io_uring, Linux AIO), of a file or of a socket.
    AwaitingKernel,
    /// Asleep until the disk has read.
    ReadingDisk,
    /// Asleep until a page that it touched has been read: of a mapped file, of its own memory that was
    /// swapped, or one that a host took back.
    PagingIn,
    /// Asleep until the disk has written, or has room in its queue.
    WritingDisk,
    /// Asleep because its writes are paced to the disk.
    DirtyThrottle,
    /// Asleep until a pipe or a local socket has room.
    PipeFull,
    /// Asleep until a pipe or a local socket has data.
    PipeEmpty,
    /// Asleep by its own will.
    Sleeping,
    /// Asleep until another thread lets it go on.
    WaitingForThread,
    /// Anything else: waiting for a child, a signal, a connection being made.
    Elsewhere,
}

/// A thread's system call, from `/proc/PID/task/TID/syscall`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Not asleep.
    Running,
    /// Asleep, but in no system call: a page fault.
    Fault,
    /// In a poll or select of no descriptor at all: a sleep, as curl sleeps between two attempts.
    Sleep,
    /// In this system call, with this first argument: most often a descriptor.
    In(i64, u64),
}

/// Reads `running`, `-1 SP PC` or `NUMBER ARGUMENTS... SP PC` (proc_pid_syscall in fs/proc/base.c).
pub fn parse_call(text: &str) -> Option<Call> {
    let mut words = text.split_ascii_whitespace();
    match words.next()? {
        "running" => Some(Call::Running),
        "-1" => Some(Call::Fault),
        number => {
            let mut argument = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
            let (number, first) = (number.parse().ok()?, argument()?);
            Some(if waits_for_nothing(number, first, argument()) {
                Call::Sleep
            } else {
                Call::In(number, first)
            })
        }
    }
}

/// How many descriptors stands first in the arguments of a select, second in those of a poll.
fn waits_for_nothing(number: i64, first: u64, second: Option<u64>) -> bool {
    #[cfg(target_arch = "x86_64")]
    if (number == libc::SYS_poll && second == Some(0)) || (number == libc::SYS_select && first == 0) {
        return true;
    }
    (number == libc::SYS_ppoll && second == Some(0)) || (number == libc::SYS_pselect6 && first == 0)
}

/// The state letter of `/proc/PID/task/TID/stat`, which follows the name in brackets; the name may hold
/// anything.
pub fn parse_state(text: &str) -> Option<char> {
    text.rsplit_once(") ")?.1.chars().next()
}

/// The purpose of a system call, as far as it tells what is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Read,
    Write,
    /// From a file to a socket.
    Copy,
    /// To a socket alone: what it waits for at a disk is a page of what is to be sent.
    Send,
    /// From a socket alone: the same of a page that is to be filled.
    Receive,
    Accept,
    /// A page, without a call.
    Page,
    /// Whatever was handed to the kernel before.
    Completion,
    Other,
}

fn purpose(number: i64) -> Purpose {
    match number {
        libc::SYS_read | libc::SYS_readv | libc::SYS_pread64 | libc::SYS_preadv | libc::SYS_preadv2 => {
            Purpose::Read
        }
        libc::SYS_recvfrom | libc::SYS_recvmsg | libc::SYS_recvmmsg => Purpose::Receive,
        libc::SYS_write | libc::SYS_writev | libc::SYS_pwrite64 | libc::SYS_pwritev | libc::SYS_pwritev2 => {
            Purpose::Write
        }
        libc::SYS_sendto | libc::SYS_sendmsg | libc::SYS_sendmmsg => Purpose::Send,
        libc::SYS_fsync | libc::SYS_fdatasync | libc::SYS_msync | libc::SYS_sync_file_range => Purpose::Write,
        libc::SYS_ftruncate | libc::SYS_fallocate | libc::SYS_close => Purpose::Write,
        libc::SYS_sendfile | libc::SYS_splice | libc::SYS_copy_file_range => Purpose::Copy,
        libc::SYS_accept | libc::SYS_accept4 => Purpose::Accept,
        libc::SYS_io_uring_enter | libc::SYS_io_getevents => Purpose::Completion,
        _ => Purpose::Other,
    }
}

/// What a kernel function's name stands for. The first row whose text the name starts with counts.
const SYMBOLS: [(&str, Meaning); 50] = [
    ("balance_dirty_pages", Meaning::Is(Doing::DirtyThrottle)),
    ("wait_woken", Meaning::Socket),
    ("sk_wait_data", Meaning::Is(Doing::Receiving)),
    ("tcp_recvmsg", Meaning::Is(Doing::Receiving)),
    ("__skb_wait_for_more_packets", Meaning::Is(Doing::Receiving)),
    ("sk_stream_wait_memory", Meaning::Is(Doing::Sending)),
    ("tcp_sendmsg", Meaning::Is(Doing::Sending)),
    ("inet_csk_accept", Meaning::Is(Doing::Polling)),
    ("do_epoll_wait", Meaning::Is(Doing::Polling)),
    ("ep_poll", Meaning::Is(Doing::Polling)),
    ("poll_schedule_timeout", Meaning::Is(Doing::Polling)),
    ("do_poll", Meaning::Is(Doing::Polling)),
    ("do_sys_poll", Meaning::Is(Doing::Polling)),
    ("do_select", Meaning::Is(Doing::Polling)),
    ("io_cqring_wait", Meaning::Is(Doing::AwaitingKernel)),
    ("read_events", Meaning::Is(Doing::AwaitingKernel)),
    ("hrtimer_nanosleep", Meaning::Is(Doing::Sleeping)),
    ("do_nanosleep", Meaning::Is(Doing::Sleeping)),
    ("futex_", Meaning::Is(Doing::WaitingForThread)),
    // A socket's lock: it sleeps as for a disk.
    ("__lock_sock", Meaning::Is(Doing::WaitingForThread)),
    ("lock_sock_nested", Meaning::Is(Doing::WaitingForThread)),
    ("anon_pipe_read", Meaning::Is(Doing::PipeEmpty)),
    ("pipe_read", Meaning::Is(Doing::PipeEmpty)),
    ("pipe_wait_readable", Meaning::Is(Doing::PipeEmpty)),
    ("unix_stream_read", Meaning::Is(Doing::PipeEmpty)),
    ("unix_stream_data_wait", Meaning::Is(Doing::PipeEmpty)),
    ("anon_pipe_write", Meaning::Is(Doing::PipeFull)),
    ("pipe_write", Meaning::Is(Doing::PipeFull)),
    ("pipe_wait_writable", Meaning::Is(Doing::PipeFull)),
    ("sock_alloc_send_pskb", Meaning::Is(Doing::PipeFull)),
    ("folio_wait_writeback", Meaning::Is(Doing::WritingDisk)),
    ("folio_wait_bit", Meaning::Disk),
    ("wait_on_page_bit", Meaning::Disk),
    ("__folio_lock", Meaning::Disk),
    ("filemap_", Meaning::Disk),
    ("io_schedule", Meaning::Disk),
    ("__iomap_dio_rw", Meaning::Disk),
    ("iomap_dio", Meaning::Disk),
    ("__blockdev_direct_IO", Meaning::Disk),
    ("submit_bio_wait", Meaning::Disk),
    ("blk_mq_get_tag", Meaning::Disk),
    // A file of FUSE: the program that serves it is asked.
    ("request_wait_answer", Meaning::Disk),
    ("rq_qos_wait", Meaning::Disk),
    ("wait_on_buffer", Meaning::Disk),
    ("__wait_on_buffer", Meaning::Disk),
    ("__sync_dirty_buffer", Meaning::Is(Doing::WritingDisk)),
    ("fsync_buffers_list", Meaning::Is(Doing::WritingDisk)),
    ("jbd2_", Meaning::Is(Doing::WritingDisk)),
    ("wait_transaction_locked", Meaning::Is(Doing::WritingDisk)),
    ("xlog_", Meaning::Is(Doing::WritingDisk)),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Is(Doing),
    /// A socket, for reading or for writing.
    Socket,
    /// A block device, for reading or for writing.
    Disk,
}

/// What a thread does. `state` is the letter of its stat file, `call` its system call, `symbol` the function
/// it sleeps in: each `None` where it may not be read.
pub fn doing(state: Option<char>, call: Option<Call>, symbol: Option<&str>) -> Doing {
    if matches!(call, Some(Call::Running)) || (call.is_none() && state == Some('R')) {
        return Doing::Running;
    }
    if matches!(call, Some(Call::Sleep)) {
        return Doing::Sleeping;
    }
    let purpose = match call {
        Some(Call::In(number, _)) => Some(purpose(number)),
        Some(Call::Fault) => Some(Purpose::Page),
        Some(Call::Running | Call::Sleep) | None => None,
    };
    let meaning = symbol.and_then(|name| SYMBOLS.iter().find(|(start, _)| name.starts_with(start)));
    match (meaning.map(|(_, meaning)| *meaning), purpose) {
        (Some(Meaning::Is(doing)), _) => doing,
        (_, Some(Purpose::Completion)) => Doing::AwaitingKernel,
        (Some(Meaning::Socket), Some(Purpose::Read | Purpose::Receive)) => Doing::Receiving,
        (Some(Meaning::Socket), Some(Purpose::Write | Purpose::Copy | Purpose::Send)) => Doing::Sending,
        // A wait at a socket whose call may not be read is no file's, whichever way it goes.
        (Some(Meaning::Socket), Some(Purpose::Accept)) => Doing::Polling,
        (Some(Meaning::Socket), None) if call.is_none() => Doing::Polling,
        (Some(Meaning::Disk), Some(Purpose::Write)) => Doing::WritingDisk,
        (Some(Meaning::Disk), Some(Purpose::Read | Purpose::Copy)) => Doing::ReadingDisk,
        (Some(Meaning::Disk), Some(Purpose::Page | Purpose::Send | Purpose::Receive)) => Doing::PagingIn,
        // A name that is not known, in the state that the kernel calls disk sleep.
        (None, Some(Purpose::Write)) if state == Some('D') => Doing::WritingDisk,
        (None, Some(Purpose::Read | Purpose::Copy)) if state == Some('D') => Doing::ReadingDisk,
        (None, Some(Purpose::Page | Purpose::Send | Purpose::Receive)) if state == Some('D') => {
            Doing::PagingIn
        }
        _ => Doing::Elsewhere,
    }
}

/// What it does where the call's descriptor leads to a socket: neither `read` nor `write` waits for a disk
/// there but for a page of the caller's buffer.
pub(crate) fn at_socket(doing: Doing, call: Option<Call>) -> Doing {
    let either = |number| matches!(purpose(number), Purpose::Read | Purpose::Write);
    match (doing, call) {
        (Doing::ReadingDisk | Doing::WritingDisk, Some(Call::In(number, _))) if either(number) => {
            Doing::PagingIn
        }
        _ => doing,
    }
}

/// Whether all that is known is that it sleeps as one does who waits for a disk: the state may be read of any
/// thread, the call and the function of another user's may not.
pub fn is_hidden(state: Option<char>, call: Option<Call>, symbol: Option<&str>) -> bool {
    state == Some('D') && call.is_none() && symbol.is_none()
}

/// Counts one look.
pub fn count(found: &mut Found, doing: Doing) {
    // Kinds of the counter that they are told by as well.
    match doing {
        Doing::PagingIn => found.paging_in += 1,
        Doing::AwaitingKernel => found.awaiting_kernel += 1,
        _ => {}
    }
    let counter = match doing {
        Doing::Running => &mut found.running,
        Doing::Receiving => &mut found.receiving,
        Doing::Sending => &mut found.sending,
        Doing::Polling | Doing::AwaitingKernel => &mut found.polling,
        Doing::ReadingDisk | Doing::PagingIn => &mut found.reading_disk,
        Doing::WritingDisk => &mut found.writing_disk,
        Doing::PipeFull => &mut found.pipe_full,
        Doing::PipeEmpty => &mut found.pipe_empty,
        Doing::Sleeping => &mut found.sleeping,
        Doing::WaitingForThread => &mut found.waiting_for_thread,
        Doing::Elsewhere => &mut found.elsewhere,
        // Has a counter of its own beside these.
        Doing::DirtyThrottle => return,
    };
    *counter += 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_function_serves_both_ways_and_the_call_tells() {
        let woken = |call| doing(Some('S'), Some(Call::In(call, 3)), Some("wait_woken"));
        assert_eq!(woken(libc::SYS_recvfrom), Doing::Receiving);
        assert_eq!(woken(libc::SYS_sendto), Doing::Sending);
        assert_eq!(woken(libc::SYS_accept4), Doing::Polling);
        assert_eq!(woken(libc::SYS_connect), Doing::Elsewhere);
        assert_eq!(doing(Some('S'), None, Some("wait_woken")), Doing::Polling, "either way it is no file's");
        let bit = |call| doing(Some('D'), Some(call), Some("folio_wait_bit_common"));
        assert_eq!(bit(Call::In(libc::SYS_pread64, 3)), Doing::ReadingDisk);
        assert_eq!(bit(Call::In(libc::SYS_fsync, 3)), Doing::WritingDisk);
        assert_eq!(bit(Call::Fault), Doing::PagingIn);
        let unnamed = doing(Some('D'), Some(Call::Fault), Some("some_new_name"));
        assert_eq!(unnamed, Doing::PagingIn);
    }

    #[test]
    fn a_socket_waits_for_no_disk_but_for_the_callers_pages() {
        for call in [libc::SYS_sendto, libc::SYS_sendmsg, libc::SYS_recvfrom] {
            let call = Some(Call::In(call, 3));
            assert_eq!(doing(Some('D'), call, Some("folio_wait_bit_common")), Doing::PagingIn);
            assert_eq!(doing(Some('D'), call, Some("some_new_name")), Doing::PagingIn);
            assert_eq!(doing(Some('D'), call, Some("__lock_sock")), Doing::WaitingForThread);
        }
        let at = |call, of_file| at_socket(of_file, Some(Call::In(call, 3)));
        assert_eq!(at(libc::SYS_writev, Doing::WritingDisk), Doing::PagingIn);
        assert_eq!(at(libc::SYS_read, Doing::ReadingDisk), Doing::PagingIn);
        assert_eq!(at(libc::SYS_sendfile, Doing::ReadingDisk), Doing::ReadingDisk, "it reads its file");
        assert_eq!(at(libc::SYS_writev, Doing::Sending), Doing::Sending);
    }

    #[test]
    fn what_was_handed_to_the_kernel_is_no_poll_and_no_read_that_is_known() {
        let asleep = |call, symbol| doing(Some('S'), Some(Call::In(call, 3)), Some(symbol));
        for (call, symbol) in [
            (libc::SYS_io_uring_enter, "io_cqring_wait"),
            (libc::SYS_io_uring_enter, "some_new_name"),
            (libc::SYS_io_uring_enter, "io_schedule"),
            (libc::SYS_io_getevents, "read_events"),
            (libc::SYS_io_getevents, "do_io_getevents"),
        ] {
            assert_eq!(asleep(call, symbol), Doing::AwaitingKernel, "{symbol}");
        }
        assert_eq!(asleep(libc::SYS_read, "request_wait_answer"), Doing::ReadingDisk);
        let mut found = Found::default();
        for doing in [Doing::AwaitingKernel, Doing::PagingIn, Doing::Polling, Doing::ReadingDisk] {
            count(&mut found, doing);
        }
        let kinds = (found.polling, found.awaiting_kernel, found.reading_disk, found.paging_in);
        assert_eq!(kinds, (2, 1, 2, 1), "each is counted among its like as well");
    }

    #[test]
    fn a_disk_wait_of_which_no_more_may_be_read_is_hidden() {
        assert!(is_hidden(Some('D'), None, None));
        assert!(!is_hidden(Some('S'), None, None), "it waits for no disk");
        assert!(!is_hidden(Some('D'), Some(Call::In(libc::SYS_write, 3)), None));
        assert!(!is_hidden(Some('D'), None, Some("balance_dirty_pages")));
    }

    #[test]
    fn names_are_known_by_their_start() {
        for (symbol, expected) in [
            ("balance_dirty_pages_ratelimited_flags", Doing::DirtyThrottle),
            ("poll_schedule_timeout.constprop.0", Doing::Polling),
            ("futex_do_wait", Doing::WaitingForThread),
            ("anon_pipe_write", Doing::PipeFull),
            ("pipe_wait_readable", Doing::PipeEmpty),
            ("pipe_wait_writable", Doing::PipeFull),
            ("hrtimer_nanosleep", Doing::Sleeping),
            ("jbd2_log_wait_commit", Doing::WritingDisk),
            ("do_wait", Doing::Elsewhere),
        ] {
            assert_eq!(doing(Some('S'), None, Some(symbol)), expected, "{symbol}");
        }
        assert_eq!(doing(Some('R'), None, None), Doing::Running);
        assert_eq!(doing(Some('S'), Some(Call::Running), None), Doing::Running, "the call was read last");
        assert_eq!(doing(None, None, None), Doing::Elsewhere);
        let unknown = doing(Some('D'), Some(Call::In(libc::SYS_write, 1)), Some("some_new_name"));
        assert_eq!(unknown, Doing::WritingDisk);
    }

    #[test]
    fn what_the_kernel_prints_is_read() {
        assert_eq!(parse_call("running\n"), Some(Call::Running));
        assert_eq!(parse_call("-1 0x7ffd 0x7f12\n"), Some(Call::Fault));
        assert_eq!(parse_call("45 0x3 0x7f 0x40000 0x0 0x0 0x0 0x7f 0x7f\n"), Some(Call::In(45, 3)));
        let ppoll =
            |count| parse_call(&format!("{} 0x7ff0 {count} 0x7ffc 0x0 0x0 0x0 0x7f\n", libc::SYS_ppoll));
        assert_eq!(ppoll("0x0"), Some(Call::Sleep), "a poll of nothing");
        assert_eq!(ppoll("0x1"), Some(Call::In(libc::SYS_ppoll, 0x7ff0)));
        let asleep = doing(Some('S'), Some(Call::Sleep), Some("poll_schedule_timeout.constprop.0"));
        assert_eq!(asleep, Doing::Sleeping);
        for odd in ["", "x", "45", "45 3", "45 0xzz"] {
            assert_eq!(parse_call(odd), None, "{odd}");
        }
        assert_eq!(parse_state("12 (a) R (x) S 1 1"), Some('S'));
        assert_eq!(parse_state("12 (a"), None);
    }
}
