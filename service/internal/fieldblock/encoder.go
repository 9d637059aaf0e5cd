package fieldblock

// A Constant is a field that many blocks have, encoded in advance.
type Constant struct {
	literal []byte
	indexed []byte // a literal that the client adds to its table
	size    int    // in the table
}

// NewConstant returns a Constant. The name is as http.Header has it. It panics if the name is not valid.
func NewConstant(name, value string) *Constant {
	c := &Constant{literal: AppendValues(nil, name, []string{value}), size: len(name) + len(value) + 32}
	// The index of the name has two bits more than in the other literal.
	n, rest, err := integer(c.literal, 4)
	if err != nil {
		panic("fieldblock: the name " + name)
	}
	c.indexed = append(appendInteger(nil, 0x40, 6, n), rest...)
	return c
}

const (
	// IndexedSize is how much of the client's table an Encoder uses, in bytes. It does without a table that is smaller.
	IndexedSize = 1 << 10
	// places is the number of fields of a block that can be in the table.
	places = 6
)

// An Encoder encodes Constants for a client that has a table. The zero Encoder has added none. Blocks must be sent in the
// order in which they are encoded, and Constants in no other way be added to the table.
type Encoder struct {
	off    bool        // the table is not used any more
	table  []*Constant // the oldest first
	size   int         // of table
	added  int         // to table, ever
	recent [places]place
}

// A place has the Constant that was encoded last for a place of a block.
type place struct {
	constant *Constant
	at       int // its number in the order of addition, from 1; 0 if it was not added
}

// Off has no further Constants encoded with the table. It reports whether they were until now: then the next block must begin
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

// Append encodes a Constant. at is its place in the block. One that comes again at the same place is added to the table.
func (e *Encoder) Append(b []byte, at int, c *Constant) []byte {
	if e.off || at >= places {
		return append(b, c.literal...)
	}
	p := &e.recent[at]
	if p.constant != c {
		*p = place{constant: c, at: e.find(c)}
		if p.at == 0 {
			return append(b, c.literal...)
		}
	}
	if p.at <= e.added-len(e.table) { // it was never there, or has made room for others
		p.at = e.add(c)
		return append(b, c.indexed...)
	}
	return append(b, 0x80|byte(len(staticTable)+e.added-p.at))
}

// find returns the number of a Constant in the table, or 0.
func (e *Encoder) find(c *Constant) int {
	for i, one := range e.table {
		if one == c {
			return e.added - len(e.table) + i + 1
		}
	}
	return 0
}

// add notes that the client adds a Constant to its table, and returns its number.
func (e *Encoder) add(c *Constant) int {
	e.added++
	e.size += c.size
	e.table = append(e.table, c)
	for e.size > IndexedSize {
		e.size -= e.table[0].size
		e.table = e.table[:copy(e.table, e.table[1:])]
	}
	return e.added
}
