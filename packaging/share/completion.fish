# SPDX-License-Identifier: MIT
# Completion for fish: options of the tool that it is installed for, as its --help has them.
set -l tool (path basename (status filename) | string replace -r '\.fish$' '')
set -l subcommand
test $tool = hipvmm-ctl; and set subcommand '(commandline -opc)[2..2]'
complete -c $tool -n 'string match -q -- "-*" (commandline -ct)' -f \
    -a "($tool $subcommand --help 2>/dev/null | string match -ar -- '--[a-z][a-z-]*' | sort -u)"
if test $tool = hipvmm-ctl
    complete -c $tool -n __fish_is_first_arg -f -a 'list limit remove keep'
end
