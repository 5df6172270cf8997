#compdef hipvmm-info hipvmm-ctl hipvmm-replay hipvmm-run
# SPDX-License-Identifier: MIT
# Completion for zsh: options of the tools, as their --help has them, and files.
if [[ $service == hipvmm-ctl && $CURRENT == 2 && $PREFIX != -* ]]; then
  compadd list limit remove keep
elif [[ $service == hipvmm-ctl && $CURRENT -gt 2 && $PREFIX == -* ]]; then
  compadd -- $("${words[1]}" "${words[2]}" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]*')
else
  _gnu_generic
fi
