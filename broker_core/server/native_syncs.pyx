# cython: language_level=3
"""Syncs files on orders from a pipe, in a thread that does not need the interpreter until it ends.

    order   int32 number, int32 descriptor        8 bytes in the machine's order, written whole; descriptor -1: end
    answer  int32 number, int32 errno or 0        8 bytes

A Python thread that calls os.fdatasync asks for the interpreter behind each call, and while the loop is busy waits for
it up to 5 ms. Several threads may read one pipe: 8 bytes are taken whole.
"""

from libc.errno cimport EINTR, errno
from libc.stdint cimport int32_t

cdef extern from "unistd.h" nogil:
    ssize_t read(int descriptor, void* buffer, size_t size)
    ssize_t write(int descriptor, const void* buffer, size_t size)
    int fdatasync(int descriptor)

cdef struct Order:
    int32_t number
    int32_t descriptor

cdef struct Answer:
    int32_t number
    int32_t error


def serve(int orders, int answers):
    """Returns when an order says so (the end of the pipe may be open in a forked process, too), when the other end of
    `orders` was closed, or the reader of `answers` is gone."""
    cdef Order order
    cdef Answer answer
    cdef ssize_t size
    with nogil:
        while True:
            size = read(orders, &order, sizeof(order))
            if size < 0 and errno == EINTR:
                continue
            if size != sizeof(order) or order.descriptor < 0:
                break
            answer.number = order.number
            answer.error = 0
            while fdatasync(order.descriptor) != 0:
                answer.error = errno
                if answer.error != EINTR:
                    break
                answer.error = 0
            size = write(answers, &answer, sizeof(answer))
            while size < 0 and errno == EINTR:
                size = write(answers, &answer, sizeof(answer))
            if size != sizeof(answer):
                break
