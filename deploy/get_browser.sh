#!/usr/bin/env bash
# Prints the path of a Chromium-like browser; gets one if there is none, and what Playwright's driver lacks. The embedded
# data is rendered in it.
#   deploy/get_browser.sh [PYTHON]
set -euo pipefail

python="${1:-python3}"

drives() { "$python" -m playwright --version >/dev/null 2>&1; }
may_install() { command -v apt-get >/dev/null && [[ "$(id -u)" = 0 ]]; }
install() {
  apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
}

find_browser() {
  if [[ -n "${VESPER_BROWSER:-}" ]]; then printf '%s\n' "$VESPER_BROWSER"; return; fi
  local name
  for name in chromium chromium-browser google-chrome google-chrome-stable; do
    if command -v "$name"; then return; fi
  done
  local app="/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
  if [[ -x "$app" ]]; then printf '%s\n' "$app"; return; fi
  "$python" - <<'PY' 2>/dev/null
import os, sys
from playwright.sync_api import sync_playwright
with sync_playwright() as p:
    path = p.chromium.executable_path
print(path) if os.path.exists(path) else sys.exit(1)
PY
}

if "$python" -c "import playwright" 2>/dev/null && ! drives; then  # a small Debian lacks a library of its node
  if may_install; then install libatomic1; fi
  if ! drives; then
    "$python" -m playwright --version >&2 || true
    echo "Playwright's driver doesn't start, for the reason above (Debian, Ubuntu: apt-get install libatomic1)" >&2
    exit 1
  fi
fi
if find_browser; then exit 0; fi
if may_install; then install chromium fonts-dejavu-core; fi || echo "no package chromium here; Playwright's is taken" >&2
if find_browser; then exit 0; fi
"$python" -m playwright install $(if may_install; then echo --with-deps; fi) chromium >&2 || true
find_browser || { echo "no browser: install Chromium or Chrome, or name one in VESPER_BROWSER" >&2; exit 1; }
