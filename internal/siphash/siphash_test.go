package siphash

import (
	"encoding/binary"
	"testing"
)

// Another implementation of SipHash-1-3 says the same: Python's hash of bytes,
// with PYTHONHASHSEED=0.
func TestAsOthersHash(t *testing.T) {
	for in, want := range map[string]uint64{
		"a": 0x407448d2b89b1813, "abc": 0xc03bc3a0042630f2, "abcdefg": 0x6db12aae9070f506,
		"abcdefgh": 0x3f7b849c0b8e35ea, "user-000000000000007": 0x8292964cdb0cbdbf,
	} {
		if got := (Key{}).String(in); got != want {
			t.Errorf("%q: %#x: want %#x", in, got, want)
		}
	}
}

func TestKeys(t *testing.T) {
	k := New()
	if k == New() || k.String("a") == (Key{}).String("a") {
		t.Error("the key does not count")
	}
	if k.String("") != k.Bytes(nil) || k.String("ab") != k.Bytes([]byte("ab")) {
		t.Error("a string is not its bytes")
	}
	if x := uint64(1) << 50; k.Words([]uint64{x, 7}, "abcdefghi") != k.Bytes(append(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, x), 7), "abcdefghi"...)) {
		t.Error("words and a string are not their bytes")
	}
	if x := uint64(1) << 40; k.Uint64(x) != k.Bytes(binary.LittleEndian.AppendUint64(nil, x)) {
		t.Error("a number is not its bytes")
	}
}
