"""Work arrays between calls: the process keeps the one that was given back last, so that the next call has its pages at once.

Assumes sizes of at least `KEPT_FROM` bytes; smaller ones the allocator keeps by itself. Guarantees memory that nobody else has,
in any number of threads, and that no more than `KEPT` bytes wait. Refuses nothing: null where there is no memory.
"""

import functools

from symdiff.runtime.engine import Code, add_machine_symbol, python_api_address

KEPT_FROM, KEPT = 1 << 20, 1 << 28
TAKE, GIVE = "symdiff_take_memory", "symdiff_give_memory"
_HEAD = 64  # bytes before a work array, which tell its size
_TEXT = f"""
declare ptr @PyMem_RawMalloc(i64)
declare void @PyMem_RawFree(ptr)
@kept = internal global i64 0

define ptr @{TAKE}(i64 %bytes) nounwind {{
entry:
  %found = atomicrmw xchg ptr @kept, i64 0 acq_rel
  %none = icmp eq i64 %found, 0
  br i1 %none, label %new, label %known
known:
  %block = inttoptr i64 %found to ptr
  %size = load i64, ptr %block
  %fits = icmp uge i64 %size, %bytes
  br i1 %fits, label %end, label %small
small:
  call void @PyMem_RawFree(ptr %block)
  br label %new
new:
  %whole = add i64 %bytes, {_HEAD}
  %made = call ptr @PyMem_RawMalloc(i64 %whole)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %nothing, label %told
told:
  store i64 %bytes, ptr %made
  br label %end
end:
  %given = phi ptr [%block, %known], [%made, %told]
  %memory = getelementptr i8, ptr %given, i64 {_HEAD}
  ret ptr %memory
nothing:
  ret ptr null
}}

define void @{GIVE}(ptr %memory) nounwind {{
entry:
  %block = getelementptr i8, ptr %memory, i64 -{_HEAD}
  %size = load i64, ptr %block
  %much = icmp ugt i64 %size, {KEPT}
  br i1 %much, label %free, label %keep
keep:
  %address = ptrtoint ptr %block to i64
  %other = atomicrmw xchg ptr @kept, i64 %address acq_rel
  %none = icmp eq i64 %other, 0
  br i1 %none, label %end, label %instead
instead:
  %before = inttoptr i64 %other to ptr
  br label %free
free:
  %gone = phi ptr [%block, %entry], [%before, %instead]
  call void @PyMem_RawFree(ptr %gone)
  br label %end
end:
  ret void
}}
"""


@functools.cache
def name_memory() -> Code:
    """Tell LLVM the addresses of the two functions; the code lives as long as the process."""
    for name in ("PyMem_RawMalloc", "PyMem_RawFree"):
        add_machine_symbol(name, python_api_address(name))
    code = Code(_TEXT, 0, "none")
    for name in (TAKE, GIVE):
        add_machine_symbol(name, code.address(name))
    return code
