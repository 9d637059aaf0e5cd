package fieldblock

import "unsafe"

const (
	// IndexedSize is how much of the client's table an Encoder uses, in bytes. It does without a table that is smaller.
	IndexedSize = 1 << 10
	// places is the number of fields of a block that can be in the table.
	places = 6
)

// An Encoder encodes the fields of answers for a client that has a table. It recognises a value that comes again by the
// memory of its text, and compares no texts. The zero Encoder has added none to the table.
// Blocks must be sent in the order in which they are encoded, and fields in no other way be added to the table.
type Encoder struct {
	off    bool       // the table is not used any more
	table  []constant // the oldest first
	size   int        // of table
	added  int        // to table, ever
	recent [places]place
}

// A constant is a field in the client's table.
type constant struct {
	name  *Name
	value string
}

func (k *constant) size() int { return len(k.name.Canonical) + len(k.value) + 32 }

// A place has the value that was encoded last for a place of a block.
type place struct {
	memory uintptr // of the value, which it does not keep
	at     int     // its number in the order of addition, from 1; 0 if it was not added
}

func memoryOf(value string) uintptr { return uintptr(unsafe.Pointer(unsafe.StringData(value))) }

// Off has no further fields encoded with the table. It reports whether they were until now: then the next block must begin
// with AppendSize, which empties the table.
func (e *Encoder) Off() bool {
	was := !e.off
	*e = Encoder{off: true}
	return was
}

// AppendSize encodes the size of the client's table, which must be at the beginning of the first block.
func (e *Encoder) AppendSize(b []byte) []byte {
	if e.off {
		return append(b, 0x20)
	}
	return appendInteger(b, 0x20, 5, IndexedSize)
}

// Append encodes a field. at is its place in the block. A value that comes again at the same place is added to the table.
func (e *Encoder) Append(b []byte, at int, name *Name, value string) []byte {
	if e.off || at >= places {
		return name.Append(b, value)
	}
	p, memory := &e.recent[at], memoryOf(value)
	again := p.memory == memory
	if !again || !e.has(p.at, name, value) {
		*p = place{memory, e.find(name, value)}
	}
	switch {
	case p.at > 0:
		return append(b, 0x80|byte(len(staticTable)+e.added-p.at))
	case again:
		p.at = e.add(name, value)
		return name.appendIndexed(b, value)
	}
	return name.Append(b, value)
}

// has reports whether a field has a number in the table.
func (e *Encoder) has(at int, name *Name, value string) bool {
	i := at - 1 - (e.added - len(e.table))
	return i >= 0 && e.table[i].is(name, value)
}

// is reports whether the constant has the same memory as a field.
func (k *constant) is(name *Name, value string) bool {
	return unsafe.StringData(k.value) == unsafe.StringData(value) && len(k.value) == len(value) && k.name == name
}

// find returns the number of a field in the table, or 0.
func (e *Encoder) find(name *Name, value string) int {
	for i := range e.table {
		if e.table[i].is(name, value) {
			return e.added - len(e.table) + i + 1
		}
	}
	return 0
}

// add notes that the client adds a field to its table, and returns its number.
func (e *Encoder) add(name *Name, value string) int {
	e.added++
	e.table = append(e.table, constant{name, value})
	e.size += e.table[len(e.table)-1].size()
	for e.size > IndexedSize {
		e.size -= e.table[0].size()
		n := copy(e.table, e.table[1:])
		e.table[n] = constant{}
		e.table = e.table[:n]
	}
	return e.added
}
