"""Hostile and damaged files: pickles, archives, downloads."""

import contextlib
import http.server
import io
import pickle
import stat
import tarfile
import threading
import zipfile
import zlib
from hashlib import md5

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ramify.datasets import archives
from ramify.datasets.archives import extract
from ramify.datasets.download import download
from ramify.datasets.pickles import read_pickle
from ramify.errors import RamifyError

RECORD = {
    b"data": np.arange(12, dtype=np.uint8).reshape(4, 3),
    b"fine_labels": [1, 2, 3, 0],
    b"batch_label": b"train",
}


def evil(name, *arguments):
    """A pickle that calls a function when it is loaded."""
    import importlib

    module, _, function = name.rpartition(".")

    class Evil:
        def __reduce__(self):
            return getattr(importlib.import_module(module), function), arguments

    return Evil()


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_cifar_record_is_read_at_every_protocol(tmp_path, protocol):
    path = tmp_path / "train"
    path.write_bytes(pickle.dumps(RECORD, protocol=protocol))
    if protocol == 5:  # arrays are made by another function there, which no CIFAR file uses
        with pytest.raises(RamifyError, match="_frombuffer"):
            read_pickle(path)
        return
    found = read_pickle(path)
    np.testing.assert_array_equal(found["data"], RECORD[b"data"])
    assert found["fine_labels"] == [1, 2, 3, 0]
    assert found["batch_label"] == b"train"


def test_a_pickle_of_python_2_and_old_numpy_is_read(tmp_path):
    old = pickle.dumps(RECORD, protocol=2).replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
    (tmp_path / "train").write_bytes(old)
    np.testing.assert_array_equal(read_pickle(tmp_path / "train")["data"], RECORD[b"data"])


@pytest.mark.parametrize(
    "content",
    [
        evil("os.system", "touch planted"),
        evil("builtins.eval", "open('planted', 'w')"),
        evil("pathlib.Path", "planted"),
        {b"data": evil("os.mkdir", "planted")},
        np.arange(3, dtype=np.float64),
        np.array([print], dtype=object),
        [1, 2],
    ],
)
def test_hostile_pickles_are_refused_and_run_nothing(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train"
    path.write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(RamifyError):
        read_pickle(path)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "code",
    [
        b"\x80\x02]r\xff\xff\xff\xff.",  # a memo index of four billion
        b"\x80\x05\x96" + (1 << 40).to_bytes(8, "little") + b".",  # a bytearray of a terabyte
        b"\x80\x02cnumpy\nndarray\n(K\x01K\x02tR}b.",  # BUILD on an object of ours
        b"\x80\x02c_codecs\nencode\n}(X\x08\x00\x00\x00__code__K\x01ub.",  # BUILD on a function of ours
        b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x03\x00\x00\x00zip\x86R.",  # another codec
        b"",
        b"garbage",
    ],
)
def test_crafted_pickles_are_refused_cheaply(tmp_path, code):
    (tmp_path / "train").write_bytes(code)
    with pytest.raises(RamifyError):
        read_pickle(tmp_path / "train")


@settings(max_examples=150)
@given(st.data())
def test_a_damaged_pickle_never_raises_anything_else(tmp_path_factory, data):
    good = bytearray(pickle.dumps(RECORD, protocol=2))
    for place in data.draw(st.lists(st.integers(0, len(good) - 1), min_size=1, max_size=4)):
        good[place] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(bytes(good))
    with contextlib.suppress(RamifyError):
        assert isinstance(read_pickle(path), dict)


def pack(path, *members, kind=tarfile.REGTYPE, link=""):
    with tarfile.open(path, "w:gz") as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size, info.type, info.linkname = len(data), kind, link
            tar.addfile(info, io.BytesIO(data))
    return path


def test_an_archive_is_unpacked_whole(tmp_path):
    extract(pack(tmp_path / "a.tgz", ("top/x/1", b"one"), ("top/2", b"two")), tmp_path, "top")
    assert (tmp_path / "top/x/1").read_bytes() == b"one"
    assert (tmp_path / "top/2").read_bytes() == b"two"


@pytest.mark.parametrize(
    "name", ["../escaped", "top/../../escaped", "/tmp/escaped-ramify", "top\\..\\escaped"]
)
def test_a_member_that_leaves_the_folder_is_refused(tmp_path, name):
    folder = tmp_path / "data"
    folder.mkdir()
    with pytest.raises(RamifyError, match="leaves the folder"):
        extract(pack(folder / "a.tgz", ("top/1", b"x"), (name, b"evil")), folder, "top")
    assert [p.name for p in tmp_path.rglob("*")] == ["data", "a.tgz"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_refused(tmp_path, kind):
    with pytest.raises(RamifyError, match="link or a device"):
        extract(pack(tmp_path / "a.tgz", ("top", b""), kind=kind, link="/etc"), tmp_path, "top")
    assert not (tmp_path / "top").exists()


def test_an_archive_bomb_is_refused(tmp_path, monkeypatch):
    with pytest.raises(RamifyError, match="times its size"):
        extract(pack(tmp_path / "a.tgz", ("top/zeros", bytes(10_000_000))), tmp_path, "top")
    monkeypatch.setattr(archives, "MAX_MEMBERS", 3)
    with pytest.raises(RamifyError, match="3 files"):
        extract(pack(tmp_path / "b.tgz", *((f"top/{i}", b"") for i in range(5))), tmp_path, "top")
    assert {p.name for p in tmp_path.iterdir()} == {"a.tgz", "b.tgz"}


def zip_member(path, name, mode=0, data=b"x"):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("top/1", "one")
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        packed.writestr(info, data)
    return path


def test_a_zip_is_unpacked_whole(tmp_path):
    extract(zip_member(tmp_path / "a.zip", "top/x/2"), tmp_path, "top")
    assert (tmp_path / "top/1").read_bytes() == b"one"
    assert (tmp_path / "top/x/2").read_bytes() == b"x"


@pytest.mark.parametrize(
    ("name", "mode", "data", "message"),
    [
        ("../escaped", 0, b"x", "leaves the folder"),
        ("/tmp/escaped-ramify", 0, b"x", "leaves the folder"),
        ("top/link", stat.S_IFLNK | 0o777, b"/etc", "link or a device"),
        ("top/zeros", 0, bytes(10_000_000), "times its size"),
    ],
)
def test_a_hostile_zip_is_refused(tmp_path, name, mode, data, message):
    folder = tmp_path / "data"
    folder.mkdir()
    with pytest.raises(RamifyError, match=message):
        extract(zip_member(folder / "a.zip", name, mode, data), folder, "top")
    assert [p.name for p in tmp_path.rglob("*")] == ["data", "a.zip"]


def test_a_damaged_zip_leaves_nothing(tmp_path):
    whole = zip_member(tmp_path / "a.zip", "top/2", data=np.random.default_rng(0).bytes(50_000)).read_bytes()
    (tmp_path / "bad.zip").write_bytes(whole[:9_000] + bytes(900) + whole[9_900:])
    with pytest.raises(RamifyError, match=r"bad\.zip is damaged"):
        extract(tmp_path / "bad.zip", tmp_path, "top")
    assert len(list(tmp_path.iterdir())) == 2


def test_a_truncated_or_wrong_archive_leaves_nothing(tmp_path):
    whole = pack(tmp_path / "a.tgz", ("top/1", np.random.default_rng(0).bytes(50_000)))
    (tmp_path / "cut.tgz").write_bytes(whole.read_bytes()[:20_000])
    (tmp_path / "no.tgz").write_bytes(b"no archive")
    (tmp_path / "bad.tgz").write_bytes(whole.read_bytes()[:9_000] + zlib.compress(b"x") * 900)
    for name in ("cut.tgz", "no.tgz", "bad.tgz"):
        with pytest.raises(RamifyError):
            extract(tmp_path / name, tmp_path, "top")
    with pytest.raises(RamifyError, match="no 'other'"):
        extract(whole, tmp_path, "other")
    assert len(list(tmp_path.iterdir())) == 4


PAYLOAD = np.random.default_rng(0).bytes(300_000)


class Server(http.server.BaseHTTPRequestHandler):
    """Serves the payload, with ranges unless told otherwise; can break off in the middle."""

    ranges, break_after, requests = True, 0, []

    def do_GET(self):
        asked = self.headers.get("Range")
        Server.requests.append(asked)
        if self.path != "/file":
            self.send_error(404)
            return
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and Server.ranges else 0
        if start >= len(PAYLOAD):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(PAYLOAD) - start))
        self.end_headers()
        body = PAYLOAD[start:]
        if Server.break_after:
            body, Server.break_after = body[: Server.break_after], 0
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def url():
    Server.ranges, Server.break_after, Server.requests = True, 0, []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/file"
        server.shutdown()
        thread.join()


GOOD = md5(PAYLOAD).hexdigest()


def test_download_is_whole_and_kept(tmp_path, url):
    for _ in range(2):
        download(url, tmp_path / "d" / "file", GOOD, progress=False)
        assert (tmp_path / "d" / "file").read_bytes() == PAYLOAD
    assert len(Server.requests) == 1
    assert [p.name for p in (tmp_path / "d").iterdir()] == ["file"]


def test_download_resumes_after_it_broke_off(tmp_path, url):
    Server.break_after = 100_000
    download(url, tmp_path / "file", GOOD, progress=False)
    assert (tmp_path / "file").read_bytes() == PAYLOAD
    assert Server.requests == [None, "bytes=100000-"]


def test_download_continues_a_part_of_an_earlier_day(tmp_path, url):
    (tmp_path / "file.part").write_bytes(PAYLOAD[:1234])
    download(url, tmp_path / "file", GOOD, progress=False)
    assert (tmp_path / "file").read_bytes() == PAYLOAD
    assert Server.requests == ["bytes=1234-"]


def test_download_whose_part_was_already_whole(tmp_path, url):
    (tmp_path / "file.part").write_bytes(PAYLOAD)
    download(url, tmp_path / "file", GOOD, progress=False)
    assert (tmp_path / "file").read_bytes() == PAYLOAD


def test_download_from_a_server_without_ranges_starts_over(tmp_path, url):
    Server.ranges = False
    (tmp_path / "file.part").write_bytes(b"old" * 99)
    download(url, tmp_path / "file", GOOD, progress=False)
    assert (tmp_path / "file").read_bytes() == PAYLOAD


def test_download_with_a_wrong_checksum_is_thrown_away(tmp_path, url):
    with pytest.raises(RamifyError, match="expected 0123"):
        download(url, tmp_path / "file", "0123", progress=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("bad", ["nowhere", "closed"])
def test_download_that_fails_says_how_to_go_on(tmp_path, url, bad):
    address = url + "-missing" if bad == "nowhere" else "http://127.0.0.1:9/file"
    with pytest.raises(RamifyError, match=r"cannot download .*put the file at"):
        download(address, tmp_path / "file", GOOD, progress=False)
