package keyedtable

import (
	"encoding/binary"
	"hash/maphash"
	"net/netip"
	"reflect"
	"unsafe"

	"github.com/weir-go/weir/internal/siphash"
)

// A hash makes the fingerprint of a key; it is stable if the same seed gives
// the same one in another process.
type hash[K comparable] struct {
	sum    func(siphash.Key, K) uint64
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
		f = func(s siphash.Key, k K) uint64 { return s.String(*(*string)(unsafe.Pointer(&k))) }
	case reflect.Bool, reflect.Int8, reflect.Uint8:
		f = func(s siphash.Key, k K) uint64 { return s.Uint64(uint64(*(*uint8)(unsafe.Pointer(&k)))) }
	case reflect.Int16, reflect.Uint16:
		f = func(s siphash.Key, k K) uint64 { return s.Uint64(uint64(*(*uint16)(unsafe.Pointer(&k)))) }
	case reflect.Int32, reflect.Uint32:
		f = func(s siphash.Key, k K) uint64 { return s.Uint64(uint64(*(*uint32)(unsafe.Pointer(&k)))) }
	case reflect.Int64, reflect.Uint64:
		f = func(s siphash.Key, k K) uint64 { return s.Uint64(*(*uint64)(unsafe.Pointer(&k))) }
	case reflect.Int, reflect.Uint, reflect.Uintptr:
		f = func(s siphash.Key, k K) uint64 { return s.Uint64(uint64(*(*uint)(unsafe.Pointer(&k)))) }
	case reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			n := t.Len()
			f = func(s siphash.Key, k K) uint64 { return s.Bytes(unsafe.Slice((*byte)(unsafe.Pointer(&k)), n)) }
		}
	case reflect.Struct:
		switch any(*new(K)).(type) {
		case netip.Addr:
			f, kind = func(s siphash.Key, a netip.Addr) uint64 { return m.sum(s, a) }, [3]byte{'a', byte(m.v4), byte(m.v6)}
		case netip.Prefix:
			f, kind = func(s siphash.Key, p netip.Prefix) uint64 { return sumPrefix(s, p) }, [3]byte{'p'}
		}
	}
	if f != nil {
		return hash[K]{f.(func(siphash.Key, K) uint64), true, kind}
	}
	process := maphash.MakeSeed()
	return hash[K]{func(_ siphash.Key, k K) uint64 { return maphash.Comparable(process, k) }, false, kind}
}

// A mask says how many leading bits of an address count.
type mask struct{ v4, v6 int }

func (m mask) sum(s siphash.Key, a netip.Addr) uint64 {
	if !a.IsValid() {
		return s.Bytes(nil)
	}
	if a = a.Unmap(); a.Is4() {
		b := a.As4()
		x := binary.BigEndian.Uint32(b[:]) &^ (1<<(32-m.v4) - 1)
		return s.Uint64(uint64(x))
	}
	b := a.As16()
	return sum6(s, b, m.v6)
}

// sum6 is the hash of the leading bits of an IPv6 address, and of their number.
func sum6(s siphash.Key, b [16]byte, n int) uint64 {
	var all [17]byte
	binary.BigEndian.PutUint64(all[:], binary.BigEndian.Uint64(b[:8])&^(1<<max(64-n, 0)-1))
	binary.BigEndian.PutUint64(all[8:], binary.BigEndian.Uint64(b[8:])&^(1<<min(128-n, 64)-1))
	all[16] = byte(n)
	return s.Bytes(all[:])
}

// masked returns the address without the bits that do not count: the key that Top
// shows.
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
func sumPrefix(s siphash.Key, p netip.Prefix) uint64 {
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
