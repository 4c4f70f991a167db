#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds in corpus/: for each target a few inputs that reach far.

Run it again when a target reads its input in another way.
"""
import hashlib
import pathlib
import struct

SET, GET, ADD, COMPARE, DELETE, CHECK, WAIT, APPEND, COUNT, PUSH, POP, LENGTH = \
    range(1, 13)


def counted(text):
    return struct.pack(">I", len(text)) + text


def listed(items):
    return struct.pack(">I", len(items)) + b"".join(map(counted, items))


def request(op, keys, values=(), delta=0):
    return struct.pack(">Bq", op, delta) + listed(keys) + listed(values)


def message(number, body):
    return counted(struct.pack(">Q", number) + body)


def done(number=0, values=()):
    return struct.pack(">Bq", 0, number) + listed(values)


def checksum(text):
    return hashlib.sha256(text).digest()[:8]


def store_file(run_id, payloads):
    head = b"LOCKSTEP" + struct.pack(">II", 1, len(run_id)) + \
        run_id.ljust(256, b"\0")
    records = [struct.pack(">II", len(p), len(p) ^ 0xffffffff) + checksum(p) + p
               for p in payloads]
    return head + checksum(head) + b"".join(records)


HELLO = b"lockstep" + struct.pack(">I", 1) + bytes(range(64))
SET_GET = message(1, request(SET, [b"a"], [b"1"])) + \
    message(2, request(GET, [b"a"]))
RAW_FILE = b"\0\2\0"  # contents as they are, run "fuzz", no requests

SEEDS = {
    "fuzz_wire_stranger": {
        "hello": b"\0\0" + HELLO,
        "hello_in_pieces": b"\0\7" + HELLO,
        "hello_and_request": b"\0\0" + HELLO + SET_GET,
        "other_version": b"\0\0" + HELLO.replace(b"\0\0\0\1", b"\0\0\0\2", 1),
        "half_a_hello_then_reset": b"\1\0" + HELLO[:40],
        "silent": b"\2\0",
        "http": b"\0\0GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + b" " * 60,
    },
    "fuzz_wire_client": {
        "raw_set_get": b"\0\0" + SET_GET,
        "raw_in_pieces": b"\0\3" + SET_GET,
        "raw_wait_cancel": b"\0\0" + message(1, request(WAIT, [b"w"])) +
                           message(0, struct.pack(">Q", 1)),
        "raw_too_long": b"\0\0\xff\xff\xff\xff",
        # step, id, op - 1, then what the op needs; 0x80 is the other client
        "script_wait_set": b"\1\5\1\1\2\0\1\x85\1\0\1\1\5\3",
        "script_pop_push": b"\1\5\1\x0a\1\x85\1\x0a\1\5\2\x09\1\5\5\3\x09\1\6",
        "script_pop_leave": b"\1\5\1\x0a\1\2\x85\2\x09\1\5\x85\3\x0b\1",
        "script_cancel": b"\1\5\7\6\2\1\2\1\7\3\x45\1\0\2\1\2\7\x83abc",
        "script_counter": b"\1\5\1\2\1\1\1\5\2\7\1\x84xxxx\5\3\2\1\1\1",
        "script_same_id": b"\1\5\1\1\1\0\5\1\1\1\1\x85\1\0\1\0\5\x85\2\0\1\1\5",
        "script_large": b"\1\4\1\1\xff" + b"\5\2\1\3\1\1\1" * 12,
    },
    "fuzz_codec": {
        "stream": b"\0\0" + SET_GET,
        "frames": b"\0\2" + counted(request(ADD, [b"n"], delta=5)) +
                  counted(request(PUSH, [b"q"], [b"v"])) +
                  counted(request(POP, [b"q"])) +
                  counted(request(COMPARE, [b"n"], [b"6", b"5"])) +
                  counted(request(COUNT, [b""])) + counted(done(3, [b"v", b""])),
        "refused": b"\0\0" + b"\1" + counted(b"no number"),
        "cancelled": b"\0\0" + b"\2" + listed([b"a", b"b"]),
        "too_long": b"\0\5" + counted(b"ok") + struct.pack(">I", 1001),
        "requests": b"\1\0\0\1\1\5\1\1\1\2\1\1\1\3\1\1\1\2\4\1\x09\1\5\x0a\1",
    },
    "fuzz_answers": {
        "impostor": b"\0\0\2" + HELLO[:44] + b"\1" + bytes(32),
        "raw_done": b"\1\1\0\2" + message(1, done()) +
                    message(2, done(0, [b"value"])),
        "raw_refused": b"\1\0\6" + message(1, b"\1" + counted(b"no number")),
        "raw_cancelled": b"\1\0\2" + message(1, b"\2" + listed([b"key"])),
        "script_answers": b"\2\1\6\3\0\3\1\0\1\1\0\0\3\2\0\1\1\2\5\x83xyz",
        "script_late": b"\2\0\2\0\0\x83\1\2\0\0\1\5",
        "script_large": b"\2\1\x0d\0\3\1\0\0\0\0\0\3\2\0\0\0\0",
        "script_together": b"\x80\2\2\2\5\0\3\2\0\0\0\1\5\3\1\0\0\0\1\6",
        "script_wrong_id": b"\2\0\2\0\3\4\0\0\0\1\5\2\1\2ab",
    },
    "fuzz_file_store": {
        "empty": RAW_FILE,
        "magic": RAW_FILE + b"LOCKSTEP",
        "foreign": RAW_FILE + b"[settings]\npath = /tmp\n" * 5,
        "raw": RAW_FILE + store_file(b"fuzz", [
            b"\2", b"\1" + request(SET, [b"a"], [b"1"]), b"\3"]),
        "other_version": RAW_FILE + b"LOCKSTEP" + bytes(80),
        # how, whose, requests; harm, where (2); records
        "records": b"\1\2\2\2\1\1\1\1\0\0\0\2\1\0\1\1\5\5\2\1\1\1\3",
        "torn": b"\1\2\0\1\0\x70\2\4\0\1\1\5\3",
        "flipped": b"\1\2\0\2\0\x70\2\4\0\1\1\5\3",
        "left_behind": b"\1\0\0\0\0\0\2\4\0\1\1\5",
        "queue": b"\1\3\1\x0a\1\0\0\0\4\x09\1\5\4\x09\1\6\4\x0a\1",
    },
}

if __name__ == "__main__":
    corpus = pathlib.Path(__file__).parent / "corpus"
    for target, seeds in SEEDS.items():
        (corpus / target).mkdir(parents=True, exist_ok=True)
        for name, contents in seeds.items():
            (corpus / target / name).write_bytes(contents)
