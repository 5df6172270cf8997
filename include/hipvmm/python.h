/* SPDX-License-Identifier: MIT */
#pragma once

/* Tensors of DLPack for the Python package, which alone calls this: they end without Python code,
 * so that an exception that is being raised meanwhile stays, and in any thread. The library links
 * no Python: the package passes the functions of the one that the process has. */

#include <stdint.h>

#include <hipvmm/hipvmm.h>

#ifdef __cplusplus
extern "C" {
#endif

/** manager_ctx of a tensor: `object`, which one reference of the tensor keeps, and the result of
 * hipvmm_python_begin(). */
typedef struct hipvmm_python_owner {
  void* object;
  uint64_t interpreter;
} hipvmm_python_owner;

/** Begins an interpreter, by the addresses of PyGILState_Ensure, PyGILState_Release, Py_DecRef,
 * PyCapsule_IsValid and PyCapsule_GetPointer. Ends an earlier one, so call it without the GIL. */
hipvmm_status hipvmm_python_begin(void* ensure, void* release, void* dec_ref, void* is_valid,
                                  void* get_pointer, uint64_t* interpreter);
/** Call it before the interpreter is finalised, without the GIL. Tensors that end later keep their
 * objects, also those that end while another interpreter of the process runs. */
void hipvmm_python_end(void);
/** The deleter of a tensor, a DLManagedTensor. */
void hipvmm_python_delete_tensor(void* tensor);
/** The destructor of a capsule, which deletes a tensor that was not taken. */
void hipvmm_python_delete_capsule(void* capsule);

#ifdef __cplusplus
}
#endif
