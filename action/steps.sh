#!/bin/bash
# The steps of the action, which need nothing of GitHub's but the variables RUNNER_TEMP, GITHUB_PATH, GITHUB_OUTPUT and
# GITHUB_STEP_SUMMARY: `steps.sh install`, then `steps.sh record`, or `steps.sh compare` and, on a change, `steps.sh comment`.
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

# Builds the base and this checkout, records both in turns, and says whether something grew.
compare() {
  local folder="$RUNNER_TEMP/prof" code=0
  local base="$folder/base" runs="$folder/$PROF_NAME.runs" comparison="$folder/$PROF_NAME.md"
  local -a record_options
  read -r -a record_options <<< "${PROF_RECORD_OPTIONS:-}"
  mkdir -p "$folder"
  # A checkout of one commit, as actions/checkout makes it, does not have the base.
  git rev-parse --verify --quiet --end-of-options "$PROF_BASE^{commit}" > /dev/null ||
    git fetch --quiet --depth=1 origin -- "$PROF_BASE" || fail "there is no revision $PROF_BASE to compare with"
  git worktree add --quiet --force --detach "$base" "$(git rev-parse --verify --quiet "$PROF_BASE^{commit}" || git rev-parse FETCH_HEAD)"
  if [ -n "${PROF_BUILD:-}" ]; then
    bash -euo pipefail -c "$PROF_BUILD"
    (cd "$base" && bash -euo pipefail -c "$PROF_BUILD")
  fi
  # No shell splits this line: prof does, and each side is a bash in its own checkout.
  prof record "${record_options[@]}" --runs "$PROF_RUNS" -o "$runs" \
    --against "env -C $(quoted "$base") bash -c $(quoted "$PROF_RUN")" -- bash -c "$PROF_RUN"
  prof diff --markdown --threshold "$PROF_THRESHOLD%" "$runs" > "$comparison" || code=$?
  git worktree remove --force "$base"
  case "$code" in
    0 | 3) ;;
    *) fail "the runs cannot be compared (exit code $code)" ;;
  esac
  cat "$comparison" >> "$GITHUB_STEP_SUMMARY"
  {
    echo "comparison=$comparison"
    echo "changed=$([ "$code" = 3 ] && echo true || echo false)"
  } >> "$GITHUB_OUTPUT"
}

# Quotes a word for prof record --against.
quoted() {
  printf "'%s'" "${1//\'/\'\\\'\'}"
}

# Comments on the pull request, or replaces the last comment.
comment() {
  gh pr comment "$PROF_PULL_REQUEST" --body-file "$PROF_COMPARISON" --edit-last ||
    gh pr comment "$PROF_PULL_REQUEST" --body-file "$PROF_COMPARISON"
}

case "${1:-}" in
  install | record | compare | comment) "$1" ;;
  *) fail "usage: steps.sh install|record|compare|comment" ;;
esac
