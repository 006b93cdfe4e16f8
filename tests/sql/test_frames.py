"""Frames of a hot log are read as written; wrong bytes anywhere are damage or a torn end."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mburst.sql.format import frames

SEED = frames.seed_of("cache-1-01700000000000000000-0123456789ab-0")
PAYLOADS = st.lists(st.binary(max_size=60), min_size=1, max_size=6)


def log(payloads: list[bytes], seed: int = SEED) -> bytes:
    return b"".join(
        frames.header(number, payload, seed) + payload + frames.padding(len(payload))
        for number, payload in enumerate(payloads)
    )


def read(data: bytes) -> tuple[list[bytes], frames.LogScan]:
    scan = frames.scan(data, SEED)
    return [bytes(scan.payloads[number]) for number in sorted(scan.payloads)], scan


@given(PAYLOADS, st.data())
def test_what_was_written_is_read_in_pieces_of_any_size(payloads: list[bytes], data: st.DataObject) -> None:
    content = log(payloads)
    got: list[bytes] = []
    offset = number = 0
    for end in [*sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=4))), len(content)]:
        scan = frames.scan(content[offset:end], SEED, number, offset)
        assert not scan.damage
        got += [bytes(payload) for _, payload in sorted(scan.payloads.items())]
        offset, number = scan.end, scan.next_number
    assert got == payloads


@given(PAYLOADS, st.data())
def test_a_cut_log_is_torn_and_not_damaged(payloads: list[bytes], data: st.DataObject) -> None:
    """Batches whose padding is whole were acknowledged, and are there. A cut between two of them leaves a whole log."""
    content = log(payloads)
    ends = [len(log(payloads[:count])) for count in range(len(payloads) + 1)]
    cut = data.draw(st.integers(0, len(content)) | st.sampled_from(ends))
    got, scan = read(content[:cut])
    whole = [end for end in ends if end <= cut]
    assert not scan.damage and got == payloads[: len(whole) - 1]
    assert scan.torn_bytes == cut - whole[-1]


@settings(max_examples=400)
@given(PAYLOADS, st.data())
def test_a_flipped_bit_costs_one_frame_and_is_found(payloads: list[bytes], data: st.DataObject) -> None:
    content = bytearray(log(payloads))
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << bit % 8
    got, scan = read(bytes(content))
    hit, at = 0, 0
    for hit, payload in enumerate(payloads):  # noqa: B007 the frame that the bit is in
        at += frames.HEADER + len(payload) + len(frames.padding(len(payload)))
        if bit // 8 < at:
            break
    in_padding = bit // 8 >= at - len(frames.padding(len(payloads[hit])))
    assert got == (payloads if in_padding else payloads[:hit] + payloads[hit + 1 :])
    assert in_padding or scan.damage or scan.torn_bytes


@given(PAYLOADS, st.data())
def test_zeros_and_noise_are_damage_and_what_is_behind_is_found(payloads: list[bytes], data: st.DataObject) -> None:
    content = log(payloads)
    start = data.draw(st.integers(0, len(content) - 1))
    noise = data.draw(st.binary(min_size=1, max_size=200) | st.integers(1, 200).map(bytes))
    changed = content[:start] + noise[: len(content) - start] + content[start + len(noise) :]
    got, scan = read(changed)
    kept = [payload for payload in payloads if payload in got]
    assert all(payload in payloads for payload in got) and len(got) <= len(payloads)
    if changed != content and len(kept) < len(payloads):
        assert scan.damage or scan.torn_bytes


@given(PAYLOADS)
def test_frames_of_another_log_do_not_pass_for_ones_of_this(payloads: list[bytes]) -> None:
    got, scan = read(log(payloads, frames.seed_of("another")))
    assert got == [] and scan.damage


@given(st.lists(st.binary(max_size=20), min_size=3, max_size=5))
def test_a_frame_that_is_missing_as_a_whole_is_damage(payloads: list[bytes]) -> None:
    lengths = [frames.HEADER + len(payload) + len(frames.padding(len(payload))) for payload in payloads]
    content = log(payloads)
    got, scan = read(content[: lengths[0]] + content[lengths[0] + lengths[1] :])
    assert got == [payloads[0], *payloads[2:]] and "missing" in scan.damage[0].reason


# --- a power cut ----------------------------------------------------------------------------------------------------

STREAM = st.binary(max_size=1500).map(lambda text: text + b"\xff\xff\xff\xff\0\0\0\0")
STREAMS = st.lists(STREAM, min_size=2, max_size=5)


@settings(max_examples=100)
@given(STREAMS, st.data())
def test_an_end_that_was_never_written_is_torn(payloads: list[bytes], data: st.DataObject) -> None:
    """Zeros from the end of a frame or from a sector on, to the length that the file system kept."""
    content = log(payloads)
    ends = [len(log(payloads[:count])) for count in range(1, len(payloads) + 1)]
    cut = data.draw(st.sampled_from(ends) | st.sampled_from([*range(512, len(content), 512)] or ends))
    length = data.draw(st.integers(cut, len(content) + 5000))
    changed = content[:cut].ljust(length, b"\0")
    scan = frames.scan_after_cut(changed, SEED)
    whole = [end for end in ends if changed[:end] == content[:end]]
    assert not scan.damage and [bytes(each) for each in scan.payloads.values()] == payloads[: len(whole)]
    assert (scan.end, scan.torn_bytes, scan.next_number) == (
        (max(whole, default=0), length - max(whole, default=0), len(whole))
    )


@settings(max_examples=100)
@given(STREAMS, st.data())
def test_other_damage_is_no_end_that_was_never_written(payloads: list[bytes], data: st.DataObject) -> None:
    """A flipped bit, with or without such an end behind it: the batch that it is in stays damaged."""
    content = bytearray(log(payloads))
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << bit % 8
    changed = bytes(content) + bytes(data.draw(st.just(0) | st.integers(32, 5000)))
    plain, after = frames.scan(changed, SEED), frames.scan_after_cut(changed, SEED)
    assert after.payloads == plain.payloads
    assert after.damage == [damage for damage in plain.damage if "never written" not in damage.reason] or (
        after.damage == plain.damage
    )
    assert len(after.payloads) == len(payloads) or after.damage or plain.torn_bytes
