"""Finding the kernels of a Python file, for the commands that take one."""

import sys
from pathlib import Path

import pytest

from tl_gridsync_pass.errors import KernelFileError
from tl_gridsync_pass.seams.kernel_files import SkippedKernel, kernels_of
from tl_gridsync_pass.tvm_compat import tir

HEAD = """
import tilelang
import tilelang.language as T


def kernel(size):
    @T.prim_func
    def kernel(A: T.Tensor((size,), "int32")):
        with T.Kernel(1, threads=32):
            A[0] = 1

    return kernel

"""


def file_of(folder: Path, body: str, name: str = "some_file.py") -> Path:
    path = folder / name
    path.write_text(HEAD + body)
    return path


def size_of(func: tir.PrimFunc) -> int:
    (buffer,) = func.buffer_map.values()
    return int(buffer.shape[0])


def test_kernels_at_module_level_with_their_pass_configs(tmp_path):
    path = file_of(
        tmp_path,
        """
plain = kernel(1)
other_name = plain

@tilelang.jit(pass_configs={"tl.disable_tma_lower": True})
def decorated(size=2):
    return kernel(size)

@tilelang.autotune(configs=[{"size": 3}])
@tilelang.jit
def tuned(size=4):
    return kernel(size)

@tilelang.jit
def needs(rows, columns, threads=32):
    return kernel(rows)

@tilelang.jit
def broken(size=0):
    return kernel(1 // size)
""",
    )
    found, skipped = kernels_of(path)
    assert [(k.name, size_of(k.func), k.pass_configs) for k in found] == [
        ("plain", 1, {}),
        ("decorated", 2, {"tl.disable_tma_lower": True}),
        ("tuned", 4, {}),
    ]
    assert skipped[0] == SkippedKernel("needs", "needs arguments: rows, columns", ("rows", "columns"))
    assert skipped[1].name == "broken" and skipped[1].reason.startswith("cannot be built: ZeroDivisionError") and not skipped[1].missing
    assert [k.name for k in kernels_of(path, only="other_name")[0]] == ["other_name"]


def test_calls_make_kernels(tmp_path):
    path = file_of(
        tmp_path,
        """
sizes = {"large": 64}

@tilelang.jit(pass_configs={"tl.disable_tma_lower": True})
def decorated(size, *, twice=False):
    return kernel(size * 2 if twice else size)
""",
    )
    calls = ["kernel(sizes['large'])", "decorated(5, twice=True)", "decorated()", "len('abc')"]
    found, skipped = kernels_of(path, calls=calls)
    assert [(k.name, size_of(k.func), k.pass_configs) for k in found] == [
        (calls[0], 64, {}),
        (calls[1], 10, {"tl.disable_tma_lower": True}),
    ]
    assert [k.name for k in skipped] == calls[2:]
    assert skipped[0].reason.startswith("cannot be built: TypeError")
    assert skipped[1].reason == "gives a int, not a PrimFunc"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("kernel", "is not a call"),
        ("kernel(", "is not a Python expression"),
        ("absent(1)", "cannot be evaluated: NameError"),
        ("kernel(absent)", "cannot be evaluated: NameError"),
    ],
)
def test_a_wrong_call(tmp_path, call, message):
    with pytest.raises(KernelFileError, match=message):
        kernels_of(file_of(tmp_path, ""), calls=[call])


@pytest.mark.parametrize("name", ["file.txt", "absent.py"])
def test_what_is_no_python_file(tmp_path, name):
    (tmp_path / "file.txt").write_text("no Python")
    with pytest.raises(KernelFileError, match=name):
        kernels_of(tmp_path / name)


def test_the_file_finds_the_modules_beside_it_and_hides_none(tmp_path):
    """Named like a module that TileLang imports, with a neighbour that it imports only while a kernel is built."""
    (tmp_path / "beside_the_kernels.py").write_text("SIZE = 7\n")
    path = file_of(
        tmp_path,
        """
@tilelang.jit
def lazy():
    import beside_the_kernels
    return kernel(beside_the_kernels.SIZE)

if __name__ == "__main__":
    raise SystemExit("the main part does not run")
""",
        name="json.py",
    )
    before, json = list(sys.path), sys.modules["json"]
    found, _ = kernels_of(path)
    assert [size_of(k.func) for k in found] == [7]
    assert sys.path == before and sys.modules["json"] is json
