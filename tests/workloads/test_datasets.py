"""The loaders read the sets in the form their makers publish them in: tiny archives of that form, made here."""

import gzip
import hashlib
import io
import resource
import struct
import tarfile
import zipfile

import numpy as np
import pytest
from PIL import Image

from workloads import segmentation
from workloads.datasets import gtsrb, imdb, mnist, pets, source

RED, GREY = (200, 10, 10), (90, 90, 90)


def ppm(width, height, colour, comment=b""):
    return b"P6\n" + comment + f"{width} {height}\n255\n".encode() + bytes(colour) * (width * height)


def table(*names_and_boxes):
    head = "Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2;ClassId"
    return "\r\n".join([head, *(f"{name};0;0;{box};0" for name, box in names_and_boxes)]) + "\r\n"


SIGNS = {
    "GTSRB/Training/00000/00000_00000.ppm": ppm(15, 20, RED),
    "GTSRB/Training/00000/GT-00000.csv": table(("00000_00000.ppm", "2;2;12;17")).encode(),
    "GTSRB/Training/00014/00000_00000.ppm": ppm(200, 150, GREY, b"# made by hand\n"),
    "GTSRB/Training/00014/GT-00014.csv": table(("00000_00000.ppm", "5;5;190;140")).encode(),
    "GTSRB/Readme-Images.txt": b"not a picture",
}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "gpuq-workloads"


def zipped(file, members):
    file.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def tarred(file, members):
    file.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(file, "w:gz") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


def unpacked(folder, members):
    for name, content in members.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


@pytest.mark.parametrize("unpack", [False, True])
def test_signs_are_read_from_the_archive_or_its_folder(tmp_path, unpack):
    if unpack:
        unpacked(tmp_path, SIGNS)
    else:
        zipped(tmp_path / gtsrb.SOURCE.archives[0].name, SIGNS)
    images, labels = gtsrb.load(tmp_path)
    assert images.shape == (2, 64, 64, 3)
    assert images.dtype == np.uint8
    assert labels.tolist() == [0, 14]
    assert (images[0] == RED).all()
    assert (images[1] == GREY).all()


def test_a_sign_is_cut_to_its_box():
    image = np.zeros((20, 30, 3), np.uint8)
    image[4:10, 7:21] = 250
    assert (gtsrb._shrunk(image, (7, 4, 20, 9)) == 250).all()
    assert gtsrb._shrunk(image, None).mean() < 100


def test_shrinking_keeps_what_is_left_on_the_left():
    image = np.zeros((100, 80, 3), np.uint8)
    image[:50, :40] = 200
    small = gtsrb._shrunk(image, None)
    assert (small[:31, :31] == 200).all()
    assert (small[33:, 33:] == 0).all()


def test_a_picture_of_another_form_is_refused():
    with pytest.raises(ValueError, match="PPM"):
        gtsrb._pixels(b"P3\n1 1\n255\n1 2 3")


def picture(array, form):
    stream = io.BytesIO()
    Image.fromarray(array).save(stream, form)
    return stream.getvalue()


def test_pets_are_read_from_both_archives_and_converted_once(tmp_path, capsys):
    trimap = np.full((60, 90), 2, np.uint8)
    trimap[20:40, 30:60] = 1
    trimap[20:40, 28:30] = 3
    photo = np.full((60, 90, 3), 128, np.uint8)
    published, made = tmp_path / "published", tmp_path / "made"
    images = {f"images/{name}.jpg": picture(photo, "JPEG") for name in ("Abyssinian_1", "beagle_2", "without_map_3")}
    tarred(published / "images.tar.gz", {**images, "images/Abyssinian_1.mat": b"not a picture"})
    maps = {f"annotations/trimaps/{name}.png": picture(trimap, "PNG") for name in ("Abyssinian_1", "beagle_2")}
    maps["annotations/trimaps/._Abyssinian_1.png"] = b"left by macOS"
    tarred(published / "annotations.tar.gz", {**maps, "annotations/list.txt": b"not a picture"})
    files = pets.files(str(published), 5, 0, made)
    assert [file.name for file in files] == ["Abyssinian_1.npz", "beagle_2.npz"]
    with files[0].open("rb") as stream:
        image, mask = pets.read(stream)
    assert (image.shape, mask.shape) == ((128, 128, 3), (128, 128))
    assert np.abs(image.astype(int) - 128).max() <= 2
    assert {mask[64, 64], mask[5, 5]} == {0, 1}
    assert set(np.unique(mask)) == {0, 1, 2}
    written = files[0].stat().st_mtime_ns
    assert pets.files(str(published), 5, 0, made)[0].stat().st_mtime_ns == written
    assert f"data: Oxford-IIIT Pet in {published}, 2 files" in capsys.readouterr().out


def idx(array):
    return b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.mark.parametrize("packed", [True, False])
def test_digits_are_read_from_idx_files(tmp_path, packed):
    images = np.arange(3 * 28 * 28, dtype=np.uint8).reshape(3, 28, 28)
    for name, array in (
        ("train-images-idx3-ubyte", images),
        ("train-labels-idx1-ubyte", np.array([5, 0, 4], np.uint8)),
    ):
        (tmp_path / (f"{name}.gz" if packed else name)).write_bytes(gzip.compress(idx(array)) if packed else idx(array))
    digits, labels = mnist.load(tmp_path)
    assert np.array_equal(digits[..., 0], images)
    assert labels.tolist() == [5, 0, 4]


def test_a_cut_off_file_of_digits_ends_the_program_with_its_name(tmp_path):
    (tmp_path / "train-images-idx3-ubyte").write_bytes(idx(np.zeros((2, 28, 28), np.uint8))[:-1])
    with pytest.raises(SystemExit, match="train-images-idx3-ubyte is cut off"):
        mnist.load(tmp_path)


def test_reviews_become_word_ids_the_most_frequent_first(tmp_path):
    tarred(
        tmp_path / "aclImdb_v1.tar.gz",
        {
            "aclImdb/train/neg/0_2.txt": b"Bad bad BAD film.<br /><br />Bad!",
            "aclImdb/train/pos/0_9.txt": b"Film of the year, a film",
            "aclImdb/train/unsup/0_0.txt": b"a review without a label",
            "aclImdb/test/pos/0_10.txt": b"not for training",
            "aclImdb/imdb.vocab": b"the",
        },
    )
    words, labels = imdb.load(tmp_path, length=7, vocabulary=4)
    bad, film = imdb.FIRST_WORD, imdb.FIRST_WORD + 1
    assert labels.tolist() == [0, 1]
    assert words[0].tolist() == [bad, bad, bad, film, bad, imdb.UNKNOWN, imdb.FILL]
    assert words[1].tolist() == [film, *[imdb.UNKNOWN] * 4, film, imdb.FILL]


def reviews(count):
    words = np.random.default_rng(0).integers(0, 10**9, (count, 20))
    return {f"aclImdb/train/pos/{number}_9.txt": str(words[number]).encode() for number in range(count)}


def signs_of(folder):
    gtsrb.load(folder)


def reviews_of(folder):
    imdb.load(folder, 8, 100)


def pets_of(folder):
    pets.files(str(folder), 1, 0, folder / "made")


ARCHIVES = [
    ("GTSRB-Training_fixed.zip", zipped, SIGNS, signs_of),
    ("aclImdb_v1.tar.gz", tarred, reviews(50), reviews_of),
    ("images.tar.gz", tarred, {"images/a_1.jpg": bytes(range(256)) * 50}, pets_of),
]


@pytest.mark.parametrize(("name", "pack", "members", "load"), ARCHIVES)
@pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.9, 0.999])
def test_no_part_of_an_archive_is_taken_for_the_set(tmp_path, name, pack, members, load, share):
    file = tmp_path / name
    pack(file, members)
    whole = file.read_bytes()
    file.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(SystemExit, match=rf"{file} is damaged or cut off: .*Remove it; --data download"):
        load(tmp_path)


def test_damage_in_the_middle_of_an_archive_is_not_taken_for_its_end(tmp_path):
    """`tarfile` ends quietly at a header that makes no sense: half the reviews would be missing."""
    file = tmp_path / "aclImdb_v1.tar.gz"
    tarred(file, reviews(50))
    content = bytearray(gzip.decompress(file.read_bytes()))
    checksum = gzip.compress(bytes(content))[-8:]
    content[25 * 1024 : 25 * 1024 + 512] = bytes(b"x" * 512)
    file.write_bytes(gzip.compress(bytes(content))[:-8] + checksum)
    with pytest.raises(SystemExit, match="damaged or cut off: CRC check failed"):
        imdb.load(tmp_path, 8, 100)


@pytest.mark.parametrize(
    ("load", "name", "content"),
    [
        (signs_of, "00000/00000_00000.ppm", ppm(15, 20, RED)[:-1]),
        (signs_of, "00043/00000_00000.ppm", ppm(15, 20, RED)),
        (signs_of, "Training/00000/GT-00000.csv", b"Filename,Width\na,b\n"),
        (reviews_of, "train/pos/0_9.txt", b"\xff\xfe film"),
        (pets_of, "trimaps/a_1.png", b"no picture"),
    ],
)
def test_a_file_of_another_form_ends_the_program_with_its_name(tmp_path, load, name, content):
    unpacked(tmp_path, {name: content})
    with pytest.raises(
        SystemExit, match=rf"{name.rpartition('/')[2][:3]}.* is not as .* publishes it: .*Fetch the set again"
    ):
        load(tmp_path)


def test_pets_go_elsewhere_if_the_cache_cannot_be_written_to(cache, tmp_path, monkeypatch):
    trimap = picture(np.full((60, 90), 2, np.uint8), "PNG")
    photo = picture(np.full((60, 90, 3), 128, np.uint8), "JPEG")
    tarred(cache / "pets" / "images.tar.gz", {"images/a_1.jpg": photo})
    tarred(cache / "pets" / "annotations.tar.gz", {"annotations/trimaps/a_1.png": trimap})
    monkeypatch.setattr(pets.os, "access", lambda *_: False)
    assert pets.files("auto", 5, 0, tmp_path / "made") == [tmp_path / "made" / "a_1.npz"]
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache.parent))
    assert pets.files("auto", 5, 0, tmp_path / "made") == [cache / "pets-128" / "a_1.npz"]


def test_a_full_disk_leaves_no_half_sample(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, before[1]))
    try:
        with pytest.raises(SystemExit, match=r"cannot make the sample files: .*File too large.* --data-dir"):
            pets.files("synthetic", 2, 0, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("share", [0, 0.5, 0.99])
def test_a_damaged_sample_ends_the_training_with_its_name(tmp_path, share):
    (file,) = pets.prepare(tmp_path, 1, 0)
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    with pytest.raises(SystemExit, match=rf"cannot read {file}: .*Remove {tmp_path}"):
        segmentation.Reader(0).read(file)


@pytest.mark.parametrize("load", [gtsrb.load, mnist.load, lambda folder: imdb.load(folder, 8, 100)])
def test_a_folder_without_the_set_ends_the_program_and_names_it(tmp_path, load):
    with pytest.raises(SystemExit, match=str(tmp_path)):
        load(tmp_path)


def test_auto_takes_what_was_downloaded_before(cache):
    zipped(cache / "gtsrb" / gtsrb.SOURCE.archives[0].name, SIGNS)
    assert gtsrb.images("auto", 10, 0)[1].tolist() == [0, 14]


def test_auto_says_loudly_that_it_makes_data_up(cache, capsys):
    images, _ = gtsrb.images("auto", 10, 0)
    printed = capsys.readouterr().out
    assert len(images) == 10
    assert "NO REAL DATA" in printed
    assert "data: synthetic" in printed


def served(monkeypatch, content):
    monkeypatch.setattr(source.urllib.request, "urlopen", lambda url, timeout: io.BytesIO(content))


def test_a_download_is_kept_once_its_checksum_is_right(tmp_path, monkeypatch):
    archive = source.Archive("https://example.org/a/set.zip", hashlib.md5(b"whole").hexdigest())
    served(monkeypatch, b"whole")
    source.Source("Set", "set", (archive,)).fetch(tmp_path)
    assert (tmp_path / "set.zip").read_bytes() == b"whole"
    served(monkeypatch, b"is not asked for again")
    source.Source("Set", "set", (archive,)).fetch(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["set.zip"]


def test_a_broken_download_is_not_kept_and_says_what_to_do(tmp_path, monkeypatch):
    archive = source.Archive("https://example.org/a/set.zip", hashlib.md5(b"whole").hexdigest())
    served(monkeypatch, b"who")
    with pytest.raises(SystemExit, match=r"MD5 .* --data synthetic"):
        source.Source("Set", "set", (archive,)).fetch(tmp_path)
    assert list(tmp_path.iterdir()) == []
