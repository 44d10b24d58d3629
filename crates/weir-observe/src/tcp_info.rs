//! What does a TCP socket know about its connection?
//!
//! `struct tcp_info` (Linux `include/uapi/linux/tcp.h`, filled by `tcp_get_info` in `net/ipv4/tcp.c`) only
//! ever grows at its end: 192 bytes in 4.10, 232 in 5.4, 240 in 6.2, 280 in 6.18. So a field is there exactly
//! when the length that the kernel returned reaches past it, and no length is ever compared with a fixed
//! struct's. Which field means what on which end of a connection is the model's business.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use weir_units::Rate;

/// Defines [`TcpInfo`] and its parser from one list, `name: type = reader @ byte offset`.
macro_rules! tcp_info {
    ($($(#[$doc:meta])* $name:ident: $kind:ty = $reader:ident @ $offset:literal;)+) => {
        /// One reading of a TCP socket. `None`: this kernel does not have the field, or nothing was measured
        /// yet.
        ///
        /// Counters count from the start of the connection. Field names are the kernel's without `tcpi_`.
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct TcpInfo {
            $($(#[$doc])* pub $name: Option<$kind>,)+
        }

        /// Reads what `bytes`, the part of the struct that the kernel filled, is long enough for.
        pub fn parse(bytes: &[u8]) -> TcpInfo {
            TcpInfo { $($name: $reader(bytes, $offset),)+ }
        }
    };
}

tcp_info! {
    /// State of the connection, 1 = established (`include/net/tcp_states.h`).
    state: u8 = byte @ 0;
    /// State of congestion control, 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss.
    ca_state: u8 = byte @ 1;
    /// Consecutive retransmission timeouts without an answer.
    retransmits: u8 = byte @ 2;
    /// Unanswered window and keepalive probes.
    probes: u8 = byte @ 3;
    /// Doublings of the retransmission timeout.
    backoff: u8 = byte @ 4;
    /// Options agreed on, a bit each: 1 timestamps, 2 SACK, 4 window scale, 8 ECN.
    options: u8 = byte @ 5;
    /// Shift that the peer applies to the windows it advertises.
    snd_wscale: u8 = first_nibble @ 6;
    /// Shift that this end applies to the windows it advertises; 0 keeps a window at or under 64 KiB.
    rcv_wscale: u8 = second_nibble @ 6;
    /// The latest delivery rate sample was limited by the sending application. Reads true on a pure receiver.
    delivery_rate_app_limited: bool = first_bit @ 7;
    /// Retransmission timeout.
    rto: Duration = micros @ 8;
    /// Delayed-acknowledgement timeout.
    ato: Duration = micros @ 12;
    /// Segment size for sending, bytes.
    snd_mss: u32 = word @ 16;
    /// Estimate of the peer's segment size, bytes.
    rcv_mss: u32 = word @ 20;
    /// Segments sent and not acknowledged.
    unacked: u32 = word @ 24;
    /// Segments acknowledged out of order.
    sacked: u32 = word @ 28;
    /// Segments held for lost.
    lost: u32 = word @ 32;
    /// Segments retransmitted and not yet acknowledged.
    retrans: u32 = word @ 36;
    /// Since data was last sent.
    last_data_sent: Duration = millis @ 44;
    /// Since data last arrived.
    last_data_recv: Duration = millis @ 52;
    /// Since an acknowledgement last arrived.
    last_ack_recv: Duration = millis @ 56;
    /// Path MTU, bytes.
    pmtu: u32 = word @ 60;
    /// Upper clamp of the window to advertise, bytes.
    rcv_ssthresh: u32 = word @ 64;
    /// Smoothed round trip, from this end's own sends; on a pure receiver from the handshake and its
    /// requests.
    rtt: Duration = measured_micros @ 68;
    /// Mean deviation of the round trip.
    rttvar: Duration = micros @ 72;
    /// Slow-start threshold, segments; 0x7fffffff before the first loss.
    snd_ssthresh: u32 = word @ 76;
    /// Congestion window, segments.
    snd_cwnd: u32 = word @ 80;
    /// Segment size advertised to the peer, bytes.
    advmss: u32 = word @ 84;
    /// Segments by which the path is thought to reorder.
    reordering: u32 = word @ 88;
    /// Round trip as a receiver measures it from the data. Follows the application's period on a sparse flow.
    rcv_rtt: Duration = measured_micros @ 92;
    /// Bytes that the application took within the last round trip: the target of receive-buffer autotuning.
    rcv_space: u32 = word @ 96;
    /// Segments ever retransmitted.
    total_retrans: u32 = word @ 100;
    /// Rate to which sending is paced; `None` also when it is not.
    pacing_rate: Rate = rate @ 104;
    /// Cap of the pacing rate (SO_MAX_PACING_RATE); `None` also when there is none.
    max_pacing_rate: Rate = rate @ 112;
    /// Bytes acknowledged by the peer's kernel, not bytes read by its application.
    bytes_acked: u64 = long @ 120;
    /// Bytes received in order, read by the application or not; the peer's FIN counts as one.
    bytes_received: u64 = long @ 128;
    /// Segments sent, bare acknowledgements included.
    segs_out: u32 = word @ 136;
    /// Segments received, bare acknowledgements included.
    segs_in: u32 = word @ 140;
    /// Bytes written by the application and never sent yet.
    notsent_bytes: u32 = word @ 144;
    /// Smallest round trip of late (`net.ipv4.tcp_min_rtt_wlen`, 300 s).
    min_rtt: Duration = measured_micros @ 148;
    /// Segments received that carried data.
    data_segs_in: u32 = word @ 152;
    /// Segments sent that carried data.
    data_segs_out: u32 = word @ 156;
    /// Latest sample of the rate at which the peer acknowledges. Means nothing on a pure receiver.
    delivery_rate: Rate = rate @ 160;
    /// With data queued or in flight, the two limited times below included. Kept in jiffies, 4 ms at HZ=250.
    busy_time: Duration = long_micros @ 168;
    /// Held back by the peer's window.
    rwnd_limited: Duration = long_micros @ 176;
    /// Held back by this end's send buffer.
    sndbuf_limited: Duration = long_micros @ 184;
    /// Segments delivered, retransmitted ones included.
    delivered: u32 = word @ 192;
    /// Segments delivered with a congestion mark.
    delivered_ce: u32 = word @ 196;
    /// Payload bytes sent, retransmissions included.
    bytes_sent: u64 = long @ 200;
    /// Payload bytes retransmitted.
    bytes_retrans: u64 = long @ 208;
    /// Duplicates that the peer reported: retransmissions that were not needed.
    dsack_dups: u32 = word @ 216;
    /// Times the path was seen to reorder.
    reord_seen: u32 = word @ 220;
    /// Segments received out of order.
    rcv_ooopack: u32 = word @ 224;
    /// Window that the peer advertises, bytes, scaled.
    snd_wnd: u32 = word @ 228;
    /// Window that this end last advertised, bytes, scaled. Not recomputed by the reading.
    rcv_wnd: u32 = word @ 232;
    /// Times that a fresh flow label or port hash was tried.
    rehash: u32 = word @ 236;
    /// Retransmission timeouts.
    total_rto: u16 = half @ 240;
    /// Recoveries from them.
    total_rto_recoveries: u16 = half @ 242;
    /// Time spent in them.
    total_rto_time: Duration = millis @ 244;
}

/// How much a connection moved, and how long it has been quiet: the little that a dump of all sockets is
/// asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    /// Bytes received in order.
    pub received: u64,
    /// Bytes that the peer's kernel acknowledged.
    pub acked: u64,
    /// Since data last went out or came in; `None` when the kernel does not say.
    pub quiet: Option<Duration>,
}

/// Reads these fields alone; what is not there counts as nothing.
pub fn parse_moved(bytes: &[u8]) -> Moved {
    let quiet = millis(bytes, 44).into_iter().chain(millis(bytes, 52)).min();
    Moved {
        received: long(bytes, 128).unwrap_or_default(),
        acked: long(bytes, 120).unwrap_or_default(),
        quiet,
    }
}

/// Reads TCP_INFO. Fails with `EOPNOTSUPP` or `ENOPROTOOPT` on a socket that is not TCP.
pub fn read(fd: BorrowedFd<'_>) -> Result<TcpInfo, io::Error> {
    // Larger than any kernel's struct so far (280 bytes in 6.18); the kernel cuts what does not fit.
    let mut buffer = [0_u8; 512];
    let mut length = buffer.len() as libc::socklen_t;
    // SAFETY: `fd` is open while it is borrowed; `buffer` has `length` writable bytes, and the kernel writes
    // at most that many and puts the count it wrote into `length`.
    let rc = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            buffer.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(parse(&buffer[..(length as usize).min(buffer.len())]))
}

/// The interface that a socket is bound to, 0 for none (Linux 5.0).
pub(crate) fn interface(fd: BorrowedFd<'_>) -> Result<u32, io::Error> {
    // include/uapi/asm-generic/socket.h.
    const SO_BINDTOIFINDEX: libc::c_int = 62;
    let mut index: libc::c_int = 0;
    let mut length = size_of_val(&index) as libc::socklen_t;
    // SAFETY: `fd` is open while it is borrowed; `index` has `length` writable bytes, and the kernel writes
    // at most that many.
    let rc = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_BINDTOIFINDEX,
            (&raw mut index).cast(),
            &raw mut length,
        )
    };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u32::try_from(index).unwrap_or_default())
}

/// Bytes received and not yet read by the application (SIOCINQ): what `ss` calls Recv-Q.
pub fn receive_queue(fd: BorrowedFd<'_>) -> Result<u64, io::Error> {
    Ok(rustix::io::ioctl_fionread(fd)?)
}

/// The receive buffer as the kernel counts it (sk_rcvbuf, which autotuning raises), bytes.
///
/// Kernel overhead included: twice what was asked for with SO_RCVBUF, and more than the window that it
/// allows.
pub fn receive_buffer(fd: BorrowedFd<'_>) -> Result<u64, io::Error> {
    Ok(rustix::net::sockopt::socket_recv_buffer_size(fd)? as u64)
}

/// The congestion control of this end: `cubic`, `bbr`.
pub fn congestion_control(fd: BorrowedFd<'_>) -> Result<String, io::Error> {
    Ok(rustix::net::sockopt::tcp_congestion(fd)?)
}

fn field<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..offset + N)?.try_into().ok()
}

fn byte(bytes: &[u8], offset: usize) -> Option<u8> {
    bytes.get(offset).copied()
}

fn half(bytes: &[u8], offset: usize) -> Option<u16> {
    field(bytes, offset).map(u16::from_ne_bytes)
}

fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    field(bytes, offset).map(u32::from_ne_bytes)
}

fn long(bytes: &[u8], offset: usize) -> Option<u64> {
    field(bytes, offset).map(u64::from_ne_bytes)
}

// C's bit fields start at the low bit on little-endian machines and at the high bit on big-endian ones.

fn first_nibble(bytes: &[u8], offset: usize) -> Option<u8> {
    byte(bytes, offset).map(|both| if cfg!(target_endian = "little") { both & 15 } else { both >> 4 })
}

fn second_nibble(bytes: &[u8], offset: usize) -> Option<u8> {
    byte(bytes, offset).map(|both| if cfg!(target_endian = "little") { both >> 4 } else { both & 15 })
}

fn first_bit(bytes: &[u8], offset: usize) -> Option<bool> {
    byte(bytes, offset).map(|bits| bits & if cfg!(target_endian = "little") { 1 } else { 128 } != 0)
}

fn micros(bytes: &[u8], offset: usize) -> Option<Duration> {
    word(bytes, offset).map(|us| Duration::from_micros(us.into()))
}

fn long_micros(bytes: &[u8], offset: usize) -> Option<Duration> {
    long(bytes, offset).map(Duration::from_micros)
}

fn millis(bytes: &[u8], offset: usize) -> Option<Duration> {
    word(bytes, offset).map(|ms| Duration::from_millis(ms.into()))
}

/// A round trip: 0 stands for none yet, and so does the all-ones that `min_rtt` starts from (tcp_init_sock).
fn measured_micros(bytes: &[u8], offset: usize) -> Option<Duration> {
    word(bytes, offset).filter(|us| !matches!(*us, 0 | u32::MAX)).map(|us| Duration::from_micros(us.into()))
}

/// Bytes per second; all-ones stands for no limit (tcp_get_info).
fn rate(bytes: &[u8], offset: usize) -> Option<Rate> {
    long(bytes, offset).filter(|rate| *rate != u64::MAX).map(|rate| Rate(rate as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    /// A loopback receiver that was sent 100 000 bytes and read 50 000.
    const CAPTURED: &[u8] = include_bytes!("../tests/data/6.18/tcp_info.bin");

    #[cfg(target_endian = "little")]
    #[test]
    fn captured_receiver_reads_by_offset() {
        let info = parse(CAPTURED);
        assert_eq!(info.state, Some(1));
        assert_eq!(info.options, Some(7));
        assert_eq!((info.snd_wscale, info.rcv_wscale), (Some(10), Some(10)));
        assert_eq!(info.delivery_rate_app_limited, Some(true));
        assert_eq!(info.bytes_received, Some(100_000));
        assert_eq!(info.rcv_wnd, Some(60_416));
        assert_eq!(info.min_rtt, Some(Duration::from_micros(35)));
        assert_eq!(info.max_pacing_rate, None);
        assert_eq!(info.busy_time, Some(Duration::ZERO));
        assert_eq!(info.total_rto_time, Some(Duration::ZERO));
    }

    #[test]
    fn every_length_is_read_as_far_as_it_goes() {
        for length in 0..=CAPTURED.len() {
            let info = parse(&CAPTURED[..length]);
            assert_eq!(info.bytes_received.is_some(), length >= 136, "{length}");
            assert_eq!(info.snd_wnd.is_some(), length >= 232, "{length}");
            assert_eq!(info.rcv_wnd.is_some(), length >= 236, "{length}");
            assert_eq!(info.total_rto_time.is_some(), length >= 248, "{length}");
        }
        assert_eq!(parse(&[]), TcpInfo::default());
    }

    #[test]
    fn a_future_kernel_with_more_fields_reads_the_same() {
        let mut longer = CAPTURED.to_vec();
        longer.extend([0xff; 232]);
        assert_eq!(parse(&longer), parse(CAPTURED));
    }

    #[test]
    fn nothing_measured_is_not_zero() {
        let mut bytes = [0_u8; 248];
        bytes[148..152].copy_from_slice(&u32::MAX.to_ne_bytes());
        let info = parse(&bytes);
        assert_eq!((info.rtt, info.rcv_rtt, info.min_rtt), (None, None, None));
    }

    #[test]
    fn a_socket_that_is_not_tcp_is_an_error() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert!(read(one.as_fd()).is_err());
        assert!(congestion_control(one.as_fd()).is_err());
    }
}
