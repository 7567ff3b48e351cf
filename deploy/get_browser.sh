#!/usr/bin/env bash
# Prints the path of a Chromium-like browser; gets one if there is none. The embedded data is rendered in it.
set -euo pipefail

find_browser() {
  if [[ -n "${VESPER_BROWSER:-}" ]]; then printf '%s\n' "$VESPER_BROWSER"; return; fi
  local name
  for name in chromium chromium-browser google-chrome google-chrome-stable; do
    if command -v "$name"; then return; fi
  done
  local app="/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
  if [[ -x "$app" ]]; then printf '%s\n' "$app"; return; fi
  "${1:-python3}" - <<'PY' 2>/dev/null
import os, sys
from playwright.sync_api import sync_playwright
with sync_playwright() as p:
    path = p.chromium.executable_path
print(path) if os.path.exists(path) else sys.exit(1)
PY
}

python="${1:-python3}"
if find_browser "$python"; then exit 0; fi
if command -v apt-get >/dev/null && [[ "$(id -u)" = 0 ]]; then
  apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >&2
else
  "$python" -m playwright install chromium >&2
fi
find_browser "$python" || { echo "no browser: install Chromium or Chrome, or name one in VESPER_BROWSER" >&2; exit 1; }
