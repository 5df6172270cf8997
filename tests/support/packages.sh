# SPDX-License-Identifier: MIT
# The packages for a build, looked for and installed if apt can; sourced by tests/run.sh,
# samples/demo.sh and .ci/run, which set `root`. A second run finds everything and never calls apt.

oldest_cmake=3.24
oldest_hip=5.2

# One line a requirement: the package, then the program or header that shows it is there.
required_packages() {
  cat <<'END'
g++ program g++
make program make
binutils program nm
cmake program cmake
libamdhip64-dev header hip/hip_runtime_api.h
libboost-dev header boost/version.hpp
doctest-dev header doctest/doctest.h
libcli11-dev header CLI/CLI.hpp
nlohmann-json3-dev header nlohmann/json.hpp
zlib1g-dev header zlib.h
libfccp-dev header libfccp/csv.h
libspdlog-dev header spdlog/logger.h
END
}

stop() {
  printf '%s: %s\n' "$(basename "$0")" "$1" >&2
  exit 1
}

# find_header NAME: the folder that holds it, among those that compilers and CMake look into.
find_header() {
  local folder
  local -a folders
  IFS=: read -ra folders <<<"${CPATH:-}:${CPLUS_INCLUDE_PATH:-}"
  for folder in "${HIPVMM_HIP_INCLUDE_DIR:-}" "${ROCM_PATH:-/opt/rocm}/include" \
    ${HIP_PATH:+"$HIP_PATH/include"} ${CMAKE_PREFIX_PATH:+"${CMAKE_PREFIX_PATH%%[:;]*}/include"} \
    "${folders[@]}" /usr/local/include /usr/include; do
    if [[ -n $folder && -e $folder/$1 ]]; then
      echo "$folder"
      return
    fi
  done
  return 1
}

# missing_packages: reads required_packages' form, prints the packages that are not there.
missing_packages() {
  local package kind what
  while read -r package kind what; do
    case $kind in
      program) command -v "$what" >/dev/null || echo "$package" ;;
      header) find_header "$what" >/dev/null || echo "$package" ;;
    esac
  done
}

# install_packages PACKAGE...: installs them, or says how and stops.
install_packages() {
  local line="apt-get update && apt-get install -y --no-install-recommends $*"
  local -a as_root=()
  if ! command -v apt-get >/dev/null; then
    stop "this system has no apt. Install what these Debian packages hold, then run this again: $*"
  elif ((EUID != 0)); then
    # Without a terminal sudo cannot ask for a password and must not try.
    if command -v sudo >/dev/null && { [[ -t 0 ]] || sudo -n true 2>/dev/null; }; then
      as_root=(sudo)
    else
      stop "packages are missing and neither root nor sudo is to be had. Run as root, then run this \
again: $line"
    fi
  fi
  echo "Installing $*"
  "${as_root[@]}" apt-get update -qq </dev/null ||
    stop "apt-get update failed, see above. Mend it, then run as root: $line"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "$@" </dev/null ||
    stop "apt-get could not install all of: $*. Mend what it says above, then run as root: $line"
}

# version_at_least HAVE WANTED
version_at_least() {
  [[ $(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]
}

require_cmake() {
  local have
  have=$(cmake --version | sed -n '1s/.*version //p')
  version_at_least "$have" "$oldest_cmake" ||
    stop "CMake is $have and must be $oldest_cmake or newer. Get a newer one (Debian 12 and \
newer have it; elsewhere from https://cmake.org/download/) and put it first in PATH."
}

require_hip_headers() {
  local folder have
  folder=$(find_header hip/hip_runtime_api.h) ||
    stop "hip/hip_runtime_api.h is still missing. Install libamdhip64-dev (Debian) or \
hip-dev (ROCm), or name its folder in HIPVMM_HIP_INCLUDE_DIR."
  have=$(sed -n 's/^#define HIP_VERSION_\(MAJOR\|MINOR\)  *\([0-9]*\).*/\2/p' \
    "$folder/hip/hip_version.h" | paste -sd.)
  version_at_least "$have" "$oldest_hip" ||
    stop "the HIP headers in $folder are $have; virtual memory management came with $oldest_hip. \
Get libamdhip64-dev $oldest_hip or newer (Debian 12 and newer) or ROCm's hip-dev, and name its \
include folder in HIPVMM_HIP_INCLUDE_DIR."
}

# require_packages: afterwards the tree can be configured and built, or the script has stopped.
require_packages() {
  local -a missing
  mapfile -t missing < <(required_packages | missing_packages)
  ((${#missing[@]} == 0)) || install_packages "${missing[@]}"
  require_cmake
  require_hip_headers
}

# How many tests run at the same time: they wait more than they compute.
tests_at_once() { printf '%d' $((2 * $(nproc))); }

# Options of configure() for the first look at hipvmm: -O3 compiles a third longer.
quick_build=(-DCMAKE_BUILD_TYPE=Quick '-DCMAKE_CXX_FLAGS_QUICK=-O1 -DNDEBUG')

# configure FOLDER [OPTION...]: the tree, all of it, in FOLDER. Every script gives the same options
# for the same folder, so that none undoes the build of another. HIPVMM_WARNINGS_AS_ERRORS=ON, which
# CI sets, makes warnings errors; a user's compiler may warn of more than CI's.
configure() {
  local folder=$1
  shift
  cmake -S "$root" -B "$folder" -DCMAKE_BUILD_TYPE=Release -DHIPVMM_TESTS=ON -DHIPVMM_SAMPLES=ON \
    -DHIPVMM_BENCH="${HIPVMM_BENCH:-ON}" -DHIPVMM_PROVIDER="${HIPVMM_PROVIDER:-auto}" \
    ${HIPVMM_WARNINGS_AS_ERRORS:+-DCMAKE_COMPILE_WARNING_AS_ERROR="$HIPVMM_WARNINGS_AS_ERRORS"} \
    ${HIPVMM_HIP_INCLUDE_DIR:+-DHIPVMM_HIP_INCLUDE_DIR="$HIPVMM_HIP_INCLUDE_DIR"} "$@"
}
