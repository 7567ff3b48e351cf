#!/usr/bin/env bash
# Gets the clients that tests drive devices with (Debian's adb), where this machine's user may install packages. Without
# them everything works but the tests that need them, which say so and are skipped.
set -euo pipefail

packages=()
command -v adb >/dev/null || packages+=(adb)
if [[ ${#packages[@]} -eq 0 ]]; then exit 0; fi
if command -v apt-get >/dev/null && [[ "$(id -u)" = 0 ]]; then
  apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >&2 \
    || echo "couldn't install ${packages[*]}: tests that need them are skipped" >&2
else
  echo "not installed: ${packages[*]}; tests that need them are skipped" >&2
fi
