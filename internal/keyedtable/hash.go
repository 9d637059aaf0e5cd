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
	kind   byte // of keys: what a snapshot must have in common
	shared bool // the low bits are the slot of the key: see common.Share
}

// newHash returns the hash of a type of keys.
func newHash[K comparable]() hash[K] {
	// A function on the type itself: keys are not put into interfaces.
	var f any
	t := reflect.TypeFor[K]()
	number := t.Kind() >= reflect.Bool && t.Kind() <= reflect.Uintptr
	switch {
	case t.Kind() == reflect.String:
		f = func(s siphash.Key, k K) uint64 { return s.String(*(*string)(unsafe.Pointer(&k))) }
	case number && t.Size() == 1:
		f = func(s siphash.Key, k K) uint64 { return s.Uint64(uint64(*(*uint8)(unsafe.Pointer(&k)))) }
	case number && t.Size() == 2:
		f = func(s siphash.Key, k K) uint64 { return s.Uint64(uint64(*(*uint16)(unsafe.Pointer(&k)))) }
	case number && t.Size() == 4:
		f = func(s siphash.Key, k K) uint64 { return s.Uint64(uint64(*(*uint32)(unsafe.Pointer(&k)))) }
	case number:
		f = func(s siphash.Key, k K) uint64 { return s.Uint64(*(*uint64)(unsafe.Pointer(&k))) }
	case t.Kind() == reflect.Array && t.Elem().Kind() == reflect.Uint8:
		n := t.Len()
		f = func(s siphash.Key, k K) uint64 { return s.Bytes(unsafe.Slice((*byte)(unsafe.Pointer(&k)), n)) }
	case t == reflect.TypeFor[netip.Addr]():
		f = sumAddr
	case t == reflect.TypeFor[netip.Prefix]():
		f = sumPrefix
	}
	kind := byte(t.Kind())
	if t.PkgPath() == "net/netip" {
		kind = t.Name()[0]
	}
	if f != nil {
		return hash[K]{sum: f.(func(siphash.Key, K) uint64), stable: true, kind: kind}
	}
	process := maphash.MakeSeed()
	return hash[K]{sum: func(_ siphash.Key, k K) uint64 { return maphash.Comparable(process, k) }, kind: kind}
}

// Fingerprints returns a function for the fingerprints of keys, with its own seed.
func Fingerprints[K comparable]() func(K) uint64 {
	seed, sum := siphash.New(), newHash[K]().sum
	return func(k K) uint64 { return sum(seed, k) }
}

// sumAddr is the hash of an address: of an IPv6 one, of the network of a client.
func sumAddr(s siphash.Key, a netip.Addr) uint64 {
	if !a.IsValid() {
		return s.Bytes(nil)
	}
	if a = a.Unmap(); a.Is4() {
		b := a.As4()
		return s.Uint64(uint64(binary.BigEndian.Uint32(b[:])))
	}
	return sum6(s, a.As16(), ipv6Bits)
}

const ipv6Bits = 64 // of an address that identify a client

// sum6 is the hash of the leading bits of an IPv6 address, and of their number.
func sum6(s siphash.Key, b [16]byte, n int) uint64 {
	var all [17]byte
	binary.BigEndian.PutUint64(all[:], binary.BigEndian.Uint64(b[:8])&^(1<<max(64-n, 0)-1))
	binary.BigEndian.PutUint64(all[8:], binary.BigEndian.Uint64(b[8:])&^(1<<min(128-n, 64)-1))
	all[16] = byte(n)
	return s.Bytes(all[:])
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

// shown returns the key that stands for all that have the same hash.
func shown[K comparable](key K) K {
	switch k := any(&key).(type) {
	case *netip.Addr:
		if *k = k.Unmap(); k.Is6() {
			*k = netip.PrefixFrom(*k, ipv6Bits).Masked().Addr()
		}
	case *netip.Prefix:
		if a := k.Addr(); a.Is4In6() && k.Bits() >= 96 {
			*k = netip.PrefixFrom(a.Unmap(), k.Bits()-96)
		}
		*k = k.Masked()
	}
	return key
}
