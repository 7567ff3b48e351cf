#!/usr/bin/env bash
# A Chromium to lease to others, headless, with CDP on this machine's loopback:
#   deploy/sealed_browser/start.sh PORT [CHROMIUM [FLAG...]]
# It opens no file, no page of its own, no page source, and no address of this machine or of a private network; it sees
# neither home folders nor other people's /tmp, /var/tmp and /dev/shm. SEALED_RULES names hosts inside that it may open none the less, in the form
# of Chromium's --host-resolver-rules ("MAP apps.example.org 10.0.0.8"). What it doesn't keep out is in docs/devices.md. Linux, and util-linux 2.38:
# the policy is laid over /etc/chromium in a mount namespace of its own, so no other browser here is changed.
set -euo pipefail
port="$1" chromium="${2:-$(command -v chromium || command -v google-chrome)}"
shift $(($# > 1 ? 2 : 1))
policy="$(cd "$(dirname "$0")" && pwd)/policy.json"

rules="${SEALED_RULES:+$SEALED_RULES, }MAP localhost ~NOTFOUND, MAP *.localhost ~NOTFOUND, MAP *:*:* ~NOTFOUND"  # the last: addresses of IPv6
for inner in 0 10 127 169.254 192.168 100.{64..127} 172.{16..31}; do rules+=", MAP $inner.* ~NOTFOUND"; done
flags=("--headless=new" "--remote-debugging-address=127.0.0.1" "--remote-debugging-port=$port" "--user-data-dir=/tmp/profile"
  --no-first-run --disable-background-networking --disable-component-update --disable-sync --disable-gpu --disable-quic
  "--host-resolver-rules=$rules")
[[ "$(id -u)" != 0 ]] || flags+=(--no-sandbox)  # Chromium has no sandbox for root: better start this as a user of its own

export policy
exec unshare --map-root-user --mount --propagation private bash -ceu '
  chromium="$1" user="$2" group="$3"
  shift 3
  rules="$(cat "$policy")"
  for folder in /etc/chromium /etc/opt/chrome; do
    [[ -d "$folder" ]] || continue
    mount -t tmpfs none "$folder"
    mkdir -p "$folder/policies/managed"
    printf "%s" "$rules" > "$folder/policies/managed/sealed.json"
  done
  [[ -f /etc/chromium/policies/managed/sealed.json || -f /etc/opt/chrome/policies/managed/sealed.json ]] || {
    echo "no folder for policies: make /etc/chromium (Chromium) or /etc/opt/chrome (Chrome), empty, as root" >&2; exit 1; }
  for folder in /home /root /srv /mnt /media /run/user /var/tmp /dev/shm /tmp; do
    [[ ! -d "$folder" || "$chromium" == "$folder"/* ]] || mount -t tmpfs -o mode=1777 none "$folder"
  done
  mkdir -p /tmp/profile
  chown "$user:$group" /tmp/profile 2>/dev/null || true
  cd /
  export HOME=/tmp
  if [[ "$user" == 0 ]]; then exec "$chromium" "$@"; fi
  exec unshare --user --map-user="$user" --map-group="$group" "$chromium" "$@"
' sealed "$chromium" "$(id -u)" "$(id -g)" "${flags[@]}" "$@" about:blank
