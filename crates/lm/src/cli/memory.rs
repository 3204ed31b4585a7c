//! Resident memory of this process, from the kernel.

/// Resident bytes now; 0 where the kernel does not tell.
pub(super) fn resident_bytes() -> u64 {
    status("VmRSS:")
}

/// Most resident bytes so far.
pub(super) fn peak_bytes() -> u64 {
    status("VmHWM:")
}

fn status(key: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|l| l.starts_with(key)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) * 1024
}
