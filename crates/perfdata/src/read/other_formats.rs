//! What a file is that is no recording, as far as its first bytes tell: for the error about it.

/// First bytes of formats with a magic number.
const MAGIC: [(&[u8], &str); 18] = [
    (b"\x1f\x8b", "gzip-compressed data: profiles of pprof are, and nothing else that prof could read"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed data; unpack it first, with `zstd -d`"),
    (b"\xfd7zXZ\0", "xz-compressed data; unpack it first, with `xz -d`"),
    (b"BZh", "bzip2-compressed data; unpack it first, with `bzip2 -d`"),
    (b"PK\x03\x04", "a zip archive; unpack it first"),
    (b"\x7fELF", "an ELF file: a program or a library, not a recording of it"),
    (b"\x17\x08\x44tracing", "a recording of trace-cmd"),
    (b"SIMPLEPERF", "a report that simpleperf made; its perf.data is what prof reads"),
    (b"FLR\0", "a recording of Java Flight Recorder"),
    (b"JAVA PROFILE", "a heap dump of Java"),
    (b"DTiJ", "a jitdump; `perf inject --jit` puts it into the recording that was made beside it"),
    (b"JiTD", "a jitdump; `perf inject --jit` puts it into the recording that was made beside it"),
    (b"# callgrind format", "a profile of callgrind"),
    (b"version: 1\ncreator: callgrind", "a profile of callgrind"),
    (b"\x89PNG", "a PNG picture"),
    (b"%PDF", "a PDF document"),
    (b"#!", "a script"),
    (b"LPKSHHRH", "a journal of systemd"),
];

/// Words that JSON of other tools has near its beginning, and the name of each format.
const JSON: [(&[&str], &str); 4] = [
    (&["\"preprocessedProfileVersion\""], "a profile of Firefox or samply (JSON)"),
    (&["\"$schema\"", "speedscope"], "a profile for speedscope (JSON)"),
    (&["\"traceEvents\""], "a trace for Chrome (JSON)"),
    (&["\"callFrame\""], "a CPU profile of V8 (JSON)"),
];

/// Describes the look of the bytes, as a noun that follows "it looks like".
pub(crate) fn looks_like(bytes: &[u8]) -> String {
    if let Some((_, what)) = MAGIC.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return (*what).to_owned();
    }
    // A message of type 4 in field 1, then its two numbers: what profile.proto begins with.
    if matches!(bytes, [0x0a, 4, 8, _, 0x10, ..]) {
        return "a profile of pprof".to_owned();
    }
    if !bytes.is_empty() && bytes.iter().all(|&byte| byte == 0) {
        return "zeros: a file whose contents never reached the disk".to_owned();
    }
    text(bytes).map_or_else(|| data(bytes), str::to_owned)
}

/// The kind of a text; `None` for what is none.
fn text(bytes: &[u8]) -> Option<&'static str> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        // Cut within a character.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(bytes.get(..error.valid_up_to())?).ok()?
        }
        Err(_) => return None,
    };
    let is_text =
        |character: char| !character.is_control() || matches!(character, '\n' | '\r' | '\t' | '\u{1b}');
    if text.is_empty() || !text.chars().all(is_text) {
        return None;
    }
    let start = text.trim_start_matches('\u{feff}').trim_start();
    let markup = start.starts_with('<');
    if markup && start.contains("<svg") {
        return Some("an SVG picture, perhaps a flame graph already");
    }
    if markup {
        return Some("HTML or XML");
    }
    if start.starts_with('{') || start.starts_with('[') {
        let known = JSON.iter().find(|(words, _)| words.iter().all(|word| start.contains(word)));
        // Firefox's own begins with these, and the version comes late.
        let firefox = start.starts_with("{\"meta\":{") && start.contains("\"interval\"");
        return Some(match known {
            Some((_, what)) => what,
            None if firefox => "a profile of Firefox or samply (JSON)",
            None => "JSON",
        });
    }
    // The last line may be cut.
    let lines: Vec<&str> = start.lines().take(20).collect();
    let whole = lines.get(..lines.len().saturating_sub(1).max(1)).unwrap_or_default();
    let counts = |line: &&str| line.rsplit_once(' ').is_some_and(|(_, count)| count.parse::<u64>().is_ok());
    if whole.iter().all(counts) && whole.iter().any(|line| line.contains(';')) {
        return Some("folded stacks, which `inferno-flamegraph` draws");
    }
    let is_frame = |line: &&str| {
        let mut words = line.split_whitespace();
        let address = words.next().is_some_and(|word| u64::from_str_radix(word, 16).is_ok());
        line.starts_with(['\t', ' ']) && address && line.ends_with(')')
    };
    if whole.iter().any(is_frame) {
        return Some("the text of `perf script`; prof reads the recording that it was made from");
    }
    Some("text")
}

fn data(bytes: &[u8]) -> String {
    let first: Vec<String> = bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("data of no kind that prof knows, which begin with the bytes {}", first.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_no_recordings_are_called_by_their_name() {
        for (bytes, expected) in [
            (b"\x1f\x8b\x08\0\0\0\0\0\0\xff".as_slice(), "gzip"),
            (b"\x7fELF\x02\x01\x01", "ELF"),
            (b"<?xml version=\"1.0\"?>\n<!DOCTYPE svg>\n<svg width=\"1200\">", "SVG"),
            (b"<html><body>", "HTML"),
            (b"{\"meta\":{\"categories\":[],\"interval\":1.0", "samply"),
            (b"{\"exporter\":\"speedscope\",\"$schema\":\"https://www.speedscope.app/file\"", "speedscope"),
            (b"{\"nodes\":[{\"id\":1,\"callFrame\":{", "V8"),
            (b"{\"a\": 1}", "JSON"),
            (b"\x0a\x04\x08\x01\x10\x02\x0a\x04", "pprof"),
            (b"SIMPLEPERF\0\0", "simpleperf"),
            (b"main;a;b 12\nmain;c 7\n", "folded"),
            (
                b"work 1 [000] 1.5: 100 cpu-clock:\n\t  114a leaf+0x1 (/work)\n\t 22 main (/work)\n",
                "perf script",
            ),
            ("naïve text".as_bytes(), "text"),
            (b"cut na\xc3", "text"),
            (b"\0\0\0\0", "zeros"),
            (b"rom\x01\xff\0", "72 6f 6d 01 ff 00"),
            (b"", "data"),
        ] {
            let said = looks_like(bytes);
            assert!(said.contains(expected), "{said:?} for {expected}");
        }
    }
}
