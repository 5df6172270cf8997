# SPDX-License-Identifier: MIT
# Completion for bash: options of hipvmm-info, hipvmm-ctl, hipvmm-replay and hipvmm-run, as their --help
# has them, and files.
_hipvmm() {
  local word=${COMP_WORDS[COMP_CWORD]} subcommand=()
  [[ $1 != *hipvmm-ctl || $COMP_CWORD == 1 ]] || subcommand=("${COMP_WORDS[1]}")
  COMPREPLY=()
  if [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$("$1" "${subcommand[@]}" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]*' | sort -u)" -- "$word")
  elif [[ $1 == *hipvmm-ctl && $COMP_CWORD == 1 ]]; then
    mapfile -t COMPREPLY < <(compgen -W "list limit remove keep" -- "$word")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  fi
}
complete -o filenames -F _hipvmm hipvmm-info hipvmm-ctl hipvmm-replay hipvmm-run
