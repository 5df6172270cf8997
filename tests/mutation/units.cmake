# SPDX-License-Identifier: MIT
# Read by project() in the builds of run.sh: each library file alone, because a mutant changes one.
cmake_language(DEFER CALL set_target_properties hipvmm PROPERTIES UNITY_BUILD OFF)
