"""Which buffers share memory, and which pointers a call gets."""

from __future__ import annotations

from dataclasses import dataclass

from ..tvm_compat import tir
from . import ir_facts

# The bit of tvm_access_ptr's last argument that says the pointer is written through (tir/builtin.h).
_WRITE = 2


@dataclass(frozen=True)
class _View:
    """A pointer made from another one: its base, its offset in bytes (None: not constant) and size (None: unknown)."""

    base: tir.Var
    offset: int | None


class Pointers:
    """The memory objects of a function. An object is named by the hash of the variable that points to it.

    Attributes
    ----------
    written : set[int]
        Objects that the function stores to, or hands to a call that may.
    writes_anything : bool
        Whether some call may write global memory that it names by a descriptor and not by a pointer.
    mixed : set[int]
        Objects that are accessed with element types of different sizes, so that an index does not name an element.
    """

    def __init__(self, func: tir.PrimFunc) -> None:
        self.views: dict[int, _View] = {}
        self.names: dict[int, str] = {}
        self.vars: dict[int, tir.Var] = {}
        self.written: set[int] = set()
        self.writes_anything = False
        self._sizes: dict[int, int | None] = {}
        dtypes: dict[int, set[str]] = {}

        def see_buffer(buffer: tir.Buffer) -> None:
            key = hash(buffer.data)
            self.vars[key] = buffer.data
            self.names.setdefault(key, str(buffer.name))
            dtypes.setdefault(key, set()).add(str(buffer.dtype))
            self._sizes[key] = _larger(self._sizes.get(key, 0), _bytes(buffer))

        def visit(node: object) -> None:
            if hasattr(node, "buffer") and isinstance(node.buffer, tir.Buffer):
                see_buffer(node.buffer)
            if isinstance(node, tir.BufferStore):
                self.written.add(hash(node.buffer.data))
            elif type(node).__name__ in ("Bind", "LetStmt", "Let") and str(node.var.dtype) == "handle":
                self.vars[hash(node.var)] = node.var
                view = _view(node.value)
                if view is not None:
                    self.views[hash(node.var)] = view
            elif isinstance(node, tir.Call) and not ir_facts.is_pure(node):
                for data in self.written_by(node):
                    self.written.add(hash(data))
                if "tma_store" in ir_facts.op_name(node) or "tma_reduce" in ir_facts.op_name(node):
                    self.writes_anything = True

        for buffer in func.buffer_map.values():
            see_buffer(buffer)
        tir.stmt_functor.post_order_visit(func.body, visit)
        self.mixed = {key for key, seen in dtypes.items() if len(seen) > 1}
        self._overlaps = {key: frozenset(other for other in self.vars if self._overlap(key, other)) for key in self.vars}

    def overlapping(self, key: int) -> frozenset[int]:
        """The objects that share memory with this one, itself among them."""
        return self._overlaps.get(key, frozenset((key,)))

    def is_written(self, key: int) -> bool:
        """Whether the function may write the object's memory."""
        return self.writes_anything or any(other in self.written for other in self.overlapping(key))

    def handed_to(self, call: object) -> list[tir.Var]:
        """The pointers among a call's arguments."""
        found: list[tir.Var] = []
        for arg in call.args:
            if isinstance(arg, tir.Call) and ir_facts.op_name(arg) == "address_of" and isinstance(arg.args[0], tir.BufferLoad):
                found.append(arg.args[0].buffer.data)
            elif isinstance(arg, tir.Call) and ir_facts.op_name(arg) in ("tvm_access_ptr", "handle_add_byte_offset", "access_ptr"):
                if ir_facts.op_name(arg) == "tvm_access_ptr" and isinstance(arg.args[4], tir.IntImm) and not int(arg.args[4]) & _WRITE:
                    continue
                found += [a for a in arg.args if isinstance(a, tir.Var) and str(a.dtype) == "handle"]
                found += [a.buffer.data for a in arg.args if isinstance(a, tir.BufferLoad)]
            elif isinstance(arg, tir.Var) and str(arg.dtype) == "handle":
                found.append(arg)
            elif isinstance(arg, tir.Call):
                found += self.handed_to(arg)
        return found

    def loaded_by(self, call: object) -> list[tir.Var]:
        """The objects that a load intrinsic reads: what its arguments load or point to."""
        return self.handed_to(call) + [arg.buffer.data for arg in call.args if isinstance(arg, tir.BufferLoad)]

    def written_by(self, call: object) -> list[tir.Var]:
        """The pointers among a call's arguments through which it may write."""
        handed = self.handed_to(call)
        # cp.async names its destination first and only reads the rest.
        return handed[:1] if "cp_async" in ir_facts.op_name(call) else handed

    def _root(self, key: int) -> tuple[int, int | None]:
        offset: int | None = 0
        while key in self.views:
            view = self.views[key]
            offset = None if offset is None or view.offset is None else offset + view.offset
            key = hash(view.base)
        return key, offset

    def _overlap(self, a: int, b: int) -> bool:
        if a == b:
            return True
        (root_a, start_a), (root_b, start_b) = self._root(a), self._root(b)
        if root_a != root_b:
            return False
        if root_a in (a, b) or start_a is None or start_b is None:
            return True
        size_a, size_b = self._sizes.get(a), self._sizes.get(b)
        if size_a is None or size_b is None:
            return True
        return start_a < start_b + size_b and start_b < start_a + size_a


def _view(value: object) -> _View | None:
    if isinstance(value, tir.Var):
        return _View(value, 0)
    if isinstance(value, tir.Call) and ir_facts.op_name(value) == "handle_add_byte_offset" and isinstance(value.args[0], tir.Var):
        offset = value.args[1]
        return _View(value.args[0], int(offset) if isinstance(offset, tir.IntImm) else None)
    if isinstance(value, tir.Call):
        base = next((a for a in value.args if isinstance(a, tir.Var) and str(a.dtype) == "handle"), None)
        loaded = next((a.buffer.data for a in value.args if isinstance(a, tir.BufferLoad)), None)
        base = base if base is not None else loaded
        return None if base is None else _View(base, None)
    return None


def _bytes(buffer: tir.Buffer) -> int | None:
    count = 1
    for extent in buffer.shape:
        if not isinstance(extent, tir.IntImm):
            return None
        count *= int(extent)
    bits = int(getattr(buffer.dtype, "bits", 0) or _bits(str(buffer.dtype)))
    return (count * bits + 7) // 8


def _bits(dtype: str) -> int:
    digits = "".join(c for c in dtype.partition("_")[0] if c.isdigit())
    return int(digits) if digits else 64


def _larger(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else max(a, b)
