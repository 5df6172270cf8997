# SPDX-License-Identifier: MIT
# A machine with an AMD GPU and its kernel driver, and nothing of ROCm installed: HIP 7.2, hipcc and all
# that tests/gpu.sh needs, from Debian alone. In the checkout:
#   docker build -t hipvmm-gpu -f tests/gpu.Dockerfile tests
#   docker run --rm --device /dev/kfd --device /dev/dri --security-opt seccomp=unconfined --ipc host \
#     -v "$PWD:/hipvmm" hipvmm-gpu results
FROM debian:sid
RUN echo 'deb http://deb.debian.org/debian experimental main' >/etc/apt/sources.list.d/experimental.list \
 && apt-get update \
 && apt-get install -y --no-install-recommends -t experimental \
      hipcc librocthrust-dev libhipcub-dev ca-certificates git \
      g++ make binutils cmake libboost-dev doctest-dev libcli11-dev nlohmann-json3-dev zlib1g-dev \
      libfccp-dev libspdlog-dev
WORKDIR /hipvmm
RUN git config --global --add safe.directory /hipvmm
ENTRYPOINT ["bash", "tests/gpu.sh"]
