# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The native kernel: record batches to column buffers and back, without the GIL and without an object per record.

See kernel_protocol for the contract and pure_kernel for the readable twin; a property test holds them together byte
for byte. The parts:

    kernel_bytes.pxi        buffers held for a call, big-endian numbers, varints, CRC-32C, faults
    kernel_scan.pxi         scan_batches
    kernel_measure.pxi      measure_records, inspect_plain, and the walk over a batch's records
    kernel_judge.pxi        find_refused
    kernel_fill.pxi         fill_records
    kernel_encode.pxi       plan_batches, write_batches
    kernel_partition.pxi    murmur2, assign_partitions, group_rows
    kernel_filter.pxi       mark_keys

Every read is bounded by the end of its record, batch or buffer, and every write by the size of its output: bytes that
change between the measuring and the filling walk cost a fault, not memory. Built by Cython; nothing but libc is linked.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, getenv, malloc, realloc
from libc.string cimport memcpy, memset

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_FromStringAndSize

from broker_core.record.faults import KernelFault

KERNEL_NAME = "native"

include "kernel_bytes.pxi"
include "kernel_scan.pxi"
include "kernel_measure.pxi"
include "kernel_judge.pxi"
include "kernel_fill.pxi"
include "kernel_encode.pxi"
include "kernel_partition.pxi"
include "kernel_filter.pxi"


def is_switched_off():
    """Whether STREAMLOG_PURE_KERNEL=1 asks for the slow twin."""
    cdef const char* wish = getenv("STREAMLOG_PURE_KERNEL")
    return wish != NULL and wish[0] == b"1" and wish[1] == 0
