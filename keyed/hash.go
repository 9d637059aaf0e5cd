package keyed

import (
	"crypto/rand"
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"net/netip"
	"reflect"
	"unsafe"
)

// A seed makes fingerprints that nobody can foresee. It goes with a snapshot,
// so the hash is one that has a written definition: SipHash-1-3 (Aumasson and
// Bernstein, 2012), the default of several languages for the same purpose.
type seed struct{ k0, k1 uint64 }

func newSeed() seed {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return seed{binary.LittleEndian.Uint64(b[:8]), binary.LittleEndian.Uint64(b[8:])}
}

// round is SipHash's: it mixes the four words of the state.
func round(a, b, c, d uint64) (uint64, uint64, uint64, uint64) {
	a += b
	c += d
	b = bits.RotateLeft64(b, 13) ^ a
	d = bits.RotateLeft64(d, 16) ^ c
	a = bits.RotateLeft64(a, 32) + d
	c += b
	return a, bits.RotateLeft64(b, 17) ^ c, bits.RotateLeft64(c, 32), bits.RotateLeft64(d, 21) ^ a
}

// bytes returns the SipHash-1-3 of p.
func (k seed) bytes(p []byte) uint64 {
	a, b, c, d := k.k0^0x736f6d6570736575, k.k1^0x646f72616e646f6d, k.k0^0x6c7967656e657261, k.k1^0x7465646279746573
	last := uint64(len(p)) << 56
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

func (k seed) string(p string) uint64 {
	return k.bytes(unsafe.Slice(unsafe.StringData(p), len(p)))
}

func (k seed) uint64(x uint64) uint64 {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], x)
	return k.bytes(b[:])
}

// A hash makes the fingerprint of a key; it is stable if the same seed gives
// the same one in another process.
type hash[K comparable] struct {
	sum    func(seed, K) uint64
	stable bool
	kind   [3]byte // of key, and of mask: what a snapshot must have in common
}

// newHash returns the hash of a type of keys. For addresses, m says which of
// their bits count.
func newHash[K comparable](m mask) hash[K] {
	// A function on the type itself: keys are not put into interfaces.
	var f any
	kind := [3]byte{byte(reflect.TypeFor[K]().Kind())}
	switch t := reflect.TypeFor[K](); t.Kind() {
	case reflect.String:
		f = func(s seed, k K) uint64 { return s.string(*(*string)(unsafe.Pointer(&k))) }
	case reflect.Bool, reflect.Int8, reflect.Uint8:
		f = func(s seed, k K) uint64 { return s.uint64(uint64(*(*uint8)(unsafe.Pointer(&k)))) }
	case reflect.Int16, reflect.Uint16:
		f = func(s seed, k K) uint64 { return s.uint64(uint64(*(*uint16)(unsafe.Pointer(&k)))) }
	case reflect.Int32, reflect.Uint32:
		f = func(s seed, k K) uint64 { return s.uint64(uint64(*(*uint32)(unsafe.Pointer(&k)))) }
	case reflect.Int64, reflect.Uint64:
		f = func(s seed, k K) uint64 { return s.uint64(*(*uint64)(unsafe.Pointer(&k))) }
	case reflect.Int, reflect.Uint, reflect.Uintptr:
		f = func(s seed, k K) uint64 { return s.uint64(uint64(*(*uint)(unsafe.Pointer(&k)))) }
	case reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			n := t.Len()
			f = func(s seed, k K) uint64 { return s.bytes(unsafe.Slice((*byte)(unsafe.Pointer(&k)), n)) }
		}
	case reflect.Struct:
		switch any(*new(K)).(type) {
		case netip.Addr:
			f, kind = func(s seed, a netip.Addr) uint64 { return m.sum(s, a) }, [3]byte{'a', byte(m.v4), byte(m.v6)}
		case netip.Prefix:
			f, kind = func(s seed, p netip.Prefix) uint64 { return sumPrefix(s, p) }, [3]byte{'p'}
		}
	}
	if f != nil {
		return hash[K]{f.(func(seed, K) uint64), true, kind}
	}
	process := maphash.MakeSeed()
	return hash[K]{func(_ seed, k K) uint64 { return maphash.Comparable(process, k) }, false, kind}
}

// A mask says how many leading bits of an address count.
type mask struct{ v4, v6 int }

func (m mask) sum(s seed, a netip.Addr) uint64 {
	if !a.IsValid() {
		return s.bytes(nil)
	}
	if a = a.Unmap(); a.Is4() {
		b := a.As4()
		x := binary.BigEndian.Uint32(b[:]) &^ (1<<(32-m.v4) - 1)
		return s.uint64(uint64(x))
	}
	b := a.As16()
	return sum6(s, b, m.v6)
}

// sum6 is the hash of the leading bits of an IPv6 address, and of their number.
func sum6(s seed, b [16]byte, n int) uint64 {
	var all [17]byte
	binary.BigEndian.PutUint64(all[:], binary.BigEndian.Uint64(b[:8])&^(1<<max(64-n, 0)-1))
	binary.BigEndian.PutUint64(all[8:], binary.BigEndian.Uint64(b[8:])&^(1<<min(128-n, 64)-1))
	all[16] = byte(n)
	return s.bytes(all[:])
}

// masked returns the key as it is shown: an address without the bits that do
// not count.
func (m mask) masked(a netip.Addr) netip.Addr {
	a = a.Unmap()
	bits := m.v6
	if a.Is4() {
		bits = m.v4
	}
	if p, err := a.Prefix(bits); err == nil {
		return p.Addr()
	}
	return a
}

// sumPrefix is the hash of a prefix of any length; of an IPv4 one in its
// IPv6-mapped form.
func sumPrefix(s seed, p netip.Prefix) uint64 {
	n := p.Bits()
	if p.Addr().Is4() {
		n += 96
	}
	return sum6(s, p.Addr().As16(), max(n, 0))
}

// maskedPrefix returns the prefix that stands for all that have the same hash.
func maskedPrefix(p netip.Prefix) netip.Prefix {
	if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return p.Masked()
}
