#!/usr/bin/env bash
# Gets real html pages that others wrote (npm's @tabler/preview, MIT licence) into DIR, for the judge bench. Optional:
# without npm it says so and ends well. A folder that already has the pages is left as it is.
#   deploy/get_pages.sh [DIR]      DIR: $VESPER_HOME/pages/tabler (VESPER_HOME: .vesper)
set -euo pipefail

package="@tabler/preview" version="1.2.0" least=100
dir="${1:-${VESPER_HOME:-.vesper}/pages/tabler}"

pages() { find "$1" -name '*.html' -not -path '*/libs/*' 2>/dev/null | wc -l | tr -d ' '; }

if [[ -f "$dir/.version" && "$(cat "$dir/.version")" = "$package@$version" && "$(pages "$dir")" -ge "$least" ]]; then
  echo "$dir: $package@$version with $(pages "$dir") pages is there already"
  exit 0
fi
if [[ -e "$dir" && ! -f "$dir/.version" && -n "$(ls -A "$dir" 2>/dev/null)" ]]; then
  echo "$dir: expected an empty folder or one that this script made; name another" >&2
  exit 2
fi
if ! command -v npm >/dev/null; then
  echo "npm isn't installed, so $package@$version isn't fetched; the judge bench is built without these pages" >&2
  exit 0
fi

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
archive="${VESPER_PAGES_ARCHIVE:-}"   # a package fetched before, where there is no network
if [[ -z "$archive" ]]; then
  (cd "$work" && npm pack --silent "$package@$version" >/dev/null) || {
    echo "npm couldn't fetch $package@$version; see its message above, or set VESPER_PAGES_ARCHIVE to the packed file" >&2
    exit 1
  }
  archive="$(find "$work" -maxdepth 1 -name '*.tgz' | head -n 1)"
fi
mkdir "$work/package"
tar -xzf "$archive" -C "$work/package" --strip-components=1
if ! grep -q "\"version\": \"$version\"" "$work/package/package.json"; then
  echo "$archive: expected $package@$version, found another version in its package.json" >&2
  exit 1
fi
found="$(pages "$work/package/dist")"
if [[ "$found" -lt "$least" ]]; then
  echo "$archive: expected at least $least html pages in dist/, found $found" >&2
  exit 1
fi
rm -rf "$dir"
mkdir -p "$(dirname "$dir")"
mv "$work/package/dist" "$dir"
printf '%s\n' "$package@$version" >"$dir/.version"
echo "$dir: $package@$version, $found pages"
