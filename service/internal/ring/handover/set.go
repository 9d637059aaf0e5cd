package handover

import (
	"encoding/binary"

	"github.com/weir-go/weir/internal/slot"
)

// Common returns the slots that are in both sets.
func Common(a, b *slot.Set) *slot.Set {
	both := new(slot.Set)
	for i := range both {
		both[i] = a[i] & b[i]
	}
	return both
}

// AppendSet appends a set of slots.
func AppendSet(b []byte, s *slot.Set) []byte {
	for _, word := range s {
		b = binary.LittleEndian.AppendUint64(b, word)
	}
	return b
}

// ReadSet reads what AppendSet writes.
func ReadSet(b []byte) (*slot.Set, bool) {
	s := new(slot.Set)
	if len(b) != 8*len(s) {
		return s, false
	}
	for i := range s {
		s[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return s, true
}
