"""Where the measured data lies, and what its cells say."""

from gpuq.lab.public import folder, number, rows


def test_the_environment_names_the_folder(tmp_path):
    assert folder({"GPUQ_DATA": str(tmp_path)}) == tmp_path


def test_a_named_folder_that_is_not_there_is_none(tmp_path):
    assert folder({"GPUQ_DATA": str(tmp_path / "missing")}) is None


def test_a_blank_cell_is_unknown_and_never_zero(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b\n1.5,\n", encoding="utf-8")

    (row,) = rows(path)

    assert number(row["a"]) == 1.5
    assert number(row["b"]) is None
