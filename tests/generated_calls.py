"""Sprinkles random functions with what generated_kernels.py has not: calls with pointers, votes, bindings, views, other types.

The interpreter does not run these; they are for comparing two analyses.
"""

from __future__ import annotations

import random

from generated_kernels import ELEMENTS, const
from verify_catalogue import grid_barrier

from tl_gridsync_pass.tvm_compat import TIR_NAMESPACE, tir, tir_op, tvm

_DEPTH = 2


class Sprinkler:
    """Adds statements to the statement lists of ``func``, chosen by ``seed``."""

    def __init__(self, func: tir.PrimFunc, seed: int) -> None:
        self.func = func
        self.random = random.Random(seed)
        self.buffers: list[tir.Buffer] = []
        self.indices: list[tir.Var] = []
        self.bound: list[tir.Var] = []

        def visit(node: object) -> None:
            if isinstance(node, tir.AllocBuffer):
                self.buffers.append(node.buffer)
            elif isinstance(node, tir.AttrStmt):
                self.indices.append(node.node.var)

        tir.stmt_functor.post_order_visit(func.body, visit)
        self.buffers += [tir.decl_buffer((ELEMENTS,), "int32", param.name, data=param) for param in func.params[:2]]
        self.floats = tir.decl_buffer((ELEMENTS,), "float32", "F", scope="local")
        self.view = tir.Var("view", tvm.ir.PointerType(tvm.ir.PrimType("int32"), "shared.dyn"))
        self.viewed = tir.decl_buffer((2,), "int32", "V", data=self.view, scope="shared.dyn")

    def sprinkled(self) -> tir.PrimFunc:
        def leave(node: tir.SeqStmt) -> tir.Stmt:
            # A variable is known to the rest of the list that binds it.
            self.bound.clear()
            parts = []
            for stmt in node.seq:
                parts += [self.statement() for _ in range(self.random.choice([0, 0, 1, 2]))] + [stmt]
            return tir.SeqStmt(parts)

        body = tir.stmt_functor.ir_transform(self.func.body, lambda _node: None, leave, [f"{TIR_NAMESPACE}.SeqStmt"])
        shared = next(buffer for buffer in self.buffers if buffer.scope() == "shared.dyn")
        offset = tir.Call("handle", tvm.ir.Op.get("tirx.handle_add_byte_offset"), [shared.data, const(8)])
        return self.func.with_body(tir.SeqStmt([tir.AllocBuffer(self.floats), tir.Bind(self.view, offset), body]))

    def statement(self, depth: int = _DEPTH) -> tir.Stmt:
        kinds = ["call", "call", "vote", "float", "view", "store", "warp barrier"]
        kinds += ["bind", "bind"] * (depth == _DEPTH) + ["if", "for"] * (depth > 0)
        kind = self.random.choice(kinds)
        if kind == "call":
            name = self.random.choice(["f", "tl::tma_load", "tl::cp_async", "AtomicAdd", "tl::tma_store"])
            arguments = [self.pointer() for _ in range(self.random.choice([1, 2]))] + [
                self.value() for _ in range(self.random.choice([0, 1]))
            ]
            return tir.Evaluate(tir.call_extern("handle", name, *arguments))
        if kind == "bind":
            name = self.random.choice(["v", "cse_v1", "condval"])
            bind = tir.Bind(tir.Var(name, "int32"), self.value())
            self.bound.append(bind.var)
            return bind
        if kind == "vote":
            vote = tir.Call("int32", tvm.ir.Op.get("tl.syncthreads_or"), [self.value()])
            return tir.Evaluate(vote) if self.random.random() < 0.3 else self.store(vote)
        if kind == "float":
            return tir.BufferStore(self.floats, tir.Cast("float32", self.value()), [const(0)])
        if kind == "view":
            return tir.BufferStore(self.viewed, self.value(), [self.value() % const(2)])
        if kind == "store":
            return self.store(self.value())
        if kind == "warp barrier":
            return tir.Evaluate(tir.Call("int32", tir_op("tvm_storage_sync"), [tir.StringImm("warp")]))
        inner = grid_barrier() if self.random.random() < 0.1 else self.statement(depth - 1)
        if kind == "if":
            return tir.IfThenElse(tir.LT(self.value(), const(2)), inner, self.statement(depth - 1) if self.random.random() < 0.3 else None)
        return tir.For(tir.Var("j", "int32"), const(0), self.value() % const(3), tir.ForKind.SERIAL, inner)

    def store(self, value: tir.PrimExpr) -> tir.Stmt:
        return tir.BufferStore(self.random.choice(self.buffers), value, [const(self.random.randint(0, 1)) % const(1)])

    def pointer(self) -> tir.PrimExpr:
        return tir.address_of(tir.BufferLoad(self.random.choice([*self.buffers, self.viewed]), [const(0)]))

    def value(self) -> tir.PrimExpr:
        kind = self.random.choice(
            ["constant", "index", "load", "load", "sum", "float", "view", "number", *["bound"] * 2 * bool(self.bound)]
        )
        if kind == "index":
            return self.random.choice(self.indices)
        if kind == "load":
            return tir.BufferLoad(self.random.choice(self.buffers), [const(0)])
        if kind == "sum":
            return self.value() + self.value()
        if kind == "float":
            return tir.Cast("int32", tir.BufferLoad(self.floats, [const(0)]))
        if kind == "view":
            return tir.BufferLoad(self.viewed, [const(0)])
        if kind == "number":
            return self.random.choice(
                [tir.call_extern("int32", "f", self.pointer()), tir.Call("int32", tvm.ir.Op.get("tl.get_lane_idx"), [])]
            )
        return self.random.choice(self.bound) if kind == "bound" else const(self.random.randint(0, 3))
