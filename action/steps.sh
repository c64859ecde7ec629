#!/bin/bash
# The steps of the action, which need nothing of GitHub's but the variables RUNNER_TEMP, GITHUB_PATH, GITHUB_OUTPUT and
# GITHUB_STEP_SUMMARY: `steps.sh install`, then `steps.sh record`.
set -eu -o pipefail

fail() {
  echo "::error::$1"
  exit 1
}

# Puts prof into the path of the steps that follow.
install() {
  local folder="$RUNNER_TEMP/prof" archive="$RUNNER_TEMP/prof/archive.tar.gz"
  mkdir -p "$folder/bin"
  case "${PROF_ARCHIVE:-}" in
    "")
      cargo install --quiet --locked --path "$(dirname "$0")/../crates/cli" --root "$folder"
      ;;
    http://* | https://*)
      curl --fail --silent --show-error --location --output "$archive" "$PROF_ARCHIVE"
      ;;
    *)
      cp "$PROF_ARCHIVE" "$archive"
      ;;
  esac
  if [ -n "${PROF_ARCHIVE:-}" ]; then
    if [ -n "${PROF_SHA256:-}" ]; then
      echo "$PROF_SHA256  $archive" | sha256sum --check --quiet - || fail "$PROF_ARCHIVE does not have the checksum $PROF_SHA256"
    fi
    tar -xzf "$archive" -C "$folder/bin" --strip-components=1
  fi
  echo "$folder/bin" >> "$GITHUB_PATH"
  "$folder/bin/prof" --version
  # Ubuntu's kernels refuse users altogether (4); 1 lets them see the kernel's part of their own programs.
  if [ "$(cat /proc/sys/kernel/perf_event_paranoid)" -gt 1 ] && [ "$(id -u)" != 0 ] && sudo -n true 2> /dev/null; then
    echo "sudo sysctl kernel.perf_event_paranoid=1"
    sudo -n sysctl --quiet kernel.perf_event_paranoid=1
  fi
}

record() {
  local folder="$RUNNER_TEMP/prof" code=0
  local recording="$folder/$PROF_NAME.data" picture="$folder/$PROF_NAME.svg" said="$folder/$PROF_NAME.txt"
  local -a record_options flame_options
  read -r -a record_options <<< "${PROF_RECORD_OPTIONS:-}"
  read -r -a flame_options <<< "${PROF_FLAME_OPTIONS:-}"
  # The command's own standard error goes where it always goes; prof's lines begin with its name.
  prof record --archive "${record_options[@]}" -o "$recording" -- bash -c "$PROF_RUN" 2> >(tee "$said" >&2) || code=$?
  [ -s "$recording" ] || fail "prof recorded nothing (exit code $code)"
  prof flame "${flame_options[@]}" -i "$recording" -o "$picture"
  {
    echo "recording=$recording"
    echo "picture=$picture"
  } >> "$GITHUB_OUTPUT"
  {
    echo "## prof: where the time goes"
    echo
    echo '~~~~text'
    # Names are data: none can end the block.
    prof explain -q -i "$recording" | sed 's/^~~~~/ &/'
    echo '~~~~'
    echo
    echo '~~~~text'
    # What tee copies may come after the command's end.
    sleep 0.2
    sed -n '/^prof: /p' "$said"
    echo '~~~~'
    echo
    echo "The flame graph and the recording with its names (for \`prof flame\` and \`prof view\` on any machine, and for \`perf report\`) are in the artifact $PROF_NAME."
  } >> "$GITHUB_STEP_SUMMARY"
  return "$code"
}

case "${1:-}" in
  install | record) "$1" ;;
  *) fail "usage: steps.sh install|record" ;;
esac
