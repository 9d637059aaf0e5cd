// Package siphash implements SipHash-1-3 (Aumasson and Bernstein, 2012), a hash
// under a secret key.
//
// In a table with keys that clients choose, a client that can predict the hash can
// make all keys collide. Without the key, values of SipHash cannot be predicted.
//
//	seed := siphash.New()
//	print := seed.String(user)
package siphash

import (
	"crypto/rand"
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// A Key is the secret of the hash.
type Key struct{ K0, K1 uint64 }

// New returns a random Key.
func New() Key {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return Key{binary.LittleEndian.Uint64(b[:8]), binary.LittleEndian.Uint64(b[8:])}
}

// round mixes the four words of the state.
func round(a, b, c, d uint64) (uint64, uint64, uint64, uint64) {
	a += b
	c += d
	b = bits.RotateLeft64(b, 13) ^ a
	d = bits.RotateLeft64(d, 16) ^ c
	a = bits.RotateLeft64(a, 32) + d
	c += b
	return a, bits.RotateLeft64(b, 17) ^ c, bits.RotateLeft64(c, 32), bits.RotateLeft64(d, 21) ^ a
}

// begin returns the first state.
func (k Key) begin() (a, b, c, d uint64) {
	return k.K0 ^ 0x736f6d6570736575, k.K1 ^ 0x646f72616e646f6d, k.K0 ^ 0x6c7967656e657261, k.K1 ^ 0x7465646279746573
}

// Bytes returns the hash of p.
func (k Key) Bytes(p []byte) uint64 {
	a, b, c, d := k.begin()
	return finish(a, b, c, d, p, len(p))
}

// Words returns the hash of words, the lowest byte of each first, and of the bytes of s after them.
func (k Key) Words(words []uint64, s string) uint64 {
	a, b, c, d := k.begin()
	for _, m := range words {
		a, b, c, d = round(a, b, c, d^m)
		a ^= m
	}
	return finish(a, b, c, d, unsafe.Slice(unsafe.StringData(s), len(s)), 8*len(words)+len(s))
}

// finish returns the hash of n bytes, of which p are the last. The others, if any, are in the state.
func finish(a, b, c, d uint64, p []byte, n int) uint64 {
	last := uint64(n) << 56
	for ; len(p) >= 8; p = p[8:] {
		m := binary.LittleEndian.Uint64(p)
		a, b, c, d = round(a, b, c, d^m)
		a ^= m
	}
	switch n := len(p); {
	case n >= 4:
		last |= uint64(binary.LittleEndian.Uint32(p)) | uint64(binary.LittleEndian.Uint32(p[n-4:]))<<(8*(n-4))
	case n > 0:
		last |= uint64(p[0]) | uint64(p[n/2])<<(8*(n/2)) | uint64(p[n-1])<<(8*(n-1))
	}
	a, b, c, d = round(a, b, c, d^last)
	a, b, c, d = round(a^last, b, c^0xff, d)
	a, b, c, d = round(a, b, c, d)
	a, b, c, d = round(a, b, c, d)
	return a ^ b ^ c ^ d
}

// String returns the hash of the bytes of s.
func (k Key) String(s string) uint64 {
	return k.Bytes(unsafe.Slice(unsafe.StringData(s), len(s)))
}

// Uint64 returns the hash of the eight bytes of x, the lowest first.
func (k Key) Uint64(x uint64) uint64 {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], x)
	return k.Bytes(b[:])
}
